import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { test } from "node:test";

import { Cancelled, Client, Fatal, Later, LeaseLost, Snooze, Stopped, TimedOut, Worker } from "holdfast-client";
import { eventually, fake, newQueue, url } from "./setup.js";

const client = new Client(url);

/** A worker that runs until the test ends, or end is called. */
function start(t, queue, options, c = client) {
  const worker = new Worker(c, { queues: [queue], graceMs: 20_000, ...options });
  const running = worker.run();
  const end = async () => {
    const began = performance.now();
    worker.stop();
    await running;
    return performance.now() - began;
  };
  t.after(() => {
    worker.stopNow();
    return running.catch(() => {});
  });
  return { worker, running, end };
}

/** A promise, and how to fulfil it. */
function promised() {
  const p = {};
  p.promise = new Promise((resolve) => (p.resolve = resolve));
  return p;
}

test("a handler's end decides what becomes of its job", async (t) => {
  const queue = newQueue();
  const boom = () => {
    throw new RangeError("boom");
  };
  const cyclic = {};
  cyclic.self = cyclic;
  const table = {
    result: [() => ({ sent: true }), (job) => job.state === "done" && job.result.sent === true],
    nothing: [async () => {}, (job) => job.state === "done" && job.result === undefined],
    exception: [boom, (job) => job.failures === 1 && job.state === "scheduled" && /^RangeError: boom\n.*worker\.test\.js/.test(job.last_error)],
    rejection: [async () => boom(), (job) => job.failures === 1 && /boom/.test(job.last_error)],
    caused: [() => Promise.reject(new Error("outer", { cause: new Error("inner") })), (job) => /^Error: outer[^]*caused by: Error: inner/.test(job.last_error)],
    string: [() => Promise.reject("just words"), (job) => job.last_error === "just words"],
    fatal: [() => Promise.reject(new Fatal("no such user")), (job) => job.state === "dead" && job.last_error === "no such user"],
    fatalError: [() => Promise.reject(new Fatal(new Error("why"))), (job) => job.state === "dead" && /^Error: why\n/.test(job.last_error)],
    later: [() => Promise.reject(new Later(3600_000, "busy")), (job) => job.failures === 1 && job.run_at_ms > Date.now() + 3000_000 && job.last_error === "busy"],
    snooze: [() => Promise.reject(new Snooze(3600_000)), (job) => job.failures === 0 && job.state === "scheduled" && job.run_at_ms > Date.now() + 3000_000],
    cyclic: [() => cyclic, (job) => job.failures === 1 && /result is no JSON value/.test(job.last_error)],
    large: [() => "x".repeat(1 << 17), (job) => job.failures === 1 && /131074 bytes/.test(job.last_error)],
    unknown: [null, (job) => job.failures === 1 && /unknown job type "unknown"/.test(job.last_error)],
  };
  const handlers = Object.fromEntries(Object.entries(table).flatMap(([type, [handler]]) => (handler ? [[type, handler]] : [])));
  const made = await client.enqueue(Object.keys(table).map((type) => ({ queue, type })));
  const { end } = start(t, queue, { handlers, concurrency: 4 });
  for (const { id, type } of made) {
    await eventually(`${type} is settled`, async () => {
      const job = await client.job(id);
      return job.run === 1 && job.state !== "running";
    });
    const job = await client.job(id);
    assert.ok(table[type][1](job), `${type}: ${JSON.stringify(job)}`);
  }
  await end();
});

test("an idle worker stops at once, and jobs that come just then are not lost", async (t) => {
  for (let i = 0; i < 15; i++) {
    const queue = newQueue();
    const { end } = start(t, queue, { default: () => {} });
    await sleep(30 + Math.random() * 10);
    const made = client.enqueue({ queue });
    await sleep(Math.random() * 6);
    const took = await end();
    assert.ok(took < 10_000, `the stop took ${took} ms`);
    const { id } = await made;
    // The node may be giving it back just now.
    const job = await eventually("the job is in nobody's hands", async () => {
      const found = await client.job(id);
      return found.state !== "running" && found;
    });
    assert.deepEqual([job.crashes, job.failures], [0, 0], JSON.stringify(job));
  }
});

test("many jobs run side by side, with fewer requests than jobs", async (t) => {
  const queue = newQueue();
  await client.enqueue(Array.from({ length: 200 }, (_, n) => ({ queue, payload: n })));
  let requests = 0;
  const counting = new Client(url, { fetch: (...args) => (requests++, fetch(...args)) });
  let now = 0;
  let most = 0;
  const handler = async () => {
    most = Math.max(most, ++now);
    await sleep(1);
    now--;
  };
  const { end } = start(t, queue, { default: handler, concurrency: 20, prefetch: 10 }, counting);
  await eventually("all are done", async () => (await client.queue(queue)).counts.done === 200);
  await end();
  assert.ok(most > 1 && most <= 20, `${most} at a time`);
  assert.ok(requests < 150, `${requests} requests`);
});

test("a stop lets running jobs finish and gives held ones back", async (t) => {
  const queue = newQueue();
  const begun = promised();
  const go = promised();
  const made = await client.enqueue([{ queue }, { queue }, { queue }]);
  const handler = async () => {
    begun.resolve();
    await go.promise;
    return "finished";
  };
  const { worker, running } = start(t, queue, { default: handler, prefetch: 5 });
  await begun.promise;
  await eventually("all are claimed", async () => (await client.queue(queue)).counts.running === 3);
  worker.stop();
  await eventually("the held ones are given back", async () => (await client.queue(queue)).counts.queued === 2);
  go.resolve();
  await running;
  const jobs = await Promise.all(made.map(({ id }) => client.job(id)));
  assert.deepEqual(jobs.map((job) => job.state).sort(), ["done", "queued", "queued"]);
  assert.deepEqual(jobs.map((job) => job.attempt), [1, 1, 1]);
});

test("after the grace a run is told to stop, and given back", async (t) => {
  const queue = newQueue();
  const { id } = await client.enqueue({ queue });
  const begun = promised();
  let reason;
  const handler = (job, { signal }) =>
    new Promise((_, reject) => {
      signal.addEventListener("abort", () => {
        reason = signal.reason;
        reject(signal.reason);
      });
      begun.resolve();
    });
  const { end } = start(t, queue, { default: handler, graceMs: 50 });
  await begun.promise;
  await end();
  assert.ok(reason instanceof Stopped);
  const job = await client.job(id);
  assert.deepEqual([job.state, job.attempt, job.interruptions], ["queued", 1, 1]);
});

/** Runs a job whose handler waits for its signal, and returns its reason. */
async function reasonOf(t, spec, meanwhile, options) {
  const queue = newQueue();
  const { id } = await client.enqueue({ queue, ...spec });
  const reason = promised();
  const handler = (job, { signal }) =>
    new Promise((_, reject) => {
      signal.addEventListener("abort", () => {
        reason.resolve(signal.reason);
        reject(signal.reason);
      });
      meanwhile(job);
    });
  const { end } = start(t, queue, { default: handler, leaseMs: 3000, ...options });
  const found = await reason.promise;
  await end();
  return [found, await client.job(id)];
}

test("a cancelled job's run is told", async (t) => {
  const [reason, job] = await reasonOf(t, {}, (job) => client.cancel(job.id));
  assert.ok(reason instanceof Cancelled);
  assert.equal(job.state, "cancelled");
});

test("a run that lost its lease is told, and what it does then changes nothing", async (t) => {
  let taken = false;
  const [reason, job] = await reasonOf(t, {}, async ({ lease }) => {
    if (taken) return;
    taken = true;
    await client.snooze({ lease, delay_ms: 3600_000 });
  });
  assert.ok(reason instanceof LeaseLost);
  assert.deepEqual([job.state, job.failures], ["scheduled", 0]);
});

test("a run that takes longer than the job allows is told and has failed", async (t) => {
  const [reason, job] = await reasonOf(t, { timeout_ms: 4000 }, () => {});
  assert.ok(reason instanceof TimedOut);
  assert.equal(job.failures, 1);
  // The second is the node's word, which comes first when this machine is slow.
  assert.match(job.last_error, /longer than the job's timeout \(4000 ms\)|^timeout after 4s/);
});

test("a job may run longer than its lease, and tells how it gets on", async (t) => {
  const queue = newQueue();
  const { id } = await client.enqueue({ queue });
  const handler = async (job, { progress }) => {
    assert.throws(() => progress("x".repeat(1 << 17)), RangeError);
    for (let n = 1; n <= 16; n++) {
      progress({ n });
      await sleep(500);
    }
  };
  start(t, queue, { default: handler, leaseMs: 3000 });
  await eventually("progress is seen", async () => (await client.job(id)).progress?.n > 1);
  const job = await client.wait(id, 60_000);
  assert.deepEqual([job.state, job.run, job.crashes], ["done", 1, 0]);
});

test("a worker outlives its node's absence, and one that is refused ends", async (t) => {
  let calls = 0;
  const node = await fake(t, ({ path }) => {
    if (++calls <= 2) return { status: 503, body: { error: { code: "unavailable", message: "starting" } } };
    if (path === "/v1/claims") return { status: 400, body: { error: { code: "invalid", message: "queues: no" } } };
  });
  const { running } = start(t, "q", { default: () => {} }, new Client(node));
  await assert.rejects(running, { code: "invalid" });
  assert.equal(calls, 3);
});

test("wrong options are told all at once", () => {
  assert.throws(
    () => new Worker(client, { queues: ["a", "a", "b/c"], concurrency: 0, leaseMs: 5 }),
    (err) => ["named twice", "b/c", "no handler", "concurrency 0", "lease of 5"].every((part) => err.message.includes(part)),
  );
});
