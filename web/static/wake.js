/** Keeps the screen on during a call: a phone that sleeps cuts it. */

export class WakeLock {
  /** @type {any} */ #lock = null;
  #wanted = false;
  #renew = () => this.#request(); // the browser drops the lock whenever the page is hidden

  acquire() {
    this.#wanted = true;
    globalThis.document?.addEventListener("visibilitychange", this.#renew);
    return this.#request();
  }

  release() {
    this.#wanted = false;
    globalThis.document?.removeEventListener("visibilitychange", this.#renew);
    this.#lock?.release().catch(() => {});
    this.#lock = null;
  }

  async #request() {
    if (!this.#wanted || document.visibilityState !== "visible") return;
    const lock = await navigator.wakeLock?.request("screen").catch(() => null);
    if (!this.#wanted) lock?.release().catch(() => {});
    else this.#lock = lock ?? null;
  }
}
