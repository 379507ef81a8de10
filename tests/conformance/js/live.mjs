/**
 * The `openai` package's GPT-Live in Node: node live.mjs URL SPEECH ANSWER
 *
 * SPEECH is a file of PCM as the API has it, with the silence that ends a turn; ANSWER what is said
 * to it, in the end. Misspells a start and starts, speaks, is watched and steered from a sideband,
 * and is hung up.
 */

import { readFile } from "node:fs/promises";
import OpenAI from "openai";
import { TranscriptGrouper } from "openai/lib/live/transcript-grouper";
import { SidebandWS } from "openai/resources/live/sideband/ws";
import { LiveWS } from "openai/resources/live/ws";
import { tell, until } from "./told.mjs";

const [url, speech, answer] = process.argv.slice(2);
const client = new OpenAI({ baseURL: `${url}v1`, apiKey: "none" });
const at = () => performance.now() / 1000;

/**
 * A connection whose events are kept, and each told with its `source`.
 * @param {string} source
 * @param {LiveWS | SidebandWS} socket
 */
function kept(source, socket) {
  const events = [];
  const errors = [];
  let closed;
  socket.on("event", (event) => {
    events.push(event);
    tell({ source, event, at: at() });
  });
  socket.on("error", (error) => errors.push(error));
  socket.on("close", (code) => (closed = code));
  return {
    errors,
    events,
    /** @param {object} event */
    send(event) {
      tell({ source, asks: event, at: at() });
      socket.send(event);
    },
    /** @param {string} type */
    event: (type) => until(type, () => events.find((event) => event.type === type)),
    closed: () => until("close", () => closed),
  };
}

/** @param {string} instructions the name of the field */
const start = (instructions) => ({
  type: "session.start",
  event_id: instructions,
  session: { model: "gpt-live-1", [instructions]: "Be brief.", audio: { format: { type: "audio/pcm", rate: 24000 } } },
});

const grouper = new TranscriptGrouper();
const segments = [];
grouper.on("segment.closed", ({ segment, reason }) => segments.push({ ...segment, reason }));

const socket = new LiveWS(client);
const caller = kept("caller", socket);
socket.on("event", (event) => grouper.push(event));
caller.send(start("instruction"));
await until("an error", () => caller.errors.length === 1);
caller.send(start("instructions"));
const { session } = await caller.event("session.started");

const watching = new SidebandWS(client, { session_id: session.id, graceful_close: true });
const sideband = kept("sideband", watching);
await sideband.event("session.output_audio.delta");
const sound = await readFile(speech);
tell({ source: "caller", speaks: sound.length / 48000, at: at() });
for (let from = 0; from < sound.length; from += 4800) {
  socket.send({ type: "session.input_audio.append", audio: sound.subarray(from, from + 4800).toString("base64") });
}
/** @param {{ events: { type: string, delta?: string }[] }} connection */
const said = ({ events }) =>
  events.map((event) => (event.type === "session.output_transcript.delta" ? event.delta : "")).join("");
await until(answer, () => said(caller).endsWith(answer) && said(sideband).endsWith(answer));
sideband.send({ type: "session.input_audio.mute", event_id: "quiet" });
await sideband.event("session.input_audio.muted");
await client.live.sessions.hangup(session.id);
await caller.event("session.closed");
const codes = [await caller.closed(), await sideband.closed()];

tell({ errors: caller.errors.length, segments, codes });
