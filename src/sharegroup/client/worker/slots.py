"""The records that a worker holds: which run, which wait, which rest, and what becomes of each.

::

    fetched ─▶ waiting ─▶ running ─┬─ returned ─────────────────▶ ACCEPT
                                   ├─ raised ─▶ RELEASE, and it rests at the broker
                                   │         ─▶ resting, its pause is over ─▶ RELEASE
                                   └─ raised for the last time ─▶ dead letter ─▶ REJECT

A failed record rests here only where the broker lets none rest, or has no delivery left for it.
All of them keep their locks. Each gets one answer; a record whose lock is lost gets none. If the
lock is lost with the connection or session, the handler goes on, and its result is kept for the
record's return (:mod:`~sharegroup.client.worker.kept`).
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from sharegroup.client.core.acknowledgements import AckType
from sharegroup.client.core.record import Record, delivery_of
from sharegroup.client.records.decode import Decoding
from sharegroup.client.worker.answers import WorkerAnswers
from sharegroup.client.worker.broker_rests import BrokerRests
from sharegroup.client.worker.burials import Burials
from sharegroup.client.worker.dead_letters import DeadLetters
from sharegroup.client.worker.failures import FailureLog, lost_with_session, said_of
from sharegroup.client.worker.handling import Handling
from sharegroup.client.worker.kept import Kept, KeptResults
from sharegroup.client.worker.key_order import BEHIND_MAX, Lines
from sharegroup.client.worker.metrics import WorkerMetrics
from sharegroup.client.worker.retry import Backoff, Deliveries, DeliveriesUsedUp
from sharegroup.client.worker.settings import Handler, WorkerSettings
from sharegroup.client.worker.work import Place, Work, place_of
from sharegroup.model.ids import TopicIdPartition

RESTING_MAX: Final = 500
"""With this many records resting, fetching stops: if all records fail, more would fail too."""
_BEFORE_LOCK_ENDS_S: Final = 1.0
"""If locks cannot be renewed, a record's rest ends this many seconds before its lock expires."""


class Slots:
    """See the module.

    Args:
        handler: awaited with each record.
        decoding: the consumer's deserializers.
        answers: sends the answers.
        letters: produces dead letters; None: there are none, or the broker writes them.
        deliveries: the deliveries that the group allows.
        chance: the jitter of pauses.
        renewing: whether locks are being renewed.
        is_served: whether the leader of a partition answers.
        interruptible: cancelling the handler's task ends the handler.

    Attributes:
        changed: set when a handler has ended, a rest is over, or a lock is lost.
        failure: an error that ends the worker.
        overdue: how many slots are taken by handlers that nobody awaits any more.
    """

    def __init__(
        self,
        handler: Handler,
        settings: WorkerSettings,
        *,
        decoding: Decoding,
        answers: WorkerAnswers,
        letters: DeadLetters | None,
        deliveries: Deliveries,
        metrics: WorkerMetrics,
        chance: random.Random,
        renewing: Callable[[], bool],
        is_served: Callable[[TopicIdPartition], bool],
        interruptible: bool,
    ) -> None:
        self.changed = asyncio.Event()
        self.failure: BaseException | None = None
        self.overdue: Callable[[], int] = lambda: 0
        self._handling = Handling(handler, settings.timeout_s, decoding, metrics)
        self._settings = settings
        self._retry = settings.retry or Backoff()
        self._answers = answers
        self._deliveries = deliveries
        self._metrics = metrics
        self._chance = chance
        self._renewing = renewing
        self._interruptible = interruptible
        self._now = asyncio.get_running_loop().time
        self._failures = FailureLog(self._now)
        self._burials = Burials(letters, deliveries, metrics, self._failures)
        self._held_back = self._draining = self._closed = False
        self._works: dict[Place, Work] = {}
        self._waiting: deque[Work] = deque()
        self.lines = Lines(ordered=deliveries.ordered)
        self._running: set[Work] = set()
        self._resting: set[Work] = set()
        self._at_broker = BrokerRests(self.changed.set)
        self._kept = KeptResults(
            wanted=settings.keeps_results(ordered=deliveries.ordered),
            ordered=deliveries.ordered,
            metrics=metrics,
            failures=self._failures,
            now=self._now,
            is_served=is_served,
            cancel=self._cancel,
        )
        answers.on_unconfirmed = self._kept.keep_answer

    # --- records come -----------------------------------------------------------------------------

    @property
    def busy(self) -> int:
        """Slots that are taken."""
        return len(self._running) + self.overdue()

    @property
    def waiting(self) -> int:
        """Records without a slot."""
        return len(self._waiting) + self.lines.behind_count

    @property
    def resting(self) -> int:
        """Records that failed and are not yet given back."""
        return len(self._resting)

    @property
    def resting_at_broker(self) -> int:
        """Failed records that the broker has back, and that are not due yet."""
        return len(self._at_broker)

    @property
    def kept(self) -> int:
        """Records whose locks are gone, and whose handlers run or have left a result."""
        return len(self._kept)

    def room(self) -> int:
        """How many records to fetch now. 0 until half of the waiting records have a slot, so that
        a fetch brings several records. Records that wait for an earlier one of their key do not
        count here, so that a key whose record rests holds up no other key. Nor do handlers without
        a lock: a fetch may bring their records back.
        """
        settings = self._settings
        resting = len(self._resting) + len(self._at_broker)
        if resting >= RESTING_MAX or len(self._waiting) > settings.ahead // 2:
            return 0
        if self.lines.behind_count >= BEHIND_MAX:
            return 0
        locked = self.busy - self._kept.running + len(self._waiting)
        return max(0, settings.concurrency + settings.ahead - locked)

    def take(self, records: Iterable[Record]) -> None:
        """Take records that were fetched."""
        for record in records:
            place = place_of(record)
            if place in self._works:
                # Its lock is gone, otherwise the record would not have come again.
                self._lose(self._works[place])
            if self.lines.is_stale(record):
                self._answers.forget(record)
                continue
            for later in self.lines.behind(record):
                self._lose(later)  # had it kept its lock, this one would not have come
            kept = self._kept.take(record, first=self.lines.is_free(record))
            if kept is not None and kept.work is not None:
                work = kept.work  # its handler runs for this delivery from now on
                work.record, work.lost = record, False
            else:
                work = Work(record)
            self._works[place] = work
            if self.lines.add(work) and kept is None:
                self._waiting.append(work)
            elif kept is not None and kept.work is None:
                self._settle(work, kept)
        self.fill()

    def _settle(self, work: Work, kept: Kept) -> None:
        """The record has come back, and its handler has already ended."""
        work.error = kept.error
        if kept.answer is not None:
            self._answer(work, kept.answer, kept.reason)
        elif kept.final:
            work.giving_up = True
            self._waiting.append(work)  # a dead letter may be due, which takes a slot
        else:
            work.again = True
            self._rest(work, max(0.0, kept.due - self._now()))

    def fill(self) -> None:
        """Start handlers while there are slots and records."""
        while (
            not self._closed
            and not self._held_back
            and self._waiting
            and self.busy < self._settings.concurrency
        ):
            work = self._waiting.popleft()
            delivery = delivery_of(work.record)
            if delivery.lease.lost or delivery.deadline < self._now():
                self._too_late(work)
            else:
                work.task = asyncio.create_task(self._run(work), name=f"handler of {work.name}")
                self._running.add(work)
                work.task.add_done_callback(partial(self._ended, work))
        self.changed.set()

    def _too_late(self, work: Work) -> None:
        """The lock of a record that waits is gone, at least by our clock. With order per key it is
        released: if the broker thinks that we hold it, later ones of its key may come before it."""
        if self.lines.ordered and not delivery_of(work.record).lease.lost:
            self._failures.note(f"the lock of {work.name} may have ended: the record is released")
            self._give_back(work)
        else:
            self.lose(*place_of(work.record))

    def _ended(self, work: Work, task: asyncio.Task[None]) -> None:
        self._running.discard(work)
        work.task = None
        if task.cancelled():
            if not work.cancelled:  # by somebody else, as by the end of `asyncio.run`: no failure
                self._give_back(work)
        elif (error := task.exception()) is not None:
            self.failure = self.failure or error
            self._held_back = not self._draining  # else what is left would wait for its end
        self.fill()

    # --- handlers ---------------------------------------------------------------------------------

    async def _run(self, work: Work) -> None:
        if self._burials.has_begun(work):
            error = work.error or DeliveriesUsedUp(
                f"{work.record.delivery_count - 1} deliveries ended without an acknowledgement"
            )
            await self._give_up(work, error)
            return
        work.again, work.error = False, None
        failure = await self._handling.failure_of(work)
        if failure is None:
            if self._answer(work, AckType.ACCEPT):
                self._metrics.handled += 1
        else:
            await self._failed(work, failure)

    async def _failed(self, work: Work, error: Exception) -> None:
        self._metrics.failed += 1
        count, attempts = work.record.delivery_count, self._deliveries.attempts
        what = f"{work.name} failed, delivery {count} of {attempts}"
        if isinstance(error, self._settings.given_up_at_once) or count >= attempts:
            work.giving_up = True
            end = self._deliveries.end_of(self._burials.own_topic)
            self._failures.note(f"{what}: {end}", error)
            await self._give_up(work, error)
            return
        pause_s = self._retry.pause_s(count, self._chance)
        self._failures.note(f"{what}: it comes again in {pause_s:.1f} s", error)
        work.error = error
        self._rest(work, pause_s)

    async def _give_up(self, work: Work, error: Exception) -> None:
        work.error = error
        if work.lost:
            self._kept.failed(work, final=True)
            return
        if not await self._burials.are_ours():
            if self._answer(work, AckType.REJECT):
                self._metrics.rejected += 1
        elif await self._burials.bury(work, error):
            self._answer(work, AckType.REJECT)
        else:
            self._rest(work, self._retry.pause_s(work.record.delivery_count, self._chance))

    # --- resting ----------------------------------------------------------------------------------

    def _rest(self, work: Work, pause_s: float) -> None:
        at_broker = self._deliveries.rests and not (work.again or self._burials.is_last(work))
        if at_broker and delivery_of(work.record).lease.lost:
            self._lose(work, with_session=True)
        if work.lost:
            self._kept.failed(work, final=work.giving_up, due=self._now() + pause_s)
            return
        if at_broker:
            if self._answer(work, AckType.RELEASE, pause_s=pause_s):
                self._at_broker.begin(pause_s)
                self._metrics.retried += 1
            return
        if self._draining:
            self._give_back(work)
            return
        if not self._renewing():
            lock_s = delivery_of(work.record).deadline - self._now()
            pause_s = max(0.0, min(pause_s, lock_s - _BEFORE_LOCK_ENDS_S))
        self._resting.add(work)
        loop = asyncio.get_running_loop()
        work.timer = loop.call_later(pause_s, self._rested, work)

    def _rested(self, work: Work) -> None:
        self._resting.discard(work)
        if work.again or self._burials.is_last(work):
            # Either its pause began in an earlier delivery, or it is for its dead letter: a release
            # would archive the record.
            self._waiting.append(work)
        elif self._answer(work, AckType.RELEASE):
            self._metrics.retried += 1
        self.fill()

    def _give_back(self, work: Work, pause_s: float | None = None) -> None:
        archived = self._burials.archives(work)
        if archived:
            self._burials.say_archived([work])
        if self._answer(work, AckType.RELEASE, pause_s=pause_s) and not archived:
            self._metrics.released += 1

    # --- answers and locks ------------------------------------------------------------------------

    def _answer(
        self, work: Work, kind: AckType, reason: str | None = None, *, pause_s: float | None = None
    ) -> bool:
        """Give the answer. If the lock is lost, returns whether the answer is kept.

        Args:
            pause_s: how long the record is to rest at a broker that can do that.
        """
        reason = reason or self._reason(work, kind)
        pause_ms = self._deliveries.pause_ms(pause_s)
        if not work.lost and not self._answers.give(work.record, kind, reason, pause_ms):
            self._lose(work, with_session=True)
        if work.lost:
            return self._kept.ended(work, kind, reason)
        if kind is AckType.RELEASE:
            self.lines.released(work.record)
            self._drop_behind(work)
        self._forget(work)
        return True

    def _reason(self, work: Work, kind: AckType) -> str | None:
        """What the broker's dead letter says of the record; None: nothing failed, or the broker
        takes no reasons."""
        if kind is AckType.ACCEPT or work.error is None or not self._deliveries.tells_why:
            return None
        return said_of(work.error, with_traceback=self._settings.dead_letter_traceback)

    def _drop_behind(self, work: Work) -> None:
        """Drop the later records of this record's line: the broker takes them back with it, and
        does not count their delivery."""
        for later in self.lines.behind(work.record):
            later.lost = True
            self._answers.forget(later.record)
            self._forget(later)

    def _forget(self, work: Work) -> None:
        place = place_of(work.record)
        if self._works.get(place) is work:
            del self._works[place]
        following = self.lines.remove(work)
        if following is not None:
            self._waiting.append(following)

    def look_for_lost(self) -> None:
        """Lose the records that were locked in sessions that are gone."""
        self._kept.expire()
        gone = [one for one in self._works.values() if delivery_of(one.record).lease.lost]
        kept = [work.name for work in gone if self._lose(work, with_session=True)]
        if gone:
            self._failures.note(lost_with_session([work.name for work in gone], kept))

    def lose(self, partition: TopicIdPartition, offset: int) -> None:
        """The broker says that this lock is gone."""
        work = self._works.get((partition, offset))
        if work is not None:
            self._lose(work)
            self._failures.note(f"the lock of {work.name} was lost: it is redelivered, or decided")

    def _lose(self, work: Work, *, with_session: bool = False) -> bool:
        """Another member has the record, or will get it. Its handler is cancelled. If the lock is
        gone because the session is, its handler goes on, or the result stays. Returns whether it
        does.
        """
        if work.lost:
            return False
        work.lost = True
        self._metrics.lost += 1
        self._answers.forget(work.record)
        self._drop_behind(work)
        self._forget(work)
        kept = with_session and self._keep(work)
        if work in self._waiting:
            self._waiting.remove(work)
        if work.timer is not None:
            work.timer.cancel()
            self._resting.discard(work)
        if not kept:
            self._cancel(work)
        self.changed.set()
        return kept

    def _keep(self, work: Work) -> bool:
        if work.task is not None:
            return not work.cancelled and self._kept.keep_running(work)
        if work.giving_up:
            return self._kept.keep_failed(work, final=True, due=0.0)
        if work in self._resting and work.timer is not None:
            return self._kept.keep_failed(work, final=False, due=work.timer.when())
        return False

    def _cancel(self, work: Work) -> None:
        work.lost = True
        if work.task is not None and self._interruptible and not work.burying:
            work.cancelled = True
            work.task.cancel()

    # --- the end ----------------------------------------------------------------------------------

    def start_no_more(self) -> None:
        """Start no more handlers until :meth:`drain`: waiting records go on waiting."""
        self._held_back = True

    def drain(self) -> None:
        """Release all waiting and resting records, except records on their last delivery."""
        self._draining = True
        self._held_back = False
        for first, *_ in self.lines.waiting():
            if first.record.delivery_count < self._deliveries.limit:
                self._give_back(first)  # and with it the later records of its line
        staying = deque[Work]()
        while self._waiting:
            work = self._waiting.popleft()
            if work.giving_up or work.record.delivery_count >= self._deliveries.limit:
                staying.append(work)
            else:
                self._give_back(work)
        self._waiting = staying
        for work in list(self._resting):
            left_s = 0.0
            if work.timer is not None:
                left_s = max(0.0, work.timer.when() - self._now())
                work.timer.cancel()
            self._resting.discard(work)
            if self._burials.is_last(work):
                self._waiting.append(work)
            else:
                self._give_back(work, left_s)
        self.fill()

    @property
    def done(self) -> bool:
        """No record runs, waits or rests."""
        return not (self._running or self._waiting or self._resting)

    def cancel(self, *, letters_too: bool) -> list[asyncio.Task[None]]:
        """Start no more, and cancel the running handlers. Returns all tasks that run.

        Args:
            letters_too: cancel those as well that write dead letters.
        """
        self._closed = True
        self._waiting.clear()
        tasks = []
        for work in self._running:
            if work.task is not None:
                tasks.append(work.task)
                if letters_too or not self._burials.has_begun(work):
                    work.cancelled = True
                    work.task.cancel()
        return tasks

    def running(self) -> list[str]:
        """The places of the records whose handlers run."""
        return sorted(one.name for one in self._running if not self._burials.has_begun(one))

    def close(self) -> None:
        """The consumer is about to release all records that are left. The broker archives those
        that are on their last delivery, except those that it takes back with an earlier one of
        their line."""
        left, archives = self._works.values(), self._burials.archives
        again = [work for work in left if not archives(work)]
        taken_back = {later for work in again for later in self.lines.behind(work.record)}
        archived = [work for work in left if archives(work) and work not in taken_back]
        self._burials.say_archived(archived)
        self._metrics.released += len(left) - len(archived)
        self._works.clear()
        self._at_broker.close()

    def say_kept(self) -> None:
        """The worker has ended: say which results are lost."""
        self._kept.end()
