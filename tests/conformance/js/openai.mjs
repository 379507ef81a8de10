/**
 * The `openai` package in Node: node openai.mjs URL OFFER SPEECH
 *
 * URL is that of a server with TLS, for the package knows no other sockets; OFFER a file of SDP;
 * SPEECH one of PCM as the API has it. Speaks a turn, makes a mistake, has a text written, makes a
 * call and leads it from its sideband, and has a secret made that begins a session of its own.
 */

import { readFile } from "node:fs/promises";
import OpenAI from "openai";
import { OpenAIRealtimeWS } from "openai/realtime/ws";
import { tell, until } from "./told.mjs";

const [url, offer, speech] = process.argv.slice(2);
const client = new OpenAI({ baseURL: `${url}v1`, apiKey: "none" });

/**
 * A connection whose events are kept, and each told with its `source`.
 * @param {string} source
 * @param {ConstructorParameters<typeof OpenAIRealtimeWS>[0]} asked
 */
async function connected(source, asked, by = client) {
  const socket = new OpenAIRealtimeWS(asked, by);
  const events = [];
  const errors = [];
  socket.on("event", (event) => {
    events.push(event);
    tell({ source, event });
  });
  socket.on("error", (error) => errors.push(error));
  let closed;
  socket.socket.on("close", (code) => (closed = code));
  const next = { count: 0 };
  /** The next event of that type behind the last one waited for. @param {string} type */
  const event = (type) =>
    until(type, () => {
      const at = events.findIndex((came, number) => number >= next.count && came.type === type);
      if (at < 0) return undefined;
      next.count = at + 1;
      return events[at];
    });
  await event("session.created");
  return { send: (message) => socket.send(message), event, errors, close: () => socket.close(), closed: () => until("close", () => closed) };
}

/** @param {string} text */
const message = (text) => ({
  type: "conversation.item.create",
  item: { type: "message", role: "user", content: [{ type: "input_text", text }] },
});

const models = [];
for await (const model of client.models.list()) models.push(model.id);

const turn = await connected("turn", { model: "gpt-realtime" });
turn.send({
  type: "session.update",
  session: { type: "realtime", audio: { input: { format: { type: "audio/pcm", rate: 24000 }, turn_detection: null } } },
});
await turn.event("session.updated");
const sound = await readFile(speech);
for (let at = 0; at < sound.length; at += 4800) {
  turn.send({ type: "input_audio_buffer.append", audio: sound.subarray(at, at + 4800).toString("base64") });
}
turn.send({ type: "input_audio_buffer.commit" });
await turn.event("input_audio_buffer.committed");
turn.send({ type: "response.create" });
const spoken = (await turn.event("response.done")).response;
turn.send({ type: "response.cancel", event_id: "mine" });
await until("an error", () => turn.errors.length === 1);
turn.send(message("one two three"));
turn.send({ type: "response.create", response: { output_modalities: ["text"] } });
const written = (await turn.event("response.done")).response;
turn.close();
const closed = await turn.closed();

const made = await client.realtime.calls.create({
  sdp: await readFile(offer, "utf8"),
  session: { type: "realtime", instructions: "Be brief." },
});
const callID = made.headers.get("Location").split("/").pop();
const aside = await connected("sideband", { callID });
aside.send(message("one two three"));
aside.send({ type: "response.create", response: { output_modalities: ["text"] } });
const led = (await aside.event("response.done")).response;
await client.realtime.calls.hangup(callID);
const hungUp = await aside.closed();

const secret = await client.realtime.clientSecrets.create({ session: { type: "realtime", instructions: "Be kind." } });
const holder = new OpenAI({ baseURL: client.baseURL, apiKey: secret.value });
const bound = await connected("bound", { model: "gpt-realtime" }, holder);
bound.close();
await bound.closed();

tell({
  models,
  spoken,
  error: turn.errors[0].error,
  written,
  closed,
  call: { status: made.status, type: made.headers.get("Content-Type"), answer: await made.text() },
  led,
  hungUp,
  secret,
});
