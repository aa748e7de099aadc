"""A pool: many keys handled at once inside one process, each key's records one after the other.

::

    async with consumer.by_key(workers=100) as pool:
        await pool.run(handle)

The group commits offsets. A pool commits, for each partition, the first offset that is not done. So
records after it that were done come again after a crash: each record is handled at least once.
"""

from __future__ import annotations

import asyncio
import logging
import random
import signal
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Generic, Self

from sharegroup.client.core.key_lanes import Entry, KeyLanes
from sharegroup.client.core.positions import Position
from sharegroup.client.core.record import ConsumerRecord, K, V
from sharegroup.client.core.setting_checks import check_positive
from sharegroup.client.errors import HandlerFailed, IllegalState
from sharegroup.client.group.calls import ConsumerCalls
from sharegroup.client.group.polling import RECORDS
from sharegroup.client.worker.failures import FailureLog
from sharegroup.client.worker.handling import is_cancelled
from sharegroup.client.worker.retry import Backoff, Reject
from sharegroup.client.worker.signals import answering_signals
from sharegroup.model.errors import ConfigError
from sharegroup.model.ids import TopicPartition
from sharegroup.model.limits import POOL_RECORDS_MAX

log = logging.getLogger("sharegroup.pool")

Handler = Callable[[ConsumerRecord[K, V]], Awaitable[object]]
OnFailure = Callable[[ConsumerRecord[K, V], Exception], Awaitable[object]]
AnyEntry = Entry[ConsumerRecord[Any, Any]]

ATTEMPTS_DEFAULT: Final = 5
_POLL_S: Final = 1.0
_CANCEL_S: Final = 2.0
"""How long, in seconds, handlers may take to end after they were cancelled."""
_TURN_S: Final = 0.02
"""How long, in seconds, handlers that await nothing may block the event loop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSettings:
    """The arguments of ``Consumer.by_key``, which explains them.

    Raises:
        ConfigError: an argument is invalid.
    """

    workers: int
    max_in_flight: int | None
    retry: Backoff
    fatal: Sequence[type[Exception]]
    commit_interval_s: float
    drain_s: float
    given_up_at_once: tuple[type[Exception], ...] = field(init=False)

    def __post_init__(self) -> None:
        check_positive("workers", self.workers)
        if self.max_in_flight is not None and self.max_in_flight < self.workers:
            raise ConfigError(
                f"max_in_flight is {self.max_in_flight}: it must be at least workers, "
                f"{self.workers}"
            )
        for name in ("workers", "max_in_flight"):
            value = getattr(self, name)
            if value is not None and value > POOL_RECORDS_MAX:
                raise ConfigError(f"{name} is {value}: it must be at most {POOL_RECORDS_MAX}")
        if self.commit_interval_s <= 0:
            raise ConfigError(
                f"commit_interval_s is {self.commit_interval_s}: it must be more than 0"
            )
        if self.drain_s < 0:
            raise ConfigError(f"drain_s is {self.drain_s}: it must be at least 0")
        object.__setattr__(self, "given_up_at_once", (Reject, *self.fatal))

    @property
    def room(self) -> int:
        """The most records that the pool holds."""
        if self.max_in_flight is not None:
            return self.max_in_flight
        return min(10 * self.workers, POOL_RECORDS_MAX)

    @property
    def attempts(self) -> int:
        """How often a record is tried."""
        return ATTEMPTS_DEFAULT if self.retry.attempts is None else self.retry.attempts


class KeyPool(Generic[K, V]):
    """See the module. ``Consumer.by_key`` makes it.

    Args:
        owner: the consumer; a consumer that nobody keeps is cut off.

    Raises:
        IllegalState: there is no group.
    """

    def __init__(
        self,
        calls: ConsumerCalls[K, V],
        owner: object,
        settings: PoolSettings,
        on_failure: OnFailure[K, V] | None,
    ) -> None:
        calls.parts.identity.known()
        self._calls, self._parts = calls, calls.parts
        self._reader, self._committer = calls.parts.reader, calls.parts.committer
        self._owner = owner
        self._settings = settings
        self._on_failure = on_failure
        self._lanes: KeyLanes[ConsumerRecord[K, V]] = KeyLanes()
        self._full = False
        self._handler: Handler[K, V] | None = None
        self._tasks: dict[asyncio.Task[None], AnyEntry] = {}
        self._freed = asyncio.Event()
        self._stop = asyncio.Event()
        self._closing = False
        self._error: Exception | None = None
        self._chance = random.Random()
        self._turn_at = 0.0

    async def __aenter__(self) -> Self:
        """Connect; the consumer's commits follow this pool from now on."""
        await self._calls.life.start()
        self._failures = FailureLog(asyncio.get_running_loop().time)
        self._committer.follow(self)
        self._parts.rebalancing.follow(self)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Hand the reading back to the consumer: it goes on at the first records not done."""
        stable = self._lanes.stable()
        self._parts.rebalancing.follow(None)
        if self._calls.life.closed:
            return
        for where, offset in stable.items():
            if where in self._parts.positions:
                self._calls.offsets.seek(where.topic, where.partition, offset)
        self._lanes.forget(self._calls.subscription.assignment)
        self._committer.follow(self._reader)

    async def run(
        self,
        handler: Handler[K, V],
        *,
        signals: Sequence[signal.Signals] = (signal.SIGTERM, signal.SIGINT),
    ) -> None:
        """Call ``handler`` with each record until :meth:`stop`, or one of ``signals``. Handlers
        that run then have ``drain_s`` to end; the records that are done are committed.

        Raises:
            HandlerFailed: a record is given up, and there is no ``on_failure``.
            IllegalState: the pool has run before; or the consumer reads key ranges that were
                assigned by hand: the offsets that it leaves out would be committed as done.
            KafkaError, SharegroupError: as ``Consumer.poll``.
        """
        if self._handler is not None:
            raise IllegalState("the pool has run: make another one")
        if self._parts.rebalancing.cooperative:
            raise IllegalState(
                "with cooperative=True several members may have records of one key: a pool needs "
                "key_ranges=True, or whole partitions"
            )
        key_ranges = self._calls.subscription.key_ranges
        if any(where not in self._committer.covered for where in key_ranges):
            raise IllegalState(
                "a pool handles whole partitions, or those that a group shares: assign them "
                "without key ranges, or subscribe with key_ranges=True"
            )
        self._handler = handler
        jobs = [
            asyncio.create_task(work, name=name)
            for name, work in (("pool-feed", self._feed()), ("pool-commit", self._commit_often()))
        ]
        stopped = asyncio.create_task(self._stop.wait())
        try:
            with answering_signals(signals, self.stop):
                await asyncio.wait([*jobs, stopped], return_when=asyncio.FIRST_COMPLETED)
                await self._end(jobs)
        finally:
            ending = {*jobs, stopped, *self._tasks}
            for task in ending:
                task.cancel()
            await asyncio.wait(ending, timeout=_CANCEL_S)
        for job in jobs:
            if job.done() and not job.cancelled() and (error := job.exception()) is not None:
                raise self._error or error
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        """End :meth:`run`. From another thread, use ``loop.call_soon_threadsafe``."""
        self._stop.set()

    @property
    def in_flight(self) -> int:
        """How many records wait, run or rest."""
        return self._lanes.count

    async def _end(self, jobs: Iterable[asyncio.Task[None]]) -> None:
        self._closing = True
        for job in jobs:
            job.cancel()
        await asyncio.wait(jobs)
        await self.drain(self._calls.subscription.assignment)

    # --- records come in --------------------------------------------------------------------------

    async def _feed(self) -> None:
        polling = self._calls.polling
        self._reader.asked()
        polling.fix_form(RECORDS)
        while True:
            await polling.wait(_POLL_S, self._take)
            await asyncio.sleep(0)  # if records are always at hand, the wait above does not yield

    def _take(self) -> int:
        """Take as many records as there is room for. Returns how many. The others stay in the
        fetcher, which meanwhile fetches no more of their partitions."""
        if self._full or self._closing:
            return 0
        room = self._settings.room - self._lanes.count
        count = min(room, self._parts.settings.max_poll_records)
        found = self._reader.take(count, in_turn=True)
        for at, record in enumerate(found):
            try:
                self._lanes.add(record.topic_partition, record.offset, record.key, record)
            except (TypeError, ValueError):  # a key that is not hashable
                self._give_back(found[at:])
                raise
        self._full = self._lanes.count >= self._settings.room
        self._start()
        return len(found)

    def _give_back(self, records: Sequence[ConsumerRecord[Any, Any]]) -> None:
        """Seek back to these records, so that they do not count as returned."""
        for record in reversed(records):
            self._calls.offsets.seek(record.topic, record.partition, record.offset)

    # --- records run ------------------------------------------------------------------------------

    def _start(self) -> None:
        """Start a task for each record that may run, up to ``workers`` tasks."""
        while not self._closing and len(self._tasks) < self._settings.workers:
            entry = self._lanes.take()
            if entry is None:
                return
            task = asyncio.create_task(self._work(entry), name="pool-worker")
            self._tasks[task] = entry
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task)
        self._freed.set()
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fail(error if isinstance(error, Exception) else RuntimeError(repr(error)))
        self._start()

    async def _work(self, first: AnyEntry) -> None:
        entry: AnyEntry | None = first
        clock, me = asyncio.get_running_loop().time, asyncio.current_task()
        assert me is not None
        while entry is not None:
            self._tasks[me] = entry
            await self._handle(entry)
            self._freed.set()
            if self._full and self._lanes.count <= self._settings.room // 2:
                self._full = False
                self._parts.news.set()
            if clock() > self._turn_at:
                await asyncio.sleep(0)
                self._turn_at = clock() + _TURN_S
            entry = None if self._closing else self._lanes.take()

    async def _handle(self, entry: AnyEntry) -> None:
        assert self._handler is not None
        try:
            await self._handler(entry.item)
        except asyncio.CancelledError:
            if not is_cancelled():
                await self._failed(entry, RuntimeError("the handler cancelled itself"))
                return
            if not entry.gone:
                self._lanes.rest(entry)
            raise
        except Exception as error:  # noqa: BLE001  # the application's code may raise anything
            await self._failed(entry, error)
        else:
            self._lanes.done(entry)

    async def _failed(self, entry: AnyEntry, error: Exception) -> None:
        record, settings = entry.item, self._settings
        tried = entry.failures + 1
        last = isinstance(error, settings.given_up_at_once) or tried >= settings.attempts
        what = f"{record.topic_partition}, offset {record.offset}"
        self._failures.note(f"{what}: attempt {tried} failed", error)
        if not last:
            if self._lanes.rest(entry):
                pause = settings.retry.pause_s(tried, self._chance)
                asyncio.get_running_loop().call_later(pause, self._again, entry)
            return
        if self._on_failure is not None:
            try:
                await self._on_failure(record, error)
            except asyncio.CancelledError:
                if is_cancelled():
                    self._lanes.rest(entry)
                    raise
                error = RuntimeError("on_failure cancelled itself")
            except Exception as raised:  # noqa: BLE001  # as above
                error = raised
            else:
                self._lanes.done(entry)
                return
        if self._lanes.rest(entry):
            failed = HandlerFailed(record.topic_partition, record.offset, tried, error)
            failed.__cause__ = error
            self._fail(failed)

    def _again(self, entry: AnyEntry) -> None:
        self._lanes.again(entry)
        self._start()

    def _fail(self, error: Exception) -> None:
        """The first error ends the run."""
        self._error = self._error or error
        self._closing = True
        self._stop.set()

    # --- what is done -----------------------------------------------------------------------------

    def done(self) -> Mapping[TopicPartition, Position]:
        """The positions to commit: all records before them are done. Commits of single records
        (KIP-X) would need the ranges as well: ``KeyLanes.ranges`` has them."""
        found = self._reader.returned()
        stable = self._lanes.stable()
        return found | {w: Position(at) for w, at in stable.items() if w in found}

    def committed(self, positions: Mapping[TopicPartition, Position]) -> None:
        """A commit changes nothing here."""

    async def _commit_often(self) -> None:
        while True:
            await asyncio.sleep(self._settings.commit_interval_s)
            await self._committer.commit_done()

    # --- partitions go ----------------------------------------------------------------------------

    async def drain(self, wheres: Iterable[TopicPartition]) -> None:
        """Let the running handlers of these partitions end, within ``drain_s``, and commit."""
        going = list(wheres)
        self._lanes.close(going)
        try:
            async with asyncio.timeout(self._settings.drain_s):
                while self._lanes.running_of(going):
                    self._freed.clear()
                    await self._freed.wait()
        except TimeoutError:
            count = self._lanes.running_of(going)
            log.warning(
                "%d handlers still run after %g s: their records come again",
                count,
                self._settings.drain_s,
            )
            self._cancel(going)
        await self._committer.commit_done()

    def _cancel(self, wheres: Iterable[TopicPartition]) -> None:
        """Cancel the handlers of these partitions: other members may have their keys soon."""
        gone = set(wheres)
        for task, entry in self._tasks.items():
            if entry.item.topic_partition in gone:
                task.cancel()

    def forget(self, wheres: Iterable[TopicPartition]) -> None:
        """These partitions are not ours any more: late results do not count."""
        gone = list(wheres)
        self._lanes.forget(gone)
        self._cancel(gone)
        if self._full and self._lanes.count <= self._settings.room // 2:
            self._full = False
