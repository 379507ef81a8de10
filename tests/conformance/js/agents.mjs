/**
 * `@openai/agents-realtime` in Node, over a WebSocket: node agents.mjs URL SPEECH
 *
 * SPEECH is PCM as the API has it. Speaks a turn, has a tool called, asks twice at once, and stops
 * a reply; then speaks into one.
 */

import { readFile } from "node:fs/promises";
import * as sdk from "@openai/agents-realtime";
import { kept } from "./session.mjs";
import { pause, tell, until } from "./told.mjs";

const FRAME = 960; // bytes: 20 ms
const [url, speech] = process.argv.slice(2);
const sound = await readFile(speech);

const transport = new sdk.OpenAIRealtimeWebSocket({ url });
transport.on("*", (event) => tell({ source: "session", event }));
const log = kept(sdk, transport);
const { session } = log;
await session.connect({ apiKey: "none" });

/** Speaks in real time, and is silent until `enough`. @param {() => boolean} enough */
async function speak(enough) {
  const silence = new ArrayBuffer(FRAME);
  const began = performance.now();
  for (let frame = 0; !enough(); frame += 1) {
    const piece = new Uint8Array(sound.subarray(frame * FRAME, (frame + 1) * FRAME));
    session.sendAudio(piece.length === FRAME ? piece.buffer : silence);
    await pause(Math.max(0, began / 1000 + frame * 0.02 - performance.now() / 1000));
    if (frame > 1500) throw new Error("spoke, and nothing came of it");
  }
}

/** @param {number} count replies so far */
const ended = (count) => until(`${count} replies`, () => log.count("agent_end") === count);
const started = (count) => until(`${count} begun`, () => log.count("agent_start") === count);

await speak(() => log.count("agent_end") === 1);
await until("the turn's words", () => log.said().some(([role, text]) => role === "user" && text));

session.sendMessage("How is the weather in Paris?");
await ended(3); // the call, and what was made of its result

session.sendMessage("Count to three.");
session.sendMessage("And now backwards.");
await ended(5);

session.sendMessage("Tell me a long story.");
await started(6);
const before = log.count("audio");
await until("sound", () => log.count("audio") > before);
session.interrupt();
await ended(6);
await until("the cut", () => log.came("conversation.item.retrieved") >= 2);

session.sendMessage("Tell me another.");
await started(7);
const sounded = log.count("audio");
await until("sound", () => log.count("audio") > sounded);
await speak(() => log.count("agent_end") >= 8);
await until("both ends", () => log.count("agent_start") === log.count("agent_end"));
const retrieved = log.came("conversation.item.truncated") + log.came("conversation.item.input_audio_transcription.completed");
await until("all answers", () => log.came("conversation.item.retrieved") === retrieved);

tell({ happened: log.happened, said: log.said(), untaken: [...log.untaken] });
session.close();
