/**
 * A caller inside the page, for tests: what the microphone hears is written here, and both sides of
 * the call are recorded on one clock.
 *
 * Runs before the page's own scripts.
 */

const RATE = 48_000;
const ROOM = 2e-4; // amplitude of the room's noise: no real microphone is silent

const harness = {
  /** @type {AudioContext} */ context: null,
  /** What the microphone hears. @type {GainNode} */ mouth: null,
  /** @type {AudioWorkletNode} */ recorder: null,
  /** @type {DelayNode | null} */ echo: null,
  /** Recorded blocks, each `[frame, local, remote]`. @type {[number, Float32Array, Float32Array][]} */ blocks: [],
  /** @type {MediaStreamAudioSourceNode | null} */ remote: null,

  async open() {
    if (this.context) return;
    this.context = new AudioContext({ sampleRate: RATE });
    const recorder = await (await fetch("/static/harness-recorder.js")).blob(); // no worklet's own request can be routed
    await this.context.audioWorklet.addModule(URL.createObjectURL(recorder));
    this.mouth = this.context.createGain();
    const noise = this.context.createBufferSource();
    noise.buffer = this.buffer(Float32Array.from({ length: RATE }, () => ROOM * (2 * Math.random() - 1)));
    noise.loop = true;
    noise.connect(this.mouth);
    noise.start();
    this.recorder = new AudioWorkletNode(this.context, "recorder", { numberOfInputs: 2, numberOfOutputs: 1 });
    this.recorder.port.onmessage = ({ data }) => this.blocks.push(...data);
    this.recorder.connect(this.context.destination); // silent; it is what makes the worklet run
    this.mouth.connect(this.recorder, 0, 0);
    await this.context.resume();
  },

  /** A microphone of its own per call, as browsers give. */
  async microphone() {
    await this.open();
    const device = this.context.createMediaStreamDestination();
    this.mouth.connect(device);
    return device.stream;
  },

  /** @param {MediaStreamTrack} track of the reply */
  listen(track) {
    this.remote?.disconnect();
    this.remote = this.context.createMediaStreamSource(new MediaStream([track]));
    this.remote.connect(this.recorder, 0, 1);
    if (this.echo) this.remote.connect(this.echo);
  },

  /** From now on the reply comes back into the microphone. @param {number} seconds @param {number} gain */
  loudspeaker(seconds, gain) {
    this.echo = this.context.createDelay(1);
    this.echo.delayTime.value = seconds;
    const path = this.context.createGain();
    path.gain.value = gain;
    this.echo.connect(path).connect(this.mouth);
    this.remote?.connect(this.echo);
  },

  /**
   * Speaks into the microphone.
   * @param {string} sound 16-bit samples at RATE, in base64
   * @returns {[number, number]} the frames of the recording between which it is heard
   */
  say(sound) {
    const bytes = Uint8Array.from(atob(sound), (letter) => letter.charCodeAt(0));
    const samples = Float32Array.from(new Int16Array(bytes.buffer), (sample) => sample / 32768);
    const voice = this.context.createBufferSource();
    voice.buffer = this.buffer(samples);
    voice.connect(this.mouth);
    const first = Math.ceil((this.context.currentTime + 0.03) * RATE);
    voice.start(first / RATE);
    return [first, first + samples.length];
  },

  /** What was recorded since this was last asked: `[first frame, local, remote]`, 16 bit in base64. */
  recording() {
    const blocks = this.blocks.splice(0);
    if (!blocks.length) return [0, "", ""];
    const first = blocks[0][0];
    const last = blocks[blocks.length - 1];
    const sides = [1, 2].map((side) => {
      const whole = new Int16Array(last[0] + last[side].length - first); // a skipped block stays silent
      for (const block of blocks) whole.set(block[side].map((sample) => 32767 * Math.max(-1, Math.min(1, sample))), block[0] - first);
      return this.base64(new Uint8Array(whole.buffer));
    });
    return [first, ...sides];
  },

  /** @param {Float32Array} samples */
  buffer(samples) {
    const buffer = new AudioBuffer({ length: samples.length, sampleRate: RATE });
    buffer.copyToChannel(samples, 0);
    return buffer;
  },

  /** @param {Uint8Array} bytes */
  base64(bytes) {
    let text = "";
    for (let at = 0; at < bytes.length; at += 0x8000) text += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
    return btoa(text);
  },
};

if (navigator.mediaDevices) navigator.mediaDevices.getUserMedia = () => harness.microphone();

const NativePeer = RTCPeerConnection;
globalThis.RTCPeerConnection = class extends NativePeer {
  /** @param {RTCConfiguration} configuration */
  constructor(configuration) {
    super(configuration);
    this.addEventListener("track", ({ track }) => harness.listen(track));
  }
};
globalThis.harness = harness;
