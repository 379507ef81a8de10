/**
 * What a person should see the service doing, from standard Realtime events alone. Pure.
 *
 * "speaking" follows the play-out buffer and not the response: generation ends seconds before the
 * sound does. The WebSocket link makes the play-out events that only WebRTC has on the wire.
 */

/** @typedef {"listening" | "thinking" | "speaking"} ActivityName */

export class Activity {
  /** @type {Set<string>} */ #generating = new Set();
  /** @type {Set<string>} */ #playing = new Set();
  #awaiting = false;
  #hearing = false;

  /** @returns {ActivityName} */
  get name() {
    if (this.#playing.size) return "speaking";
    if (this.#hearing) return "listening";
    return this.#generating.size || this.#awaiting ? "thinking" : "listening";
  }

  /** The caller is speaking right now. */
  get hearing() {
    return this.#hearing;
  }

  /** A response is being made: another one asked for now would be refused. */
  get generating() {
    return this.#generating.size > 0;
  }

  /** Sound of a reply is on its way out. */
  get playing() {
    return this.#playing.size > 0;
  }

  /** @param {any} event a Realtime server event */
  handle(event) {
    switch (event.type) {
      case "input_audio_buffer.speech_started":
        this.#hearing = true;
        this.#awaiting = false;
        break;
      case "input_audio_buffer.speech_stopped":
        this.#hearing = false;
        this.#awaiting = true;
        break;
      case "input_audio_buffer.cleared": // nothing was said in it: no reply will come
        this.#hearing = this.#awaiting = false;
        break;
      case "error":
      case "conversation.item.input_audio_transcription.failed":
        this.#awaiting = false;
        break;
      case "response.created":
        this.#generating.add(event.response.id);
        this.#awaiting = false;
        break;
      case "response.done":
        this.#generating.delete(event.response.id);
        break;
      case "output_audio_buffer.started":
        this.#playing.add(event.response_id);
        break;
      case "output_audio_buffer.stopped":
      case "output_audio_buffer.cleared":
        this.#playing.delete(event.response_id);
    }
  }
}
