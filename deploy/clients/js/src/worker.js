import os from "node:os";

import { hex } from "./key.js";
import { maxItems, maxLeaseMs, maxName, maxQueues, minLeaseMs } from "./limits.js";
import { Shift } from "./shift.js";

/** A name for a worker of this process, host:pid:random. */
export function workerName() {
  // The random part keeps two containers apart that share a host name and a pid.
  return `${os.hostname().slice(0, 80) || "unknown"}:${process.pid}:${hex(crypto.getRandomValues(new Uint8Array(4)))}`;
}

/** Claims jobs and runs their handlers. */
export class Worker {
  #source;
  #options;
  #stopping = new AbortController();
  #hurrying = new AbortController();

  constructor(source, options) {
    const problems = validate(options);
    if (problems.length > 0) throw new TypeError(`worker: ${problems.join("; ")}`);
    this.#source = source;
    this.#options = {
      queues: options.queues,
      handlers: new Map(Object.entries(options.handlers ?? {})),
      default: options.default,
      concurrency: options.concurrency ?? 1,
      prefetch: options.prefetch ?? 0,
      leaseMs: options.leaseMs ?? 30_000,
      graceMs: Math.max(options.graceMs ?? 30_000, 0),
      name: options.name || workerName(),
      logger: options.logger,
    };
  }

  get name() {
    return this.#options.name;
  }

  /**
   * Works until stop, or until the signal fires. The promise is fulfilled when
   * every handler has returned and was reported, and rejected when the node
   * refuses the worker's claims as wrong.
   */
  async run({ signal } = {}) {
    const stop = () => this.stop();
    if (signal?.aborted) stop();
    signal?.addEventListener("abort", stop, { once: true });
    try {
      await new Shift(this.#source, this.#options, this.#stopping.signal, this.#hurrying.signal).run();
    } finally {
      signal?.removeEventListener("abort", stop);
    }
  }

  /** Begins the end of run: no new jobs, and a grace for those that run. */
  stop() {
    this.#stopping.abort();
  }

  /** Ends run without the grace: handlers are told, and their jobs given back. */
  stopNow() {
    this.#hurrying.abort();
  }
}

function validate(o) {
  const problems = [];
  const add = (wrong, text) => wrong && problems.push(text);
  const between = (n, low, high) => Number.isInteger(n) && n >= low && n <= high;
  const queues = o?.queues;
  if (!Array.isArray(queues) || queues.length === 0) {
    problems.push("no queue to work on");
  } else {
    add(queues.length > maxQueues, `${queues.length} queues are more than ${maxQueues}`);
    for (const [i, queue] of queues.entries()) {
      add(!validName(queue), wrongName("queue", queue));
      add(queues.indexOf(queue) < i, `queue ${JSON.stringify(queue)} is named twice`);
    }
  }
  const handlers = Object.entries(o?.handlers ?? {});
  add(handlers.length === 0 && !o?.default, "no handler");
  for (const [type, handler] of handlers) {
    add(!validName(type), wrongName("type", type));
    add(typeof handler !== "function", `the handler for type ${JSON.stringify(type)} is no function`);
  }
  add(o?.default !== undefined && typeof o.default !== "function", "the default handler is no function");
  const { concurrency = 1, prefetch = 0, leaseMs = minLeaseMs, graceMs = 0 } = o ?? {};
  add(!between(concurrency, 1, maxItems), `concurrency ${concurrency} is not between 1 and ${maxItems}`);
  add(!between(prefetch, 0, maxItems - concurrency), `prefetch ${prefetch} is not between 0 and ${maxItems} less the concurrency`);
  add(!between(leaseMs, minLeaseMs, maxLeaseMs), `a lease of ${leaseMs} ms is not between ${minLeaseMs} and ${maxLeaseMs}`);
  add(typeof graceMs !== "number" || Number.isNaN(graceMs), `the grace ${graceMs} is no number of ms`);
  return problems;
}

function validName(name) {
  return typeof name === "string" && name.length <= maxName && /^[A-Za-z0-9_][A-Za-z0-9_.:-]*$/.test(name);
}

function wrongName(what, name) {
  return `${what} ${JSON.stringify(String(name).slice(0, maxName))}: use letters, digits and . _ : - and begin with a letter or digit, at most ${maxName} bytes`;
}
