import random
import threading
import time
import unittest

from holdfast import Cancelled, Client, Fatal, Later, LeaseLost, Invalid, Snooze, Snoozing, Spec, Stopped, TimedOut, Worker

from .setup import URL, Case, eventually, new_queue


class WorkerTest(Case):
    def setUp(self):
        self.client = Client(URL)
        self.addCleanup(self.client.close)
        self.queue = new_queue()

    def start(self, **options) -> "Working":
        """A worker that runs until the test ends, or end is called."""
        working = Working(options.pop("client", self.client), {"queues": [self.queue], "grace": 20, **options})
        self.addCleanup(working.end_now)
        return working

    def test_a_handlers_end_decides_what_becomes_of_its_job(self):
        cyclic = []
        cyclic.append(cyclic)

        def throw(err, cause=None):
            def handler(job, run):
                raise err from cause

            return handler

        def boom(job, run):
            return {}["boom"]

        def late(job):
            return job.state == "scheduled" and job.run_at_ms > (time.time() + 3000) * 1000

        table = {
            "result": (lambda job, run: {"sent": True}, lambda job: job.state == "done" and job.result == {"sent": True}),
            "nothing": (lambda job, run: None, lambda job: job.state == "done" and job.result is None),
            "exception": (boom, lambda job: job.failures == 1 and job.last_error.startswith("KeyError: 'boom'\nTraceback") and "in boom" in job.last_error),
            "exit": (throw(SystemExit(3)), lambda job: job.failures == 1 and job.last_error.startswith("SystemExit: 3")),
            "caused": (throw(ValueError("outer"), KeyError("inner")), lambda job: job.last_error.startswith("ValueError: outer") and "KeyError: 'inner'" in job.last_error),
            "fatal": (throw(Fatal("no such user")), lambda job: job.state == "dead" and job.last_error == "no such user"),
            "fatal_error": (throw(Fatal(ValueError("why"))), lambda job: job.state == "dead" and job.last_error.startswith("ValueError: why")),
            "later": (throw(Later(3600, "busy")), lambda job: job.failures == 1 and late(job) and job.last_error == "busy"),
            "snooze": (throw(Snooze(3600)), lambda job: job.failures == 0 and late(job)),
            "cyclic": (lambda job, run: cyclic, lambda job: job.failures == 1 and "result is no JSON value" in job.last_error),
            "object": (lambda job, run: object(), lambda job: job.failures == 1 and "result is no JSON value" in job.last_error),
            "large": (lambda job, run: "x" * (1 << 17), lambda job: job.failures == 1 and "131074 bytes" in job.last_error),
            "unknown": (None, lambda job: job.failures == 1 and "unknown job type 'unknown'" in job.last_error),
        }
        made = self.client.enqueue([Spec(self.queue, type=kind) for kind in table])
        working = self.start(handlers={kind: handler for kind, (handler, _) in table.items() if handler}, concurrency=4)
        for job in made:
            with self.subTest(job.type):
                found = eventually(f"{job.type} is settled", lambda id=job.id: (lambda j: j.run == 1 and j.state != "running" and j)(self.client.job(id)))
                self.assertTrue(table[job.type][1](found), found)
        working.end()

    def test_an_idle_worker_stops_at_once_and_jobs_that_come_just_then_are_not_lost(self):
        for _ in range(15):
            self.queue = new_queue()
            working = self.start(default=lambda job, run: None)
            time.sleep(0.03 + random.random() * 0.01)
            made = []
            producer = threading.Thread(target=lambda made=made: made.append(self.client.enqueue(Spec(self.queue))))
            producer.start()
            time.sleep(random.random() * 0.006)
            self.assertLess(working.end(), 10)
            producer.join()
            # The node may be giving it back just now.
            job = eventually("the job is in nobody's hands", lambda: (lambda j: j.state != "running" and j)(self.client.job(made[0].id)))
            self.assertEqual((job.crashes, job.failures), (0, 0), job)

    def test_many_jobs_run_side_by_side_with_fewer_requests_than_jobs(self):
        self.client.enqueue([Spec(self.queue, payload=n) for n in range(200)])
        client = Client(URL)
        self.addCleanup(client.close)
        requests = []
        once = client._transport._once
        client._transport._once = lambda *args: (requests.append(1), once(*args))[1]
        lock = threading.Lock()
        now = most = 0

        def handler(job, run):
            nonlocal now, most
            with lock:
                now += 1
                most = max(most, now)
            time.sleep(0.001)
            with lock:
                now -= 1

        working = self.start(client=client, default=handler, concurrency=20, prefetch=10)
        eventually("all are done", lambda: self.client.queue(self.queue).counts.done == 200)
        working.end()
        self.assertTrue(1 < most <= 20, most)
        self.assertLess(len(requests), 150)

    def test_a_stop_lets_running_jobs_finish_and_gives_held_ones_back(self):
        begun, go = threading.Event(), threading.Event()
        self.addCleanup(go.set)

        def handler(job, run):
            begun.set()
            go.wait()
            return "finished"

        made = self.client.enqueue([Spec(self.queue)] * 3)
        working = self.start(default=handler, prefetch=5)
        begun.wait()
        eventually("all are claimed", lambda: self.client.queue(self.queue).counts.running == 3)
        working.worker.stop()
        eventually("the held ones are given back", lambda: self.client.queue(self.queue).counts.queued == 2)
        go.set()
        working.end()
        jobs = [self.client.job(job.id) for job in made]
        self.assertEqual(sorted(job.state for job in jobs), ["done", "queued", "queued"])
        self.assertEqual([job.attempt for job in jobs], [1, 1, 1])

    def cause_of(self, meanwhile, timeout_ms=None, **options):
        """Runs a job whose handler waits for its end, and returns the cause and the job."""
        begun, ended = threading.Event(), threading.Event()
        causes = []

        def handler(job, run):
            begun.set()
            meanwhile(job)
            run.wait()
            causes.append(run.cause)
            ended.set()
            run.check()

        id = self.client.enqueue(Spec(self.queue, timeout_ms=timeout_ms)).id
        working = self.start(default=handler, **{"lease": 3, **options})
        begun.wait()
        if "grace" not in options:
            ended.wait()
        working.end()
        return causes[0], self.client.job(id)

    def test_after_the_grace_a_run_is_told_to_stop_and_given_back(self):
        cause, job = self.cause_of(lambda job: None, grace=0.05)
        self.assertIsInstance(cause, Stopped)
        self.assertEqual((job.state, job.attempt, job.interruptions), ("queued", 1, 1))

    def test_a_cancelled_jobs_run_is_told(self):
        cause, job = self.cause_of(lambda job: self.client.cancel(job.id))
        self.assertIsInstance(cause, Cancelled)
        self.assertEqual(job.state, "cancelled")

    def test_a_run_that_lost_its_lease_is_told_and_what_it_does_then_changes_nothing(self):
        cause, job = self.cause_of(lambda job: self.client.snooze(Snoozing(job.lease, 3600_000)))
        self.assertIsInstance(cause, LeaseLost)
        self.assertEqual((job.state, job.failures), ("scheduled", 0))

    def test_a_run_that_takes_longer_than_the_job_allows_is_told_and_has_failed(self):
        cause, job = self.cause_of(lambda job: None, timeout_ms=4000)
        self.assertIsInstance(cause, TimedOut)
        self.assertEqual(job.failures, 1)
        # The second is the node's word, which comes first when this machine is slow.
        self.assertRegex(job.last_error, r"longer than the job's timeout \(4000 ms\)|^timeout after 4s")

    def test_a_job_may_run_longer_than_its_lease_and_tells_how_it_gets_on(self):
        def handler(job, run):
            try:
                run.progress("x" * (1 << 17))
            except ValueError:
                pass
            else:
                raise AssertionError("progress of 128 KiB was taken")
            for n in range(1, 17):
                run.progress({"n": n})
                run.wait(0.5)

        id = self.client.enqueue(Spec(self.queue)).id
        self.start(default=handler, lease=3)
        eventually("progress is seen", lambda: (self.client.job(id).progress or {}).get("n", 0) > 1)
        job = self.client.wait(id, 60)
        self.assertEqual((job.state, job.run, job.crashes), ("done", 1, 0))

    def test_a_worker_outlives_its_nodes_absence_and_one_that_is_refused_ends(self):
        calls = []

        def answer(*_):
            calls.append(1)
            if len(calls) <= 2:
                return 503, {}, {"error": {"code": "unavailable", "message": "starting"}}
            return 400, {}, {"error": {"code": "invalid", "message": "queues: no"}}

        client = Client(self.fake(answer))
        self.addCleanup(client.close)
        worker = Worker(client, queues=["q"], default=lambda job, run: None)
        with self.assertRaises(Invalid):
            worker.run()
        self.assertEqual(len(calls), 3)

    def test_wrong_options_are_told_all_at_once(self):
        with self.assertRaises(ValueError) as caught:
            Worker(self.client, queues=["a", "a", "b/c"], concurrency=0, lease=0.005)
        for part in ("named twice", "b/c", "no handler", "concurrency 0", "lease of 0.005"):
            self.assertIn(part, str(caught.exception))


class Working:
    """A worker that runs in a thread."""

    def __init__(self, client: Client, options) -> None:
        self.worker = Worker(client, **options)
        self.error = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.worker.run()
        except BaseException as err:
            self.error = err

    def end(self) -> float:
        """Stops the worker and returns how many seconds that took."""
        began = time.monotonic()
        self.worker.stop()
        self._thread.join()
        if self.error:
            raise self.error
        return time.monotonic() - began

    def end_now(self) -> None:
        self.worker.stop_now()
        self._thread.join()


if __name__ == "__main__":
    unittest.main()
