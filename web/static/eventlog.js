/** The last protocol events of a call, to look into it; sound is replaced by its length. Pure. */

const LIMIT = 500;

/**
 * @typedef {{at: number, from: "client" | "server", event: any}} Logged
 * `at`: ms since the page opened
 */

export class EventLog {
  /** @type {Logged[]} */ entries = [];

  /** @param {Logged["from"]} from @param {any} event @param {number} at */
  add(from, event, at) {
    if (event.type === "input_audio_buffer.append") return; // fifty a second
    this.entries.push({ at, from, event: withoutSound(event) });
    if (this.entries.length > LIMIT) this.entries.shift();
  }
}

/** @param {any} event */
function withoutSound(event) {
  if (event.type === "response.output_audio.delta")
    return { ...event, delta: `${event.delta.length} characters` };
  if (event.type !== "conversation.item.retrieved") return event;
  const content = event.item.content?.map((/** @type {any} */ { audio, ...part }) => part);
  return { ...event, item: { ...event.item, content } };
}
