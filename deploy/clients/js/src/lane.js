import { retryDelay } from "./time.js";

/** A kind of call to the source, of which one is under way at a time. */
export class Lane {
  busy = false;
  next = 0; // not before, by performance.now()
  fails = 0; // in a row

  ready(now) {
    return !this.busy && now >= this.next;
  }

  /** Notes a call that brought no answer. */
  failed(now) {
    this.fails++;
    this.next = now + retryDelay(this.fails);
  }

  succeeded() {
    this.fails = 0;
    this.next = 0;
  }
}
