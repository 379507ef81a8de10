/**
 * One call to a Parley server, from the tap on Talk to the hang-up. It draws nothing.
 *
 *     const call = new ParleyCall({ baseUrl: "https://voice.example.org/" });
 *     call.addEventListener("caption", () => show(call.captions));
 *     await call.start(); // inside the handler of a tap
 *
 * A call is used once. It opens the microphone, connects over WebRTC, changes to WebSocket by itself
 * where no media gets through, and lets go of everything on every way out. Its events, each a
 * `CustomEvent`: `state` ({@link State}), `caption` (a list of Caption), `trouble` (a Trouble),
 * `clear` (the code of a trouble that went away), `figures` ({@link Figures}), `level`
 * (`{local, remote}`, rms 0..1), `microphone` (what the browser applied).
 */

import { connect, iceServers } from "./connect.js";
import { EventLog } from "./eventlog.js";
import { connectionFigures, median } from "./figures.js";
import { AUDIBLE, SilenceWatch, TurnTimer } from "./latency.js";
import { Microphone } from "./microphone.js";
import { RealtimeSession, SESSION } from "./realtime.js";
import { Sound } from "./sound.js";
import { Trouble } from "./troubles.js";
import { WakeLock } from "./wake.js";

const TURNS = 100; // latencies kept
const AUDIBLE_WITHIN = 2_000; // ms from the start of a reply's sound until some of it is heard here
const FIGURES_EVERY = 1_000; // ms

/**
 * @typedef {object} State
 * @property {"idle" | "connecting" | "live" | "ended"} phase
 * @property {import("./activity.js").ActivityName} activity
 * @property {boolean} hearing the caller is speaking
 * @property {boolean} muted
 * @property {string | null} transport `webrtc` or `websocket`, once live
 */

/**
 * @typedef {import("./figures.js").Connection & {connect?: number, turns: number[], median?: number}} Figures
 * `connect`: ms from the open microphone to a call that carries sound; `turns`: per turn, ms from the
 * end of the caller's speech to the first audible reply, as seen in the page; `median` of these.
 */

export class ParleyCall extends EventTarget {
  #log = new EventLog();
  #aborter = new AbortController();
  /** @type {State["phase"]} */ #phase = "idle";
  #microphone;
  /** @type {Sound | null} */ #sound = null;
  /** @type {import("./connect.js").Link | null} */ #link = null;
  #session = this.#makeSession();
  #wake = new WakeLock();
  #silence = new SilenceWatch();
  /** @type {TurnTimer | null} */ #timer = null;
  /** @type {{connect?: number, turns: number[]}} */ #measured = { turns: [] };
  #audible = false; // reply sound was heard since the server began to send it
  /** Troubles that are present and may go away. @type {Set<string>} */ #marks = new Set();
  #told = false; // the person knows why the call is about to end
  /** @type {ReturnType<typeof setTimeout> | undefined} */ #listening;
  /** @type {ReturnType<typeof setInterval> | undefined} */ #measuring;
  #leave = () => void this.end();
  #show = () =>
    void (this.#microphone.gone && document.visibilityState === "visible" && this.setMicrophone());

  /**
   * @param {object} [options]
   * @param {string | URL} [options.baseUrl] where the server's `v1/` lies; by default beside this page
   * @param {string} [options.model]
   * @param {"auto" | "webrtc" | "websocket"} [options.transport]
   * @param {any} [options.session] of the first `session.update`; SESSION where absent
   * @param {string} [options.microphone] a device id, as a wish
   */
  constructor({
    baseUrl,
    model = "parley",
    transport = "auto",
    session = SESSION,
    microphone,
  } = {}) {
    super();
    this.baseUrl = new URL(baseUrl ?? ".", globalThis.location?.href);
    this.model = model;
    this.transport = transport;
    this.session = session;
    this.#microphone = new Microphone(microphone, (lost) => this.#mark("microphone_lost", lost));
  }

  /** @returns {State} */
  get state() {
    const { name, hearing } = this.#session.activity;
    const transport = this.#phase === "live" && this.#link ? this.#link.kind : null;
    return {
      phase: this.#phase,
      activity: name,
      hearing,
      muted: this.#microphone.muted,
      transport,
    };
  }

  get captions() {
    return this.#session.captions.list();
  }

  /** The last protocol events, without sound: `{at, from, event}`. */
  get events() {
    return this.#log.entries;
  }

  /**
   * Calls. Must be called from the handler of a tap, before it awaits anything. Resolves once the
   * caller can speak or the call has ended; what kept it from it is a `trouble`.
   */
  async start() {
    if (this.#phase !== "idle") throw new Error("a ParleyCall is started once; make a new one");
    this.#become("connecting");
    try {
      const opening = this.#microphone.open();
      void iceServers(this.baseUrl);
      if (globalThis.AudioContext) this.#sound = this.#makeSound();
      const stream = await opening;
      this.#emit("microphone", this.#microphone.applied);
      if (!this.#ended) await this.#connect(stream);
    } catch (error) {
      await this.#fail(error);
    }
  }

  /** Hangs up, whatever state the call is in. */
  async end() {
    if (this.#ended) return;
    this.#become("ended");
    this.#aborter.abort();
    clearTimeout(this.#listening);
    clearInterval(this.#measuring);
    globalThis.removeEventListener("pagehide", this.#leave);
    document.removeEventListener("visibilitychange", this.#show);
    this.#microphone.close();
    this.#sound?.close();
    this.#wake.release();
    await this.#link?.close();
  }

  /** @param {boolean} muted */
  setMuted(muted) {
    this.#microphone.muted = muted;
    this.#emit("state", this.state);
  }

  /** Says `text` as the caller. @param {string} text */
  sendText(text) {
    this.#session.say(text);
  }

  /** Stops the reply. */
  interrupt() {
    this.#session.interrupt();
  }

  /**
   * Changes the microphone in the middle of the call.
   * @param {string} [deviceId] the same again where absent
   */
  async setMicrophone(deviceId) {
    try {
      const stream = await this.#microphone.open(deviceId);
      this.#silence = new SilenceWatch();
      this.#emit("microphone", this.#microphone.applied);
      this.#sound?.tapMicrophone(stream);
      await this.#link?.setMicrophone(stream);
    } catch (error) {
      this.#report(error);
    }
  }

  /** Plays what the browser held back (`playback_blocked`); to be called from a tap. */
  resumePlayback() {
    return this.#sound?.resume();
  }

  /** The figures as they are now. @returns {Promise<Figures>} */
  async stats() {
    const connection = connectionFigures((await this.#link?.stats()) ?? []);
    return { ...connection, ...this.#measured, median: median(this.#measured.turns) };
  }

  get #ended() {
    return this.#phase === "ended";
  }

  #makeSession() {
    return new RealtimeSession({
      send: (event) => this.#send(event),
      clear: () => this.#link?.clear(),
    });
  }

  #makeSound() {
    return new Sound({
      heard: (window) => this.#hear(window),
      blocked: (blocked) => this.#mark("playback_blocked", blocked),
    });
  }

  /** @param {MediaStream} stream */
  async #connect(stream) {
    const since = performance.now();
    globalThis.addEventListener("pagehide", this.#leave);
    document.addEventListener("visibilitychange", this.#show);
    void this.#wake.acquire();
    const sound = /** @type {Sound} */ (this.#sound);
    sound.tapMicrophone(stream);
    this.#timer = new TurnTimer(sound.rate);
    await this.#openLink(this.transport);
    this.#measured.connect = performance.now() - since;
    this.#become("live");
    const measure = async () => this.#emit("figures", await this.stats());
    this.#measuring = setInterval(measure, FIGURES_EVERY);
    await sound.ready;
  }

  /** @param {"auto" | "webrtc" | "websocket"} transport */
  async #openLink(transport) {
    this.#link = await connect({
      baseUrl: this.baseUrl,
      model: this.model,
      transport,
      stream: /** @type {MediaStream} */ (this.#microphone.stream),
      sound: /** @type {Sound} */ (this.#sound),
      handlers: {
        event: (event) => this.#receive(event),
        unsteady: (unsteady) => this.#mark("connection_unsteady", unsteady),
        lost: (code) => void this.#fail(new Trouble(code)),
      },
      notice: (trouble) => this.#report(trouble),
      signal: this.#aborter.signal,
    });
    if (this.#ended) await this.#link.close();
    this.#aborter.signal.throwIfAborted();
    this.#session.configure(this.session);
  }

  /** @param {any} event */
  #send(event) {
    this.#log.add("client", event, performance.now());
    this.#link?.send(event);
  }

  /** @param {any} event */
  #receive(event) {
    if (this.#ended) return;
    this.#log.add("server", event, performance.now());
    const before = JSON.stringify(this.state);
    const { captions, trouble } = this.#session.handle(event);
    if (captions) this.#emit("caption", this.captions);
    if (before !== JSON.stringify(this.state)) this.#emit("state", this.state);
    if (event.type === "input_audio_buffer.speech_started") this.#timer?.disarm();
    if (event.type === "input_audio_buffer.speech_stopped") this.#timer?.arm();
    if (event.type.startsWith("output_audio_buffer.")) void this.#expectSound(event.type);
    if (trouble) this.#report(trouble);
    this.#told ||= trouble?.severity === "error"; // the server closes the link next
  }

  /** @param {import("./latency.js").Window} window */
  #hear({ local, remote, seconds }) {
    this.#emit("level", { local: local.rms, remote: remote.rms });
    if (this.#phase !== "live") return;
    const turn = this.#timer?.observe({ local, remote, seconds }) ?? null;
    if (turn !== null) this.#measured.turns = [...this.#measured.turns, turn].slice(-TURNS);
    if (remote.peak > AUDIBLE) {
      this.#audible = true;
      this.#mark("nothing_heard", false);
    }
    if (!this.#microphone.muted) this.#silence.observe(local.peak, seconds);
    this.#mark("microphone_silent", this.#silence.silent && !this.#microphone.muted);
  }

  /**
   * The server's word that it speaks is checked against what is heard here.
   * @param {string} type of an `output_audio_buffer` event
   */
  async #expectSound(type) {
    clearTimeout(this.#listening);
    if (type.endsWith("started")) {
      this.#audible = false;
      this.#listening = setTimeout(() => this.#missSound(), AUDIBLE_WITHIN);
    } else if (type.endsWith("stopped")) await this.#missSound();
  }

  async #missSound() {
    if (this.#audible || this.#ended) return;
    if (!this.#sound?.running) return this.#mark("playback_blocked", true);
    const { received } = await this.stats();
    const blocked = this.#link?.kind === "webrtc" && received === 0;
    if (!blocked || this.transport !== "auto") return this.#mark("nothing_heard", true);
    await this.#fallBack();
  }

  /** Not one packet came: starts anew over WebSocket. */
  async #fallBack() {
    try {
      await this.#link?.close();
      this.#session = this.#makeSession();
      this.#report(new Trouble("media_blocked"));
      await this.#openLink("websocket");
      this.#emit("state", this.state);
    } catch (error) {
      await this.#fail(error);
    }
  }

  /** @param {State["phase"]} phase */
  #become(phase) {
    this.#phase = phase;
    this.#emit("state", this.state);
  }

  /** @param {unknown} error */
  async #fail(error) {
    if (this.#ended) return;
    if (!this.#told) this.#report(error);
    await this.end();
  }

  /** @param {unknown} error */
  #report(error) {
    if (this.#ended) return;
    if (!(error instanceof Trouble)) console.error(error);
    const trouble =
      error instanceof Trouble ? error : new Trouble("page_fault", { message: String(error) });
    this.#emit("trouble", trouble);
  }

  /** A trouble that comes and goes. @param {string} code @param {boolean} present */
  #mark(code, present) {
    if (present === this.#marks.has(code)) return;
    if (present) {
      this.#marks.add(code);
      this.#report(new Trouble(code));
    } else {
      this.#marks.delete(code);
      this.#emit("clear", code);
    }
  }

  /** @param {string} type @param {unknown} detail */
  #emit(type, detail) {
    this.dispatchEvent(new CustomEvent(type, { detail }));
  }
}
