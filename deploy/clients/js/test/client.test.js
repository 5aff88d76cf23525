import assert from "node:assert/strict";
import { test } from "node:test";

import { Client, HoldfastError, IdempotencyConflict, Invalid, LeaseLost, NotFound, QueueFull, Unreachable, WrongState, temporary } from "holdfast-client";
import { dropping, fake, newQueue, unused, url } from "./setup.js";

const client = new Client(url);

async function all(pages) {
  const jobs = [];
  for await (const page of pages) jobs.push(...page);
  return jobs;
}

test("one job is enqueued and read back", async () => {
  const queue = newQueue();
  const made = await client.enqueue({ queue, type: "welcome", payload: { to: "ä@example.com" }, tags: { tenant: "7" } });
  assert.equal(made.state, "queued");
  assert.equal(made.duplicate, false);
  const job = await client.job(made.id);
  assert.deepEqual([job.queue, job.type, job.payload, job.tags], [queue, "welcome", { to: "ä@example.com" }, { tenant: "7" }]);
});

test("many are enqueued in their order, and none is no request", async () => {
  const queue = newQueue();
  const made = await client.enqueue([1, 2, 3].map((n) => ({ queue, payload: n })));
  const jobs = await Promise.all(made.map(({ id }) => client.job(id)));
  assert.deepEqual(jobs.map((job) => job.payload), [1, 2, 3]);
  assert.deepEqual(await client.enqueue([]), []);
});

test("a key makes one job, and another body with it is a conflict", async () => {
  const spec = { queue: newQueue(), payload: 1, idempotency_key: newQueue() };
  const first = await client.enqueue(spec);
  const second = await client.enqueue(spec);
  assert.deepEqual([second.id, second.duplicate], [first.id, true]);
  await assert.rejects(client.enqueue({ ...spec, payload: 2 }), (err) => {
    assert.ok(err instanceof IdempotencyConflict && err instanceof HoldfastError);
    assert.deepEqual([err.name, err.code, err.status], ["IdempotencyConflict", "idempotency_conflict", 409]);
    return true;
  });
});

test("what the node refuses is told by a typed error with its words", async () => {
  await assert.rejects(client.enqueue({ queue: newQueue(), delay_ms: -1 }), (err) => err instanceof Invalid && /delay_ms/.test(err.message));
  await assert.rejects(client.job("99999999"), (err) => err instanceof NotFound && err.status === 404);
});

test("an answer that was dropped and sent again makes one job", async (t) => {
  for (const size of [1, 3]) {
    const queue = newQueue();
    const proxy = await dropping(t, 2);
    const through = new Client(proxy.url);
    const made = await through.enqueue(Array.from({ length: size }, (_, n) => ({ queue, payload: n })));
    assert.equal(proxy.dropped, 2);
    assert.deepEqual(made.map((job) => job.duplicate), made.map(() => false));
    const jobs = await all(client.pages({ queue }));
    assert.deepEqual(jobs.map((job) => job.id).sort(), made.map((job) => job.id).sort());
  }
});

test("an answer that never came is not asked for again where that could do harm", async (t) => {
  const queue = newQueue();
  await client.enqueue({ queue });
  const proxy = await dropping(t, 1);
  await assert.rejects(new Client(proxy.url).claim(queue), (err) => err instanceof Unreachable && err.sent && temporary(err));
});

test("a worker's calls by hand: claim, extend, snooze, release, fail, ack", async () => {
  const queue = newQueue();
  const { id } = await client.enqueue({ queue, max_attempts: 9 });
  const claim = async () => (await client.claim({ queues: [queue], wait_ms: 30_000, worker: "w" })).jobs[0];

  let job = await claim();
  assert.deepEqual([job.id, job.run, job.attempt], [id, 1, 1]);
  const extended = await client.extend({ lease: job.lease, lease_ms: 60_000, progress: { at: 1 } });
  assert.ok(extended.ok && extended.lease_until_ms > job.lease_until_ms);
  assert.deepEqual((await client.job(id)).progress, { at: 1 });
  assert.equal((await client.release(job.lease)).state, "queued");

  job = await claim();
  assert.equal((await client.snooze({ lease: job.lease, delay_ms: 1 })).state, "scheduled");
  job = await claim();
  assert.equal((await client.fail({ lease: job.lease, error: "smtp 451", retry_in_ms: 1 })).state, "scheduled");
  job = await claim();
  assert.deepEqual([job.run, job.attempt], [4, 2]);
  assert.equal((await client.ack({ lease: job.lease, result: { pages: 3 } })).state, "done");
  assert.deepEqual((await client.job(id)).result, { pages: 3 });
});

test("a claim carries acks and fails", async () => {
  const queue = newQueue();
  await client.enqueue([{ queue }, { queue }, { queue }]);
  const { jobs } = await client.claim({ queues: [queue], max: 2 });
  const next = await client.claim({ queues: [queue], acks: [{ lease: jobs[0].lease }], fails: [{ lease: jobs[1].lease, error: "no", fatal: true }] });
  assert.deepEqual([next.jobs.length, next.acks[0].state, next.fails[0].state], [1, "done", "dead"]);
});

test("a lost lease fails alone in a batch, and rejects by itself", async () => {
  const queue = newQueue();
  await client.enqueue([{ queue }, { queue }]);
  const { jobs } = await client.claim({ queues: [queue], max: 2 });
  await client.release(jobs[0].lease);
  const [lost, good] = await client.ack(jobs.map(({ lease }) => ({ lease })));
  assert.ok(lost.error instanceof LeaseLost && good.ok);
  await assert.rejects(client.ack(jobs[0].lease), LeaseLost);
});

test("cancel, wait, retry, archive and delete", async () => {
  const queue = newQueue();
  const [a, b] = await client.enqueue([{ queue }, { queue }]);
  assert.equal((await client.cancel(a.id)).state, "cancelled");
  assert.equal((await client.wait(a.id, 30_000)).state, "cancelled");
  assert.equal((await client.wait(b.id, 10)).state, "queued");
  const { jobs } = await client.claim(queue);
  await client.fail({ lease: jobs[0].lease, error: "broken", fatal: true });
  assert.deepEqual((await client.job(b.id)).runs.map((run) => run.error), ["broken"]);
  const retried = await client.retry(b.id, { mended: true });
  assert.deepEqual([retried.state, (await client.job(b.id)).payload], ["queued", { mended: true }]);
  await assert.rejects(client.archive(b.id), WrongState);
  await client.delete(b.id);
  await assert.rejects(client.job(b.id), NotFound);
});

test("dead jobs are retried and archived in bulk", async () => {
  const queue = newQueue();
  await client.enqueue([{ queue }, { queue }, { queue }]);
  const { jobs } = await client.claim({ queues: [queue], max: 3 });
  await client.fail(jobs.map(({ lease }) => ({ lease, error: "broken", fatal: true })));
  const { groups, kinds, total, partial } = await client.deadGroups({ queue, limit: 1 });
  assert.deepEqual({ kinds, total, partial, jobs: groups[0].jobs, error: groups[0].sample.last_error }, { kinds: 1, total: 3, partial: false, jobs: 3, error: "broken" });
  assert.equal((await client.deadGroups({ queue, before_ms: 1 })).total, 0);
  assert.equal((await client.retryDead({ queue, error: groups[0].error_fp, dry_run: true })).count, 3);
  assert.equal((await client.retryDead({ queue, limit: 1 })).count, 1);
  assert.equal((await client.archiveDead({ queue })).count, 2);
  assert.deepEqual((await client.queue(queue)).counts.dead, 0);
});

test("lists come page by page", async () => {
  const queue = newQueue();
  const made = await client.enqueue(Array.from({ length: 25 }, (_, n) => ({ queue, payload: n })));
  const page = await client.jobs({ queue, limit: 10, payload: true });
  assert.equal(page.jobs.length, 10);
  assert.ok(page.next && typeof page.jobs[0].payload === "number");
  const sizes = [];
  const ids = [];
  for await (const jobs of client.pages({ queue, limit: 10 })) {
    sizes.push(jobs.length);
    ids.push(...jobs.map((job) => job.id));
  }
  assert.deepEqual(sizes, [10, 10, 5]);
  assert.deepEqual(ids.sort(), made.map((job) => job.id).sort());
});

test("a queue is paused, resumed, set and looked at", async () => {
  const queue = newQueue();
  await client.enqueue({ queue });
  assert.equal((await client.pause(queue)).paused, true);
  assert.deepEqual((await client.claim(queue)).jobs, []);
  assert.equal((await client.resume(queue)).paused, false);
  const set = await client.updateQueue(queue, { max_depth: 1, retention_ms: { done: 60_000 } });
  assert.deepEqual([set.settings.max_depth, set.settings.retention_ms.done], [1, 60_000]);
  await assert.rejects(client.enqueue({ queue }), QueueFull);
  assert.equal((await client.updateQueue(queue, { max_depth: null })).settings.max_depth, undefined);
  assert.ok((await client.queues()).some((q) => q.name === queue && q.counts.queued === 1));
  const health = await client.health(queue);
  assert.deepEqual(health.queues.map((q) => [q.name, q.queued]), [[queue, 1]]);
  assert.equal((await client.throughput(queue, Date.now() - 3600_000)).reduce((sum, minute) => sum + minute.enqueued, 0), 1);
});

test("the node says who it is", async () => {
  assert.equal((await client.ready()).ready, true);
  assert.equal((await client.node()).role, "primary");
  assert.ok((await client.version()).version);
  assert.equal(typeof (await client.replication()).seq, "number");
});

const notPrimary = (primary) => ({ status: 503, headers: { "Holdfast-Primary": primary }, body: { error: { code: "not_primary", message: "elsewhere" } } });

test("a call goes on to the primary that a standby names", async (t) => {
  const standby = await fake(t, () => notPrimary(url));
  const c = new Client(standby);
  assert.ok((await c.enqueue({ queue: newQueue() })).id);
  assert.equal(c.url, url);
});

test("a node that does not answer is left for another, and URLs may be joined by commas", async () => {
  const gone = await unused();
  assert.equal((await new Client([gone, url]).claim(newQueue())).jobs.length, 0);
  const c = new Client(`${gone}, ${url}/`);
  assert.ok((await c.enqueue({ queue: newQueue() })).id);
});

test("503 is tried again, no sooner than Retry-After says", async (t) => {
  const at = [];
  const node = await fake(t, () => {
    at.push(performance.now());
    if (at.length === 1) return { status: 503, headers: { "Retry-After": "1" }, body: { error: { code: "unavailable", message: "starting" } } };
    return { body: { jobs: [] } };
  });
  assert.deepEqual((await new Client(node).claim("q")).jobs, []);
  assert.ok(at[1] - at[0] >= 990, `after ${at[1] - at[0]} ms`);
});

test("an unknown outcome is tried again only where that does no harm", async (t) => {
  let calls = 0;
  const node = await fake(t, () => {
    calls++;
    return { status: 503, body: { error: { code: "unknown_outcome", message: "cut off" } } };
  });
  const c = new Client(node);
  await assert.rejects(c.ack([{ lease: "1.1.1.x" }]), { code: "unknown_outcome" });
  assert.equal(calls, 1);
  await assert.rejects(c.enqueue({ queue: "q" }, { tries: 2 }), { code: "unknown_outcome" });
  assert.equal(calls, 3);
});

test("what a new primary may lack is sent again, what is replicated is not", async (t) => {
  const state = { epoch: 1, seq: 0, safe: 0, keys: [] };
  const node = await fake(t, ({ body }) => {
    for (const spec of [body].flat()) state.keys.push(`${state.epoch}:${spec.idempotency_key}`);
    const headers = { "Holdfast-Seq": `${state.epoch}.${++state.seq}`, "Holdfast-Replicated-Seq": `${state.epoch}.${state.safe}` };
    return { status: 201, headers, body: { id: "1", queue: "q", type: "default", state: "queued", duplicate: false } };
  });
  const c = new Client(node);
  for (const key of ["a", "b", "c", "d"]) {
    if (key === "c") state.safe = 2;
    await c.enqueue({ queue: "q", idempotency_key: key });
  }
  Object.assign(state, { epoch: 2, safe: 0 });
  await c.enqueue({ queue: "q", idempotency_key: "e" });
  assert.deepEqual(state.keys.filter((key) => key.startsWith("2:")).sort(), ["2:c", "2:d", "2:e"]);
});

test("a token is sent as a bearer token, and none is no header", async (t) => {
  const seen = [];
  const node = await fake(t, ({ headers }) => {
    seen.push(headers.authorization);
    return { body: { queues: [] } };
  });
  await new Client(node, { token: "hf_x" }).queues();
  await new Client(node).queues();
  assert.deepEqual(seen, ["Bearer hf_x", undefined]);
});

test("a call ends with its signal, or when no answer comes in time", async (t) => {
  const node = await fake(t, () => undefined);
  await assert.rejects(new Client(node, { timeoutMs: 50 }).queues({ tries: 1 }), (err) => err instanceof Unreachable && /no answer in time/.test(err.message));
  const controller = new AbortController();
  const call = new Client(node).queues({ signal: controller.signal });
  controller.abort(new Error("enough"));
  await assert.rejects(call, { message: "enough" });
});

test("an answer that is not Holdfast's is told as it is", async (t) => {
  const html = await fake(t, () => ({ status: 418, body: "<h1>teapot</h1>" }));
  await assert.rejects(new Client(html).queues(), (err) => err instanceof HoldfastError && err.status === 418 && /teapot/.test(err.message));
  const other = await fake(t, () => ({ body: "hello" }));
  await assert.rejects(new Client(other).queues(), /not that of a Holdfast node/);
});

test("a wrong URL is told at once", () => {
  for (const wrong of ["", "127.0.0.1:7780", "ftp://x", []]) assert.throws(() => new Client(wrong), TypeError);
});

test("the browser's part has the client and no node module", async () => {
  const browser = await import("holdfast-client/browser");
  assert.ok(browser.Client && browser.LeaseLost && !browser.Worker);
});
