/** The page's captions: words that were heard, and apart from them words that were cut off. */

const WHO = { user: "You", assistant: "Reply" };

/** @type {Map<string, HTMLLIElement>} */
const lines = new Map();

/** @param {import("./captions.js").Caption[]} captions */
export function showCaptions(captions) {
  const list = /** @type {HTMLOListElement} */ (document.getElementById("captions"));
  /** @type {HTMLElement} */ (list.parentElement).hidden = captions.length === 0;
  const wanted = captions.map((caption) => lineOf(caption));
  for (const [id, line] of lines) {
    if (!wanted.includes(line)) {
      line.remove();
      lines.delete(id);
    }
  }
  wanted.forEach((line, at) => {
    if (list.children[at] !== line) list.insertBefore(line, list.children[at] ?? null);
  });
}

/** @param {import("./captions.js").Caption} caption @returns {HTMLLIElement} */
function lineOf(caption) {
  let line = lines.get(caption.id);
  if (!line) {
    line = document.createElement("li");
    line.dataset.item = caption.id;
    lines.set(caption.id, line);
  }
  const shown = JSON.stringify(caption);
  if (line.dataset.shown !== shown) fill(line, caption);
  line.dataset.shown = shown;
  return line;
}

/** @param {HTMLLIElement} line @param {import("./captions.js").Caption} caption */
function fill(line, { role, state, heard, unheard }) {
  line.className = `caption ${role} ${state}`;
  line.setAttribute("aria-busy", String(state === "live")); // read out once it stands
  const words = element("span", "words", heard || (state === "live" ? "…" : ""));
  words.dir = "auto";
  if (unheard) words.append(element("s", "", unheard));
  const parts = [element("span", "who", WHO[role]), words];
  const mark = {
    interrupted: "interrupted",
    failed: role === "user" ? "could not be transcribed" : "broken off",
  }[/** @type {string} */ (state)];
  if (mark) parts.push(element("span", "mark", mark));
  line.replaceChildren(...parts);
}

/** @param {string} name @param {string} className @param {string} text */
function element(name, className, text) {
  const made = document.createElement(name);
  if (className) made.className = className;
  made.textContent = text;
  return made;
}
