"""The transaction coordinators of this broker, one for each partition of ``__transaction_state``
(Kafka class TransactionCoordinator).

**The way of a transaction**: partitions are added, the outcome is decided, the decision becomes
durable and is answered. Then its markers are written, and the transaction is complete. From the
durable decision on, nothing can change the outcome: after a crash the load goes on from there.

A request that needs the last transaction to be complete waits for it for a moment, so that clients
rarely get CONCURRENT_TRANSACTIONS and back off.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Sequence, Set
from contextlib import suppress
from typing import Final, TypeVar

from sharegroup.broker.coordination import lost_markers
from sharegroup.broker.coordination.log import CoordinatorTopic, unavailable
from sharegroup.broker.coordination.runtime import Growth, Runtime, Spawn, Written
from sharegroup.broker.coordination.transaction_machine import TransactionMachine
from sharegroup.broker.coordination.transaction_markers import TransactionMarkers
from sharegroup.broker.internal_topics import CONSUMER_OFFSETS
from sharegroup.model import errors
from sharegroup.model.environment import Clock
from sharegroup.model.ids import TopicPartition
from sharegroup.model.log import OwnedLog
from sharegroup.share_state.partitioning import group_partition
from sharegroup.transactions.coordinator import Record, TransactionCoordinator
from sharegroup.transactions.transaction import IdAndEpoch, Transaction, TransactionStage

logger = logging.getLogger("sharegroup.broker")

T = TypeVar("T")

COMPLETION_WAIT_S: Final = 1.0
"""How long a request waits until the last transaction of its id is complete."""

COMPLETION_FLUSH_S: Final = 0.05
"""How long the record of a completion waits for another record, to share its sync."""

RETRY_FIRST_S: Final = 0.1
RETRY_LAST_S: Final = 10.0
"""The pauses between attempts to write markers grow from RETRY_FIRST_S to this."""

GROWTH: Final = Growth(records=lambda: 10_000, per_live=2)
"""When the log is rewritten."""


class BrokerTransactions:
    """All transactional ids: a coordinator of the core for each partition of the state topic.

    Args:
        new_coordinator: makes an empty coordinator of the core.
    """

    def __init__(
        self,
        topic: CoordinatorTopic,
        new_coordinator: Callable[[], TransactionCoordinator],
        markers: TransactionMarkers,
        clock: Clock,
    ) -> None:
        self.markers = markers
        self.ended = dict.fromkeys((True, False), 0)
        """How many transactions are complete since the start, by whether they were committed."""
        self.timed_out = 0
        """How many transactions were aborted since the start because of their time-out."""
        self.fenced = 0
        """How many requests of fenced producers were refused since the start."""
        self._clock = clock
        self._topic = topic
        self._spawn: Spawn | None = None
        self._durable: dict[str, Transaction] = {}
        """The durable decision of each id whose markers are still to be written."""
        self._completing: set[str] = set()
        self._complete: dict[str, asyncio.Event] = {}
        """Transactional id that somebody waits for → set when its transaction is complete."""

        def new_machine() -> TransactionMachine:
            return TransactionMachine(new_coordinator(), clock, self._decided, self._timed_out)

        self._runtimes = [
            Runtime(topic.partition(partition), [new_machine], clock, GROWTH, self._go_on)
            for partition in range(topic.partition_count)
        ]

    async def load(self, logs: Iterable[OwnedLog]) -> None:
        """Replay every partition; then end again what has lost its end in one of ``logs``.

        Raises:
            KafkaError: a log cannot be read.
        """
        for runtime in self._runtimes:
            await runtime.load()
        await lost_markers.write_again(logs, self._topic, self.all(), self.markers)

    def start(self, spawn: Spawn) -> None:
        """From now on, complete decided transactions and abort overdue ones."""
        self._spawn = spawn
        for runtime in self._runtimes:
            runtime.start(spawn)
        spawn(self._go_on())

    def close(self) -> None:
        """Start no more background work."""
        self._spawn = None
        for runtime in self._runtimes:
            runtime.close()

    # -- requests -----------------------------------------------------------------------------

    async def initialize(
        self, transactional_id: str, timeout_ms: int, expected: IdAndEpoch | None
    ) -> IdAndEpoch:
        """Give an id to a producer, and abort the open transaction of an earlier one.

        Raises:
            KafkaError: as ``TransactionCoordinator.initialize``; or the log failed.
        """
        until = asyncio.get_running_loop().time() + COMPLETION_WAIT_S
        while True:
            await self._wait_complete(transactional_id, until)
            producer = await self._commit(
                transactional_id,
                lambda ids: ids.initialize(
                    transactional_id, timeout_ms, expected, self._clock.wall_ms()
                ),
            )
            if producer is not None:
                return producer

    async def add_partitions(
        self,
        transactional_id: str,
        producer: IdAndEpoch,
        partitions: Set[TopicPartition],
        version: int,
    ) -> None:
        """Add partitions to a transaction, durably. ``version``: the transaction version of the
        client.

        Raises:
            KafkaError: as ``TransactionCoordinator.add_partitions``; or the log failed.
        """
        await self._wait_complete(transactional_id)
        await self._commit(
            transactional_id,
            lambda ids: ids.add_partitions(
                transactional_id, producer, partitions, version, self._clock.wall_ms()
            ),
        )

    async def add_group(
        self, transactional_id: str, producer: IdAndEpoch, group_id: str, version: int
    ) -> None:
        """Add the offsets of a group to a transaction, durably. As :meth:`add_partitions`."""
        where = TopicPartition(CONSUMER_OFFSETS, self.markers.partition_of_group(group_id))
        await self.add_partitions(transactional_id, producer, {where}, version)

    def check_write(
        self, transactional_id: str, producer: IdAndEpoch, partition: TopicPartition
    ) -> None:
        """Allow a write that the caller makes before its next ``await``.

        Raises:
            CoordinatorLoadInProgress: try again later.
            KafkaError: as ``TransactionCoordinator.check_write``.
        """
        try:
            self._ids(transactional_id).check_write(transactional_id, producer, partition)
        except errors.ProducerFenced:
            self.fenced += 1
            raise

    async def end(
        self, transactional_id: str, producer: IdAndEpoch, version: int, *, commit: bool
    ) -> IdAndEpoch:
        """Commit or abort, durably. Returns the producer that may begin the next transaction.

        Raises:
            KafkaError: as ``TransactionCoordinator.end``; or the log failed.
        """
        await self._wait_complete(transactional_id)
        return await self._commit(
            transactional_id,
            lambda ids: ids.end(
                transactional_id, producer, version, self._clock.wall_ms(), commit=commit
            ),
        )

    def find(self, transactional_id: str) -> Transaction | None:
        """The state of an id, or None.

        Raises:
            CoordinatorLoadInProgress: try again later.
        """
        return self._ids(transactional_id).find(transactional_id)

    def all(self) -> list[Transaction]:
        """Every transactional id.

        Raises:
            CoordinatorLoadInProgress: try again later.
        """
        found: list[Transaction] = []
        for runtime in self._runtimes:
            if not runtime.loaded:
                raise errors.CoordinatorLoadInProgress
            found += runtime.machine(TransactionMachine).coordinator
        return found

    @property
    def runtimes(self) -> Sequence[Runtime]:
        """The logs of the coordinators, by partition."""
        return self._runtimes

    def by_state(self) -> Counter[TransactionStage]:
        """How many ids of the loaded logs are in each state."""
        return sum((Counter(ids.by_state) for ids in self._loaded()), Counter())

    def oldest_open_ms(self) -> int | None:
        """How long the oldest open transaction has been open; None: no transaction is open."""
        started = [ids.oldest_started_ms() for ids in self._loaded()]
        oldest = min((each for each in started if each is not None), default=None)
        return None if oldest is None else max(0, self._clock.wall_ms() - oldest)

    def _loaded(self) -> list[TransactionCoordinator]:
        return [
            runtime.machine(TransactionMachine).coordinator
            for runtime in self._runtimes
            if runtime.loaded
        ]

    # -- completion ---------------------------------------------------------------------------

    def _timed_out(self) -> None:
        self.timed_out += 1

    def _decided(self, decided: Transaction) -> None:
        """An outcome is durable: write the markers in the background. A rewrite of the log reports
        old outcomes again; these must not replace the outcome of the next transaction."""
        transactional_id = decided.transactional_id
        ids = self._runtime(transactional_id).machine(TransactionMachine).coordinator
        if not decided.is_same(ids.find(transactional_id)):
            return
        self._durable[transactional_id] = decided
        if self._spawn is not None and transactional_id not in self._completing:
            self._completing.add(transactional_id)
            self._spawn(self._finish(transactional_id))

    async def _go_on(self) -> None:
        """After a load: complete the transactions that were decided before it."""
        for runtime in self._runtimes:
            if runtime.loaded:
                for transaction in runtime.machine(TransactionMachine).coordinator.decided():
                    self._decided(transaction)

    async def _finish(self, transactional_id: str) -> None:
        """Write the markers of an id's durable decisions, until no decision is left."""
        try:
            while self._spawn is not None and transactional_id in self._durable:
                await self._finish_one(self._durable.pop(transactional_id))
        finally:
            self._completing.discard(transactional_id)
            self._tell_complete(transactional_id)

    async def _finish_one(self, decided: Transaction) -> None:
        transactional_id = decided.transactional_id
        done: set[TopicPartition] = set()
        pause_s = RETRY_FIRST_S
        while self._spawn is not None:
            try:
                if not decided.is_same(self._ids(transactional_id).find(transactional_id)):
                    return  # an outcome that was reported a second time, as by a load
                await self.markers.write(decided, done)
                self._write_completion(decided)
                return
            except errors.KafkaError as error:
                logger.warning("%s: markers are missing yet: %s", transactional_id, error)
                with suppress(errors.KafkaError):  # necessary if a write to its own log has failed
                    await self._runtime(transactional_id).load()
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, RETRY_LAST_S)

    def _write_completion(self, decided: Transaction) -> None:
        """All markers are durable: write the record of the completion. The next transaction may
        begin at once: its records come after this record, and are answered when both are durable.
        No sync is spent on this record alone, unless no other record follows soon: if a crash loses
        it, the markers are written again."""
        runtime = self._runtime(decided.transactional_id)
        marked = IdAndEpoch(decided.producer_id, decided.epoch)
        _, written = runtime.begin(
            TransactionMachine,
            lambda machine: machine.coordinator.completed(
                decided.transactional_id, marked, self._clock.wall_ms()
            ),
            flush=False,
        )
        if written.records:
            self.ended[decided.commits] += 1
        self._tell_complete(decided.transactional_id)
        if self._spawn is not None:
            self._spawn(self._settle_later(runtime, written))

    async def _settle_later(self, runtime: Runtime, written: Written) -> None:
        await asyncio.sleep(COMPLETION_FLUSH_S)
        with suppress(errors.KafkaError):  # then the log is loaded again, and the decision with it
            await runtime.settle(written)

    def _tell_complete(self, transactional_id: str) -> None:
        event = self._complete.pop(transactional_id, None)
        if event is not None:
            event.set()

    async def _wait_complete(self, transactional_id: str, until_s: float | None = None) -> None:
        """Wait a moment while a decided transaction of the id is not complete.

        Raises:
            ConcurrentTransactions: the completion takes longer.
        """
        if not transactional_id:
            raise errors.InvalidRequest("a transactional id cannot be empty")
        now_s = asyncio.get_running_loop().time
        until_s = now_s() + COMPLETION_WAIT_S if until_s is None else until_s
        runtime = self._runtime(transactional_id)
        while True:
            ids = runtime.machine(TransactionMachine).coordinator
            transaction = ids.find(transactional_id)
            if transaction is None or not transaction.prepared:
                return
            if now_s() >= until_s:
                raise errors.ConcurrentTransactions
            event = self._complete.setdefault(transactional_id, asyncio.Event())
            with suppress(TimeoutError):
                async with asyncio.timeout_at(until_s):
                    await event.wait()

    async def _commit(
        self,
        transactional_id: str,
        decide: Callable[[TransactionCoordinator], tuple[T, Sequence[Record]]],
    ) -> T:
        try:
            with unavailable():
                return await self._runtime(transactional_id).commit(
                    TransactionMachine, lambda machine: decide(machine.coordinator)
                )
        except errors.ProducerFenced:
            self.fenced += 1
            raise

    def _runtime(self, transactional_id: str) -> Runtime:
        return self._runtimes[group_partition(transactional_id, len(self._runtimes))]

    def _ids(self, transactional_id: str) -> TransactionCoordinator:
        runtime = self._runtime(transactional_id)
        if not runtime.loaded:
            raise errors.CoordinatorLoadInProgress
        return runtime.machine(TransactionMachine).coordinator
