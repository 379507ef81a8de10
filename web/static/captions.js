/**
 * Captions of both sides, from standard Realtime events. Pure.
 *
 * The order is the conversation's (`previous_item_id`), not that of arrival: a transcript may
 * complete long after the reply to it began. Words of a reply that were cut off stay, apart from
 * the words that were heard: where an item was truncated, the server's copy of it says which.
 */

const LIMIT = 200;

/**
 * @typedef {object} Caption
 * @property {string} id the conversation item's id
 * @property {"user" | "assistant"} role
 * @property {"live" | "final" | "interrupted" | "failed"} state
 * @property {string} heard words that were said and heard; empty while there are none yet
 * @property {string} unheard words that were prepared and cut off
 */

/**
 * @typedef {object} Entry
 * @property {string} id
 * @property {"user" | "assistant" | null} role null for what is not shown but holds its place
 * @property {string} text
 * @property {boolean} committed part of the conversation, not only announced
 * @property {boolean} done
 * @property {boolean} cut something that was made of it was not heard
 * @property {boolean} cancelled more would have been made
 * @property {boolean} failed
 * @property {string | null} kept of a cut reply: the words that were heard
 */

export class Captions {
  /** @type {Entry[]} */ #entries = [];

  /** @returns {Caption[]} in the conversation's order, the newest {@link LIMIT} at most */
  list() {
    return this.#entries.filter(isShown).map(captionOf);
  }

  /**
   * @param {any} event a Realtime server event
   * @returns {boolean} whether the captions may have changed
   */
  handle(event) {
    const act = ACTIONS[event.type];
    if (!act) return false;
    act(this, event);
    if (this.#entries.length > LIMIT) this.#entries.splice(0, this.#entries.length - LIMIT);
    return true;
  }

  /** @param {string} id @returns {Entry | undefined} */
  find(id) {
    return this.#entries.find((entry) => entry.id === id);
  }

  /**
   * The entry of an item, made at the end where there is none.
   * @param {string} id @param {Entry["role"]} role
   */
  ensure(id, role) {
    let entry = this.find(id);
    if (!entry) {
      entry = {
        id,
        role,
        text: "",
        committed: false,
        done: false,
        cut: false,
        cancelled: false,
        failed: false,
        kept: null,
      };
      this.#entries.push(entry);
    }
    return entry;
  }

  /**
   * Puts an entry behind the item it follows; an unknown predecessor leaves it where it is.
   * @param {Entry} entry @param {string | null | undefined} previous null: it is the first
   */
  place(entry, previous) {
    entry.committed = true;
    if (previous === undefined) return;
    const rest = this.#entries.filter((other) => other !== entry);
    const at = previous === null ? 0 : rest.findIndex((other) => other.id === previous) + 1;
    if (previous !== null && at === 0) return;
    rest.splice(at, 0, entry);
    this.#entries = rest;
  }

  /** @param {(entry: Entry) => boolean} unwanted */
  remove(unwanted) {
    this.#entries = this.#entries.filter((entry) => !unwanted(entry));
  }
}

/** @type {Record<string, (captions: Captions, event: any) => void>} */
const ACTIONS = {
  "input_audio_buffer.speech_started": (captions, { item_id }) => {
    captions.ensure(item_id, "user");
  },
  "input_audio_buffer.committed": (captions, { item_id, previous_item_id }) =>
    captions.place(captions.ensure(item_id, "user"), previous_item_id),
  "input_audio_buffer.cleared": (captions) =>
    captions.remove((entry) => entry.role === "user" && !entry.committed),
  "conversation.item.added": added,
  "conversation.item.created": added,
  "conversation.item.done": (captions, { item }) => {
    const entry = captions.find(item.id);
    if (entry?.role === "user" && textOf(item)) finish(entry, textOf(item));
  },
  "conversation.item.deleted": (captions, { item_id }) =>
    captions.remove((entry) => entry.id === item_id),
  "conversation.item.truncated": (captions, { item_id }) => {
    captions.ensure(item_id, "assistant").cut = true;
  },
  "conversation.item.retrieved": (captions, { item }) => {
    const entry = captions.find(item.id);
    if (entry?.cut) entry.kept = textOf(item) ?? entry.kept;
  },
  "conversation.item.input_audio_transcription.delta": (captions, { item_id, delta }) => {
    captions.ensure(item_id, "user").text += delta ?? "";
  },
  "conversation.item.input_audio_transcription.completed": (captions, { item_id, transcript }) =>
    finish(captions.ensure(item_id, "user"), transcript),
  "conversation.item.input_audio_transcription.failed": (captions, { item_id }) => {
    const entry = captions.ensure(item_id, "user");
    entry.done = entry.failed = true;
  },
  "response.output_audio_transcript.delta": said,
  "response.output_text.delta": said,
  "response.output_audio_transcript.done": (captions, event) =>
    saidWhole(captions, event.item_id, event.transcript),
  "response.output_text.done": (captions, event) => saidWhole(captions, event.item_id, event.text),
  "response.done": ended,
};

/** @param {Captions} captions @param {any} event */
function added(captions, { item, previous_item_id }) {
  const spoken = item.type === "message" && item.role !== "system";
  const entry = captions.ensure(item.id, spoken ? item.role : null);
  captions.place(entry, previous_item_id);
  if (entry.role === "user" && textOf(item)) finish(entry, textOf(item));
}

/** @param {Captions} captions @param {any} event */
function said(captions, { item_id, delta }) {
  captions.ensure(item_id, "assistant").text += delta;
}

/** @param {Captions} captions @param {string} id @param {string} text */
function saidWhole(captions, id, text) {
  const entry = captions.ensure(id, "assistant");
  if (!entry.text.startsWith(text)) entry.text = text; // else: cut short, and the rest was shown
}

/** @param {Captions} captions @param {any} event */
function ended(captions, { response }) {
  for (const item of response.output ?? []) {
    const entry = captions.find(item.id);
    if (entry?.role !== "assistant") continue;
    entry.done = true;
    entry.cancelled = response.status === "cancelled";
    entry.failed = response.status === "failed";
    entry.text ||= textOf(item) ?? "";
  }
}

/** @param {Entry} entry @param {string | null} text */
function finish(entry, text) {
  entry.text = text ?? "";
  entry.done = true;
}

/** @param {any} item @returns {string | null} what it says, as far as the item knows */
function textOf(item) {
  const texts = (item.content ?? []).map((/** @type {any} */ part) => part.transcript ?? part.text);
  const known = texts.filter((/** @type {unknown} */ text) => typeof text === "string");
  return known.length ? known.join(" ") : null;
}

/** @param {Entry} entry */
function isShown(entry) {
  if (entry.role === "user") return entry.text !== "" || !entry.done || entry.failed;
  return entry.role === "assistant" && entry.text.trim() !== "";
}

/** @param {Entry} entry @returns {Caption} */
function captionOf(entry) {
  const { id, text, kept } = entry;
  const role = /** @type {Caption["role"]} */ (entry.role);
  if (entry.failed) return { id, role, state: "failed", heard: text, unheard: "" };
  const heard = kept === null ? text : kept.trimEnd();
  const rest = text.startsWith(heard) ? text.slice(heard.length) : "";
  const unheard = rest.trim() === "" ? "" : rest;
  const whole = !entry.cancelled && (!entry.cut || (kept !== null && unheard === ""));
  return {
    id,
    role,
    state: whole ? (entry.done ? "final" : "live") : "interrupted",
    heard,
    unheard,
  };
}
