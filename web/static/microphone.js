/** The microphone: opened only when asked, and what the browser really made of the wishes. */

import { Trouble, troubleOfMicrophone } from "./troubles.js";

/** A call's microphone, whichever device that is at the time. */
export class Microphone {
  /** @type {MediaStream | null} */ #stream = null;
  #muted = false;
  #closed = false;

  /**
   * @param {string | undefined} deviceId a wish
   * @param {(lost: boolean) => void} onlost the device went away, or is back
   */
  constructor(deviceId, onlost) {
    this.deviceId = deviceId;
    this.onlost = onlost;
  }

  /** The open device's sound; another object after each change. */
  get stream() {
    return this.#stream;
  }

  get muted() {
    return this.#muted;
  }

  set muted(muted) {
    this.#muted = muted;
    for (const track of this.#stream?.getTracks() ?? []) track.enabled = !muted;
  }

  /**
   * Opens it, or opens another one in its place.
   * @param {string} [deviceId] a wish
   * @returns {Promise<MediaStream>}
   * @throws {Trouble}
   */
  async open(deviceId = this.deviceId) {
    this.deviceId = deviceId;
    const stream = await openMicrophone(deviceId);
    stop(this.#stream);
    this.#stream = stream;
    if (this.#closed) stop(stream);
    this.muted = this.#muted;
    stream.getAudioTracks()[0].onended = () => this.onlost(true);
    this.onlost(false);
    return stream;
  }

  /** What the browser applied. @returns {Applied | null} */
  get applied() {
    const track = this.#stream?.getAudioTracks()[0];
    return track ? appliedTo(track) : null;
  }

  /** The device was taken away: phones do that to a page in the background. */
  get gone() {
    const track = this.#stream?.getAudioTracks()[0];
    return !this.#closed && track !== undefined && (track.readyState === "ended" || track.muted);
  }

  close() {
    this.#closed = true;
    stop(this.#stream);
  }
}

/** @param {MediaStream | null} stream */
function stop(stream) {
  for (const track of stream?.getTracks() ?? []) {
    track.onended = null;
    track.stop();
  }
}

/**
 * Asks the person where the browser must.
 * @param {string} [deviceId] another one is opened where it is gone
 * @returns {Promise<MediaStream>}
 * @throws {Trouble}
 */
async function openMicrophone(deviceId) {
  if (!globalThis.isSecureContext) throw new Trouble("insecure_context");
  if (!navigator.mediaDevices?.getUserMedia) throw new Trouble("microphone_unsupported");
  try {
    return await navigator.mediaDevices.getUserMedia({ audio: constraints(deviceId) });
  } catch (error) {
    if (deviceId && GONE.has(/** @type {Error} */ (error).name)) return openMicrophone();
    throw troubleOfMicrophone(error);
  }
}

/** How browsers say that there is no such device. */
const GONE = new Set(["OverconstrainedError", "NotFoundError"]);

/**
 * "all" has Chrome also cancel what the page plays itself; where only booleans are known, the
 * string reads as true.
 * @param {string} [deviceId] @returns {MediaTrackConstraints}
 */
function constraints(deviceId) {
  return {
    deviceId: deviceId ? { exact: deviceId } : undefined,
    // @ts-expect-error the type library knows booleans only
    echoCancellation: { ideal: "all" },
    noiseSuppression: { ideal: true },
    autoGainControl: { ideal: true },
    channelCount: { ideal: 1 },
  };
}

/**
 * @typedef {object} Applied what the browser applied; undefined where it does not say
 * @property {string} label
 * @property {string | undefined} deviceId
 * @property {boolean | string | undefined} echoCancellation
 * @property {boolean | undefined} noiseSuppression
 * @property {boolean | undefined} autoGainControl
 */

/** @param {MediaStreamTrack} track @returns {Applied} */
function appliedTo(track) {
  const { deviceId, echoCancellation, noiseSuppression, autoGainControl } = track.getSettings();
  return { label: track.label, deviceId, echoCancellation, noiseSuppression, autoGainControl };
}

/**
 * The microphones to choose from; browsers name none before the first permission.
 * @returns {Promise<{id: string, label: string}[]>}
 */
export async function listMicrophones() {
  const devices = (await navigator.mediaDevices?.enumerateDevices()) ?? [];
  return devices
    .filter(({ kind, label }) => kind === "audioinput" && label)
    .map(({ deviceId, label }) => ({ id: deviceId, label }));
}
