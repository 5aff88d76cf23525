import { Cancelled, Fatal, LeaseLost, Snooze, Stopped, TimedOut } from "./errors.js";
import { encode, maxProgress, maxResult } from "./limits.js";

/** A claimed job: held until its turn comes, then in the hands of its handler. */
export class Run {
  #controller = new AbortController();
  #timer;

  constructor(job, now, leaseMs) {
    this.job = job;
    this.claimedAt = now;
    this.leaseEnd = now + leaseMs; // by this machine's clock
    this.started = false;
    this.lost = false; // the node said so: there is nothing left to report
    this.progress = undefined; // to be sent with the next heartbeat
  }

  /** Tells the handler that its run is not wanted any more. */
  end(reason) {
    this.#controller.abort(reason);
  }

  /**
   * Calls the handler and returns {kind, result, error, reason}. progressed is
   * called with each report of it.
   */
  async handle(handler, now, progressed) {
    this.started = true;
    // A little more tightly than the node, and like it from the claim on, so
    // that the failure that is kept is the handler's own and not just "timeout".
    const timeout = this.job.timeout_ms;
    if (timeout > 0) {
      const left = timeout - Math.min(timeout / 20, 500) - (now - this.claimedAt);
      this.#timer = setTimeout(() => this.end(new TimedOut(timeout)), Math.min(Math.max(left, 0), 2 ** 31 - 1));
    }
    const signal = this.#controller.signal;
    const run = {
      signal,
      progress: (value) => progressed(JSON.parse(encode("progress", value, maxProgress))),
    };
    let result;
    let error;
    try {
      const value = await handler(this.job, run);
      // As it is now: the handler may change it later.
      if (value !== undefined && value !== null) result = JSON.parse(encode("result", value, maxResult));
    } catch (thrown) {
      error = thrown ?? new Error(`the handler threw ${thrown}`);
    } finally {
      clearTimeout(this.#timer);
    }
    const reason = signal.aborted ? signal.reason : undefined;
    return { kind: kindOf(error, reason), result, error: timedOut(error, reason), reason };
  }
}

// How a run ended. A handler that finished its work is believed, also when its
// signal fired before; one that broke off because it was told to is not blamed.
function kindOf(error, reason) {
  if (error === undefined) return "ack";
  if (error instanceof Snooze) return "snooze";
  if (error instanceof Fatal) return "fail";
  if (reason instanceof Stopped || reason instanceof Cancelled || reason instanceof LeaseLost) return "release";
  return "fail";
}

// Says that the run took too long, if it did and the error does not say so.
function timedOut(error, reason) {
  if (error === undefined || !(reason instanceof TimedOut) || error === reason || error instanceof Fatal || error instanceof Snooze) return error;
  if (error?.name === "AbortError" || error?.cause === reason) return reason;
  return Object.assign(new Error(`${reason.message}: ${error?.message ?? error}`, { cause: error }), { later: error });
}
