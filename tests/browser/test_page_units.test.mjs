/** What the page's pure modules promise. Run: node --test tests/browser/ */

import assert from "node:assert/strict";
import { test } from "node:test";

const page = (name) => import(new URL(`../../web/static/${name}.js`, import.meta.url));
const { Activity } = await page("activity");
const { Captions } = await page("captions");
const { EventLog } = await page("eventlog");
const { connectionFigures, median } = await page("figures");
const { iceServers } = await page("ice-servers");
const { SilenceWatch, TurnTimer } = await page("latency");
const { fromBase64, toBase64, toInt16 } = await page("pcm");
const { Playout } = await page("playout");
const { RealtimeSession } = await page("realtime");
const { Resampler } = await page("resample");
const { CODES, Trouble, troubleOfEvent, troubleOfResponse } = await page("troubles");

const speech = (type, item_id) => ({ type: `input_audio_buffer.${type}`, item_id });
const playing = (type, response_id) => ({ type: `output_audio_buffer.${type}`, response_id });
const response = (type, id, more = {}) => ({
  type: `response.${type}`,
  response: { id, output: [], ...more },
});
const item = (id, role, content = []) => ({ id, type: "message", role, content });
const added = (id, role, previous_item_id, content) => ({
  type: "conversation.item.added",
  item: item(id, role, content),
  previous_item_id,
});
const delta = (item_id, delta) => ({
  type: "response.output_audio_transcript.delta",
  item_id,
  delta,
});
const heard = (item_id, transcript) => ({
  type: "conversation.item.input_audio_transcription.completed",
  item_id,
  transcript,
});

function captionsOf(events) {
  const captions = new Captions();
  for (const event of events) captions.handle(event);
  return captions.list();
}

/** Cuts `samples` at pseudo-random places, differently for each seed. */
function* pieces(samples, seed) {
  for (let at = 0; at < samples.length;) {
    seed = (seed * 1103515245 + 12345) & 0x7fffffff;
    const length = seed % 400;
    yield samples.subarray(at, at + length);
    at += length;
  }
}

const tone = (hertz, rate, seconds) =>
  Float32Array.from(
    { length: rate * seconds },
    (_, n) => 0.5 * Math.sin((2 * Math.PI * hertz * n) / rate),
  );
const rms = (samples) =>
  Math.sqrt(samples.reduce((sum, sample) => sum + sample * sample, 0) / samples.length);

test("the activity follows the sound that is played, not its generation", () => {
  const activity = new Activity();
  const names = [
    speech("speech_started", "u1"),
    speech("speech_stopped", "u1"),
    response("created", "r1"),
    playing("started", "r1"),
    response("done", "r1"),
    playing("stopped", "r1"),
  ].map((event) => (activity.handle(event), activity.name));
  assert.deepEqual(names, [
    "listening",
    "thinking",
    "thinking",
    "speaking",
    "speaking",
    "listening",
  ]);
});

test("a turn in which nothing was said ends in listening", () => {
  const activity = new Activity();
  for (const event of [
    speech("speech_started", "u1"),
    speech("speech_stopped", "u1"),
    speech("cleared"),
  ]) {
    activity.handle(event);
  }
  assert.equal(activity.name, "listening");
});

test("captions keep the conversation's order although a transcript arrives after its reply", () => {
  const captions = captionsOf([
    speech("speech_started", "u1"),
    { ...speech("committed", "u1"), previous_item_id: null },
    added("a1", "assistant", "u1"),
    delta("a1", "It is noon."),
    speech("speech_started", "u2"),
    heard("u1", "What time is it?"),
    { ...speech("committed", "u2"), previous_item_id: "a1" },
  ]);
  assert.deepEqual(
    captions.map(({ id, heard: words }) => [id, words]),
    [
      ["u1", "What time is it?"],
      ["a1", "It is noon."],
      ["u2", ""],
    ],
  );
});

test("a reply that is truncated keeps the words that were not heard, apart", () => {
  const [caption] = captionsOf([
    added("a1", "assistant", null),
    delta("a1", "One two three four."),
    response("done", "r1", { status: "cancelled", output: [item("a1", "assistant")] }),
    { type: "conversation.item.truncated", item_id: "a1", audio_end_ms: 400 },
    {
      type: "conversation.item.retrieved",
      item: item("a1", "assistant", [{ type: "output_audio", transcript: "One two" }]),
    },
  ]);
  assert.deepEqual(caption, {
    id: "a1",
    role: "assistant",
    state: "interrupted",
    heard: "One two",
    unheard: " three four.",
  });
});

test("a reply that was cut but heard whole is not called interrupted", () => {
  const [caption] = captionsOf([
    added("a1", "assistant", null),
    delta("a1", "Yes."),
    response("done", "r1", { status: "completed", output: [item("a1", "assistant")] }),
    { type: "conversation.item.truncated", item_id: "a1", audio_end_ms: 400 },
    {
      type: "conversation.item.retrieved",
      item: item("a1", "assistant", [{ transcript: "Yes. " }]),
    },
  ]);
  assert.equal(caption.state, "final");
  assert.equal(caption.unheard, "");
});

test("a reply that was cancelled in the making is interrupted although all its words were heard", () => {
  const [caption] = captionsOf([
    added("a1", "assistant", null),
    delta("a1", "Well,"),
    response("done", "r1", { status: "cancelled", output: [item("a1", "assistant")] }),
  ]);
  assert.deepEqual([caption.state, caption.heard, caption.unheard], ["interrupted", "Well,", ""]);
});

test("an announced turn that is never committed leaves no caption", () => {
  assert.deepEqual(captionsOf([speech("speech_started", "u1"), speech("cleared")]), []);
});

test("a committed turn survives a clear, and an empty transcript removes it", () => {
  const events = [
    speech("speech_started", "u1"),
    { ...speech("committed", "u1"), previous_item_id: null },
  ];
  assert.equal(captionsOf([...events, speech("cleared")]).length, 1);
  assert.equal(captionsOf([...events, heard("u1", "")]).length, 0);
});

test("captions are bounded", () => {
  const events = Array.from({ length: 1000 }, (_, n) => heard(`u${n}`, "word"));
  const captions = captionsOf(events);
  assert.equal(captions.length, 200);
  assert.equal(captions.at(-1).id, "u999");
});

function sessionWith() {
  const sent = [];
  let cleared = 0;
  const session = new RealtimeSession({
    send: (event) => sent.push(event),
    clear: () => cleared++,
  });
  return { session, types: () => sent.map(({ type }) => type), cleared: () => cleared };
}

test("typed text cuts the reply, and is answered once that has ended", () => {
  const { session, types, cleared } = sessionWith();
  session.handle(response("created", "r1"));
  session.handle(playing("started", "r1"));
  session.say("stop that");
  assert.deepEqual(types(), ["response.cancel", "conversation.item.create"]);
  assert.equal(cleared(), 1);
  session.handle(response("done", "r1", { status: "cancelled" }));
  assert.equal(types().at(-1), "response.create");
});

test("a response refused because another runs is asked for again when that ends", () => {
  const { session, types } = sessionWith();
  session.say("hello");
  const error = { type: "invalid_request_error", code: "conversation_already_has_active_response" };
  const { trouble } = session.handle({ type: "error", error });
  assert.equal(trouble, null);
  session.handle(response("done", "r1"));
  assert.deepEqual(types(), ["conversation.item.create", "response.create", "response.create"]);
});

test("a failed response is a trouble", () => {
  const { session } = sessionWith();
  const { trouble } = session.handle(response("done", "r1", { status: "failed" }));
  assert.equal(trouble.code, "engine_fault");
});

const side = (first = null, last = first) => ({ peak: 0, rms: 0, first, last });
const look = (local, remote) => ({ local, remote, seconds: 0.02 });

test("a turn is timed from the last spoken sample to the first audible one", () => {
  const timer = new TurnTimer(48_000);
  assert.equal(timer.observe(look(side(0, 48_000), side())), null);
  timer.arm();
  assert.equal(timer.observe(look(side(), side())), null);
  assert.equal(timer.observe(look(side(), side(72_000))), 500);
  assert.equal(timer.observe(look(side(), side(72_100))), null, "once per turn");
});

test("sound of a reply that the caller talks over is no answer", () => {
  const timer = new TurnTimer(48_000);
  timer.observe(look(side(0, 10), side()));
  timer.arm();
  timer.disarm();
  assert.equal(timer.observe(look(side(20, 30), side(25))), null);
});

test("an echo of the reply in the microphone does not move the end of speech", () => {
  const timer = new TurnTimer(1000);
  timer.observe(look(side(0, 100), side()));
  timer.arm();
  assert.equal(timer.observe(look(side(350, 360), side(340))), 240);
});

test("a microphone is silent after three seconds of nothing but the browser's own noise", () => {
  const watch = new SilenceWatch();
  for (let n = 0; n < 149; n++) watch.observe(0.0004, 0.02);
  assert.equal(watch.silent, false);
  watch.observe(0.0004, 0.03);
  assert.equal(watch.silent, true);
});

test("a microphone that was heard once is not silent while its caller listens", () => {
  const watch = new SilenceWatch();
  watch.observe(0.01, 0.02);
  for (let n = 0; n < 1000; n++) watch.observe(0, 0.02);
  assert.equal(watch.silent, false);
});

for (const [from, to] of [
  [48_000, 24_000],
  [24_000, 48_000],
  [44_100, 24_000],
  [24_000, 44_100],
  [16_000, 24_000],
  [22_050, 24_000],
]) {
  test(`${from} to ${to} Hz gives the same samples however the sound is cut`, () => {
    const sound = tone(440, from, 0.5);
    const whole = new Resampler(from, to).push(sound);
    assert.equal(whole.length, to * 0.5);
    for (const seed of [1, 2, 3]) {
      const resampler = new Resampler(from, to);
      const joined = [...pieces(sound, seed)].flatMap((piece) => [...resampler.push(piece)]);
      assert.deepEqual(joined, [...whole]);
    }
  });

  test(`${from} to ${to} Hz keeps a voice and lets no alias through`, () => {
    const settled = (samples) => samples.subarray(samples.length / 4);
    const voice = settled(new Resampler(from, to).push(tone(1000, from, 1)));
    assert.ok(Math.abs(20 * Math.log10(rms(voice) / (0.5 / Math.SQRT2))) < 0.01);
    if (from > to) {
      const alias = settled(new Resampler(from, to).push(tone(to * 0.54, from, 1)));
      assert.ok(20 * Math.log10(rms(alias)) < -60);
    }
  });
}

test("sound survives the protocol's form to a 16-bit step, clipped beyond full scale", () => {
  const samples = Float32Array.from([0, 0.5, -0.5, 1, -1, 1.5, -1.5]);
  const back = fromBase64(toBase64(toInt16(samples)));
  samples.forEach((sample, n) => {
    assert.ok(Math.abs(back[n] - Math.max(-1, Math.min(1, sample))) <= 1 / 32768);
  });
});

test("what was pushed is played or cut, to the sample", () => {
  for (const seed of [1, 2, 3, 4, 5]) {
    const playout = new Playout(48_000);
    const sound = new Float32Array(5000).fill(0.1);
    for (const piece of pieces(sound, seed)) playout.push("a1", piece);
    playout.push("a2", sound);
    const out = new Float32Array(128);
    for (let n = 0; n < 20; n++) playout.pull(out);
    assert.deepEqual(playout.clear(), [
      { item: "a1", played: 2560 },
      { item: "a2", played: 0 },
    ]);
    assert.ok(playout.empty);
  }
});

test("an item ends with its last sample and not in a gap of the network", () => {
  const playout = new Playout(48_000);
  const out = new Float32Array(128);
  playout.push("a1", new Float32Array(128).fill(0.1));
  assert.deepEqual(playout.pull(out), []);
  assert.deepEqual(playout.pull(out), []);
  playout.push("a1", new Float32Array(64).fill(0.1));
  playout.finish("a1");
  assert.deepEqual(playout.pull(out), ["a1"]);
  assert.deepEqual([...out.subarray(64)], Array(64).fill(0));
});

test("a cut fades within 5 ms and is then silent", () => {
  const playout = new Playout(48_000);
  playout.push("a1", new Float32Array(4800).fill(1));
  playout.clear();
  const out = new Float32Array(480);
  playout.pull(out);
  assert.ok(out[0] > 0.99 && out[120] > 0.4 && out[120] < 0.6);
  assert.deepEqual([...out.subarray(240)], Array(240).fill(0));
});

test("every trouble has its own title and says who can do what", () => {
  const troubles = CODES.map((code) => new Trouble(code));
  assert.equal(new Set(troubles.map(({ title }) => title)).size, CODES.length);
  for (const trouble of troubles) assert.doesNotMatch(trouble.message, /[{}]|undefined/);
});

test("a refusal is named by the server's code, else by its status", () => {
  assert.equal(troubleOfResponse(503, { code: "engine_not_ready" }, "7").code, "engine_not_ready");
  const busy = troubleOfResponse(503, undefined, "7");
  assert.equal(busy.code, "server_busy");
  assert.match(busy.message, /7 seconds/);
  assert.match(
    troubleOfResponse(400, { message: "model: unknown" }, null).message,
    /model: unknown/,
  );
});

test("errors that only tell of a race are no trouble", () => {
  assert.equal(
    troubleOfEvent({ type: "invalid_request_error", code: "response_cancel_not_active" }),
    null,
  );
  assert.equal(troubleOfEvent({ type: "server_error", code: "llm_timeout" }).code, "engine_fault");
  const shed = troubleOfEvent({ type: "server_error", code: "transcripts_shed" });
  assert.deepEqual([shed.code, shed.severity], ["transcripts_shed", "notice"]);
  assert.equal(troubleOfEvent({ type: "server_error", code: "engine_failed" }).code, "engine_lost");
});

test("the log is bounded and holds no sound", () => {
  const log = new EventLog();
  log.add("client", { type: "input_audio_buffer.append", audio: "AAAA" }, 0);
  log.add("server", { type: "response.output_audio.delta", delta: "AAAA" }, 0);
  assert.deepEqual(
    log.entries.map(({ event }) => event.delta),
    ["4 characters"],
  );
  for (let n = 0; n < 600; n++) log.add("server", { type: "rate_limits.updated" }, n);
  assert.equal(log.entries.length, 500);
});

test("figures come from the chosen pair, and are absent where the browser does not say", () => {
  const stats = [
    { type: "inbound-rtp", kind: "audio", packetsReceived: 90, packetsLost: 10, jitter: 0.002 },
    { type: "transport", selectedCandidatePairId: "p" },
    { id: "p", type: "candidate-pair", localCandidateId: "l", currentRoundTripTime: 0.012 },
    { id: "l", type: "local-candidate", candidateType: "host", protocol: "udp" },
  ];
  assert.deepEqual(connectionFigures(stats), {
    path: "WebRTC direct, UDP",
    roundTrip: 12,
    jitter: 2,
    lost: 0.1,
    buffered: undefined,
    received: 90,
  });
  const relay = { candidateType: "relay", protocol: "udp", relayProtocol: "tls" };
  const relayed = connectionFigures([...stats.slice(0, 3), { ...stats[3], ...relay }]);
  assert.equal(relayed.path, "WebRTC relayed (TURN), TLS");
  assert.equal(connectionFigures([]).roundTrip, undefined);
});

test("the median of an even number of turns lies between the middle two, and there is none of none", () => {
  assert.equal(median([300, 100, 200, 900]), 250);
  assert.equal(median([]), undefined);
});

test("ICE servers are asked for once, again when their logins grow old, and never in vain", async () => {
  const asked = [];
  const server = { urls: ["stun:s.example"] };
  const answers = {
    "http://a/v1/ice-servers": async () => ({ iceServers: [server], ttl: 3600 }),
    "http://b/v1/ice-servers": async () => ({ iceServers: [server], ttl: 0 }),
    "http://old/v1/ice-servers": async () => ({ error: { code: "not_found" } }),
  };
  const { fetch } = globalThis;
  const now = performance.now.bind(performance);
  globalThis.fetch = async (url) => {
    asked.push(url);
    if (!answers[url]) throw new TypeError("unreachable");
    return { ok: !url.includes("//old/"), json: answers[url] };
  };
  try {
    for (const _ of [1, 2]) {
      assert.deepEqual(await iceServers(new URL("http://a/")), [server]);
      assert.deepEqual(await iceServers(new URL("http://b/")), [server]);
      assert.deepEqual(await iceServers(new URL("http://old/")), []);
      assert.deepEqual(await iceServers(new URL("http://gone/")), []);
    }
    const times = (url) => asked.filter((other) => other.startsWith(url)).length;
    assert.deepEqual([times("http://a/"), times("http://b/"), times("http://old/")], [1, 2, 1]);
    performance.now = () => now() + 10_000;
    await iceServers(new URL("http://old/"));
    assert.equal(times("http://old/"), 2);
  } finally {
    performance.now = now;
    globalThis.fetch = fetch;
  }
});
