/** What a script tells whoever runs it, and how it waits. */

/** @param {object} something `{ source, event }`, one of the server's; or, once, what came of it all */
export function tell(something) {
  process.stdout.write(`${JSON.stringify(something)}\n`);
}

/**
 * Waits for something to be true.
 * @template T
 * @param {string} what to say where it never is
 * @param {() => T} check
 * @returns {Promise<NonNullable<T>>}
 */
export async function until(what, check, seconds = 30) {
  for (let left = seconds * 100; left > 0; left -= 1) {
    const found = check();
    if (found) return found;
    await pause(0.01);
  }
  throw new Error(`not within ${seconds} s: ${what}`);
}

/** @param {number} seconds */
export function pause(seconds) {
  return new Promise((resolve) => setTimeout(resolve, 1000 * seconds));
}
