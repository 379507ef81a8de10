/** The page's details: the microphone as it was opened, the connection, the response times. */

const NONE = "–";

/**
 * @param {{id: string, label: string}[]} microphones
 * @param {string} [chosen] a device id; the present choice where absent
 */
export function showMicrophones(microphones, chosen) {
  const select = /** @type {HTMLSelectElement} */ (document.getElementById("microphone"));
  if (microphones.length === 0) return;
  const value = chosen ?? select.value;
  select.replaceChildren(
    ...microphones.map(({ id, label }) => new Option(label, id, false, id === value)),
  );
  select.disabled = false;
}

/** @param {import("./microphone.js").Applied} applied */
export function showApplied({ echoCancellation, noiseSuppression, autoGainControl }) {
  list("applied", [
    ["Echo cancellation", echoCancellation === "all" ? "all sound" : switched(echoCancellation)],
    ["Noise suppression", switched(noiseSuppression)],
    ["Automatic gain", switched(autoGainControl)],
  ]);
}

/** @param {import("./parley.js").Figures | null} figures */
export function showConnection(figures) {
  const path = /** @type {HTMLElement} */ (document.getElementById("path"));
  path.hidden = !figures;
  path.textContent = [
    figures?.path,
    figures?.roundTrip !== undefined && milliseconds(figures.roundTrip),
  ]
    .filter(Boolean)
    .join(" · ");
  list("connection", [
    ["Path", figures?.path ?? NONE],
    ["Connected in", milliseconds(figures?.connect)],
    ["Round trip", milliseconds(figures?.roundTrip)],
    ["Jitter", milliseconds(figures?.jitter)],
    ["Packets lost", figures?.lost === undefined ? NONE : `${(figures.lost * 100).toFixed(1)} %`],
    ["Held to smooth", milliseconds(figures?.buffered)],
  ]);
}

/** @param {import("./parley.js").Figures | null} figures */
export function showTurns(figures) {
  list("turns", [
    ["Last turn", milliseconds(figures?.turns.at(-1))],
    ["Median", milliseconds(figures?.median)],
    ["Turns", String(figures?.turns.length ?? 0)],
  ]);
}

/** @param {string} id @param {[string, string][]} rows */
function list(id, rows) {
  const terms = rows.flatMap(([term, value]) => {
    const [dt, dd] = [document.createElement("dt"), document.createElement("dd")];
    dt.textContent = term;
    dd.textContent = value;
    return [dt, dd];
  });
  document.getElementById(id)?.replaceChildren(...terms);
}

/** @param {number | undefined} value */
function milliseconds(value) {
  if (value === undefined) return NONE;
  return value < 10 ? `${value.toFixed(1)} ms` : `${Math.round(value)} ms`;
}

/** @param {boolean | string | undefined} on */
function switched(on) {
  return on === undefined ? "not said" : on ? "on" : "off";
}
