"""The coordinator runtime: one partition of an internal topic and the machines kept in it.

**Decide, write, wait, answer.** Deciding and writing happen in one step of the loop, so the log has
the order of the decisions. A caller answers when its records are durable. A decision without
records waits for all earlier writes: an answer must not reveal state that may be lost.

**A failed write.** The machines are then ahead of the log. They are discarded and loaded again.
Until that has succeeded, the runtime takes no decisions.

**Rewriting** keeps the log short. The runtime writes every live record of *every* machine again, a
few keys at a time, interleaved with other work. When the last one is durable, it deletes all
records before the first. Replay from there gives the same state: the new records hold each key's
state, and later changes follow in the log. A crash at any point leaves the old records, or a
complete set of new ones. Kafka compacts instead; the formats are the same, so its tools read both.

**Transactions.** Records of a transaction are a batch with its producer's id and epoch, and its end
is a marker, as in any partition. :meth:`Runtime.end_transaction` writes the marker. A replay gives
these records to the machines as pending, and a rewrite writes pending records as pending ones.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from sharegroup.broker.coordination.log import (
    CoordinatorLog,
    EndOfTransaction,
    LoggedEnd,
    ProducerEpoch,
    Ticket,
)
from sharegroup.broker.coordination.machine import Machine, end_in, replay, runs, transactional
from sharegroup.broker.deadline_timer import DeadlineTimer
from sharegroup.model import errors
from sharegroup.model.environment import Clock
from sharegroup.model.histogram import Histogram

logger = logging.getLogger("sharegroup.broker")

M = TypeVar("M", bound=Machine[Any])
T = TypeVar("T")
Spawn: TypeAlias = Callable[[Coroutine[Any, Any, None]], None]
"""Runs a coroutine in the background and reports its failure."""
Heard: TypeAlias = Callable[[Callable[[], None]], None]
"""Calls back when all requests that have come were looked at. Only then it is judged whether a
member was silent."""

LOAD_AGAIN_S: Final = 0.5
KEYS_PER_TURN: Final = 32
"""Keys rewritten between two turns of the event loop: a millisecond or two of work."""


class Growth(NamedTuple):
    """How many records a log may grow by, over its length after the last rewrite, before it is
    rewritten.

    The larger of two numbers counts: ``records``, called at each use, and ``per_live`` for each
    live record. So rewriting costs only a fraction of the writes that made it necessary.
    """

    records: Callable[[], int]
    per_live: int


class Written(NamedTuple):
    """A decision's submitted records; without records, it stands for all earlier writes."""

    machine: Machine[Any]
    records: Sequence[Any]
    ticket: Ticket
    load: int
    """The number of the load of the machines on which the decision was taken."""


class Runtime:
    """One partition of an internal topic.

    Args:
        machines: factories of empty machines, one for each machine with records in this log. A
            machine that is left out loses its records when the log is rewritten.
        after_load: work to run in the background after each load of the machines.
    """

    def __init__(
        self,
        log: CoordinatorLog,
        machines: Sequence[Callable[[], Machine[Any]]],
        clock: Clock,
        growth: Growth,
        after_load: Callable[[], Coroutine[Any, Any, None]] | None = None,
    ) -> None:
        self.write_seconds = Histogram()
        """How long commits took to become durable."""
        self.load_seconds = Histogram()
        self.deleted_before: int | None = None
        """The log start after the last deletion of records; None before the first deletion."""
        self._log = log
        self._new_machines = machines
        self._clock = clock
        self._growth = growth
        self._after_load = after_load
        self._machines = tuple(new() for new in machines)
        self._in_step = False
        """Whether the machines agree with the log, writes in flight included."""
        self._loading: asyncio.Future[None] | None = None
        self._loads = 0
        self._spawn: Spawn | None = None
        self._heard: Heard
        self._ticks_soon = False
        self._timer = DeadlineTimer(clock, self._deadline)
        self._rewriting = False
        self._live = 0
        self._length = 0
        """Records in the log after the last rewrite, or the number of live records after a load."""

    @property
    def loaded(self) -> bool:
        """Whether decisions may be taken."""
        return self._in_step

    def machine(self, kind: type[M]) -> M:
        """One of the machines. It may be ahead of the log. Do not keep it across an ``await``: a
        load replaces it."""
        for machine in self._machines:
            if isinstance(machine, kind):
                return machine
        raise TypeError(f"{self._log.name} has no {kind.__name__}")

    def start(self, spawn: Spawn, heard: Heard = lambda call: call()) -> None:
        """Tick at deadlines and rewrite a long log from now on; ``spawn`` runs the work."""
        self._spawn, self._heard = spawn, heard
        self._schedule()

    def close(self) -> None:
        """Start no more background work."""
        self._spawn = None
        self._timer.close()

    # -- deciding -----------------------------------------------------------------------------

    async def ensure(self) -> None:
        """Make the topic unless it exists: :meth:`begin` needs it.

        Raises:
            KafkaStorageError: the disk failed.
        """
        await self._log.ensure()

    def begin(
        self,
        kind: type[M],
        decide: Callable[[M], tuple[T, Sequence[Any]]],
        *,
        flush: bool = True,
    ) -> tuple[T, Written]:
        """Decide, and submit the records that ``decide`` returns with its result. Without ``flush``
        the records become durable with later records, or when somebody waits for them.

        The records are not durable yet: :meth:`settle` this write, or a later one, before
        answering. If ``decide`` raises, it must not have changed anything.

        Raises:
            CoordinatorLoadInProgress: the machines must be loaded first.
            KafkaError: as ``decide``; or the log failed.
        """
        if not self._in_step:
            raise errors.CoordinatorLoadInProgress
        machine = self.machine(kind)
        result, records = decide(machine)
        written = self._write(machine, records, flush=flush)
        self._schedule()
        return result, written

    async def read(self, kind: type[M], query: Callable[[M], T]) -> T:
        """Ask a machine, and return the answer once everything that it shows is durable. Does not
        make the topic.

        Raises:
            KafkaError: as ``query``; or the log failed.
        """
        made = await self._log.is_made()
        await self.load()
        machine = self.machine(kind)
        answer = query(machine)
        if made:
            await self.settle(Written(machine, (), self._log.submit(()), self._loads))
        return answer

    async def end_transaction(self, end: EndOfTransaction) -> None:
        """Write the marker of a transaction, so that its pending records take effect or are
        dropped. Returns when the marker is durable. There may be no pending records.

        Raises:
            InvalidProducerEpoch: a later epoch of the producer has written to this log.
            KafkaError: the log failed.
        """
        await self._log.ensure()
        await self.load()
        self._log.check_producer(end.producer)
        try:
            ticket = self._log.submit_end(end)
        except errors.KafkaError as error:
            self._failed(self._loads, error)
            await self._load_again()
            raise
        end_in(self._machines, end)
        self._rewrite_when_long()
        self._schedule()
        await self.settle(Written(self._machines[0], (), ticket, self._loads))

    def check_producer(self, producer: ProducerEpoch) -> None:
        """Check the producer of a transaction before its records are decided on.

        Raises:
            InvalidProducerEpoch: a later epoch of the producer has written to this log.
        """
        if self._log.exists:
            self._log.check_producer(producer)

    async def settle(self, written: Written) -> None:
        """Wait until a write is durable. If it fails, load the machines again.

        Raises:
            KafkaStorageError: the write will never be durable.
        """
        try:
            first_offset = await written.ticket.durable()
        except errors.KafkaError as error:
            self._failed(written.load, error)
            await self._load_again()
            raise
        if written.records:
            written.machine.durable(written.records, first_offset)

    async def commit(self, kind: type[M], decide: Callable[[M], tuple[T, Sequence[Any]]]) -> T:
        """Decide, and return the result once its records are durable. Loads the machines if needed.

        Raises:
            KafkaError: as ``decide``; or the log failed.
        """
        now_s = asyncio.get_running_loop().time
        started = now_s()
        result, written = await self.begin_loaded(kind, decide)
        await self.settle(written)
        self.write_seconds.observe(now_s() - started)
        return result

    async def begin_loaded(
        self, kind: type[M], decide: Callable[[M], tuple[T, Sequence[Any]]]
    ) -> tuple[T, Written]:
        """As :meth:`begin`; makes the topic and loads the machines if needed."""
        await self._log.ensure()
        await self.load()
        try:
            return self.begin(kind, decide)
        except errors.KafkaError:
            await self._load_again()
            raise

    def _write(
        self, machine: Machine[Any], records: Sequence[Any], *, flush: bool = True
    ) -> Written:
        keeper = transactional(machine)
        producer = keeper.producer_of(records[0]) if keeper and records else None
        try:
            encoded = [machine.encode(record) for record in records]
            ticket = self._log.submit(encoded, producer, flush=flush)
        except errors.KafkaError as error:
            self._failed(self._loads, error)
            raise
        if records:
            self._rewrite_when_long()
        return Written(machine, records, ticket, self._loads)

    def _failed(self, load: int, error: errors.KafkaError) -> None:
        if self._in_step and load == self._loads:
            logger.error("%s cannot be written and is loaded again: %s", self._log.name, error)
            self._in_step = False

    # -- loading ------------------------------------------------------------------------------

    async def load(self) -> None:
        """Load the machines unless they are loaded; concurrent callers share one load.

        Raises:
            KafkaError: the log cannot be read, or holds records that will never be durable.
        """
        while not self._in_step:
            # A load that has ended is not waited for: that would return at once, again and again.
            if self._loading is None or self._loading.done():
                self._loading = asyncio.ensure_future(self._load())
                self._loading.add_done_callback(self._loading_ended)
            await asyncio.shield(self._loading)

    async def load_or_refuse(self) -> None:
        """Load the machines unless they are loaded. If a load is already running, refuse instead of
        waiting: the client should retry.

        Raises:
            CoordinatorLoadInProgress: a load is running.
            CoordinatorNotAvailable: the load failed.
        """
        if self._loading is not None:
            raise errors.CoordinatorLoadInProgress
        try:
            await self.load()
        except errors.KafkaError as error:
            if isinstance(error, errors.NotCoordinator):
                raise
            raise errors.CoordinatorNotAvailable(str(error)) from error

    def _loading_ended(self, loading: asyncio.Future[None]) -> None:
        if self._loading is loading:
            self._loading = None
        if loading.cancelled() or loading.exception() is not None:
            return  # the waiters, if any, get the exception
        if self._spawn is not None and self._after_load is not None:
            self._spawn(self._after_load())

    async def _load(self) -> None:
        """Replay the log into new machines."""
        now_s = asyncio.get_running_loop().time
        started = now_s()
        machines = tuple(new() for new in self._new_machines)
        if self._log.exists:
            await self._log.ensure()  # complete a half-created topic
            async for entry in self._log.replay():
                if isinstance(entry, LoggedEnd):
                    end_in(machines, entry.end)
                    continue
                try:
                    replay(machines, entry)
                except errors.MalformedMessage as error:
                    self._log.leave_out(entry.offset, error)
        for machine in machines:
            machine.replayed(self._clock.monotonic_ms())
        self._machines = machines
        self._loads += 1
        self._in_step = True
        self._live = self._length = sum(machine.size() for machine in machines)
        self._schedule()
        self.load_seconds.observe(now_s() - started)

    def outdated(self) -> None:
        """Somebody else has written to the log: load it again, in the background."""
        self._in_step = False
        if self._spawn is not None:
            self._spawn(self._load_anew())

    async def _load_anew(self) -> None:
        if self._loading is not None:  # it may have read the log before the change was there
            await asyncio.wait([self._loading])
            self._in_step = False
        await self._load_again()

    async def give_up(self) -> None:
        """Decide nothing more, and let another broker have the log, when all that was decided is
        written. The machines are empty until the next :meth:`load`, which may be refused."""
        self._in_step = False
        if self._loading is not None:
            await asyncio.wait([self._loading])
            self._in_step = False
        await self._log.give_up()
        self._machines = tuple(new() for new in self._new_machines)
        self._schedule()

    async def _load_again(self) -> None:
        """Load the machines again, without the changes that could not be written."""
        try:
            await self.load()
        except errors.KafkaError as error:
            logger.error("%s cannot be read either: %s", self._log.name, error)

    # -- deadlines ----------------------------------------------------------------------------

    def _schedule(self) -> None:
        """Set the timer to the next deadline of all machines."""
        if self._spawn is None:
            return
        deadline_ms: int | None = None
        for machine in self._machines:
            its_ms = machine.next_deadline_ms()
            if its_ms is not None and (deadline_ms is None or its_ms < deadline_ms):
                deadline_ms = its_ms
        self._timer.set(deadline_ms)

    def _deadline(self) -> None:
        if not self._ticks_soon:
            self._ticks_soon = True
            self._heard(self._tick)

    def _tick(self) -> None:
        self._ticks_soon = False
        for machine in self._machines:
            if not self._in_step or self._spawn is None:
                return  # the next load sets the timer again
            records = machine.tick(self._clock.monotonic_ms())
            if records:
                try:
                    written = self._write(machine, records)
                except errors.KafkaError as error:
                    self._spawn(self._tick_again(error))
                else:
                    self._spawn(self._settle_in_background(written))
        self._schedule()

    async def _settle_in_background(self, written: Written) -> None:
        try:
            await self.settle(written)
        except errors.KafkaError as error:
            await self._tick_again(error)

    async def _tick_again(self, error: errors.KafkaError) -> None:
        """Load the log again when that is possible, so that the next tick repeats the change."""
        logger.warning("%s: a scheduled change cannot be written: %s", self._log.name, error)
        while not self._in_step and self._spawn is not None:
            await asyncio.sleep(LOAD_AGAIN_S)
            try:
                await self.load()
            except errors.NotCoordinator:
                return
            except errors.KafkaError:
                continue  # the disk is not well yet

    # -- keeping the log short ----------------------------------------------------------------

    async def prune(self) -> int | None:
        """Delete records that no machine needs; returns the new log start, or None if unchanged.

        Raises:
            KafkaError: the log failed.
        """
        await self.load()
        if not self._log.exists:
            return None
        end_offset = self._log.durable_end
        needed = [machine.lowest_needed(end_offset) for machine in self._machines]
        known = [offset for offset in needed if offset is not None]
        return await self._delete_before(min(known)) if len(known) == len(needed) else None

    async def rewrite(self) -> None:
        """Rewrite every live record of every machine, then delete the older records. Does nothing
        while a rewrite is running.

        Raises:
            KafkaError: the log failed; the old records stay.
        """
        if not self._rewriting:
            self._rewriting = True
            await self._rewrite()

    def _rewrite_when_long(self) -> None:
        if self._spawn is None or self._rewriting:
            return
        more = self._log.record_count - self._length
        if more >= max(self._growth.records(), self._growth.per_live * self._live):
            self._rewriting = True
            self._spawn(self._rewrite_in_background())

    async def _rewrite_in_background(self) -> None:
        try:
            await self._rewrite()
        except errors.KafkaError as error:
            logger.warning(
                "%s could not be rewritten, the old records stay: %s", self._log.name, error
            )

    async def _rewrite(self) -> None:
        """See the module. A load in between ends the rewrite, because it replaces the machines."""
        try:
            await self.load()
            load = self._loads
            begin = self._log.submit(())
            for machine in self._machines:
                live = machine.live_records()
                while keys := list(islice(live, KEYS_PER_TURN)):
                    records = [record for key in keys for record in key]
                    # All are submitted in this step: a decision in between could outdate them.
                    for written in [self._write(machine, run) for run in runs(machine, records)]:
                        await self.settle(written)
                    await asyncio.sleep(0)
                    if not self._in_step or self._loads != load:
                        return
            offset = await begin.durable()
            if self._in_step and self._loads == load:
                await self._delete_before(offset)
        finally:
            self._rewriting = False
            self._live = sum(machine.size() for machine in self._machines)
            self._length = self._log.record_count if self._log.exists else 0

    async def _delete_before(self, offset: int) -> int | None:
        if offset <= self._log.start_offset:
            return None
        self.deleted_before = await self._log.delete_before(offset)
        return self.deleted_before
