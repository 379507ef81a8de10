/** The page's troubles: each once, until it goes away, is dismissed, or the next call begins. */

const place = () => /** @type {HTMLElement} */ (document.getElementById("troubles"));

/**
 * @param {import("./troubles.js").Trouble} trouble
 * @param {{label: string, act: () => void}} [action] what helps; else it can be dismissed
 */
export function showTrouble(trouble, action) {
  clearTrouble(trouble.code);
  const line = document.createElement("div");
  line.className = `trouble ${trouble.severity}`;
  line.dataset.code = trouble.code;
  const words = document.createElement("p");
  const title = document.createElement("strong");
  title.textContent = trouble.title;
  words.append(title, trouble.message);
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = action?.label ?? "×";
  if (!action) {
    button.className = "quiet dismiss";
    button.setAttribute("aria-label", "Dismiss");
  }
  button.addEventListener("click", action ? action.act : () => line.remove());
  line.append(words, button);
  place().append(line);
}

/** @param {string} code */
export function clearTrouble(code) {
  place().querySelector(`[data-code="${code}"]`)?.remove();
}

export function clearTroubles() {
  place().replaceChildren();
}
