/** How a call reaches its server: WebRTC, and WebSocket where no media gets through. */

import { iceServers } from "./ice-servers.js";
import { Lifeline } from "./lifeline.js";
import { Trouble } from "./troubles.js";
import { WebRtcLink } from "./webrtc.js";
import { WebSocketLink } from "./websocket.js";

export { iceServers };

/** @typedef {WebRtcLink | WebSocketLink} Link */

/**
 * @typedef {object} Wish
 * @property {URL} baseUrl where the server's `v1/` lies
 * @property {string} model
 * @property {"auto" | "webrtc" | "websocket"} transport
 * @property {MediaStream} stream the microphone
 * @property {import("./sound.js").Sound} sound its microphone tapped
 * @property {import("./webrtc.js").LinkHandlers} handlers
 * @property {(trouble: Trouble) => void} notice
 * @property {AbortSignal} signal
 */

/**
 * @param {Wish} wish
 * @returns {Promise<Link>} open
 * @throws {Trouble}
 */
export async function connect(wish) {
  if (wish.transport === "websocket") return openWebSocket(wish);
  try {
    return await openWebRtc(wish);
  } catch (error) {
    const blocked = error instanceof Trouble && error.code === "media_unavailable";
    if (!blocked || wish.transport === "webrtc" || wish.signal.aborted) throw error;
    wish.notice(new Trouble("media_blocked"));
    return openWebSocket(wish);
  }
}

/** @param {Wish} wish */
async function openWebRtc(wish) {
  if (!globalThis.RTCPeerConnection) throw new Trouble("media_unavailable");
  const { stream, sound, signal } = wish;
  const lifeline = new Lifeline(wish.handlers, signal);
  const { handlers } = lifeline;
  const url = endpoint(wish, "v1/realtime/calls");
  const servers = await iceServers(wish.baseUrl);
  lifeline.link = new WebRtcLink({ url, iceServers: servers, stream, sound, handlers });
  return opened(lifeline.link, signal);
}

/** @param {Wish} wish */
async function openWebSocket(wish) {
  await wish.sound.ready;
  const { sound, signal } = wish;
  const lifeline = new Lifeline(wish.handlers, signal);
  const { handlers } = lifeline;
  lifeline.link = new WebSocketLink({ url: endpoint(wish, "v1/realtime"), sound, handlers });
  return opened(lifeline.link, signal);
}

/**
 * @template {Link} L
 * @param {L} link @param {AbortSignal} signal @returns {Promise<L>}
 */
async function opened(link, signal) {
  try {
    await link.open(signal);
    return link;
  } catch (error) {
    await link.close(); // its place is free before another is asked for
    throw error;
  }
}

/** @param {Wish} wish @param {string} path */
function endpoint({ baseUrl, model }, path) {
  const url = new URL(path, baseUrl);
  url.searchParams.set("model", model);
  return url;
}
