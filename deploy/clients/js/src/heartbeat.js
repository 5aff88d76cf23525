import { Cancelled, LeaseLost, refused } from "./errors.js";
import { Lane } from "./lane.js";
import { byteLength } from "./limits.js";
import { within } from "./time.js";

const progressEveryMs = 1000; // how often progress is reported at most
const maxBatchBytes = 8 << 20; // of progress in a heartbeat

/** Extends the leases of a shift's runs. */
export class Heartbeat {
  lane = new Lane();
  #shift;
  #last = 0; // when the last one was sent

  constructor(shift) {
    this.#shift = shift;
  }

  // It leaves a lease two more chances when one heartbeat is lost.
  get #everyMs() {
    return this.#shift.options.leaseMs / 3;
  }

  /** Begins to count when there is something to extend again. */
  rest(now) {
    this.lane.next = now + this.#everyMs;
  }

  /** Keeps what a handler reported for a heartbeat soon. */
  progressed(run, value) {
    if (this.#shift.runs.get(run.job.lease) !== run) return; // it has ended
    run.progress = value;
    this.#soon();
    this.#shift.soon();
  }

  #soon() {
    if (this.lane.fails === 0) this.lane.next = Math.min(this.lane.next, this.#last + progressEveryMs);
  }

  /** Extends all leases in one request, when it is time. */
  start(now) {
    const { runs, source, options, signal } = this.#shift;
    if (runs.size === 0 || !this.lane.ready(now)) return;
    const batch = [...runs.values()].filter((run) => !run.lost);
    if (batch.length === 0) {
      this.rest(now);
      return;
    }
    let bytes = 0;
    const extendsOf = batch.map((run) => {
      const item = { lease: run.job.lease, lease_ms: options.leaseMs };
      const size = run.progress === undefined ? 0 : byteLength(JSON.stringify(run.progress));
      if (size > 0 && bytes + size <= maxBatchBytes) {
        bytes += size;
        item.progress = run.progress;
        run.progress = undefined;
      }
      return item;
    });
    this.lane.busy = true;
    this.#last = now;
    this.#shift.call(
      // A request that hangs must not cost the lease its next heartbeats.
      () => within(this.#everyMs, "no answer in time", signal, (timed) => source.extend(extendsOf, { signal: timed, tries: 1 })),
      (results, err) => this.#beaten(now, batch, extendsOf, results, err),
    );
  }

  #beaten(sent, batch, items, results, err) {
    const now = performance.now();
    const shift = this.#shift;
    this.lane.busy = false;
    if (err) {
      for (const [i, run] of batch.entries()) {
        // Unless it is what the node refuses, or a newer one has come.
        if (run.progress === undefined && !refused(err)) run.progress = items[i].progress;
      }
      if (this.lane.fails === 0) shift.log("warn", "leases not extended; trying again", { runs: batch.length, err });
      this.lane.failed(now);
      this.lane.next = Math.min(this.lane.next, now + this.#everyMs);
    } else {
      this.lane.succeeded();
      this.lane.next = sent + this.#everyMs;
      for (const run of shift.runs.values()) if (run.progress !== undefined) this.#soon(); // it came meanwhile
      for (const [i, run] of batch.entries()) this.#extended(run, sent, results[i]);
    }
    shift.withdrawExpired(now);
  }

  #extended(run, sent, result) {
    const shift = this.#shift;
    const about = { job: run.job.id, queue: run.job.queue, run: run.job.run, err: result.error };
    if (result.error instanceof LeaseLost) {
      if (shift.runs.get(run.job.lease) === run) shift.log("warn", "lease lost; the handler is cancelled", about);
      shift.withdraw(run, result.error, true);
    } else if (result.error) {
      shift.log("warn", "lease not extended", about);
    } else {
      run.leaseEnd = sent + shift.options.leaseMs;
      if (result.cancel) shift.withdraw(run, new Cancelled(), false);
    }
  }
}
