import threading
import time
import unittest

from holdfast import (
    Ack,
    Backoff,
    ClaimRequest,
    Client,
    DeadRequest,
    Extend,
    Fail,
    Filter,
    HoldfastError,
    IdempotencyConflict,
    Invalid,
    LeaseLost,
    NotFound,
    QueueFull,
    Snoozing,
    Spec,
    UnknownOutcome,
    Unreachable,
    WrongState,
    temporary,
)

from .setup import URL, Case, eventually, new_queue, unused


class ClientTest(Case):
    def setUp(self):
        self.client = Client(URL)
        self.addCleanup(self.client.close)
        self.queue = new_queue()

    def other(self, *args, **options) -> Client:
        client = Client(*args, **options)
        self.addCleanup(client.close)
        return client

    def all(self, **filter):
        return [job for page in self.client.pages(Filter(queue=self.queue, **filter)) for job in page]

    def test_one_job_is_enqueued_and_read_back(self):
        spec = Spec(self.queue, type="welcome", payload={"to": "ä@example.com", "none": None}, tags={"tenant": "7"}, backoff=Backoff("list", delays_ms=[5]))
        made = self.client.enqueue(spec)
        self.assertEqual((made.state, made.duplicate), ("queued", False))
        job = self.client.job(made.id)
        self.assertEqual((job.queue, job.type, job.payload, job.tags, job.backoff), (spec.queue, spec.type, spec.payload, spec.tags, spec.backoff))
        self.assertIsNone(spec.idempotency_key, "the caller's spec was changed")

    def test_many_are_enqueued_in_their_order_and_none_is_no_request(self):
        made = self.client.enqueue([Spec(self.queue, payload=n) for n in range(3)])
        self.assertEqual([self.client.job(job.id).payload for job in made], [0, 1, 2])
        self.assertEqual(self.client.enqueue([]), [])

    def test_a_key_makes_one_job_and_another_body_with_it_is_a_conflict(self):
        first = self.client.enqueue(Spec(self.queue, payload=1, idempotency_key=self.queue))
        second = self.client.enqueue(Spec(self.queue, payload=1, idempotency_key=self.queue))
        self.assertEqual((second.id, second.duplicate), (first.id, True))
        with self.assertRaises(IdempotencyConflict) as caught:
            self.client.enqueue(Spec(self.queue, payload=2, idempotency_key=self.queue))
        self.assertIsInstance(caught.exception, HoldfastError)
        self.assertEqual((caught.exception.code, caught.exception.status), ("idempotency_conflict", 409))

    def test_what_the_node_refuses_is_told_by_a_typed_error_with_its_words(self):
        with self.assertRaisesRegex(Invalid, "delay_ms"):
            self.client.enqueue(Spec(self.queue, delay_ms=-1))
        with self.assertRaises(NotFound):
            self.client.job("99999999")

    def test_an_answer_that_was_dropped_and_sent_again_makes_one_job(self):
        for size in (1, 3):
            self.queue = new_queue()
            proxy = self.dropping(2)
            made = self.other(proxy.url).enqueue([Spec(self.queue, payload=n) for n in range(size)])
            self.assertEqual(proxy.dropped, 2)
            self.assertEqual([job.duplicate for job in made], [False] * size)
            self.assertEqual(sorted(job.id for job in self.all()), sorted(job.id for job in made))

    def test_an_answer_that_never_came_is_not_asked_for_again_where_that_could_do_harm(self):
        self.client.enqueue(Spec(self.queue))
        proxy = self.dropping(1)
        with self.assertRaises(Unreachable) as caught:
            self.other(proxy.url).claim(self.queue)
        self.assertTrue(caught.exception.sent and temporary(caught.exception))

    def test_a_workers_calls_by_hand(self):
        id = self.client.enqueue(Spec(self.queue, max_attempts=9)).id

        def claim():
            return self.client.claim(ClaimRequest([self.queue], wait_ms=30_000, worker="w")).jobs[0]

        job = claim()
        self.assertEqual((job.id, job.run, job.attempt), (id, 1, 1))
        extended = self.client.extend(Extend(job.lease, 60_000, {"at": 1}))
        self.assertGreater(extended.lease_until_ms, job.lease_until_ms)
        self.assertEqual(self.client.job(id).progress, {"at": 1})
        self.assertEqual(self.client.release(job.lease).state, "queued")
        self.assertEqual(self.client.snooze(Snoozing(claim().lease, 1)).state, "scheduled")
        self.assertEqual(self.client.fail(Fail(claim().lease, "smtp 451", retry_in_ms=1)).state, "scheduled")
        job = claim()
        self.assertEqual((job.run, job.attempt), (4, 2))
        self.assertEqual(self.client.ack(Ack(job.lease, {"pages": 3})).state, "done")
        self.assertEqual(self.client.job(id).result, {"pages": 3})

    def test_a_claim_carries_acks_and_fails(self):
        self.client.enqueue([Spec(self.queue)] * 3)
        a, b = self.client.claim(ClaimRequest([self.queue], max=2)).jobs
        claims = self.client.claim(ClaimRequest([self.queue], acks=[Ack(a.lease)], fails=[Fail(b.lease, "no", fatal=True)]))
        self.assertEqual((len(claims.jobs), claims.acks[0].state, claims.fails[0].state), (1, "done", "dead"))

    def test_a_lost_lease_fails_alone_in_a_batch_and_raises_by_itself(self):
        self.client.enqueue([Spec(self.queue)] * 2)
        a, b = self.client.claim(ClaimRequest([self.queue], max=2)).jobs
        self.client.release(a.lease)
        lost, good = self.client.ack([Ack(a.lease), Ack(b.lease)])
        self.assertIsInstance(lost.error, LeaseLost)
        self.assertTrue(good.ok)
        with self.assertRaises(LeaseLost):
            self.client.ack(a.lease)

    def test_cancel_wait_retry_archive_and_delete(self):
        a, b = self.client.enqueue([Spec(self.queue), Spec(self.queue)])
        self.assertEqual(self.client.cancel(a.id).state, "cancelled")
        self.assertEqual(self.client.wait(a.id, 30).state, "cancelled")
        self.assertEqual(self.client.wait(b.id, 0.01).state, "queued")
        (job,) = self.client.claim(self.queue).jobs
        self.client.fail(Fail(job.lease, "broken", fatal=True))
        self.assertEqual([run.error for run in self.client.job(b.id).runs], ["broken"])
        self.assertEqual(self.client.retry(b.id, {"mended": True}).state, "queued")
        self.assertEqual(self.client.job(b.id).payload, {"mended": True})
        with self.assertRaises(WrongState):
            self.client.archive(b.id)
        self.client.delete(b.id)
        with self.assertRaises(NotFound):
            self.client.job(b.id)

    def test_dead_jobs_are_retried_and_archived_in_bulk(self):
        self.client.enqueue([Spec(self.queue)] * 3)
        jobs = self.client.claim(ClaimRequest([self.queue], max=3)).jobs
        self.client.fail([Fail(job.lease, "broken", fatal=True) for job in jobs])
        found = self.client.dead_groups(DeadRequest(self.queue, limit=1))
        (group,) = found.groups
        self.assertEqual((found.kinds, found.total, found.partial, group.jobs, group.sample.last_error), (1, 3, False, 3, "broken"))
        self.assertEqual(self.client.dead_groups(DeadRequest(self.queue, before_ms=1, dry_run=True, after="1_1")).total, 0)
        self.assertGreaterEqual(self.client.dead_groups().total, 3)
        self.assertEqual(self.client.retry_dead(DeadRequest(self.queue, error=group.error_fp, dry_run=True)).count, 3)
        self.assertEqual(self.client.retry_dead(DeadRequest(self.queue, limit=1)).count, 1)
        self.assertEqual(self.client.archive_dead(DeadRequest(self.queue)).count, 2)
        self.assertEqual(self.client.queue(self.queue).counts.dead, 0)

    def test_lists_come_page_by_page(self):
        made = self.client.enqueue([Spec(self.queue, payload=n) for n in range(25)])
        page = self.client.jobs(Filter(queue=self.queue, limit=10, payload=True))
        self.assertEqual(len(page.jobs), 10)
        self.assertIsInstance(page.jobs[0].payload, int)
        pages = list(self.client.pages(Filter(queue=self.queue, limit=10)))
        self.assertEqual([len(jobs) for jobs in pages], [10, 10, 5])
        self.assertEqual(sorted(job.id for jobs in pages for job in jobs), sorted(job.id for job in made))

    def test_a_queue_is_paused_resumed_set_and_looked_at(self):
        self.client.enqueue(Spec(self.queue))
        self.assertTrue(self.client.pause(self.queue).paused)
        self.assertEqual(self.client.claim(self.queue).jobs, [])
        self.assertFalse(self.client.resume(self.queue).paused)
        settings = self.client.update_queue(self.queue, {"max_depth": 1, "retention_ms": {"done": 60_000}}).settings
        self.assertEqual((settings.max_depth, settings.retention_ms["done"]), (1, 60_000))
        with self.assertRaises(QueueFull):
            self.client.enqueue(Spec(self.queue))
        self.assertIsNone(self.client.update_queue(self.queue, {"max_depth": None}).settings.max_depth)
        self.assertEqual([q.counts.queued for q in self.client.queues() if q.name == self.queue], [1])
        self.assertEqual([(q.name, q.queued) for q in self.client.health(self.queue).queues], [(self.queue, 1)])
        minutes = self.client.throughput(self.queue, int(time.time() * 1000) - 3600_000)
        self.assertEqual(sum(minute.enqueued for minute in minutes), 1)

    def test_the_node_says_who_it_is(self):
        self.assertTrue(self.client.ready().ready)
        self.assertEqual(self.client.node().role, "primary")
        self.assertTrue(self.client.version().version)
        self.assertGreater(self.client.replication().seq, 0)

    def test_a_call_goes_on_to_the_primary_that_a_standby_names(self):
        answer = (503, {"Holdfast-Primary": URL}, {"error": {"code": "not_primary", "message": "elsewhere"}})
        client = self.other(self.fake(lambda *_: answer))
        self.assertTrue(client.enqueue(Spec(self.queue)).id)
        self.assertEqual(client.url, URL)

    def test_a_node_that_does_not_answer_is_left_for_another(self):
        self.assertEqual(self.other([unused(), URL]).claim(self.queue).jobs, [])
        self.assertTrue(self.other(f"{unused()}, {URL}/").enqueue(Spec(self.queue)).id)

    def test_503_is_tried_again_no_sooner_than_retry_after_says(self):
        at = []

        def answer(*_):
            at.append(time.monotonic())
            if len(at) == 1:
                return 503, {"Retry-After": "1"}, {"error": {"code": "unavailable", "message": "starting"}}
            return 200, {}, {"jobs": []}

        self.assertEqual(self.other(self.fake(answer)).claim("q").jobs, [])
        self.assertGreaterEqual(at[1] - at[0], 0.99)

    def test_an_unknown_outcome_is_tried_again_only_where_that_does_no_harm(self):
        calls = []

        def answer(*_):
            calls.append(1)
            return 503, {}, {"error": {"code": "unknown_outcome", "message": "cut off"}}

        client = self.other(self.fake(answer), tries=2)
        with self.assertRaises(UnknownOutcome):
            client.ack([Ack("1.1.1.x")])
        self.assertEqual(len(calls), 1)
        with self.assertRaises(UnknownOutcome):
            client.enqueue(Spec("q"))
        self.assertEqual(len(calls), 3)

    def test_what_a_new_primary_may_lack_is_sent_again_and_what_is_replicated_is_not(self):
        state = {"epoch": 1, "seq": 0, "safe": 0}
        keys = []

        def answer(_method, _path, _headers, body):
            state["seq"] += 1
            keys.append((state["epoch"], body["idempotency_key"]))
            headers = {"Holdfast-Seq": "{epoch}.{seq}".format(**state), "Holdfast-Replicated-Seq": "{epoch}.{safe}".format(**state)}
            return 201, headers, {"id": "1", "queue": "q", "state": "queued"}

        client = self.other(self.fake(answer))
        for key in "abcd":
            if key == "c":
                state["safe"] = 2
            client.enqueue(Spec("q", idempotency_key=key))
        state.update(epoch=2, safe=0)
        client.enqueue(Spec("q", idempotency_key="e"))
        self.assertEqual(sorted(key for epoch, key in keys if epoch == 2), ["c", "d", "e"])

    def test_a_token_is_sent_as_a_bearer_token_and_none_is_no_header(self):
        seen = []

        def answer(_method, _path, headers, _body):
            seen.append(headers.get("Authorization"))
            return 200, {}, {"queues": []}

        url = self.fake(answer)
        self.other(url, token="hf_x").queues()
        self.other(url).queues()
        self.assertEqual(seen, ["Bearer hf_x", None])

    def test_a_call_ends_when_no_answer_comes_in_time(self):
        client = self.other(self.fake(lambda *_: None), timeout=0.05, tries=1)
        with self.assertRaisesRegex(Unreachable, "no answer in time"):
            client.queues()

    def test_an_answer_that_is_not_holdfasts_is_told_as_it_is(self):
        with self.assertRaisesRegex(HoldfastError, "418 <h1>teapot"):
            self.other(self.fake(lambda *_: (418, {}, "<h1>teapot</h1>"))).queues()
        with self.assertRaisesRegex(RuntimeError, "not that of a Holdfast node"):
            self.other(self.fake(lambda *_: (200, {}, "hello"))).queues()

    def test_connections_are_kept_and_one_that_was_closed_is_not_used(self):
        ports = set()

        def answer(_method, _path, headers, _body):
            return 200, ({"Connection": "close"} if ports else {}), {"queues": []}

        client = self.other(self.fake(answer))
        for _ in range(3):
            client.queues()
        self.assertEqual(len(client._transport._idle), 1)
        (_, _, conn) = client._transport._idle[0]
        ports.add(1)
        client.queues()
        self.assertEqual(client._transport._idle, [])
        self.assertIsNone(conn.sock)

        # The other end goes away while the connection is idle.
        proxy = self.dropping(0)
        client = self.other(proxy.url, tries=1)
        client.enqueue(Spec(self.queue))
        proxy.cut()
        eventually("the end of the connection has arrived", lambda: not _alive(client))
        client.claim(self.queue)

    def test_many_threads_may_use_a_client(self):
        errors = []

        def produce():
            try:
                for n in range(20):
                    self.client.enqueue(Spec(self.queue, payload=n))
            except Exception as err:
                errors.append(err)

        threads = [threading.Thread(target=produce) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(errors, [])
        self.assertEqual(self.client.queue(self.queue).counts.queued, 160)

    def test_a_wrong_url_is_told_at_once(self):
        for wrong in ("", "127.0.0.1:7780", "ftp://x", "http://a:b", []):
            with self.assertRaises(ValueError):
                Client(wrong)


def _alive(client: Client) -> bool:
    from holdfast.transport import _alive as alive

    return alive(client._transport._idle[0][2].sock)


if __name__ == "__main__":
    unittest.main()
