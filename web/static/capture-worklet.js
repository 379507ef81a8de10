/** Audio worklet: the microphone as 24 kHz 16-bit sound, 20 ms a message. */

import { RATE, toInt16 } from "./pcm.js";
import { Resampler } from "./resample.js";

const MESSAGE = RATE / 50;

class Capture extends AudioWorkletProcessor {
  #resampler = new Resampler(sampleRate, RATE);
  #message = new Float32Array(MESSAGE);
  #filled = 0;

  /** @param {Float32Array[][]} inputs */
  process([[microphone]]) {
    // While the microphone is being changed there is no input; its clock must go on.
    let sound = this.#resampler.push(microphone ?? new Float32Array(128));
    while (sound.length) {
      const part = sound.subarray(0, MESSAGE - this.#filled);
      this.#message.set(part, this.#filled);
      this.#filled += part.length;
      sound = sound.subarray(part.length);
      if (this.#filled === MESSAGE) this.#send();
    }
    return true;
  }

  #send() {
    const samples = toInt16(this.#message);
    this.port.postMessage(samples, [samples.buffer]);
    this.#filled = 0;
  }
}

registerProcessor("capture", Capture);
