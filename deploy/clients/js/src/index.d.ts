// The names and values are those of the HTTP API: times and durations whose
// names end in _ms are integers of milliseconds, ids are strings.

/** Any JSON value. */
export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json | undefined };

export type State = "scheduled" | "queued" | "running" | "done" | "dead" | "cancelled";
export type Durability = "local" | "replicated";

/** A job as a producer hands it in. Only queue is required. */
export interface Spec {
  queue: string;
  type?: string;
  /** Up to 1 MiB. */
  payload?: unknown;
  priority?: number;
  run_at_ms?: number;
  delay_ms?: number;
  max_attempts?: number;
  timeout_ms?: number;
  backoff?: Backoff;
  /** Makes at most one job. The client makes one where there is none. */
  idempotency_key?: string;
  tags?: Record<string, string>;
  expires_at_ms?: number;
  durability?: Durability;
  /** Of W3C Trace Context; handed on with the claim. */
  traceparent?: string;
}

/** How long a failed job waits. */
export type Backoff =
  | { kind: "exponential" | "quadratic"; base_ms?: number; max_ms?: number }
  | { kind: "fixed"; base_ms?: number }
  | { kind: "list"; delays_ms: number[] };

export interface Enqueued {
  id: string;
  queue: string;
  type: string;
  state: State;
  duplicate: boolean;
  run_at_ms: number;
  created_at_ms: number;
}

export interface ClaimRequest {
  /** In this order of preference. */
  queues: readonly string[];
  worker?: string;
  max?: number;
  wait_ms?: number;
  lease_ms?: number;
  /** Settled first, in the same commit. */
  acks?: readonly Ack[];
  fails?: readonly Fail[];
}

export interface Claims {
  jobs: Claimed[];
  acks?: Result[];
  fails?: Result[];
  /** The node stops: it hands out no job, and ended the wait. */
  stopping?: boolean;
}

/** A job in the hands of a worker. */
export interface Claimed<Payload = any> {
  id: string;
  queue: string;
  type: string;
  payload: Payload;
  priority: number;
  run: number;
  attempt: number;
  max_attempts: number;
  timeout_ms: number;
  tags?: Record<string, string>;
  run_at_ms: number;
  created_at_ms: number;
  traceparent?: string;
  lease: string;
  lease_until_ms: number;
}

export interface Ack {
  lease: string;
  /** Any JSON value up to 64 KiB. */
  result?: unknown;
}

export interface Fail {
  lease: string;
  error?: string;
  /** In the place of the job's back-off. */
  retry_in_ms?: number;
  /** No further attempt: the job is dead. */
  fatal?: boolean;
}

export interface Release {
  lease: string;
}

export interface Snoozing {
  lease: string;
  delay_ms: number;
}

export interface Extend {
  lease: string;
  lease_ms?: number;
  /** Any JSON value up to 64 KiB. */
  progress?: unknown;
}

/** What became of one item of a batch. */
export interface Result {
  /** The job that the lease names; absent when it names none, which is an error. */
  id?: string;
  ok: boolean;
  state?: State;
  run_at_ms?: number;
  lease_until_ms?: number;
  /** The job's cancellation was asked for. */
  cancel?: boolean;
  /** Why it failed, such as a LeaseLost. */
  error?: HoldfastError;
}

/** A job as it stands. Times that have not come are null. */
export interface Job<Payload = any> {
  id: string;
  queue: string;
  type: string;
  state: State;
  priority: number;
  payload?: Payload;
  run: number;
  attempt: number;
  max_attempts: number;
  failures: number;
  crashes: number;
  interruptions: number;
  timeout_ms: number;
  backoff?: Backoff;
  locked_by: string;
  cancel_requested: boolean;
  last_error: string | null;
  error_fp?: string;
  result?: any;
  progress?: any;
  tags?: Record<string, string>;
  run_at_ms: number;
  created_at_ms: number;
  started_at_ms: number | null;
  lease_until_ms: number | null;
  finished_at_ms: number | null;
  expires_at_ms: number | null;
  archived_at_ms: number | null;
  traceparent?: string;
  /** The token lacks the scope payload: payload, result and progress are left out. */
  payload_hidden?: boolean;
  /** Runs that did not end well, oldest first; not in lists. */
  runs?: JobRun[];
}

export interface JobRun {
  run: number;
  started_at_ms: number;
  ended_at_ms: number;
  outcome: "failed" | "timeout" | "crashed" | "interrupted" | "cancelled";
  worker: string;
  error: string;
}

export interface Filter {
  queue?: string;
  state?: State;
  type?: string;
  /** name, or name:value */
  tag?: string;
  /** A fingerprint, as in error_fp. */
  error?: string;
  /** next of the page before. */
  after?: string;
  /** Of a page; 100 when absent. */
  limit?: number;
  payload?: boolean;
  archived?: boolean;
}

export interface Jobs {
  jobs: Job[];
  /** The after of the next page; null at the end. A page may be short, even empty, before it. */
  next: string | null;
}

export interface Counts {
  scheduled: number;
  queued: number;
  running: number;
  done: number;
  dead: number;
  cancelled: number;
}

export type EndState = "done" | "dead" | "cancelled";

export interface Queue {
  name: string;
  paused: boolean;
  counts: Counts;
  oldest_queued_at_ms: number | null;
  /** In a list those that differ from the default; of one queue all. */
  settings?: QueueSettings;
  /** Of one queue: those that differ from the default. */
  own_settings?: QueueSettings;
}

export interface QueueSettings {
  max_attempts?: number;
  timeout_ms?: number;
  lease_ms?: number;
  backoff?: Backoff;
  durability?: Durability;
  max_depth?: number;
  retention_ms?: Partial<Record<EndState, number>>;
  keep_last?: Partial<Record<EndState, number>>;
}

/** What is absent stays as it is; null goes back to the default. */
export interface QueuePatch {
  /** Make the queue if it is not there. */
  create?: boolean;
  max_attempts?: number | null;
  timeout_ms?: number | null;
  lease_ms?: number | null;
  backoff?: Backoff | null;
  durability?: Durability | null;
  max_depth?: number | null;
  /** -1: for ever */
  retention_ms?: Partial<Record<EndState, number | null>>;
  keep_last?: Partial<Record<EndState, number | null>>;
}

export interface Minute {
  at_ms: number;
  enqueued: number;
  done: number;
  failed: number;
  dead: number;
}

/** Selects dead jobs; an absent condition selects any. */
export interface DeadFilter {
  queue?: string;
  type?: string;
  tag?: string;
  /** A fingerprint, as in error_fp. */
  error?: string;
  since_ms?: number;
  before_ms?: number;
}

export interface DeadRequest extends DeadFilter {
  /** Count and change nothing. */
  dry_run?: boolean;
  /** Jobs that a step changes, 1 to 1000. */
  limit?: number;
  /** next of the step before. */
  after?: string;
}

export interface DeadStep {
  count: number;
  next: string | null;
}

export interface DeadGroups {
  /** Those with the most jobs first. */
  groups: DeadGroup[];
  /** Groups in all, also those beyond the limit. */
  kinds: number;
  /** Jobs in all of them. */
  total: number;
  /** There are too many to look at all: the numbers are the least that they can be. */
  partial: boolean;
}

/** Dead jobs of a queue whose errors are of one kind. */
export interface DeadGroup {
  queue: string;
  /** The error of a request that retries them; absent: they have no error. */
  error_fp?: string;
  jobs: number;
  /** The one that was enqueued last, without payload, result and progress. */
  sample: Job;
}

export interface Health {
  queues: QueueHealth[];
  replication: { epoch: number; seq: number; replicated_seq: number | null; lag_ms: number | null };
}

export interface QueueHealth extends Counts {
  name: string;
  paused: boolean;
  oldest_queued_at_ms: number | null;
  last_error: string | null;
  last_error_at_ms: number | null;
}

export interface ReplicationStatus {
  url: string;
  epoch: number;
  seq: number;
  replicated_seq: number | null;
  txid: string;
  lag_ms: number;
  last_error: string | null;
  [more: string]: unknown;
}

export interface NodeStatus {
  node: string;
  role: "primary" | "standby" | (string & {});
  session: string;
  epoch: number;
  url: string;
}

export interface Ready {
  ready: boolean;
  reasons?: string[];
  warnings?: string[];
}

export interface Version {
  version: string;
  commit: string;
  go: string;
  sqlite: string;
  schema: number;
}

export interface ClientOptions {
  /** Sent as a bearer token. */
  token?: string;
  /** For an answer, on top of the wait that a call asks for; 30 s when absent. */
  timeoutMs?: number;
  /** In the place of the global one. A worker that stops then hangs up on its claim, and a job that it is given just then waits for the end of its lease. */
  fetch?: typeof fetch;
}

export interface CallOptions {
  /** Ends the call, which rejects with the signal's reason. */
  signal?: AbortSignal;
  /** How often the call is sent at most while that is safe; 5 when absent. */
  tries?: number;
}

/** Calls a node, or the primary among several. */
export class Client {
  /** One URL such as http://127.0.0.1:7780, several in an array, or separated by commas. */
  constructor(urls: string | readonly string[], options?: ClientOptions);

  /** The address of the node that the next call goes to. */
  readonly url: string;

  /**
   * Adds jobs, all or none. A request whose answer was lost is sent again: each
   * job has an idempotency key, so that it is made once.
   */
  enqueue(spec: Spec, options?: CallOptions): Promise<Enqueued>;
  enqueue(specs: readonly Spec[], options?: CallOptions): Promise<Enqueued[]>;

  /** Asks for jobs, from a queue or as the request says. No job is no error. */
  claim(request: string | ClaimRequest, options?: CallOptions): Promise<Claims>;

  /** A lease or an item alone rejects by its error; an array gets a Result for each item. */
  ack(ack: string | Ack, options?: CallOptions): Promise<Result>;
  ack(acks: readonly Ack[], options?: CallOptions): Promise<Result[]>;
  fail(fail: Fail, options?: CallOptions): Promise<Result>;
  fail(fails: readonly Fail[], options?: CallOptions): Promise<Result[]>;
  /** Gives jobs back without costing them an attempt. */
  release(release: string | Release, options?: CallOptions): Promise<Result>;
  release(releases: readonly Release[], options?: CallOptions): Promise<Result[]>;
  /** Puts jobs off without costing them an attempt. */
  snooze(snooze: Snoozing, options?: CallOptions): Promise<Result>;
  snooze(snoozes: readonly Snoozing[], options?: CallOptions): Promise<Result[]>;
  extend(extend: string | Extend, options?: CallOptions): Promise<Result>;
  extend(extends_: readonly Extend[], options?: CallOptions): Promise<Result[]>;

  /** A job with its payload and the runs that did not end well. */
  job(id: string, options?: CallOptions): Promise<Job>;
  /** A job when it is done, dead or cancelled, or as it is after ms. */
  wait(id: string, ms: number, options?: CallOptions): Promise<Job>;
  /** Makes a dead job claimable again; a payload takes the place of the job's. */
  retry(id: string, payload?: unknown, options?: CallOptions): Promise<Job>;
  /** Cancels a job: at once unless it runs, else its worker is told. */
  cancel(id: string, options?: CallOptions): Promise<Job>;
  archive(id: string, options?: CallOptions): Promise<Job>;
  delete(id: string, options?: CallOptions): Promise<void>;

  /** A page of jobs. */
  jobs(filter?: Filter, options?: CallOptions): Promise<Jobs>;
  /** All pages from filter.after on, none of them empty. */
  pages(filter?: Filter, options?: CallOptions): AsyncGenerator<Job[], void, void>;

  queues(options?: CallOptions): Promise<Queue[]>;
  queue(name: string, options?: CallOptions): Promise<Queue>;
  updateQueue(name: string, patch: QueuePatch, options?: CallOptions): Promise<Queue>;
  pause(queue: string, options?: CallOptions): Promise<Queue>;
  resume(queue: string, options?: CallOptions): Promise<Queue>;
  throughput(queue: string, since: number | Date, options?: CallOptions): Promise<Minute[]>;

  /** Dead jobs by queue and kind of error, up to limit groups (100). */
  deadGroups(filter?: DeadFilter & { limit?: number }, options?: CallOptions): Promise<DeadGroups>;
  /** One step of retrying the dead jobs that the request selects. */
  retryDead(request: DeadRequest, options?: CallOptions): Promise<DeadStep>;
  archiveDead(request: DeadRequest, options?: CallOptions): Promise<DeadStep>;

  /** The numbers of all queues, or of one. */
  health(queue?: string, options?: CallOptions): Promise<Health>;
  replication(options?: CallOptions): Promise<ReplicationStatus>;
  node(options?: CallOptions): Promise<NodeStatus>;
  /** Whether the node serves; one that answers that it does not is no error. */
  ready(options?: CallOptions): Promise<Ready>;
  version(options?: CallOptions): Promise<Version>;
}

/** What a handler has of its run, besides the job. */
export interface Run {
  /**
   * Fires when the run is not wanted any more; its reason is a LeaseLost,
   * Cancelled, TimedOut or Stopped.
   */
  readonly signal: AbortSignal;
  /**
   * Reports how the run gets on, which others see as the job's progress: about
   * once a second the latest value is sent. Any JSON value up to 64 KiB.
   */
  progress(value: unknown): void;
}

/** Runs a job. What it returns is the job's result; what it throws its failure. */
export type Handler<Payload = any> = (job: Claimed<Payload>, run: Run) => unknown;

/** Such as console. */
export interface Logger {
  info(message: string, fields: Record<string, unknown>): void;
  warn(message: string, fields: Record<string, unknown>): void;
  error(message: string, fields: Record<string, unknown>): void;
}

export interface WorkerOptions {
  /** In this order of preference. */
  queues: readonly string[];
  /** By the type of the job. */
  handlers?: Record<string, Handler>;
  /** For every other type; without it such a job fails. */
  default?: Handler;
  /** Handlers at a time; 1 when absent. */
  concurrency?: number;
  /** Jobs that are held for the next free handler, on top; 0 when absent. */
  prefetch?: number;
  /** How long a job outlives a worker that is gone; 30 s when absent. */
  leaseMs?: number;
  /** How long handlers may go on after stop; 30 s when absent. */
  graceMs?: number;
  /** Unique to the process; made when absent. */
  name?: string;
  /** Nothing is logged when absent. */
  logger?: Logger;
}

/** Claims jobs and runs their handlers. Not in browsers. */
export class Worker {
  constructor(client: Client, options: WorkerOptions);
  readonly name: string;
  /**
   * Works until stop, or until the signal fires. Fulfilled when every handler
   * has returned and was reported; rejected when the node refuses the claims.
   */
  run(options?: { signal?: AbortSignal }): Promise<void>;
  /** Begins the end of run: no new jobs, and a grace for those that run. */
  stop(): void;
  /** Ends run without the grace: handlers are told, and their jobs given back. */
  stopNow(): void;
}

/** A name for a worker of this process, host:pid:random. Not in browsers. */
export function workerName(): string;

/** An error answer of the node. */
export class HoldfastError extends Error {
  readonly code: string;
  /** Of the HTTP answer; 0 for an item of a batch. */
  readonly status: number;
  readonly retryAfterMs: number;
}
/** 400: the request is wrong; the message says where. */
export class Invalid extends HoldfastError {}
/** 400: this node cannot give durability "replicated". */
export class ReplicatedUnavailable extends HoldfastError {}
/** 401: the token is missing, unknown, revoked or expired. */
export class Unauthorized extends HoldfastError {}
/** 403: the token lacks a scope or the queue. */
export class Forbidden extends HoldfastError {}
/** 404: no such job, queue or path. */
export class NotFound extends HoldfastError {}
/** 405 */
export class MethodNotAllowed extends HoldfastError {}
/** 409: the lease is not that of the job's present run. */
export class LeaseLost extends HoldfastError {}
/** 409: the key belongs to a job with another body. */
export class IdempotencyConflict extends HoldfastError {}
/** 409: the job's state does not allow it. */
export class WrongState extends HoldfastError {}
/** 409: there is one of this name. */
export class Exists extends HoldfastError {}
/** 413: a payload, result or body is over its limit. */
export class TooLarge extends HoldfastError {}
/** 429: the queue has as many waiting jobs as its max_depth. */
export class QueueFull extends HoldfastError {}
/** 429: too many wrong access tokens from one address. */
export class RateLimited extends HoldfastError {}
/** 500: a fault of the node; its log says more. */
export class Internal extends HoldfastError {}
/** 503: it may or may not have taken effect. */
export class UnknownOutcome extends HoldfastError {}
/** 503: the node is starting or stopping. */
export class Unavailable extends HoldfastError {}
/** 503: another node is the primary, and it is not known where. */
export class NotPrimary extends HoldfastError {}
/** 503: too much is on the node's own disk only. */
export class ReplicationBehind extends HoldfastError {}
/** 503: what the edge has is older than the request allows. */
export class Stale extends HoldfastError {}
/** 507: no new jobs until space is free. */
export class DiskFull extends HoldfastError {}

/** No answer came: a write may or may not have taken effect. */
export class Unreachable extends Error {
  readonly url: string;
  /** False: there was no connection, so nothing happened. */
  readonly sent: boolean;
}

/** Whether the same call may succeed later without a change. */
export function temporary(err: unknown): boolean;

/** Thrown by a handler: no further attempt can mend it, the job is dead at once. */
export class Fatal extends Error {
  constructor(reason: unknown);
}
/** Thrown by a handler: a failure whose next attempt is in ms, in the place of the back-off. */
export class Later extends Error {
  constructor(ms: number, reason: unknown);
  readonly ms: number;
}
/** Thrown by a handler: no failure; the job comes back in ms and the run costs no attempt. */
export class Snooze extends Error {
  constructor(ms: number);
  readonly ms: number;
}

/** The reason of a run's signal when somebody cancelled the job. */
export class Cancelled extends Error {}
/** The reason of a run's signal when the run took longer than the job allows. */
export class TimedOut extends Error {}
/** The reason of a run's signal when the worker stops and its grace is over. */
export class Stopped extends Error {}
