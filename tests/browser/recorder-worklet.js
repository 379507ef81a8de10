/** Audio worklet of the tests: every block of both sides, each with its frame on the context's clock. */

const TOGETHER = 75; // blocks a message: 0.2 s

class Recorder extends AudioWorkletProcessor {
  /** @type {[number, Float32Array, Float32Array][]} */ #blocks = [];

  /** @param {Float32Array[][]} inputs */
  process([[local], [remote]]) {
    const silence = new Float32Array(128);
    this.#blocks.push([currentFrame, (local ?? silence).slice(), (remote ?? silence).slice()]);
    if (this.#blocks.length === TOGETHER) {
      this.port.postMessage(this.#blocks);
      this.#blocks = [];
    }
    return true;
  }
}

registerProcessor("recorder", Recorder);
