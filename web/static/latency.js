/**
 * How long a caller waited: from the last sound of theirs to the first of the reply. Pure.
 *
 * Both are seen by one tap on one clock, in the page: the last local sample above {@link SPOKEN}
 * before the first remote one above {@link AUDIBLE}. What sound card and air add is not in it.
 */

/** Amplitude from which a local sample counts as speech. */
export const SPOKEN = 0.015;
/** Amplitude from which a remote sample counts as heard. */
export const AUDIBLE = 0.01;
const ALIVE = 0.0006; // -64 dBFS

/**
 * @typedef {object} Side one side of one window of the tap
 * @property {number} peak largest amplitude
 * @property {number} rms
 * @property {number | null} first frame of the first sample above the side's threshold
 * @property {number | null} last frame of the last one
 */

/**
 * @typedef {object} Window what the tap saw in some 20 ms
 * @property {Side} local
 * @property {Side} remote
 * @property {number} seconds its length
 */

export class TurnTimer {
  /** @type {number | null} */ #spoken = null;
  #armed = false;

  /** @param {number} rate frames per second of the tap */
  constructor(rate) {
    this.rate = rate;
  }

  /** The caller began to speak: what is heard now is no answer to it. */
  disarm() {
    this.#armed = false;
  }

  /** The caller stopped speaking: the next remote sound answers. */
  arm() {
    this.#armed = this.#spoken !== null;
  }

  /**
   * @param {Window} window
   * @returns {number | null} milliseconds of the turn that this window ends
   */
  observe({ local, remote }) {
    const answered = this.#armed ? remote.first : null;
    const spoken = [local.first, local.last].findLast(
      (frame) => frame !== null && (answered === null || frame < answered),
    );
    this.#spoken = spoken ?? this.#spoken;
    if (answered === null || this.#spoken === null) return null;
    this.#armed = false;
    return ((answered - this.#spoken) / this.rate) * 1000;
  }
}

/**
 * Tells when a microphone that was opened gives nothing. Browsers add a faint noise of their own to
 * digital silence; a voice, or a room, is above {@link ALIVE}. Once heard, a microphone is alive:
 * later silence is a caller who listens.
 */
export class SilenceWatch {
  #seconds = 0;
  #alive = false;

  /** @param {number} limit seconds without a sound that make a microphone silent */
  constructor(limit = 3) {
    this.limit = limit;
  }

  get silent() {
    return !this.#alive && this.#seconds >= this.limit;
  }

  /** @param {number} peak largest amplitude of a window @param {number} seconds its length */
  observe(peak, seconds) {
    this.#alive ||= peak > ALIVE;
    this.#seconds += seconds;
  }
}
