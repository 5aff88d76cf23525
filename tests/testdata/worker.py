"""A worker for TestWorkers. A job's payload says how many ms it takes."""

import logging
import os
import signal
import sys

from holdfast import Claimed, Client, Run, Worker

NAME = os.environ["WORKER_NAME"]


def handle(job: Claimed, run: Run) -> dict:
    run.wait(job.payload["ms"] / 1000)
    run.check()
    return {"by": NAME}


logging.basicConfig(level=logging.INFO, stream=sys.stdout)
worker = Worker(
    Client(os.environ["WORKER_URL"]),
    queues=[os.environ["WORKER_QUEUE"]],
    name=NAME,
    concurrency=4,
    prefetch=4,
    lease=10,
    grace=0.1,
    default=handle,
)
signal.signal(signal.SIGTERM, worker.stop)
print("working", flush=True)
worker.run()
