// A program as a user writes one, for the compiler to look at: what is marked
// must not compile, the rest must.
import { Client, Fatal, Later, LeaseLost, Worker, type Claimed, type Handler, type Job, type Result } from "holdfast-client";
import { Client as BrowserClient } from "holdfast-client/browser";

const client = new Client(["http://a:7780", "http://b:7780"], { token: "hf_x", timeoutMs: 5000 });

interface Mail {
  to: string;
}

const welcome: Handler<Mail> = async (job, { signal, progress }) => {
  const to: string = job.payload.to;
  if (!to) throw new Fatal("no address");
  if (signal.aborted) throw signal.reason;
  progress({ sending: to });
  if (job.attempt < 2) throw new Later(60_000, new Error("busy"));
  return { sent: true };
};

export async function main(): Promise<void> {
  const one = await client.enqueue({ queue: "mail", payload: { to: "a@example.com" }, backoff: { kind: "list", delays_ms: [1000] } });
  const many = await client.enqueue([{ queue: "mail" }, { queue: "mail", priority: 5 }]);
  const ids: string[] = [one.id, ...many.map((job) => job.id)];
  const claims = await client.claim({ queues: ["mail"], max: 10, wait_ms: 1000 });
  const first: Claimed<Mail> | undefined = claims.jobs[0];
  if (first) {
    const result: Result = await client.ack({ lease: first.lease, result: { n: 1 } });
    const results: Result[] = await client.ack([{ lease: first.lease }]);
    if (results[0]?.error instanceof LeaseLost) console.log(result.id, results[0].error.code);
  }
  for await (const page of client.pages({ state: "dead", limit: 10 })) page.map((job: Job) => job.last_error?.length);
  const groups = await client.deadGroups({ queue: "mail", since_ms: Date.now() - 3600_000, limit: 10 });
  for (const { queue, error_fp: error } of groups.groups) await client.retryDead({ queue, error, limit: 50 });
  const worker = new Worker(client, { queues: ["mail"], handlers: { welcome }, concurrency: 4, prefetch: 2, logger: console });
  await worker.run({ signal: AbortSignal.timeout(1000) });
  await new BrowserClient("http://a").wait(ids[0]!, 1000);

  // @ts-expect-error a queue is required
  await client.enqueue({ type: "welcome" });
  // @ts-expect-error a misspelt field
  await client.enqueue({ queue: "mail", prority: 5 });
  // @ts-expect-error no such state
  await client.jobs({ state: "lost" });
  // @ts-expect-error nothing is changed, dry or not
  await client.deadGroups({ dry_run: true });
  // @ts-expect-error seconds are not a thing here
  new Worker(client, { queues: ["mail"], lease: 30 });
}
