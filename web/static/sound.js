/**
 * The page's sound during one call: plays the reply, and taps both sides for levels and latency.
 *
 * It is made inside the tap on Talk, before anything is awaited: Safari lets only what was started
 * there play later on.
 */

const module = (/** @type {string} */ name) => new URL(`./${name}-worklet.js`, import.meta.url);

export class Sound {
  #context = new AudioContext({ latencyHint: "interactive" });
  #element = new Audio();
  /**
   * By input of the tap: microphone, reply.
   * @type {(MediaStreamAudioSourceNode | undefined)[]}
   */
  #sources = [];
  /** @type {AudioWorkletNode | null} */ #tap = null;
  /** @type {AudioWorkletNode | null} */ #capture = null;

  /**
   * @param {object} handlers
   * @param {(window: import("./latency.js").Window) => void} handlers.heard
   * @param {(blocked: boolean) => void} handlers.blocked whether the browser holds playback back
   */
  constructor({ heard, blocked }) {
    this.blocked = blocked;
    this.#context.resume().catch(() => {});
    this.#context.onstatechange = () => blocked(!this.running);
    this.#element.srcObject = this.#context.createMediaStreamDestination().stream;
    this.#element.play().catch(() => {});
    /** The worklets run and the taps see. */
    this.ready = this.#load(heard);
    this.ready.catch(() => {}); // whoever awaits it hears of it
  }

  /** Frames per second of everything here. */
  get rate() {
    return this.#context.sampleRate;
  }

  /** Whether the taps see anything; they do not while the browser holds the context. */
  get running() {
    return this.#context.state === "running";
  }

  /** @param {MediaStream} stream */
  tapMicrophone(stream) {
    this.#connect(0, stream);
  }

  /** Plays the track of a call. @param {MediaStream} stream */
  playStream(stream) {
    this.#element.srcObject = stream;
    this.#connect(1, stream);
    return this.resume();
  }

  /**
   * The tapped microphone as 24 kHz 16-bit messages; `ready` must have been awaited.
   * @param {(samples: Int16Array) => void} captured
   */
  capture(captured) {
    const node = this.#node("capture", {
      outputChannelCount: [1],
      channelCount: 1,
      channelCountMode: "explicit",
    });
    node.connect(this.#context.destination); // silent, as above
    node.port.onmessage = ({ data }) => captured(data);
    this.#capture = node;
    this.#sources[0]?.connect(node);
  }

  /** A player of 24 kHz sound; what its port takes and gives is the worklet's. */
  playback() {
    const node = this.#node("playback", { numberOfInputs: 0, outputChannelCount: [1] });
    node.connect(this.#context.destination);
    if (this.#tap) node.connect(this.#tap, 0, 1);
    return node.port;
  }

  /** Milliseconds between a rendered sample and the ear, as far as the browser says. */
  get outputDelay() {
    return (this.#context.outputLatency || this.#context.baseLatency || 0) * 1000;
  }

  /** Tries to play; to be called from a tap when the browser held playback back. */
  async resume() {
    this.#context.resume().catch(() => {}); // stays pending until there was a tap
    try {
      await this.#element.play();
      this.blocked(false);
    } catch (error) {
      // A source that changed meanwhile aborts the older play(); the newer one speaks for itself.
      if (error instanceof DOMException && error.name === "NotAllowedError") this.blocked(true);
    }
  }

  close() {
    this.#context.onstatechange = null;
    this.#element.pause();
    this.#element.srcObject = null;
    this.#context.close().catch(() => {});
  }

  /** @param {(window: import("./latency.js").Window) => void} heard */
  async #load(heard) {
    const names = ["tap", "capture", "playback"];
    await Promise.all(names.map((name) => this.#context.audioWorklet.addModule(module(name))));
    this.#tap = this.#node("tap", { numberOfInputs: 2, outputChannelCount: [1] });
    this.#tap.connect(this.#context.destination); // silent; some browsers run no worklet without it
    this.#tap.port.onmessage = ({ data }) => heard(data);
    for (const [input, source] of this.#sources.entries()) source?.connect(this.#tap, 0, input);
  }

  /** @param {string} name @param {AudioWorkletNodeOptions} options */
  #node(name, options) {
    return new AudioWorkletNode(this.#context, name, options);
  }

  /** @param {number} input of the tap @param {MediaStream} stream */
  #connect(input, stream) {
    this.#sources[input]?.disconnect();
    const source = this.#context.createMediaStreamSource(stream);
    this.#sources[input] = source;
    if (this.#tap) source.connect(this.#tap, 0, input);
    if (this.#capture && input === 0) source.connect(this.#capture);
  }
}
