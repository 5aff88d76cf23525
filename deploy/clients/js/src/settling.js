import { LeaseLost, refused } from "./errors.js";
import { Lane } from "./lane.js";
import { Batch } from "./outcome.js";

const verbs = ["ack", "fail", "release", "snooze"];

/** Reports the outcomes of a shift's runs. */
export class Settling {
  lane = new Lane();
  pending = []; // what the node has not been told yet
  #shift;

  constructor(shift) {
    this.#shift = shift;
  }

  get busy() {
    return this.lane.busy;
  }

  add(outcome) {
    this.pending.push(outcome);
  }

  /** Takes what a claim can carry out of pending. */
  takeCarried(batch) {
    this.pending = this.pending.filter((o) => !(o.carried && batch.take(o)));
    return batch.items;
  }

  /** Takes the answer to a claim that carried outcomes, acks and fails apart. */
  carried(outcomes, claims, now) {
    const of = (kind) => outcomes.filter((o) => o.kind === kind);
    const acks = this.#settled(of("ack"), claims.acks ?? []);
    const fails = this.#settled(of("fail"), claims.fails ?? []);
    if (!acks || !fails) this.lane.failed(now);
  }

  /**
   * Reports outcomes that do not wait for the next claim to carry them: always
   * when a claim waits for jobs, since that may be long.
   */
  start(now) {
    if (!this.lane.ready(now)) return;
    const wait = this.#shift.claimCarries;
    const batch = new Batch();
    this.pending = this.pending.filter((o) => (wait && o.carried) || !batch.take(o));
    if (batch.items.length === 0) return;
    this.lane.busy = true;
    this.#shift.call(
      () => this.#report(batch.items),
      (reports, bug) => {
        if (bug) throw bug;
        this.#reported(reports);
      },
    );
  }

  // Sends outcomes, those of each kind in one request.
  async #report(outcomes) {
    const reports = [];
    for (const verb of verbs) {
      const batch = outcomes.filter((o) => o.kind === verb);
      if (batch.length === 0) continue;
      try {
        const results = await this.#shift.source[verb](
          batch.map((o) => o.item),
          { signal: this.#shift.signal, tries: 1 },
        );
        reports.push({ batch, results });
      } catch (err) {
        reports.push({ batch, err });
      }
    }
    return reports;
  }

  #reported(reports) {
    this.lane.busy = false;
    let answered = true;
    for (const { batch, results, err } of reports) {
      if (err && refused(err)) {
        this.#batchRefused(batch, err);
      } else if (err) {
        this.unsettled(batch, err);
        answered = false;
      } else if (!this.#settled(batch, results)) {
        answered = false;
      }
    }
    if (answered) this.lane.succeeded();
    else this.lane.failed(performance.now());
  }

  /** Keeps outcomes whose request brought no answer. */
  unsettled(batch, err) {
    if (batch.length === 0) return;
    this.#shift.log("warn", "outcomes of runs not reported; trying again", { runs: batch.length, err });
    for (const o of batch) {
      o.sent++;
      this.pending.push(o);
    }
  }

  // A refusal of a request as a whole. Whichever of its outcomes is to blame,
  // the others must not suffer for it: each goes by itself.
  #batchRefused(batch, err) {
    if (batch.length === 1) {
      this.#itemRefused(batch[0], err);
      return;
    }
    this.#shift.log("warn", "a report of several runs was refused; sending one by one", { runs: batch.length, err });
    for (const o of batch) {
      o.alone = true;
      this.pending.push(o);
    }
  }

  #itemRefused(o, err) {
    if (o.kind === "ack") this.pending.push(o.failed(new Error(`the ack was refused: ${err.message}`)));
    else this.#log(o, "error", "the outcome of the run was refused", err);
  }

  // Takes the answer to each outcome of a batch. False: one is to be sent again.
  #settled(batch, results) {
    let all = true;
    for (const [i, o] of batch.entries()) {
      const err = results[i] ? results[i].error : new Error("the node gave no answer to it");
      if (!err) continue;
      if (err instanceof LeaseLost) {
        const why = o.sent > 0 ? "lease lost, or an earlier report of the run was taken and its answer lost" : "lease lost; the outcome of the run is dropped and the job runs again";
        this.#log(o, "warn", why, err);
      } else if (refused(err)) {
        this.#itemRefused(o, err);
      } else {
        o.sent++;
        this.pending.push(o);
        all = false;
      }
    }
    return all;
  }

  /**
   * Drops outcomes that the node will not take any more: the job runs again when
   * its lease has ended there.
   */
  giveUp(now) {
    const late = (o) => now >= o.giveUp || (this.#shift.stopping && this.#shift.lastCall(now));
    this.pending = this.pending.filter((o) => {
      const drop = o.sent > 0 && late(o);
      if (drop) this.#log(o, "error", "the outcome of the run could not be reported; the job runs again", undefined);
      return !drop;
    });
  }

  #log(o, level, message, err) {
    this.#shift.log(level, message, { job: o.job.id, queue: o.job.queue, run: o.job.run, ...(err && { err }) });
  }
}
