"""Results that a worker keeps for records whose locks are gone with the connection or session.

The broker gives such a record to any member. If it gives it to this worker again, the result
answers for it, and no handler runs a second time. If not, the result is dropped, and that is said.
A handler that still runs counts as a result: its record's new delivery becomes its own.

A worker cannot ask who has a record. A result is known to be too late if the broker has delivered
its record more than once since; it is taken for too late after ``KEPT_S`` seconds in which the
broker was there.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from sharegroup.client.core.acknowledgements import AckType
from sharegroup.client.core.record import Record, delivery_of
from sharegroup.client.worker.failures import FailureLog, named
from sharegroup.client.worker.metrics import WorkerMetrics
from sharegroup.client.worker.work import Place, Work, place_of
from sharegroup.model.ids import TopicIdPartition

log = logging.getLogger("sharegroup.worker")

KEPT_MAX: Final = 10_000
"""Of more results, the oldest are dropped."""
KEPT_S: Final = 300.0
"""How long a result is kept for a record that does not come back, from the time on when the broker
is back."""

_Key = tuple[TopicIdPartition, bytes]


@dataclass(eq=False, slots=True)
class Kept:
    """What is kept of one record.

    Attributes:
        name: the record's place, as logs show it.
        count: the number of the delivery that was lost.
        key: the record's key, in a group with order per key.
        work: its handler still runs; None: it has ended.
        answer: all is done, and this answer is left to give; None: it failed.
        reason: what the answer says.
        error: why it failed.
        final: the worker gives up on the record.
        due: when the pause after its failure is over, in seconds.
        missed: since when its record could have come back, in seconds; None: the broker is away.
    """

    name: str
    count: int
    key: _Key | None
    work: Work | None = None
    answer: AckType | None = None
    reason: str | None = None
    error: Exception | None = None
    final: bool = False
    due: float = 0.0
    missed: float | None = None


class KeptResults:
    """See the module.

    Args:
        wanted: if False, nothing is kept.
        ordered: the group has order per key.
        now: the time, in seconds.
        is_served: whether the records of a partition may come now: its leader answers. Also true of
            a topic that is gone.
        cancel: called with a record whose handler must not go on.
        limit: the most results.
    """

    def __init__(
        self,
        *,
        wanted: bool,
        ordered: bool,
        metrics: WorkerMetrics,
        failures: FailureLog,
        now: Callable[[], float],
        is_served: Callable[[TopicIdPartition], bool],
        cancel: Callable[[Work], None],
        limit: int = KEPT_MAX,
    ) -> None:
        self._wanted = wanted
        self._ordered = ordered
        self._metrics = metrics
        self._failures = failures
        self._now = now
        self._is_served = is_served
        self._cancel = cancel
        self._limit = limit
        self._kept: dict[Place, Kept] = {}
        """In the order of their ends; those that run are anywhere."""
        self._of_key: dict[_Key, set[int]] = {}
        self.running = 0
        """How many handlers run without a lock."""

    def __len__(self) -> int:
        return len(self._kept)

    # --- results come -----------------------------------------------------------------------------

    def keep_running(self, work: Work) -> bool:
        """The lock is gone while the handler runs. Returns whether the handler may go on."""
        return self._keep(work.record, self._new(work.record, work=work))

    def keep_failed(self, work: Work, *, final: bool, due: float) -> bool:
        """The lock is gone after the handler has failed. Returns whether that is kept."""
        new = self._new(work.record, error=work.error, final=final, due=due)
        return self._keep(work.record, new)

    def keep_answer(
        self, record: Record, answer: AckType, reason: str | None, due: float | None = None
    ) -> None:
        """The broker has not confirmed this answer, and the lock is gone.

        Args:
            due: when the pause is over that a release has asked for, in seconds; None: for none.
        """
        if answer in (AckType.ACCEPT, AckType.REJECT):
            self._keep(record, self._new(record, answer=answer, reason=reason))
        elif due is not None:  # else a released record comes back anyway
            self._keep(record, self._new(record, due=due))

    def ended(self, work: Work, answer: AckType, reason: str | None) -> bool:
        """A handler without a lock has ended, and all is done but the answer. Returns whether that
        is kept."""
        kept = self._of(work)
        if kept is None:
            return False
        self._put_last(work.record, kept)
        kept.answer, kept.reason = answer, reason
        return True

    def failed(self, work: Work, *, final: bool, due: float = 0.0) -> None:
        """A handler without a lock has failed; ``work.error`` says why."""
        kept = self._of(work)
        if kept is not None:
            self._put_last(work.record, kept)
            kept.error, kept.final, kept.due = work.error, final, due

    # --- records come back ------------------------------------------------------------------------

    def take(self, record: Record, *, first: bool) -> Kept | None:
        """The result for a record that has come back; None: it must be handled.

        Args:
            first: no earlier record of its key is to be handled before.
        """
        if not self._kept:
            return None
        place = place_of(record)
        kept = self._kept.get(place)
        earlier, later = self._neighbours(record)
        if kept is None:
            self._drop(later, "an earlier record of its key is handled again")
            return None
        too_late = None
        if kept.work is None and record.delivery_count > kept.count + 1:
            too_late = "another member has had the record since"
        elif earlier or not first:
            too_late = "another member has had an earlier record of its key"
        if too_late is not None:
            self._drop([place, *earlier, *later], too_late)
            kept = None
        else:
            self._remove(place)
            self._metrics.kept_answered += 1
        self._say_if_settled()
        return kept

    def expire(self) -> None:
        """Drop the results whose record has not come back for ``KEPT_S``, although it could. Called
        often."""
        now, gone = self._now(), []
        for place, kept in self._kept.items():
            if kept.work is not None:
                continue
            if kept.missed is None and self._is_served(place[0]):
                kept.missed = now
            if kept.missed is not None and now - kept.missed >= KEPT_S:
                gone.append(place)
        if gone:
            self._drop(
                gone,
                f"nothing has come back in {KEPT_S:.0f} s; the broker has taken the answer, or "
                "another member has the record",
            )
            self._say_if_settled()

    def end(self) -> None:
        """The worker has ended: say which results are lost."""
        self._drop(list(self._kept), "the worker has ended, and what was not answered comes again")

    # --- inside -----------------------------------------------------------------------------------

    def _new(
        self,
        record: Record,
        *,
        work: Work | None = None,
        answer: AckType | None = None,
        reason: str | None = None,
        error: Exception | None = None,
        final: bool = False,
        due: float = 0.0,
    ) -> Kept:
        key = None
        if self._ordered and record.key is not None:
            key = (delivery_of(record).partition, record.key)
        name = f"{record.topic_partition}@{record.offset}"
        return Kept(name, record.delivery_count, key, work, answer, reason, error, final, due)

    def _keep(self, record: Record, kept: Kept) -> bool:
        if not self._wanted:
            return False
        place = place_of(record)
        self._remove(place)
        self._kept[place] = kept
        self.running += kept.work is not None
        if kept.key is not None:
            self._of_key.setdefault(kept.key, set()).add(place[1])
        if len(self._kept) > self._limit:
            oldest = next((at for at, one in self._kept.items() if one.work is None), None)
            if oldest is not None:
                self._drop([oldest], f"more than {self._limit} are kept")
        return True

    def _of(self, work: Work) -> Kept | None:
        kept = self._kept.get(place_of(work.record))
        return kept if kept is not None and kept.work is work else None

    def _put_last(self, record: Record, kept: Kept) -> None:
        kept.work = None
        self.running -= 1
        place = place_of(record)
        del self._kept[place]
        self._kept[place] = kept

    def _neighbours(self, record: Record) -> tuple[list[Place], list[Place]]:
        """The kept results of earlier and of later records of the same key."""
        if not self._of_key or record.key is None:
            return [], []
        partition = delivery_of(record).partition
        offsets = sorted(self._of_key.get((partition, record.key), ()))
        return (
            [(partition, at) for at in offsets if at < record.offset],
            [(partition, at) for at in offsets if at > record.offset],
        )

    def _remove(self, place: Place) -> Kept | None:
        kept = self._kept.pop(place, None)
        if kept is not None and kept.work is not None:
            self.running -= 1
        if kept is not None and kept.key is not None:
            offsets = self._of_key.get(kept.key, set())
            offsets.discard(place[1])
            if not offsets:
                self._of_key.pop(kept.key, None)
        return kept

    def _drop(self, places: Iterable[Place], why: str) -> None:
        names = []
        for place in places:
            kept = self._remove(place)
            if kept is not None:
                names.append(kept.name)
                if kept.work is not None:
                    self._cancel(kept.work)
        if names:
            self._metrics.kept_dropped += len(names)
            what = f"the result of {names[0]} is dropped"
            if len(names) > 1:
                what = f"the results of {named(names)} are dropped"
            self._failures.note(f"{what}: {why}")

    def _say_if_settled(self) -> None:
        if not self._kept:
            log.info(
                "no result is kept any more: so far %d have answered for their record when it came "
                "back, %d were dropped",
                self._metrics.kept_answered,
                self._metrics.kept_dropped,
            )
