"""Reports the outcomes of a shift's runs."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple, Optional

from .errors import HoldfastError, LeaseLost, refused
from .lane import Lane
from .outcome import Batch, Outcome
from .wire import Claims, Result

if TYPE_CHECKING:
    from .shift import Shift


class _Report(NamedTuple):
    batch: list[Outcome]
    results: list[Result]
    err: Optional[Exception]


class Settling:
    """What the node has not been told yet, and how it is told."""

    def __init__(self, shift: Shift) -> None:
        self.lane = Lane()
        self.pending: list[Outcome] = []
        self._shift = shift

    def take_carried(self, batch: Batch) -> list[Outcome]:
        """Takes what a claim can carry out of pending."""
        self.pending = [o for o in self.pending if not (o.carried and batch.take(o))]
        return batch.items

    def carried(self, outcomes: list[Outcome], claims: Claims, now: float) -> None:
        """Takes the answer to a claim that carried outcomes, acks and fails apart."""
        acks = self._settled([o for o in outcomes if o.kind == "ack"], claims.acks)
        fails = self._settled([o for o in outcomes if o.kind == "fail"], claims.fails)
        if not acks or not fails:
            self.lane.failed(now)

    def start(self, now: float) -> None:
        """Reports outcomes that do not wait for the next claim to carry them.

        That is always when a claim waits for jobs, since that may be long.
        """
        if not self.lane.ready(now):
            return
        wait = self._shift.claim_carries
        batch = Batch()
        self.pending = [o for o in self.pending if (wait and o.carried) or not batch.take(o)]
        if not batch.items:
            return
        self.lane.busy = True
        self._shift.call(lambda: self._report(batch.items), self._reported)

    def _report(self, outcomes: list[Outcome]) -> list[_Report]:
        # Sends outcomes, those of each kind in one request.
        reports = []
        for kind in ("ack", "fail", "release", "snooze"):
            batch = [o for o in outcomes if o.kind == kind]
            if not batch:
                continue
            try:
                results = getattr(self._shift.client, kind)([o.item for o in batch], tries=1)
                reports.append(_Report(batch, results, None))
            except Exception as err:
                reports.append(_Report(batch, [], err))
        return reports

    def _reported(self, reports: Any, bug: Optional[BaseException]) -> None:
        if bug is not None:
            raise bug
        self.lane.busy = False
        answered = True
        for batch, results, err in reports:
            if err is not None and refused(err):
                self._batch_refused(batch, err)
            elif err is not None:
                self.unsettled(batch, err)
                answered = False
            elif not self._settled(batch, results):
                answered = False
        if answered:
            self.lane.succeeded()
        else:
            self.lane.failed(time.monotonic())

    def unsettled(self, batch: list[Outcome], err: BaseException) -> None:
        """Keeps outcomes whose request brought no answer."""
        if not batch:
            return
        self._shift.log("warning", "outcomes of runs not reported; trying again", runs=len(batch), err=err)
        for o in batch:
            o.sent += 1
            self.pending.append(o)

    def _batch_refused(self, batch: list[Outcome], err: Exception) -> None:
        # A refusal of a request as a whole. Whichever of its outcomes is to blame,
        # the others must not suffer for it: each goes by itself.
        if len(batch) == 1:
            self._item_refused(batch[0], err)
            return
        self._shift.log("warning", "a report of several runs was refused; sending one by one", runs=len(batch), err=err)
        for o in batch:
            o.alone = True
            self.pending.append(o)

    def _item_refused(self, o: Outcome, err: Exception) -> None:
        if o.kind == "ack":
            self.pending.append(o.failed(RuntimeError(f"the ack was refused: {err}")))
        else:
            self._log(o, "error", "the outcome of the run was refused", err)

    def _settled(self, batch: list[Outcome], results: list[Result]) -> bool:
        # Takes the answer to each outcome of a batch. False: one is to be sent again.
        done = True
        for i, o in enumerate(batch):
            err = results[i].error if i < len(results) else HoldfastError("the node gave no answer to it", "internal", 500)
            if err is None:
                continue
            if isinstance(err, LeaseLost) and o.sent > 0:
                self._log(o, "warning", "lease lost, or an earlier report of the run was taken and its answer lost", err)
            elif isinstance(err, LeaseLost):
                self._log(o, "warning", "lease lost; the outcome of the run is dropped and the job runs again", err)
            elif refused(err):
                self._item_refused(o, err)
            else:
                o.sent += 1
                self.pending.append(o)
                done = False
        return done

    def give_up(self, now: float) -> None:
        """Drops outcomes that the node will not take any more.

        The job runs again when its lease has ended there.
        """
        last_call = self._shift.stopping and self._shift.last_call(now)
        kept = []
        for o in self.pending:
            if o.sent > 0 and (last_call or now >= o.give_up):
                self._log(o, "error", "the outcome of the run could not be reported; the job runs again", None)
            else:
                kept.append(o)
        self.pending = kept

    def _log(self, o: Outcome, level: str, message: str, err: Optional[Exception]) -> None:
        self._shift.log(level, message, job=o.job.id, queue=o.job.queue, run=o.job.run, err=err)
