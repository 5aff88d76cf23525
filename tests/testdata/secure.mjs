// TestClientsOverTLS: a node that wants a token, over https.
import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";

import { Client, Unauthorized, Worker } from "../../deploy/clients/js/src/index.js";

const { NODE_URL, NODE_TOKEN } = process.env;

await assert.rejects(new Client(NODE_URL).queues(), Unauthorized);
await assert.rejects(new Client(NODE_URL, { token: "hf_wrong" }).queues(), Unauthorized);

// Workers that are stopped while they wait, just when a job comes.
const client = new Client(NODE_URL, { token: NODE_TOKEN });
for (let i = 0; i < 10; i++) {
  const queue = `js${i}`;
  const worker = new Worker(client, { queues: [queue], leaseMs: 3000, default: () => {} });
  const running = worker.run();
  await sleep(100);
  const made = client.enqueue({ queue });
  await sleep(Math.random() * 8);
  worker.stop();
  await running;
  const { id } = await made;
  let job = await client.job(id);
  for (; job.state === "running"; job = await client.job(id)) await sleep(50);
  assert.deepEqual([job.crashes, job.failures], [0, 0], JSON.stringify(job));
}
