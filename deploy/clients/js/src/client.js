import { errorOf, temporary } from "./errors.js";
import { newKey } from "./key.js";
import { maxWaitMs } from "./limits.js";
import { Nodes } from "./nodes.js";
import { Resend } from "./resend.js";
import { Transport } from "./transport.js";

const maxAnswerJob = 8 << 20; // bytes of one claimed job: a payload of 1 MiB, escaped at worst

/** Calls a node, or the primary among several. */
export class Client {
  #nodes;
  #transport;
  #resend = new Resend();

  constructor(urls, options = {}) {
    this.#nodes = new Nodes(urls);
    this.#transport = new Transport(this.#nodes, options);
    this.usesOwnFetch = options.fetch !== undefined;
  }

  /** The address of the node that the next call goes to. */
  get url() {
    return this.#nodes.current;
  }

  async enqueue(specs, options = {}) {
    if (Array.isArray(specs)) return this.#enqueue(specs, options);
    return (await this.#enqueue([specs], options))[0];
  }

  async #enqueue(given, options) {
    if (given.length === 0) return [];
    const made = given.map((spec) => !spec.idempotency_key);
    const specs = given.map((spec) => (spec.idempotency_key ? spec : { ...spec, idempotency_key: newKey() }));
    // As text: what the caller does with its objects later is not sent again.
    const text = JSON.stringify(specs);
    const jobs = await this.#enqueueOnce(specs, options);
    this.#resend.enqueued(JSON.parse(text), text.length);
    // Nobody else has a key that was made here: what it found is the job of an
    // earlier try of this very call.
    return jobs.map((job, i) => (made[i] ? { ...job, duplicate: false } : job));
  }

  async #enqueueOnce(specs, options) {
    // The single form names a wrong field without "jobs[0]" in front.
    const single = specs.length === 1;
    const answer = await this.#call({ method: "POST", path: "/v1/jobs", body: single ? specs[0] : specs, repeatable: true }, options);
    const jobs = single ? [answer] : answer.jobs;
    if (jobs?.length !== specs.length) throw new Error(`enqueue: ${specs.length} jobs were sent, ${jobs?.length} answered`);
    return jobs;
  }

  async claim(request, options = {}) {
    const req = typeof request === "string" ? { queues: [request] } : request;
    const limit = (Math.max(req.max ?? 1, 1) + 1) * maxAnswerJob;
    const claims = await this.#call({ method: "POST", path: "/v1/claims", body: req, waitMs: req.wait_ms ?? 0, limit }, options);
    for (const kind of ["acks", "fails"]) {
      const sent = req[kind]?.length ?? 0;
      const results = checked(kind, claims[kind] ?? [], sent);
      if (sent > 0) claims[kind] = results;
    }
    return claims;
  }

  ack(acks, options) {
    return this.#settle("acks", acks, options);
  }

  fail(fails, options) {
    return this.#settle("fails", fails, options);
  }

  release(releases, options) {
    return this.#settle("releases", releases, options);
  }

  snooze(snoozes, options) {
    return this.#settle("snoozes", snoozes, options);
  }

  extend(extends_, options) {
    return this.#settle("extends", extends_, options, true);
  }

  // An array gets a result for each item. A single item is answered by its
  // result, or fails by its error.
  async #settle(kind, items, options, repeatable = false) {
    if (!Array.isArray(items)) {
      const [result] = await this.#settle(kind, [typeof items === "string" ? { lease: items } : items], options, repeatable);
      if (result.error) throw result.error;
      return result;
    }
    if (items.length === 0) return [];
    const { results } = await this.#call({ method: "POST", path: `/v1/${kind}`, body: { [kind]: items }, repeatable }, options);
    return checked(kind, results, items.length);
  }

  job(id, options) {
    return this.#call({ method: "GET", path: jobPath(id), repeatable: true }, options);
  }

  async wait(id, ms, options) {
    for (const end = performance.now() + ms; ; ) {
      const began = performance.now();
      const waitMs = Math.floor(Math.min(Math.max(end - began, 0), maxWaitMs));
      const query = new URLSearchParams({ wait_ms: waitMs });
      const job = await this.#call({ method: "GET", path: jobPath(id), query, waitMs, repeatable: true }, options);
      // A node that stops answers at once, and is not to be asked in a tight loop.
      if (ended(job) || waitMs < maxWaitMs || performance.now() - began < maxWaitMs / 2) return job;
    }
  }

  retry(id, payload, options) {
    return this.#call({ method: "POST", path: jobPath(id, "/retry"), body: payload === undefined ? {} : { payload } }, options);
  }

  cancel(id, options) {
    return this.#call({ method: "POST", path: jobPath(id, "/cancel") }, options);
  }

  archive(id, options) {
    return this.#call({ method: "POST", path: jobPath(id, "/archive") }, options);
  }

  async delete(id, options) {
    await this.#call({ method: "DELETE", path: jobPath(id) }, options);
  }

  jobs(filter = {}, options) {
    return this.#call({ method: "GET", path: "/v1/jobs", query: queryOf(filter), repeatable: true }, options);
  }

  async *pages(filter = {}, options) {
    for (let after = filter.after; ; ) {
      const page = await this.jobs({ ...filter, after }, options);
      // A page may be empty before the end.
      if (page.jobs.length > 0) yield page.jobs;
      if (!page.next) return;
      after = page.next;
    }
  }

  async queues(options) {
    return (await this.#call({ method: "GET", path: "/v1/queues", repeatable: true }, options)).queues;
  }

  queue(name, options) {
    return this.#call({ method: "GET", path: queuePath(name), repeatable: true }, options);
  }

  updateQueue(name, patch, options) {
    return this.#call({ method: "PATCH", path: queuePath(name), body: patch, repeatable: true }, options);
  }

  pause(name, options) {
    return this.#call({ method: "POST", path: queuePath(name, "/pause"), repeatable: true }, options);
  }

  resume(name, options) {
    return this.#call({ method: "POST", path: queuePath(name, "/resume"), repeatable: true }, options);
  }

  async throughput(name, sinceMs, options) {
    const query = new URLSearchParams({ since_ms: Math.floor(Number(sinceMs)) });
    return (await this.#call({ method: "GET", path: queuePath(name, "/throughput"), query, repeatable: true }, options)).minutes;
  }

  deadGroups(filter = {}, options) {
    return this.#call({ method: "GET", path: "/v1/dead/groups", query: queryOf(filter), repeatable: true }, options);
  }

  retryDead(request, options) {
    return this.#call({ method: "POST", path: "/v1/dead/retry", body: request }, options);
  }

  archiveDead(request, options) {
    return this.#call({ method: "POST", path: "/v1/dead/archive", body: request }, options);
  }

  health(queue, options) {
    const query = new URLSearchParams(queue ? { queue } : {});
    return this.#call({ method: "GET", path: "/v1/health", query, repeatable: true }, options);
  }

  replication(options) {
    return this.#call({ method: "GET", path: "/v1/replication", repeatable: true }, options);
  }

  node(options) {
    return this.#call({ method: "GET", path: "/v1/node", repeatable: true }, options);
  }

  ready(options) {
    return this.#call({ method: "GET", path: "/readyz", accept: 503, repeatable: true }, options);
  }

  version(options) {
    return this.#call({ method: "GET", path: "/version", repeatable: true }, options);
  }

  #call(call, options) {
    const again = (specs) => this.#enqueueOnce(specs, { tries: 1 });
    const after = (headers) => this.#resend.answered(headers, again, temporary);
    return this.#transport.call({ ...call, after }, options);
  }
}

/** The conditions that a filter has. */
function queryOf(filter) {
  return new URLSearchParams(Object.entries(filter).filter(([, value]) => value !== undefined && value !== "" && value !== false));
}

/** Whether a job is done, dead or cancelled. */
function ended(job) {
  return job.state === "done" || job.state === "dead" || job.state === "cancelled";
}

// The results of a batch, with errors that can be thrown.
function checked(kind, results, sent) {
  if (results?.length !== sent) throw new Error(`${kind}: ${sent} were sent, ${results?.length} answered`);
  return results.map((r) => {
    if (r.ok) return r;
    return { ...r, error: errorOf(r.error ?? { code: "internal", message: "the node gave no reason" }) };
  });
}

function jobPath(id, action = "") {
  return `/v1/jobs/${encodeURIComponent(id)}${action}`;
}

function queuePath(name, action = "") {
  return `/v1/queues/${encodeURIComponent(name)}${action}`;
}
