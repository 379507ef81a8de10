/**
 * The client's side of a Realtime session: what is going on, and what may be asked for when. Pure.
 *
 * The protocol refuses a response while another is being made; what is asked for meanwhile waits
 * here for `response.done`.
 */

import { Activity } from "./activity.js";
import { Captions } from "./captions.js";
import { troubleOfEvent } from "./troubles.js";

/** What a call asks for where its page asks for nothing else. */
export const SESSION = {
  type: "realtime",
  output_modalities: ["audio"],
  audio: {
    input: {
      transcription: {}, // by whatever recogniser the server has
      turn_detection: { type: "semantic_vad" },
    },
  },
};

export class RealtimeSession {
  activity = new Activity();
  captions = new Captions();
  #wanted = false;

  /** @param {{send: (event: any) => void, clear: () => void}} link */
  constructor(link) {
    this.link = link;
  }

  /** Changes the session; what is absent keeps its value. @param {any} session */
  configure(session) {
    this.link.send({ type: "session.update", session });
  }

  /** Says `text` as the caller, cutting a reply that runs. @param {string} text */
  say(text) {
    this.interrupt();
    const content = [{ type: "input_text", text }];
    this.link.send({
      type: "conversation.item.create",
      item: { type: "message", role: "user", content },
    });
    this.#wanted = true;
    this.#respond();
  }

  /** Stops the reply that is being made or heard, if any. */
  interrupt() {
    if (this.activity.generating) this.link.send({ type: "response.cancel" });
    if (this.activity.playing) this.link.clear();
  }

  /**
   * @param {any} event a server event
   * @returns {{captions: boolean, trouble: import("./troubles.js").Trouble | null}} what came of it
   */
  handle(event) {
    this.activity.handle(event);
    const captions = this.captions.handle(event);
    if (event.type === "conversation.item.truncated") {
      this.link.send({ type: "conversation.item.retrieve", item_id: event.item_id });
    }
    if (event.error?.code === "conversation_already_has_active_response") this.#wanted = true;
    if (event.type === "response.done") this.#respond();
    return { captions, trouble: troubleIn(event) };
  }

  #respond() {
    if (!this.#wanted || this.activity.generating) return;
    this.#wanted = false;
    this.link.send({ type: "response.create" });
  }
}

/** @param {any} event */
function troubleIn(event) {
  if (event.type === "error") return troubleOfEvent(event.error);
  const response = event.type === "response.done" ? event.response : null;
  if (response?.status !== "failed") return null;
  return troubleOfEvent({ type: "server_error", code: response.status_details?.error?.code });
}
