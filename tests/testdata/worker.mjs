// A worker for TestWorkers. A job's payload says how many ms it takes.
import { setTimeout as sleep } from "node:timers/promises";

import { Client, Worker } from "../../deploy/clients/js/src/index.js";

const { WORKER_URL, WORKER_QUEUE, WORKER_NAME } = process.env;

const worker = new Worker(new Client(WORKER_URL), {
  queues: [WORKER_QUEUE],
  name: WORKER_NAME,
  concurrency: 4,
  prefetch: 4,
  leaseMs: 10_000,
  graceMs: 100,
  logger: console,
  default: async (job, { signal }) => {
    await sleep(job.payload.ms, undefined, { signal });
    return { by: WORKER_NAME };
  },
});
process.once("SIGTERM", () => worker.stop());
console.log("working");
await worker.run();
