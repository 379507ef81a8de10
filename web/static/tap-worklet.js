/**
 * Audio worklet: what is heard of both sides, measured where it is rendered.
 *
 * Input 0 is the microphone, input 1 the reply; every 20 ms or so it posts a `Window` of
 * latency.js. Frames count on the context's clock, so a block that was skipped under load moves
 * nothing.
 */

import { AUDIBLE, SPOKEN } from "./latency.js";

const BLOCKS = 8;

class Gauge {
  peak = 0;
  energy = 0;
  count = 0;
  /** @type {number | null} */ first = null;
  /** @type {number | null} */ last = null;

  /** @param {number} threshold */
  constructor(threshold) {
    this.threshold = threshold;
  }

  /** @param {Float32Array | undefined} samples nothing is connected: silence */
  take(samples) {
    if (!samples) return;
    for (let n = 0; n < samples.length; n++) {
      const amplitude = Math.abs(samples[n]);
      this.energy += amplitude * amplitude;
      if (amplitude > this.peak) this.peak = amplitude;
      if (amplitude > this.threshold) {
        this.first ??= currentFrame + n;
        this.last = currentFrame + n;
      }
    }
    this.count += samples.length;
  }

  read() {
    const { peak, first, last } = this;
    const rms = this.count ? Math.sqrt(this.energy / this.count) : 0;
    this.peak = this.energy = this.count = 0;
    this.first = this.last = null;
    return { peak, rms, first, last };
  }
}

class Tap extends AudioWorkletProcessor {
  #local = new Gauge(SPOKEN);
  #remote = new Gauge(AUDIBLE);
  #blocks = 0;

  /** @param {Float32Array[][]} inputs */
  process([[local], [remote]]) {
    this.#local.take(local);
    this.#remote.take(remote);
    if (++this.#blocks === BLOCKS) {
      this.#blocks = 0;
      const seconds = (BLOCKS * 128) / sampleRate;
      this.port.postMessage({ local: this.#local.read(), remote: this.#remote.read(), seconds });
    }
    return true;
  }
}

registerProcessor("tap", Tap);
