"""TestClientsOverTLS: a node that wants a token, over https."""

import os
import random
import ssl
import threading
import time

from holdfast import Client, Spec, Unauthorized, Worker

URL, TOKEN = os.environ["NODE_URL"], os.environ["NODE_TOKEN"]
CONTEXT = ssl.create_default_context(cafile=os.environ["NODE_EXTRA_CA_CERTS"])

for wrong in ("", "hf_wrong"):
    try:
        Client(URL, token=wrong, context=CONTEXT).queues()
    except Unauthorized:
        continue
    raise SystemExit(f"the token {wrong!r} was taken")

# Workers that are stopped while they wait, just when a job comes.
client = Client(URL, token=TOKEN, context=CONTEXT)
for i in range(10):
    queue = f"python{i}"
    worker = Worker(client, queues=[queue], lease=3, default=lambda job, run: None)
    running = threading.Thread(target=worker.run)
    running.start()
    time.sleep(0.1)
    made = []
    producer = threading.Thread(target=lambda: made.append(client.enqueue(Spec(queue))))
    producer.start()
    time.sleep(random.random() * 0.008)
    worker.stop()
    running.join()
    producer.join()
    job = client.job(made[0].id)
    while job.state == "running":
        time.sleep(0.05)
        job = client.job(job.id)
    if (job.crashes, job.failures) != (0, 0):
        raise SystemExit(f"a stop has cost an attempt: {job}")
