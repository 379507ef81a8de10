/**
 * The page: one button, a conversation, and what there is to know about it.
 *
 * For tests and the curious, `window.parley` is the current call (`state`, `events`, `stats()`), and
 * each of its events is also dispatched on the document as `parley:<type>`.
 */

import { showCaptions } from "./demo-captions.js";
import { showApplied, showConnection, showMicrophones, showTurns } from "./demo-details.js";
import { clearTrouble, clearTroubles, showTrouble } from "./demo-troubles.js";
import { listMicrophones } from "./microphone.js";
import { ParleyCall } from "./parley.js";

const MICROPHONE = "parley.microphone";
const DETAILS = "parley.details";
const FLOOR = -60; // dBFS shown as nothing

const $ = (/** @type {string} */ id) => /** @type {any} */ (document.getElementById(id));
const EVENTS = ["state", "caption", "trouble", "clear", "figures", "level", "microphone"];
/** @type {ParleyCall | null} */ let call = null;

/** Free of awaits up to `start`: browsers open microphones and play sound from a tap only. */
function talk() {
  clearTroubles();
  showCaptions([]);
  const transport = new URLSearchParams(location.search).get("transport") ?? "auto";
  const next = new ParleyCall({
    model: document.body.dataset.model,
    transport: /** @type {any} */ (transport),
    microphone: localStorage.getItem(MICROPHONE) ?? undefined,
  });
  for (const type of EVENTS) {
    next.addEventListener(type, (event) => {
      const { detail } = /** @type {CustomEvent} */ (event);
      if (next === call) SHOW[type](detail);
      document.dispatchEvent(new CustomEvent(`parley:${type}`, { detail }));
    });
  }
  call = next;
  Object.assign(window, { parley: next });
  void next.start();
}

/** @type {Record<string, (detail: any) => void>} */
const SHOW = {
  state: showState,
  caption: showCaptions,
  trouble: (trouble) => showTrouble(trouble, ACTIONS[trouble.code]),
  clear: clearTrouble,
  figures: (figures) => {
    showConnection(figures);
    showTurns(figures);
  },
  level: ({ local, remote }) => {
    document.body.style.setProperty("--level-local", share(local));
    document.body.style.setProperty("--level-remote", share(remote));
  },
  microphone: async (applied) => {
    showApplied(applied);
    showMicrophones(await listMicrophones(), applied.deviceId);
  },
};

/** @type {Record<string, {label: string, act: () => void}>} */
const ACTIONS = {
  playback_blocked: { label: "Play sound", act: () => void call?.resumePlayback() },
};

const STATUS = /** @type {Record<string, string>} */ ({
  idle: "Press the button and say something. You will hear an answer.",
  connecting: "Opening the microphone and calling…",
  ended: "Press Talk to call again.",
  listening: "Go ahead, say something.",
  hearing: "You are speaking.",
  thinking: "An answer is on its way.",
  speaking: "Speak, or press the button, to cut in.",
  muted: "You are muted: nothing you say is sent.",
});
const ACTIVITIES = /** @type {Record<string, string>} */ ({
  listening: "Listening",
  thinking: "Thinking",
  speaking: "Speaking",
});

/** @param {import("./parley.js").State} state */
function showState({ phase, activity, hearing, muted, transport }) {
  const live = phase === "live";
  Object.assign(document.body.dataset, { phase, activity, transport: transport ?? "" });
  const label = live
    ? activity === "speaking"
      ? "Stop the reply"
      : ACTIVITIES[activity]
    : phase === "connecting"
      ? "Connecting"
      : "Talk";
  $("talk-label").textContent = label;
  $("talk").setAttribute("aria-label", label);
  // Not `disabled`: that would take the focus from whoever pressed it by key.
  $("talk").setAttribute(
    "aria-disabled",
    String(phase === "connecting" || (live && activity !== "speaking")),
  );
  $("activity").textContent = ACTIVITIES[activity];
  $("status").textContent =
    STATUS[live ? (muted ? "muted" : hearing ? "hearing" : activity) : phase];
  $("activity").hidden = $("levels").hidden = !live;
  $("controls").hidden = !live && phase !== "connecting";
  $("mute").setAttribute("aria-pressed", String(muted));
  $("mute").lastElementChild.textContent = muted ? "Muted" : "Mute";
  if (phase === "ended") SHOW.level({ local: 0, remote: 0 });
}

/** @param {number} rms @returns {string} 0..1 on a scale of decibels */
function share(rms) {
  return Math.max(0, 1 - (20 * Math.log10(rms || 1e-9)) / FLOOR).toFixed(3);
}

/** @param {boolean} open */
function openDetails(open) {
  $("details").hidden = !open;
  $("details-button").setAttribute("aria-expanded", String(open));
}

$("talk").addEventListener("click", () => {
  const phase = call?.state.phase;
  if (phase === "live") call?.interrupt();
  else if (phase !== "connecting") talk();
});
$("end").addEventListener("click", () => void call?.end());
$("mute").addEventListener("click", () => call?.setMuted(!call.state.muted));
$("details-button").addEventListener("click", () => {
  openDetails($("details").hidden);
  localStorage.setItem(DETAILS, String(!$("details").hidden));
});
document.addEventListener("keydown", ({ key }) => key === "Escape" && openDetails(false));
$("composer").addEventListener("submit", (/** @type {Event} */ event) => {
  event.preventDefault();
  const text = $("text").value.trim();
  $("text").value = "";
  if (text) call?.sendText(text);
});
$("microphone").addEventListener("change", () => {
  localStorage.setItem(MICROPHONE, $("microphone").value);
  if (call?.state.phase === "live") void call.setMicrophone($("microphone").value);
});
navigator.mediaDevices?.addEventListener("devicechange", async () =>
  showMicrophones(await listMicrophones()),
);

showConnection(null);
showTurns(null);
openDetails(localStorage.getItem(DETAILS) === "true" && matchMedia("(min-width: 60rem)").matches);
