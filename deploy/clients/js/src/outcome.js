import { Fatal, Later, LeaseLost, TimedOut, Snooze } from "./errors.js";
import { byteLength, cut, maxDelayMs, maxError, maxItems } from "./limits.js";

const maxBatchBytes = 8 << 20; // of the results and errors in a batch

/** How a run ended, until the node knows. */
export class Outcome {
  constructor(kind, job, { result, error } = {}, giveUp = Infinity) {
    this.kind = kind; // ack, fail, release or snooze
    this.job = job;
    this.result = result;
    this.error = error;
    this.sent = 0; // times without an answer
    this.alone = false; // to be sent by itself: a batch with it was refused
    this.giveUp = giveUp; // not sent after it
    this.bytes = this.#size();
  }

  /** Whether a claim can carry it. One that was sent before goes a way of its own. */
  get carried() {
    return (this.kind === "ack" || this.kind === "fail") && this.sent === 0 && !this.alone;
  }

  /** It on the wire. */
  get item() {
    const lease = this.job.lease;
    switch (this.kind) {
      case "ack":
        return this.result === undefined ? { lease } : { lease, result: this.result };
      case "fail": {
        const item = { lease, error: errorText(this.error) };
        const thrown = this.error?.later ?? this.error;
        if (thrown instanceof Fatal) item.fatal = true;
        if (thrown instanceof Later) item.retry_in_ms = delay(thrown.ms);
        return item;
      }
      case "snooze":
        return { lease, delay_ms: delay(this.error.ms) };
    }
    return { lease };
  }

  /** Makes a failure of it: a result that is not taken has a reason to be told. */
  failed(error) {
    return Object.assign(new Outcome("fail", this.job, { error }, this.giveUp), { sent: this.sent, alone: this.alone });
  }

  #size() {
    return this.kind === "ack" || this.kind === "fail" ? byteLength(JSON.stringify(this.item)) : 0;
  }
}

function delay(ms) {
  return Math.min(Math.max(Math.floor(Number(ms)) || 0, 0), maxDelayMs);
}

/** Keeps a batch within what a node takes in one request. */
export class Batch {
  items = [];
  #bytes = 0;
  #full = false;

  /** Takes o if it fits. */
  take(o) {
    if (this.#full || this.items.length === maxItems || this.#bytes + o.bytes > maxBatchBytes || (o.alone && this.items.length > 0)) return false;
    this.items.push(o);
    this.#bytes += o.bytes;
    this.#full = o.alone;
    return true;
  }
}

/**
 * What a node keeps of an error: where it was thrown, and what it was caused by,
 * unless the handler itself gave the reason in words.
 */
export function errorText(error) {
  const parts = [];
  for (let e = error; e !== undefined && e !== null && parts.length < 10; e = e instanceof Error ? e.cause : undefined) {
    if (e instanceof Fatal || e instanceof Later) {
      if (e.cause instanceof Error) continue; // which says the same, and where
      parts.push(e.message);
      break;
    }
    const own = e instanceof TimedOut || e instanceof LeaseLost || e instanceof Snooze || !(e instanceof Error);
    parts.push(own ? (e.message ?? String(e)) : (e.stack || String(e)));
  }
  return cut(parts.join("\ncaused by: "), maxError);
}
