/** 16-bit sound as the protocol carries it: little-endian, in base64. Pure. */

/** Samples per second of the protocol's sound. */
export const RATE = 24_000;

/** @param {Float32Array} samples -1..1, clipped beyond @returns {Int16Array} */
export function toInt16(samples) {
  return Int16Array.from(samples, (sample) =>
    Math.round(Math.max(-32768, Math.min(32767, sample * 32768))),
  );
}

/** @param {Int16Array} samples @returns {string} */
export function toBase64(samples) {
  const bytes = new Uint8Array(samples.buffer, samples.byteOffset, samples.byteLength);
  return btoa(String.fromCharCode(...bytes));
}

/** @param {string} base64 whole samples @returns {Float32Array} */
export function fromBase64(base64) {
  const bytes = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
  return Float32Array.from(new Int16Array(bytes.buffer), (sample) => sample / 32768);
}
