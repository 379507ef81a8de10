/** Figures of a connection, from the browser's statistics. Pure. */

/**
 * @typedef {object} Connection undefined where the browser does not say
 * @property {string} path how sound travels, in words
 * @property {number} [roundTrip] ms
 * @property {number} [jitter] ms, of the reply
 * @property {number} [lost] share of the reply's packets, 0..1
 * @property {number} [buffered] ms that the browser holds the reply back to smooth it
 * @property {number} received packets of the reply so far
 */

const PATHS = /** @type {Record<string, string>} */ ({
  host: "direct",
  prflx: "direct",
  srflx: "through NAT",
  relay: "relayed (TURN)",
});

/** @param {any[]} stats of an RTCPeerConnection, or of a WebSocket link @returns {Connection} */
export function connectionFigures(stats) {
  const inbound = stats.find(({ type, kind }) => type === "inbound-rtp" && kind === "audio");
  if (!inbound)
    return {
      path: stats.some(({ type }) => type === "websocket") ? "WebSocket" : "WebRTC",
      received: 0,
    };
  const transport = stats.find(({ type }) => type === "transport");
  const pair =
    stats.find(({ id }) => id === transport?.selectedCandidatePairId) ??
    stats.find(
      ({ type, nominated, state }) =>
        type === "candidate-pair" && nominated && state === "succeeded",
    );
  const local = stats.find(({ id }) => id === pair?.localCandidateId);
  const {
    packetsReceived = 0,
    packetsLost = 0,
    jitter,
    jitterBufferDelay,
    jitterBufferEmittedCount,
  } = inbound;
  const protocol = local?.relayProtocol ?? local?.protocol; // between the browser and the relay
  return {
    path: local ? `WebRTC ${PATHS[local.candidateType]}, ${protocol.toUpperCase()}` : "WebRTC",
    roundTrip: milliseconds(pair?.currentRoundTripTime),
    jitter: milliseconds(jitter),
    lost: packetsReceived ? Math.max(0, packetsLost) / (packetsReceived + packetsLost) : undefined,
    buffered: jitterBufferEmittedCount
      ? milliseconds(jitterBufferDelay / jitterBufferEmittedCount)
      : undefined,
    received: packetsReceived,
  };
}

/** @param {number[]} values @returns {number | undefined} */
export function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2
    ? sorted[middle]
    : (sorted[middle - 1] + sorted[middle]) / 2 || undefined;
}

/** @param {number | undefined} seconds */
function milliseconds(seconds) {
  return seconds === undefined ? undefined : seconds * 1000;
}
