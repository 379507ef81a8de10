/** Has a call whose connection breaks go on over another one, for as long as its server waits. */

import { Trouble } from "./troubles.js";

const WITHIN = 15_000; // ms from the loss: the server waits 20 s, and misses us later than we it
const AGAIN = 500; // ms between attempts
const ATTEMPT = 5_000; // ms that one may take: a network that is back answers sooner

export class Lifeline {
  /** @type {import("./connect.js").Link | null} */ link = null;
  #last = "";
  #coming = false;

  /**
   * @param {import("./webrtc.js").LinkHandlers} handlers of the call
   * @param {AbortSignal} signal its end
   */
  constructor(handlers, signal) {
    this.outer = handlers;
    this.signal = signal;
  }

  /** What a link is to call. @type {import("./webrtc.js").LinkHandlers} */
  handlers = {
    event: (event) => {
      this.#last = event.event_id ?? this.#last; // events that a link makes itself have none
      this.outer.event(event);
    },
    unsteady: (unsteady) => this.outer.unsteady(unsteady || this.#coming),
    lost: (code) => {
      if (this.#coming) return;
      if (code === "connection_lost" && this.link?.resumable) void this.#comeBack(this.link);
      else this.outer.lost(code);
    },
  };

  /** @param {import("./connect.js").Link} link */
  async #comeBack(link) {
    this.#coming = true;
    this.outer.unsteady(true);
    const vain = await this.#retry(link);
    this.#coming = false;
    if (this.signal.aborted) return;
    this.outer.unsteady(false);
    if (vain) this.outer.lost(vain);
  }

  /**
   * @param {import("./connect.js").Link} link
   * @returns {Promise<string | null>} the code of a trouble, where it cannot come back
   */
  async #retry(link) {
    const until = performance.now() + WITHIN;
    for (;;) {
      const attempt = new AbortController();
      const timer = setTimeout(() => attempt.abort(), ATTEMPT);
      try {
        await link.resume(this.#last, AbortSignal.any([this.signal, attempt.signal]));
        return null;
      } catch (error) {
        if (error instanceof Trouble && error.code === "session_gone") return error.code;
        if (this.signal.aborted || performance.now() > until) return "connection_lost";
      } finally {
        clearTimeout(timer);
      }
      await new Promise((resolve) => setTimeout(resolve, AGAIN));
    }
  }
}
