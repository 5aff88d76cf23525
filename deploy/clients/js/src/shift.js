import { LeaseLost, Stopped, refused } from "./errors.js";
import { Heartbeat } from "./heartbeat.js";
import { Lane } from "./lane.js";
import { Batch, Outcome } from "./outcome.js";
import { Agents, recallable } from "./recall.js";
import { Run } from "./run.js";
import { Settling } from "./settling.js";

const pollWaitMs = 20_000; // of a claim that waits for a job
const emptyPauseMs = 500;
const settleGraceMs = 5000; // for the last acks, after the handlers
const recallMs = 800; // for the answer to a claim that was called back

/**
 * One run of a Worker: do what can be done, wait for something to change. What
 * it starts (a call to the source, a handler) goes on by itself and hands its
 * answer to the shift, which then looks again at what can be done.
 */
export class Shift {
  runs = new Map(); // by lease: those that run and those that are held
  held = []; // claimed beyond the concurrency
  stopping = false;

  #claim = new Lane(); // asks for jobs
  #claimWaits = false; // the claim under way may wait long for its answer
  #recall;
  #agents = new Agents();
  #base = new AbortController(); // ends calls that hang
  #graceEnd = Infinity;
  #expelled = false; // handlers were told to stop
  #lastEnd = 0; // when a handler last returned
  #failure;
  #busy = 0; // calls and handlers under way
  #timer;
  #resolve;
  #reject;

  constructor(source, options, stop, hurry) {
    this.source = source;
    this.options = options;
    this.signal = this.#base.signal;
    this.settling = new Settling(this);
    this.heartbeat = new Heartbeat(this);
    this.stopSignal = stop;
    this.hurrySignal = hurry;
  }

  async run() {
    const look = () => this.#look();
    this.stopSignal.addEventListener("abort", look);
    this.hurrySignal.addEventListener("abort", look);
    try {
      await new Promise((resolve, reject) => {
        this.#resolve = resolve;
        this.#reject = reject;
        this.#look();
      });
    } finally {
      // No handler runs and nothing is left to report; what may still be under
      // way, such as a heartbeat, serves nobody and is cut short.
      clearTimeout(this.#timer);
      this.#base.abort(new Stopped());
      this.#agents.close();
      this.stopSignal.removeEventListener("abort", look);
      this.hurrySignal.removeEventListener("abort", look);
    }
    if (this.#failure) throw this.#failure;
  }

  /** Starts f and hands its result, or its error, to then. */
  call(f, then) {
    this.#busy++;
    const answered = (value, error) => {
      this.#busy--;
      then(value, error);
      this.#look();
    };
    f().then(
      (value) => answered(value),
      (error) => answered(undefined, error),
    ).catch(this.#reject);
  }

  log(level, message, fields) {
    this.options.logger?.[level]?.(message, { worker: this.options.name, ...fields });
  }

  /** Whether a shift that stops has no more time to report. */
  lastCall(now) {
    return now >= this.#reportEnd();
  }

  get claimCarries() {
    return this.#claim.busy && !this.#claimWaits && !this.stopping;
  }

  /** Asks for another look at what can be done. */
  soon() {
    queueMicrotask(() => this.#look());
  }

  #look() {
    try {
      const now = performance.now();
      if (this.#failure || this.stopSignal.aborted) this.#stop(now, this.options.graceMs);
      if (this.hurrySignal.aborted) this.#stop(now, 0);
      this.#step(now);
      if (this.#finished()) {
        this.#resolve();
        return;
      }
      clearTimeout(this.#timer);
      this.#timer = setTimeout(() => this.#look(), Math.ceil(this.#untilNext(now)));
    } catch (err) {
      this.#reject(err);
    }
  }

  #step(now) {
    if (this.stopping && !this.#expelled && now >= this.#graceEnd) {
      this.#expelled = true;
      for (const run of this.runs.values()) run.end(new Stopped());
    }
    // A call that hangs.
    if (this.stopping && this.runs.size === 0 && this.lastCall(now)) this.#base.abort(new Stopped());
    this.settling.giveUp(now);
    this.#startHeld(now);
    this.#startClaim(now);
    this.settling.start(now);
    this.heartbeat.start(now);
  }

  // A handler may take some time to heed its signal; its job is given back all
  // the same.
  #reportEnd() {
    return Math.max(this.#graceEnd, this.#lastEnd) + settleGraceMs;
  }

  #finished() {
    return this.stopping && !this.#claim.busy && !this.settling.busy && this.runs.size === 0 && this.settling.pending.length === 0;
  }

  #untilNext(now) {
    const times = [this.#claim.next, this.settling.lane.next, this.heartbeat.lane.next];
    if (this.stopping) times.push(this.#graceEnd, this.#reportEnd());
    return Math.min(3600_000, ...times.filter((t) => t > now).map((t) => t - now));
  }

  // Begins the end of the shift, or hastens it. A claim that waits is called
  // back; a short one carries acks and is let through.
  #stop(now, graceMs) {
    if (this.stopping) {
      if (now + graceMs < this.#graceEnd) {
        this.#graceEnd = now + graceMs;
        this.log("info", "stopping now", { running: this.runs.size });
      }
      return;
    }
    this.stopping = true;
    this.#graceEnd = now + graceMs;
    for (const run of this.held.splice(0)) {
      this.runs.delete(run.job.lease);
      this.#giveBack(run.job, now);
    }
    if (this.#claim.busy && this.#claimWaits) this.#recall?.();
    this.log("info", "stopping", { running: this.runs.size, graceMs });
  }

  // Outcomes that wait go along, which saves them a request and a commit. Such a
  // claim does not wait for jobs: its answer, and with it the word that the acks
  // are kept, would come only with the next job.
  #startClaim(now) {
    const { concurrency, prefetch, queues, name, leaseMs } = this.options;
    const free = concurrency + prefetch - this.runs.size;
    if (this.stopping || free <= 0 || !this.#claim.ready(now)) return;
    const req = { queues, worker: name, max: free, lease_ms: leaseMs };
    const carried = this.settling.takeCarried(new Batch());
    this.#claimWaits = carried.length === 0;
    if (this.#claimWaits) req.wait_ms = pollWaitMs;
    else for (const o of carried) (req[`${o.kind}s`] ??= []).push(o.item);
    this.#claim.busy = true;
    this.call(
      () => this.#ask(req),
      (claims, err) => this.#claimed(carried, claims, err, now),
    );
  }

  async #ask(req) {
    if (!this.#claimWaits) return this.source.claim(req, { signal: this.signal, tries: 1 });
    const recalled = new AbortController();
    const cut = new AbortController();
    let late;
    const end = () => cut.abort(new Stopped());
    this.#recall = () => {
      recalled.abort();
      if (this.source.usesOwnFetch) end();
      else late = setTimeout(end, recallMs);
    };
    const exchange = this.source.usesOwnFetch ? undefined : recallable(this.#agents, recalled.signal);
    try {
      return await this.source.claim(req, { signal: cut.signal, tries: 1, exchange });
    } finally {
      clearTimeout(late);
    }
  }

  #claimed(carried, claims, err, since) {
    const now = performance.now();
    this.#claim.busy = false;
    if (err) {
      this.settling.unsettled(carried, err);
      this.#claimFailed(now, carried.length > 0, err);
      return;
    }
    if (this.#claim.fails > 0) this.log("info", "the node answers again", { tries: this.#claim.fails });
    this.#claim.succeeded();
    this.settling.carried(carried, claims, now);
    // A node that stops answers at once. So does one that is not to be waited
    // for, and must not be asked in a tight loop either.
    if (claims.jobs.length === 0 && this.#claimWaits && now - since < emptyPauseMs) this.#claim.next = now + emptyPauseMs;
    for (const job of claims.jobs) this.#take(job, now);
  }

  #take(job, now) {
    if (this.stopping) {
      this.#giveBack(job, now);
      return;
    }
    if (this.runs.size === 0) this.heartbeat.rest(now);
    const run = new Run(job, now, this.options.leaseMs);
    this.runs.set(job.lease, run);
    this.held.push(run);
  }

  #giveBack(job, now) {
    this.settling.add(new Outcome("release", job, {}, now + this.options.leaseMs));
  }

  #claimFailed(now, carrying, err) {
    if (this.stopping) return; // it was called back
    if (refused(err)) {
      // An outcome may be to blame; the next claim goes without.
      if (!carrying) this.#failure = err;
      return;
    }
    if (this.#claim.fails === 0) this.log("warn", "the node does not answer; trying again", { err });
    this.#claim.failed(now);
  }

  #startHeld(now) {
    while (this.held.length > 0 && this.runs.size - this.held.length < this.options.concurrency) {
      const run = this.held.shift();
      const handler = this.#handler(run.job.type);
      const progressed = (value) => this.heartbeat.progressed(run, value);
      this.call(
        () => run.handle(handler, now, progressed),
        (end, bug) => this.#ended(run, end ?? { kind: "fail", error: bug }, now),
      );
    }
  }

  #handler(type) {
    const { handlers, default: otherwise } = this.options;
    return (
      handlers.get(type) ??
      otherwise ??
      (() => {
        throw new Error(`unknown job type ${JSON.stringify(type)}; this worker handles ${[...handlers.keys()].sort().join(", ")}`);
      })
    );
  }

  // Decides what becomes of a job whose handler returned.
  #ended(run, { kind, result, error, reason }, since) {
    const now = performance.now();
    const { job } = run;
    this.runs.delete(job.lease);
    this.#lastEnd = now;
    const about = { job: job.id, queue: job.queue, type: job.type, run: job.run, attempt: job.attempt, ms: Math.round(now - since) };
    if (run.lost) {
      this.log("warn", "job finished", { ...about, outcome: "dropped: the lease was lost", err: error });
      return;
    }
    const outcome = { ack: "done", release: "given back", snooze: "put off", fail: "failed" }[kind];
    this.log(kind === "fail" ? "warn" : "info", "job finished", { ...about, outcome, ...(kind === "ack" ? {} : { err: kind === "release" ? reason : error }) });
    // A node that was down gives every lease another 30 s when it is back, so an
    // ack may still be taken after the lease ended by the clock here.
    this.settling.add(new Outcome(kind, job, { result, error }, run.leaseEnd + this.options.leaseMs));
  }

  /** Ends a run that is not wanted any more. A job that is held is given back if it is still ours. */
  withdraw(run, reason, lost) {
    run.lost ||= lost;
    if (run.started) {
      run.end(reason);
      return;
    }
    const at = this.held.indexOf(run);
    if (at < 0) return;
    this.held.splice(at, 1);
    this.runs.delete(run.job.lease);
    if (!run.lost) this.#giveBack(run.job, performance.now());
  }

  /** Without word from the node for as long as a lease, another may have the job. */
  withdrawExpired(now) {
    for (const run of [...this.runs.values()]) {
      if (!run.lost && now >= run.leaseEnd) this.withdraw(run, new LeaseLost("no word from the node for as long as the lease"), false);
    }
  }
}
