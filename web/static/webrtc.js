/** A call over WebRTC: one POST, sound on the track, events on the data channel. */

import { Trouble, troubleOfResponse } from "./troubles.js";

const ANSWER_TIMEOUT = 10_000;
const MEDIA_TIMEOUT = 3_000; // with the hang-up and a WebSocket behind it: sound within 5 s
const EVENTS_TIMEOUT = 8_000;
const HANG_UP_TIMEOUT = 2_000;
const GRACE = 5_000; // a `disconnected` peer often comes back by itself

/**
 * @typedef {object} LinkHandlers
 * @property {(event: any) => void} event a server event
 * @property {(unsteady: boolean) => void} unsteady nothing gets through just now, or it does again
 * @property {(code: string) => void} lost the link is gone; `code` is a trouble's
 */

export class WebRtcLink {
  kind = "webrtc";
  /** @type {RTCPeerConnection} */ #peer;
  /** @type {RTCDataChannel} */ #channel;
  /** @type {string | null} */ #location = null;
  /** @type {ReturnType<typeof setTimeout> | undefined} */ #grace;

  /**
   * @param {object} options
   * @param {URL} options.url of `/v1/realtime/calls`, query included
   * @param {RTCIceServer[]} options.iceServers
   * @param {MediaStream} options.stream the microphone
   * @param {import("./sound.js").Sound} options.sound
   * @param {LinkHandlers} options.handlers
   */
  constructor({ url, iceServers, stream, sound, handlers }) {
    this.url = url;
    this.handlers = handlers;
    this.#peer = new RTCPeerConnection({ iceServers, bundlePolicy: "max-bundle" });
    this.#channel = this.#peer.createDataChannel("oai-events");
    this.#peer.addTrack(stream.getAudioTracks()[0], stream);
    this.#peer.ontrack = ({ track }) => sound.playStream(new MediaStream([track]));
    this.#channel.onmessage = ({ data }) => this.handlers.event(JSON.parse(data));
  }

  /**
   * Resolves once events and sound can flow.
   * @param {AbortSignal} signal
   * @throws {Trouble} `media_unavailable` where the server answered and no media got through
   */
  async open(signal) {
    await this.#peer.setLocalDescription();
    const answer = await this.#post(signal);
    await this.#peer.setRemoteDescription({ type: "answer", sdp: answer });
    await this.#connected(signal);
    this.#peer.onconnectionstatechange = () => this.#watch();
    this.#channel.onclose = () => this.handlers.lost("ended_by_server");
  }

  /** @param {any} event */
  send(event) {
    if (this.#channel.readyState === "open") this.#channel.send(JSON.stringify(event));
  }

  /** Has the server throw away what it has not played; it truncates the item itself. */
  clear() {
    this.send({ type: "output_audio_buffer.clear" });
  }

  /** @param {MediaStream} stream */
  async setMicrophone(stream) {
    await this.#peer.getSenders()[0].replaceTrack(stream.getAudioTracks()[0]);
  }

  /** @returns {Promise<any[]>} the peer connection's statistics */
  async stats() {
    return [...(await this.#peer.getStats()).values()];
  }

  /** Ends the call at the server first, by a request that outlives the page. */
  async close() {
    clearTimeout(this.#grace);
    this.#peer.onconnectionstatechange = this.#channel.onclose = null;
    const call = this.#location;
    this.#location = null;
    if (call !== null) {
      const signal = AbortSignal.timeout(HANG_UP_TIMEOUT);
      await fetch(`${call}/hangup`, { method: "POST", keepalive: true, signal }).catch(() => {});
    }
    this.#peer.close();
  }

  /** @param {AbortSignal} signal @returns {Promise<string>} the answer */
  async #post(signal) {
    const request = {
      method: "POST",
      headers: { "Content-Type": "application/sdp" },
      body: this.#peer.localDescription?.sdp,
      signal: AbortSignal.any([signal, AbortSignal.timeout(ANSWER_TIMEOUT)]),
    };
    const response = await fetch(this.url, request).catch(() => {
      signal.throwIfAborted();
      throw new Trouble("server_unreachable");
    });
    if (!response.ok) {
      const body = await response.json().catch(() => null);
      throw troubleOfResponse(response.status, body?.error, response.headers.get("Retry-After"));
    }
    const location = response.headers.get("Location");
    if (location) this.#location = new URL(location, this.url).href;
    return response.text();
  }

  /** @param {AbortSignal} signal @returns {Promise<void>} */
  #connected(signal) {
    return new Promise((resolve, reject) => {
      const blocked = () => reject(new Trouble("media_unavailable"));
      // Where sound can flow already, events will too: a lost packet of theirs takes seconds.
      const media = () => this.#peer.connectionState === "connected" || blocked();
      const timers = [setTimeout(media, MEDIA_TIMEOUT), setTimeout(blocked, EVENTS_TIMEOUT)];
      signal.addEventListener("abort", () => reject(signal.reason), { once: true });
      this.#peer.onconnectionstatechange = () => {
        if (this.#peer.connectionState === "failed") blocked();
      };
      this.#channel.onopen = () => {
        timers.forEach(clearTimeout);
        resolve();
      };
    });
  }

  #watch() {
    clearTimeout(this.#grace);
    const state = this.#peer.connectionState;
    this.handlers.unsteady(state === "disconnected");
    if (state === "failed" || state === "closed") this.#lose();
    if (state === "disconnected") this.#grace = setTimeout(() => this.#lose(), GRACE);
  }

  #lose() {
    this.handlers.lost("connection_lost");
  }
}
