/** An error answer of the node. */
export class HoldfastError extends Error {
  constructor(message, { code = "", status = 0, retryAfterMs = 0 } = {}) {
    super(message);
    this.name = new.target.name;
    this.code = code;
    this.status = status; // of the HTTP answer; 0 for an item of a batch
    this.retryAfterMs = retryAfterMs;
  }
}

export class Invalid extends HoldfastError {}
export class ReplicatedUnavailable extends HoldfastError {}
export class Unauthorized extends HoldfastError {}
export class Forbidden extends HoldfastError {}
export class NotFound extends HoldfastError {}
export class MethodNotAllowed extends HoldfastError {}
export class LeaseLost extends HoldfastError {}
export class IdempotencyConflict extends HoldfastError {}
export class WrongState extends HoldfastError {}
export class Exists extends HoldfastError {}
export class TooLarge extends HoldfastError {}
export class QueueFull extends HoldfastError {}
export class RateLimited extends HoldfastError {}
export class Internal extends HoldfastError {}
export class UnknownOutcome extends HoldfastError {}
export class Unavailable extends HoldfastError {}
export class NotPrimary extends HoldfastError {}
export class ReplicationBehind extends HoldfastError {}
export class Stale extends HoldfastError {}
export class DiskFull extends HoldfastError {}

const byCode = {
  invalid: Invalid,
  replicated_unavailable: ReplicatedUnavailable,
  unauthorized: Unauthorized,
  forbidden: Forbidden,
  not_found: NotFound,
  method_not_allowed: MethodNotAllowed,
  lease_lost: LeaseLost,
  idempotency_conflict: IdempotencyConflict,
  wrong_state: WrongState,
  exists: Exists,
  too_large: TooLarge,
  queue_full: QueueFull,
  rate_limited: RateLimited,
  internal: Internal,
  unknown_outcome: UnknownOutcome,
  unavailable: Unavailable,
  not_primary: NotPrimary,
  replication_behind: ReplicationBehind,
  stale: Stale,
  disk_full: DiskFull,
};

/** The error of an error body, of the class of its code. */
export function errorOf({ code, message }, { status = 0, retryAfterMs = 0 } = {}) {
  const known = Object.hasOwn(byCode, code) ? byCode[code] : HoldfastError;
  return new known(message, { code, status, retryAfterMs });
}

/** No answer came: a write may or may not have taken effect. */
export class Unreachable extends Error {
  constructor(url, cause, { sent = true } = {}) {
    super(`no answer from ${url}: ${reasonOf(cause)}`, { cause });
    this.name = "Unreachable";
    this.url = url;
    this.sent = sent; // false: there was no connection, so nothing happened
  }
}

// fetch says "fetch failed", and why in the cause; of a host with several
// addresses in the causes of the cause.
function reasonOf(err) {
  for (; err?.cause instanceof Error; err = err.cause);
  return err?.message || err?.errors?.[0]?.message || err?.code || String(err);
}

/** Whether the same call may succeed later without a change. */
export function temporary(err) {
  if (err instanceof Unreachable) return true;
  if (!(err instanceof HoldfastError)) return false;
  if (["unavailable", "unknown_outcome", "not_primary", "replication_behind", "stale"].includes(err.code)) return true;
  // A proxy in front of the node answers with one of these and no code of ours.
  return [502, 503, 504].includes(err.status);
}

/** Whether a call that failed so has surely done nothing. */
export function undone(err) {
  if (err instanceof Unreachable) return !err.sent;
  return err instanceof HoldfastError && ["unavailable", "not_primary", "replication_behind"].includes(err.code);
}

/** Whether err is an answer that will be the same each time. */
export function refused(err) {
  if (!(err instanceof HoldfastError)) return false;
  if (err.status === 0) return ["invalid", "not_found", "too_large"].includes(err.code);
  return err.status >= 400 && err.status < 500 && ![408, 409, 425, 429].includes(err.status);
}

// What a handler throws, or finds as the reason of its signal.

/** A failure that no further attempt can mend: the job is dead at once. */
export class Fatal extends Error {
  constructor(reason) {
    super(textOf(reason), { cause: reason });
    this.name = "Fatal";
  }
}

/** A failure whose next attempt is in ms, in the place of the back-off. */
export class Later extends Error {
  constructor(ms, reason) {
    super(textOf(reason), { cause: reason });
    this.name = "Later";
    this.ms = ms;
  }
}

/** No failure: the job comes back in ms, and its run costs no attempt. */
export class Snooze extends Error {
  constructor(ms) {
    super(`put off for ${ms} ms`);
    this.name = "Snooze";
    this.ms = ms;
  }
}

function textOf(reason) {
  return reason instanceof Error ? reason.message : String(reason ?? "");
}

/** The reason of a run's signal when somebody cancelled the job. */
export class Cancelled extends Error {
  constructor() {
    super("the job was cancelled");
    this.name = "Cancelled";
  }
}

/** The reason of a run's signal when the run took longer than the job allows. */
export class TimedOut extends Error {
  constructor(ms) {
    super(`the run took longer than the job's timeout (${ms} ms)`);
    this.name = "TimedOut";
  }
}

/** The reason of a run's signal when the worker stops and its grace is over. */
export class Stopped extends Error {
  constructor() {
    super("the worker stops");
    this.name = "Stopped";
  }
}
