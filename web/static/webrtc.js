/**
 * A call over WebRTC: one POST, sound on the track, events on the data channel.
 *
 * Where its connection breaks another one takes its place. An ICE restart would be less, but the
 * server's stack follows none.
 */

import { Trouble, troubleOfResponse } from "./troubles.js";

const ANSWER_TIMEOUT = 10_000;
const MEDIA_TIMEOUT = 3_000; // with the hang-up and a WebSocket behind it: sound within 5 s
const EVENTS_TIMEOUT = 8_000;
const HANG_UP_TIMEOUT = 2_000;
const GRACE = 1_000; // `disconnected` says that nothing came for 5 s; it may be over by then

/**
 * @typedef {object} LinkHandlers
 * @property {(event: any) => void} event a server event
 * @property {(unsteady: boolean) => void} unsteady nothing gets through just now, or it does again
 * @property {(code: string) => void} lost the link is gone; `code` is a trouble's
 */

export class WebRtcLink {
  kind = "webrtc";
  /** @type {RTCPeerConnection | null} */ #peer = null;
  /** @type {RTCDataChannel | null} */ #channel = null;
  /** @type {string | null} */ #location = null;
  /** @type {string | null} */ #token = null;
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
    this.iceServers = iceServers;
    this.stream = stream;
    this.sound = sound;
    this.handlers = handlers;
  }

  /**
   * Resolves once events and sound can flow.
   * @param {AbortSignal} signal
   * @throws {Trouble} `media_unavailable` where the server answered and no media got through
   */
  async open(signal) {
    await this.#connect(this.url, signal);
  }

  /** Whether the session can be gone on with over another connection. */
  get resumable() {
    return this.#token !== null;
  }

  /**
   * Comes back to the session; resolves once events and sound can flow again.
   * @param {string} after the last event that came
   * @param {AbortSignal} signal
   * @throws {Trouble}
   */
  async resume(after, signal) {
    const url = new URL(this.url);
    url.searchParams.set("resume", String(this.#token));
    url.searchParams.set("after", after);
    await this.#connect(url, signal);
  }

  /** @param {any} event */
  send(event) {
    if (this.#channel?.readyState === "open") this.#channel.send(JSON.stringify(event));
  }

  /** Has the server throw away what it has not played; it truncates the item itself. */
  clear() {
    this.send({ type: "output_audio_buffer.clear" });
  }

  /** @param {MediaStream} stream */
  async setMicrophone(stream) {
    this.stream = stream;
    await this.#peer?.getSenders()[0].replaceTrack(stream.getAudioTracks()[0]);
  }

  /** @returns {Promise<any[]>} the peer connection's statistics */
  async stats() {
    return [...((await this.#peer?.getStats())?.values() ?? [])];
  }

  /** Ends the call at the server first, by a request that outlives the page. */
  async close() {
    const [peer, channel] = [this.#peer, this.#channel];
    this.#ignore();
    const call = this.#location;
    this.#location = null;
    if (call !== null) {
      const signal = AbortSignal.timeout(HANG_UP_TIMEOUT);
      await fetch(`${call}/hangup`, { method: "POST", keepalive: true, signal }).catch(() => {});
    }
    channel?.close();
    peer?.close();
  }

  /** @param {URL} url @param {AbortSignal} signal */
  async #connect(url, signal) {
    const { iceServers, stream, sound } = this;
    const peer = new RTCPeerConnection({ iceServers, bundlePolicy: "max-bundle" });
    const channel = peer.createDataChannel("oai-events");
    peer.addTrack(stream.getAudioTracks()[0], stream);
    peer.ontrack = ({ track }) => sound.playStream(new MediaStream([track]));
    channel.onmessage = ({ data }) => this.handlers.event(JSON.parse(data));
    try {
      await peer.setLocalDescription();
      const answer = await this.#post(url, peer, signal);
      this.#ignore(); // the server has let go of the connection before
      this.#peer?.close();
      [this.#peer, this.#channel] = [peer, channel];
      await peer.setRemoteDescription({ type: "answer", sdp: answer });
      await this.#connected(peer, channel, signal);
    } catch (error) {
      if (this.#peer !== peer) peer.close();
      throw error;
    }
    peer.onconnectionstatechange = () => this.#watch(peer);
    channel.onclose = () => this.handlers.lost("ended_by_server");
  }

  #ignore() {
    clearTimeout(this.#grace);
    if (this.#peer) this.#peer.onconnectionstatechange = null;
    if (this.#channel) this.#channel.onclose = this.#channel.onmessage = null;
  }

  /**
   * @param {URL} url @param {RTCPeerConnection} peer @param {AbortSignal} signal
   * @returns {Promise<string>} the answer
   */
  async #post(url, peer, signal) {
    const request = {
      method: "POST",
      headers: { "Content-Type": "application/sdp" },
      body: peer.localDescription?.sdp,
      signal: AbortSignal.any([signal, AbortSignal.timeout(ANSWER_TIMEOUT)]),
    };
    const response = await fetch(url, request).catch(() => {
      signal.throwIfAborted();
      throw new Trouble("server_unreachable");
    });
    if (!response.ok) {
      const body = await response.json().catch(() => null);
      throw troubleOfResponse(response.status, body?.error, response.headers.get("Retry-After"));
    }
    const location = response.headers.get("Location");
    if (location) this.#location = new URL(location, this.url).href;
    this.#token = response.headers.get("Parley-Resume");
    return response.text();
  }

  /**
   * @param {RTCPeerConnection} peer @param {RTCDataChannel} channel @param {AbortSignal} signal
   * @returns {Promise<void>}
   */
  #connected(peer, channel, signal) {
    return new Promise((resolve, reject) => {
      const blocked = () => reject(new Trouble("media_unavailable"));
      // Where sound can flow already, events will too: a lost packet of theirs takes seconds.
      const media = () => peer.connectionState === "connected" || blocked();
      const timers = [setTimeout(media, MEDIA_TIMEOUT), setTimeout(blocked, EVENTS_TIMEOUT)];
      signal.addEventListener("abort", () => reject(signal.reason), { once: true });
      peer.onconnectionstatechange = () => {
        if (peer.connectionState === "failed") blocked();
      };
      channel.onopen = () => {
        timers.forEach(clearTimeout);
        resolve();
      };
    });
  }

  /** @param {RTCPeerConnection} peer */
  #watch(peer) {
    clearTimeout(this.#grace);
    const state = peer.connectionState;
    this.handlers.unsteady(state === "disconnected");
    if (state === "failed" || state === "closed") this.#lose();
    if (state === "disconnected") this.#grace = setTimeout(() => this.#lose(), GRACE);
  }

  #lose() {
    this.handlers.lost("connection_lost");
  }
}
