/**
 * The STUN and TURN servers that a Parley server offers its callers.
 *
 * Asked for when the microphone is, they are there by the time that it is open: no call waits. Their
 * logins hold for a while, and are asked for again by calls that begin in its second half.
 */

const TIMEOUT = 1_000;

/** @type {Map<string, {until: number, servers: Promise<RTCIceServer[]>}>} */
const known = new Map();

/**
 * @param {URL} baseUrl where the server's `v1/` lies
 * @returns {Promise<RTCIceServer[]>} none where the server has none, or says nothing
 */
export function iceServers(baseUrl) {
  const { href } = new URL("v1/ice-servers", baseUrl);
  let asked = known.get(href);
  if (!asked || asked.until < performance.now()) {
    asked = { until: performance.now() + TIMEOUT, servers: Promise.resolve([]) };
    asked.servers = ask(href, asked);
    known.set(href, asked);
  }
  return asked.servers;
}

/**
 * @param {string} href
 * @param {{until: number}} asked told how long the answer holds
 * @returns {Promise<RTCIceServer[]>}
 */
async function ask(href, asked) {
  try {
    const answer = await fetch(href, { signal: AbortSignal.timeout(TIMEOUT) });
    if (!answer.ok) return [];
    const { iceServers, ttl } = await answer.json();
    asked.until = performance.now() + ttl * 500;
    return iceServers;
  } catch {
    return []; // what is wrong shows when the call is asked for
  }
}
