/**
 * What can be wrong, each with its own code and a sentence that says who can do what. Pure.
 *
 * An `error` ends the call or kept it from starting, a `notice` does neither.
 */

/**
 * @typedef {object} Wording
 * @property {string} title
 * @property {string} text
 * @property {"notice"} [severity] an error where absent
 */

/** @type {Record<string, Wording>} */
const WORDINGS = {
  insecure_context: {
    title: "This page needs a secure address",
    text:
      "Browsers share a microphone only with https pages and with localhost. On the machine that runs " +
      "Parley, open it as http://localhost; from another machine, start it with --tls self-signed and open https://.",
  },
  microphone_unsupported: {
    title: "This browser cannot record",
    text: "It offers pages no microphone. A current Chrome, Edge, Firefox or Safari does.",
  },
  microphone_denied: {
    title: "The microphone is not allowed",
    text: "The browser refused this page the microphone. Allow it in the site settings beside the address, then press Talk.",
  },
  microphone_missing: {
    title: "No microphone found",
    text: "Connect one, or switch it on in the system's sound settings, then press Talk.",
  },
  microphone_busy: {
    title: "The microphone cannot be opened",
    text: "Another program may be using it. Close that program, or choose another microphone, then press Talk.",
  },
  microphone_lost: {
    title: "The microphone is gone",
    text: "It was unplugged or taken by another program. Connect it, or choose another microphone.",
    severity: "notice",
  },
  microphone_silent: {
    title: "Your microphone is silent",
    text: "It is open but gives no sound at all. It may be switched off, or another program holds it; try another microphone.",
    severity: "notice",
  },
  server_unreachable: {
    title: "The server does not answer",
    text: "It may be stopped, or the network is down. Check that Parley is running, then press Talk.",
  },
  server_busy: {
    title: "The server is full",
    text: "The server is talking to as many people as it can. Try again in {seconds} seconds.",
  },
  engine_not_ready: {
    title: "The speech engine is not ready",
    text: "It is still loading, or it failed; the server's log says which. Try again in {seconds} seconds.",
  },
  server_draining: {
    title: "The server is shutting down",
    text: "It takes no new calls. Try again when it has been restarted.",
  },
  unauthorized: {
    title: "This page is not signed in",
    text: "Open the whole link that the server printed when it started; it carries the token.",
  },
  refused: {
    title: "The server refused the call",
    text: "It said: {message}",
  },
  too_many_requests: {
    title: "Too many calls in a short time",
    text: "The server limits how often one caller may connect. Try again in {seconds} seconds.",
  },
  engine_fault: {
    title: "The speech engine failed",
    text: "This reply is lost; say it again. If it fails again, the server's log names the cause ({code}).",
    severity: "notice",
  },
  transcripts_shed: {
    title: "Your words are not written down",
    text: "The conversation goes on, but the server has nobody left who could caption what you say. The next call may have captions.",
    severity: "notice",
  },
  engine_lost: {
    title: "The speech engine stopped",
    text: "The call cannot go on; the server's log names the cause ({code}). Press Talk to call again.",
  },
  request_refused: {
    title: "The server refused a request",
    text: "It said: {message}",
    severity: "notice",
  },
  session_expired: {
    title: "The call reached its longest time",
    text: "The server ends calls after a set time. Press Talk to go on.",
  },
  idle_timeout: {
    title: "The call was ended after a long silence",
    text: "Nobody spoke for a while. Press Talk to call again.",
  },
  ended_by_server: {
    title: "The server ended the call",
    text: "It does so after a long silence, or when it is stopped. Press Talk to call again.",
  },
  connection_unsteady: {
    title: "Reconnecting…",
    text: "Nothing arrives from the server just now. The call goes on as soon as it can be reached again.",
    severity: "notice",
  },
  connection_lost: {
    title: "The connection was lost",
    text: "The network or the server went away in the middle of the call. Press Talk to call again.",
  },
  session_gone: {
    title: "The call is over",
    text: "The connection was lost for too long, or the server needed the place for somebody else. Press Talk to call again.",
  },
  media_blocked: {
    title: "Sound goes over WebSocket",
    text: "This network lets no WebRTC sound through (UDP may be blocked). The call goes on over WebSocket, a little slower. Whoever runs the server learns more from `parley doctor`.",
    severity: "notice",
  },
  media_unavailable: {
    title: "No sound can pass",
    text: "WebRTC could not connect: UDP may be blocked between this browser and the server. The WebSocket transport may still work, and `parley doctor` on the server says what is in the way.",
  },
  websocket_blocked: {
    title: "WebSocket does not get through",
    text: "The server answers, but not to WebSocket: a proxy in between may not pass it on. Whoever runs the proxy can change that.",
  },
  nothing_heard: {
    title: "The reply makes no sound here",
    text: "The server is speaking, but no sound arrives in this page. Check the network, or call again over WebSocket.",
    severity: "notice",
  },
  playback_blocked: {
    title: "The browser holds the sound back",
    text: "It wants a tap before this page may play sound.",
    severity: "notice",
  },
  page_fault: {
    title: "A part of this page failed",
    text: "Reload the page; if it happens again, tell whoever runs the server: {message}",
  },
};

/** Codes of the server that mean one of the above. @type {Record<string, string>} */
const ALIASES = {
  drain: "server_draining",
  engine_failed: "engine_lost",
  rate_limit_exceeded: "too_many_requests",
  too_long: "session_expired",
};

/** @typedef {{message?: string, code?: string, seconds?: number}} Facts */

/** Something that is wrong, in words for the person in front of the page. */
export class Trouble extends Error {
  /** @param {string} code one of the codes of this module @param {Facts} [facts] */
  constructor(code, facts = {}) {
    const wording = WORDINGS[code];
    const known = { seconds: 5, message: "no reason", code, ...facts };
    super(
      wording.text.replace(/\{(\w+)\}/g, (_, name) =>
        String(known[/** @type {keyof Facts} */ (name)]),
      ),
    );
    this.name = "Trouble";
    this.code = code;
    this.title = wording.title;
    /** @type {"error" | "notice"} */
    this.severity = wording.severity ?? "error";
    /** Seconds after which trying again makes sense, where the server said so. */
    this.retryAfter = facts.seconds ?? null;
  }
}

/** Every code there is, for those who translate them. */
export const CODES = Object.keys(WORDINGS);

/**
 * @param {number} status of a refused request
 * @param {{code?: string, message?: string} | undefined} error of its body
 * @param {string | null} retryAfter the header
 */
export function troubleOfResponse(status, error, retryAfter) {
  const facts = { ...error, seconds: Number(retryAfter) || undefined };
  return new Trouble(known(error?.code) ?? STATUSES[status] ?? "refused", strip(facts));
}

/** @type {Record<number, string>} */
const STATUSES = {
  401: "unauthorized",
  429: "too_many_requests",
  502: "server_unreachable",
  503: "server_busy",
  504: "server_unreachable",
};

/**
 * @param {{type?: string, code?: string | null, message?: string}} error of an `error` event
 * @returns {Trouble | null} null: a race between both sides that harms nobody
 */
export function troubleOfEvent(error) {
  if (HARMLESS.has(error.code ?? "")) return null;
  const facts = strip({ code: error.code ?? error.type, message: error.message });
  const other = error.type === "server_error" ? "engine_fault" : "request_refused";
  return new Trouble(known(error.code) ?? other, facts);
}

const HARMLESS = new Set([
  "response_cancel_not_active",
  "conversation_already_has_active_response",
  "item_retrieve_invalid_item_id",
]);

/** @param {unknown} error what getUserMedia threw */
export function troubleOfMicrophone(error) {
  const name = error instanceof Error ? error.name : "";
  const code = {
    NotAllowedError: "microphone_denied",
    SecurityError: "microphone_denied",
    NotFoundError: "microphone_missing",
    OverconstrainedError: "microphone_missing",
  }[name];
  return new Trouble(code ?? "microphone_busy");
}

/** @param {number} status the close code of a WebSocket @returns {string} a trouble's code */
export function codeOfClose(status) {
  return CLOSES[status] ?? "connection_lost";
}

/** @type {Record<number, string>} */
const CLOSES = {
  1000: "ended_by_server",
  1001: "server_draining",
  1008: "ended_by_server",
  1011: "engine_lost",
  1013: "server_busy",
};

/**
 * @param {string | null | undefined} code of the server
 * @returns {string | undefined} a code of this module
 */
function known(code) {
  const name = ALIASES[code ?? ""] ?? code ?? "";
  return WORDINGS[name] && name;
}

/** @param {Facts} facts @returns {Facts} without what is not known */
function strip(facts) {
  return Object.fromEntries(
    Object.entries(facts).filter(([, value]) => value !== undefined && value !== null),
  );
}
