/**
 * The queue of reply sound on the WebSocket path: what was heard of each item is known to the
 * sample. Pure; runs inside the playback worklet.
 */

const FADE = 0.005; // seconds that a cut takes, so that it does not click

/**
 * @typedef {object} Heard
 * @property {string} item
 * @property {number} played samples of it that went out
 */

/**
 * @typedef {object} Stretch
 * @property {string} item
 * @property {Float32Array[]} blocks not played yet
 * @property {number} played
 * @property {boolean} whole nothing more of it will come
 */

export class Playout {
  /** @type {Stretch[]} */ #queue = [];
  /** @type {Float32Array} */ #fading = new Float32Array(0);

  /** @param {number} rate samples per second */
  constructor(rate) {
    this.rate = rate;
  }

  /** Nothing of any item is left to play. */
  get empty() {
    return this.#queue.length === 0;
  }

  /** @param {string} item @param {Float32Array} samples */
  push(item, samples) {
    let stretch = this.#queue.find((other) => other.item === item);
    if (!stretch) {
      stretch = { item, blocks: [], played: 0, whole: false };
      this.#queue.push(stretch);
    }
    if (samples.length) stretch.blocks.push(samples);
  }

  /** Nothing more of `item` will come. @param {string} item */
  finish(item) {
    const stretch = this.#queue.find((other) => other.item === item);
    if (stretch) stretch.whole = true;
  }

  /**
   * Fills `out`, with silence where there is nothing to play.
   * @param {Float32Array} out
   * @returns {string[]} the items whose last sample went out
   */
  pull(out) {
    out.fill(0);
    out.set(this.#fading.subarray(0, out.length));
    this.#fading = this.#fading.subarray(Math.min(out.length, this.#fading.length));
    const ended = [];
    let at = 0;
    while (this.#queue.length) {
      const stretch = this.#queue[0];
      at += play(stretch, out.subarray(at));
      if (stretch.blocks.length || !stretch.whole) break;
      ended.push(stretch.item);
      this.#queue.shift();
    }
    return ended;
  }

  /** Throws away what was not played, behind a short fade. @returns {Heard[]} each item cut */
  clear() {
    const cut = this.#queue.map(({ item, played }) => ({ item, played }));
    const tail = new Float32Array(Math.round(FADE * this.rate));
    if (this.#queue.length) play(this.#queue[0], tail);
    this.#fading = tail.map((sample, n) => sample * (1 - (n + 1) / tail.length));
    this.#queue = [];
    return cut;
  }
}

/** @param {Stretch} stretch @param {Float32Array} out @returns {number} samples played */
function play(stretch, out) {
  let at = 0;
  while (at < out.length && stretch.blocks.length) {
    const block = stretch.blocks[0];
    const part = block.subarray(0, out.length - at);
    out.set(part, at);
    at += part.length;
    if (part.length === block.length) stretch.blocks.shift();
    else stretch.blocks[0] = block.subarray(part.length);
  }
  stretch.played += at;
  return at;
}
