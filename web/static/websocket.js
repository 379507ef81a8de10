/**
 * A call over WebSocket, for networks that let no WebRTC through.
 *
 * The page plays the reply itself here, so it also tells what was heard: when the caller breaks in
 * it stops at once and truncates each item to its last played millisecond. It makes the
 * `output_audio_buffer.*` events that a WebRTC server sends, so that nothing above it differs.
 */

import { fromBase64, toBase64 } from "./pcm.js";
import { codeOfClose, Trouble } from "./troubles.js";

const OPEN_TIMEOUT = 10_000;
const BACKLOG = 256 * 1024; // bytes unsent, 4 s of sound: beyond it sound is dropped, and counted

export class WebSocketLink {
  kind = "websocket";
  /** @type {WebSocket} */ #socket;
  /** @type {string | null} */ #token = null;
  #player;
  /** Reply sound by item: the response it belongs to. @type {Map<string, string>} */ #playing =
    new Map();
  /** Responses that were cut: late sound of theirs is dropped. @type {Set<string>} */ #cut =
    new Set();
  #interruptible = true;
  #dropped = 0;

  /**
   * @param {object} options
   * @param {URL} options.url of `/v1/realtime`, http or https, query included
   * @param {import("./sound.js").Sound} options.sound opened, its microphone tapped
   * @param {import("./webrtc.js").LinkHandlers} options.handlers
   */
  constructor({ url, sound, handlers }) {
    this.handlers = handlers;
    this.sound = sound;
    this.url = url;
    this.#socket = this.#dial({ resume: "" }); // the empty wish is answered with a token
    sound.capture((samples) => this.#hear(samples));
    this.#player = sound.playback();
    this.#player.onmessage = ({ data }) =>
      data.ended ? this.#ended(data.ended) : this.#truncate(data.cut);
  }

  /** Resolves once events and sound can flow. @param {AbortSignal} signal @throws {Trouble} */
  async open(signal) {
    const timer = setTimeout(() => this.#socket.close(), OPEN_TIMEOUT);
    signal.addEventListener("abort", () => this.#socket.close(), { once: true });
    const open = await new Promise((resolve) => {
      this.#socket.onopen = () => resolve(true);
      this.#socket.onclose = () => resolve(false);
    });
    clearTimeout(timer);
    signal.throwIfAborted();
    if (!open) throw new Trouble(await this.#whyNot());
    this.#listen(this.#socket);
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
    const socket = this.#dial({ resume: String(this.#token), after });
    signal.addEventListener("abort", () => socket.close(), { once: true });
    const first = await new Promise((resolve) => {
      socket.onmessage = ({ data }) => resolve(JSON.parse(data));
      socket.onclose = () => resolve(null);
    });
    signal.throwIfAborted();
    if (first === null) throw new Trouble("server_unreachable");
    if (first.type === "error") throw new Trouble("session_gone");
    this.#socket.onclose = this.#socket.onmessage = null;
    this.#socket = this.#listen(socket);
    this.#receive(first);
  }

  /** @param {any} event */
  send(event) {
    if (this.#socket.readyState === WebSocket.OPEN) this.#socket.send(JSON.stringify(event));
  }

  /** Stops playing now; each item is truncated to what was heard. */
  clear() {
    for (const response of this.#playing.values()) this.#cut.add(response);
    this.#player.postMessage({ clear: true });
  }

  /** The sound carries the microphone here, and knows of the new one. */
  async setMicrophone() {}

  /** @returns {Promise<any[]>} */
  async stats() {
    return [{ type: "websocket", buffered: this.#socket.bufferedAmount, dropped: this.#dropped }];
  }

  async close() {
    this.#socket.onclose = this.#socket.onmessage = null;
    this.#socket.close(1000);
  }

  /** @param {Record<string, string>} query @returns {WebSocket} */
  #dial(query) {
    const address = new URL(this.url);
    address.protocol = address.protocol === "https:" ? "wss:" : "ws:";
    for (const [name, value] of Object.entries(query)) address.searchParams.set(name, value);
    return new WebSocket(address, ["realtime"]);
  }

  /** @param {WebSocket} socket open */
  #listen(socket) {
    socket.onmessage = ({ data }) => this.#receive(JSON.parse(data));
    socket.onclose = ({ code }) => this.handlers.lost(codeOfClose(code));
    return socket;
  }

  /** Browsers do not show why a socket was refused; the server is asked. */
  async #whyNot() {
    const answer = await fetch(new URL("../ready", this.url)).catch(() => null);
    return answer ? "websocket_blocked" : "server_unreachable";
  }

  /** @param {Int16Array} samples */
  #hear(samples) {
    if (this.#socket.readyState !== WebSocket.OPEN) return;
    if (this.#socket.bufferedAmount > BACKLOG) this.#dropped++;
    else this.send({ type: "input_audio_buffer.append", audio: toBase64(samples) });
  }

  /** @param {any} event */
  #receive(event) {
    if (event.type === "parley.resume") {
      this.#token = event.token;
      return;
    }
    if (event.type === "session.created" || event.type === "session.updated") {
      this.#interruptible =
        event.session.audio?.input?.turn_detection?.interrupt_response !== false;
    }
    if (event.type === "input_audio_buffer.speech_started" && this.#interruptible) this.clear();
    if (event.type === "response.created") this.#cut.clear(); // the ones before it have ended
    this.handlers.event(event);
    if (event.type === "response.output_audio.delta") this.#play(event);
    if (event.type === "response.output_audio.done")
      this.#player.postMessage({ finish: event.item_id });
  }

  /** @param {{response_id: string, item_id: string, delta: string}} event */
  #play({ response_id, item_id, delta }) {
    if (this.#cut.has(response_id)) return;
    if (!this.#playing.has(item_id)) {
      this.#playing.set(item_id, response_id);
      this.handlers.event({ type: "output_audio_buffer.started", response_id });
    }
    const push = fromBase64(delta);
    this.#player.postMessage({ push, item: item_id }, [push.buffer]);
  }

  /** @param {string} item */
  #ended(item) {
    this.#leave(item, "output_audio_buffer.stopped");
  }

  /** @param {{item: string, ms: number}[]} cut */
  #truncate(cut) {
    for (const { item, ms } of cut) {
      const heard = Math.max(0, Math.floor(ms - this.sound.outputDelay));
      this.send({
        type: "conversation.item.truncate",
        item_id: item,
        content_index: 0,
        audio_end_ms: heard,
      });
      this.#leave(item, "output_audio_buffer.cleared");
    }
  }

  /** @param {string} item @param {string} type */
  #leave(item, type) {
    const response_id = this.#playing.get(item);
    if (!this.#playing.delete(item)) return;
    if (![...this.#playing.values()].includes(String(response_id)))
      this.handlers.event({ type, response_id });
  }
}
