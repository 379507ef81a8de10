/**
 * Changes the sampling rate of a stream of mono sound. Pure; runs inside the audio worklets.
 *
 * Audio contexts run at the hardware's rate (Firefox connects no microphone to any other), the
 * protocol at 24 kHz. A polyphase windowed sinc of linear phase: exact for any rational ratio, the
 * same samples whatever the blocks, its delay {@link CROSSINGS} samples of the lower rate (0.7 ms).
 */

const CROSSINGS = 16;
const KAISER_BETA = 8; // about -80 dB beside the pass band
const PASS = 0.94; // of the lower Nyquist frequency, so that the slope ends near it

export class Resampler {
  #up;
  #down;
  #taps;
  #phases;
  /** @type {Float32Array} */ #held;
  #phase = 0; // of the next output, counted from the next input sample

  /** @param {number} from Hz, whole @param {number} to Hz, whole */
  constructor(from, to) {
    const common = gcd(from, to);
    this.#up = to / common;
    this.#down = from / common;
    const half = Math.ceil(CROSSINGS * Math.max(1, from / to));
    this.#taps = 2 * half;
    this.#phases = Array.from({ length: this.#up }, (_, phase) =>
      kernel(half, phase / this.#up, Math.min(1, to / from) * PASS),
    );
    this.#held = new Float32Array(this.#taps - 1);
  }

  /**
   * @param {Float32Array} input any number of samples
   * @returns {Float32Array} all samples that are complete
   */
  push(input) {
    const sound = new Float32Array(this.#held.length + input.length);
    sound.set(this.#held);
    sound.set(input, this.#held.length);
    const steps = input.length * this.#up - this.#phase;
    const output = new Float32Array(Math.max(0, Math.ceil(steps / this.#down)));
    let phase = this.#phase % this.#up;
    let start = Math.floor(this.#phase / this.#up);
    for (let n = 0; n < output.length; n++) {
      const weights = this.#phases[phase];
      let sum = 0;
      for (let k = 0; k < this.#taps; k++) sum += weights[k] * sound[start + k];
      output[n] = sum;
      phase += this.#down;
      start += Math.floor(phase / this.#up);
      phase %= this.#up;
    }
    // The next output lies at or beyond the end of this input: its distance is kept, in phases.
    this.#phase = phase + (start - input.length) * this.#up;
    this.#held = sound.slice(input.length);
    return output;
  }
}

/**
 * The weights of one phase, their sum 1.
 * @param {number} half taps on each side @param {number} fraction of a sample, 0..1
 * @param {number} cutoff of the input's Nyquist frequency
 */
function kernel(half, fraction, cutoff) {
  const weights = Float64Array.from({ length: 2 * half }, (_, k) => {
    const t = k - half + 1 - fraction;
    return sinc(t * cutoff) * kaiser(t / half);
  });
  const sum = weights.reduce((total, weight) => total + weight);
  return weights.map((weight) => weight / sum);
}

/** @param {number} x */
function sinc(x) {
  return x === 0 ? 1 : Math.sin(Math.PI * x) / (Math.PI * x);
}

/** @param {number} x -1..1 over the window */
function kaiser(x) {
  return Math.abs(x) > 1 ? 0 : bessel(KAISER_BETA * Math.sqrt(1 - x * x));
}

/** Modified Bessel function of the first kind, order 0. @param {number} x */
function bessel(x) {
  let sum = 1;
  for (let term = 1, k = 1; term > 1e-12 * sum; k++) {
    term *= (x / (2 * k)) ** 2;
    sum += term;
  }
  return sum;
}

/** @param {number} a @param {number} b @returns {number} */
function gcd(a, b) {
  return b === 0 ? a : gcd(b, a % b);
}
