/**
 * Audio worklet: plays 24 kHz sound that arrives in any pieces.
 *
 * In: `{push: Float32Array, item}`, `{finish: item}`, `{clear: true}`.
 * Out: `{ended: item}` once its last sample went out, `{cut: [{item, ms}]}` as the answer to a clear.
 */

import { RATE } from "./pcm.js";
import { Playout } from "./playout.js";
import { Resampler } from "./resample.js";

class Playback extends AudioWorkletProcessor {
  #playout = new Playout(sampleRate);
  #resampler = new Resampler(RATE, sampleRate);

  constructor() {
    super();
    this.port.onmessage = ({ data }) => this.#handle(data);
  }

  /** @param {any} order */
  #handle(order) {
    if (order.push) this.#playout.push(order.item, this.#resampler.push(order.push));
    else if (order.finish) this.#playout.finish(order.finish);
    else {
      const cut = this.#playout.clear();
      this.#resampler = new Resampler(RATE, sampleRate);
      const ms = (/** @type {number} */ samples) => Math.floor((samples / sampleRate) * 1000);
      this.port.postMessage({ cut: cut.map(({ item, played }) => ({ item, ms: ms(played) })) });
    }
  }

  /** @param {Float32Array[][]} _inputs @param {Float32Array[][]} outputs */
  process(_inputs, [[out]]) {
    for (const ended of this.#playout.pull(out)) this.port.postMessage({ ended });
    return true;
  }
}

registerProcessor("playback", Playback);
