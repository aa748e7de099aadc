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
from collections.abc import Callable, Sequence, Set
from contextlib import suppress
from typing import Final, TypeVar

from sharegroup.broker.coordination.internal_topic import InternalTopic
from sharegroup.broker.coordination.runtime import Growth, Runtime, Spawn, unavailable
from sharegroup.broker.coordination.transaction_machine import TransactionMachine
from sharegroup.broker.coordination.transaction_markers import TransactionMarkers
from sharegroup.broker.internal_topics import CONSUMER_OFFSETS
from sharegroup.model.environment import Clock
from sharegroup.model.errors import (
    ConcurrentTransactions,
    CoordinatorLoadInProgress,
    InvalidRequest,
    KafkaError,
)
from sharegroup.model.ids import TopicPartition
from sharegroup.share_state.partitioning import group_partition
from sharegroup.transactions.coordinator import Record, TransactionCoordinator
from sharegroup.transactions.transaction import Producer, Transaction

logger = logging.getLogger("sharegroup.broker")

T = TypeVar("T")

COMPLETION_WAIT_S: Final = 1.0
"""How long a request waits until the last transaction of its id is complete."""

RETRY_FIRST_S: Final = 0.1
RETRY_LAST_S: Final = 10.0
"""Pauses between attempts to write markers."""

GROWTH: Final = Growth(records=lambda: 10_000, per_live=2)
"""When the log is rewritten."""


class Transactions:
    """All transactional ids.

    Args:
        new_coordinator: makes an empty coordinator of the core.
    """

    def __init__(
        self,
        topic: InternalTopic,
        new_coordinator: Callable[[], TransactionCoordinator],
        markers: TransactionMarkers,
        clock: Clock,
    ) -> None:
        self.markers = markers
        self._clock = clock
        self._spawn: Spawn | None = None
        self._completing: set[str] = set()
        self._complete: dict[str, asyncio.Event] = {}
        """Set when the transaction of an id that somebody waits for is complete."""

        def new_machine() -> TransactionMachine:
            return TransactionMachine(new_coordinator(), clock, self._decided)

        self._runtimes = [
            Runtime(topic.partition(partition), [new_machine], clock, GROWTH, self._go_on)
            for partition in range(topic.partition_count)
        ]

    async def load(self) -> None:
        """Replay every partition.

        Raises:
            KafkaError: a log cannot be read.
        """
        for runtime in self._runtimes:
            await runtime.load()

    def start(self, spawn: Spawn) -> None:
        """Complete the decided transactions and end what is overdue, from now on."""
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
        self, transactional_id: str, timeout_ms: int, expected: Producer | None
    ) -> Producer:
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
        producer: Producer,
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
        self, transactional_id: str, producer: Producer, group_id: str, version: int
    ) -> None:
        """Add the offsets of a group to a transaction, durably; as :meth:`add_partitions`."""
        where = TopicPartition(CONSUMER_OFFSETS, self.markers.partition_of_group(group_id))
        await self.add_partitions(transactional_id, producer, {where}, version)

    def check_write(
        self, transactional_id: str, producer: Producer, partition: TopicPartition
    ) -> None:
        """Allow a write that the caller makes before its next ``await``.

        Raises:
            CoordinatorLoadInProgress: try again later.
            KafkaError: as ``TransactionCoordinator.check_write``.
        """
        self._ids(transactional_id).check_write(transactional_id, producer, partition)

    async def end(
        self, transactional_id: str, producer: Producer, version: int, *, commit: bool
    ) -> Producer:
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
                raise CoordinatorLoadInProgress
            found += runtime.machine(TransactionMachine).coordinator
        return found

    # -- completion ---------------------------------------------------------------------------

    def _decided(self, transactional_id: str) -> None:
        """An outcome is durable: write the markers in the background."""
        if self._spawn is not None and transactional_id not in self._completing:
            self._completing.add(transactional_id)
            self._spawn(self._finish(transactional_id))

    async def _go_on(self) -> None:
        """After a load: complete what was decided before."""
        for runtime in self._runtimes:
            if runtime.loaded:
                for transaction in runtime.machine(TransactionMachine).coordinator.decided():
                    self._decided(transaction.transactional_id)

    async def _finish(self, transactional_id: str) -> None:
        """Write markers until no decided transaction of the id is left."""
        done: set[TopicPartition] = set()
        pause_s = RETRY_FIRST_S
        try:
            while self._spawn is not None:
                try:
                    await self._finish_one(transactional_id, done)
                except KafkaError as error:
                    logger.warning("%s: markers are missing yet: %s", transactional_id, error)
                    await asyncio.sleep(pause_s)
                    pause_s = min(2 * pause_s, RETRY_LAST_S)
                    continue
                done.clear()
                now = self._runtime(transactional_id).machine(TransactionMachine).coordinator
                transaction = now.find(transactional_id)
                if transaction is None or not transaction.prepared:
                    return
        finally:
            self._completing.discard(transactional_id)
            event = self._complete.pop(transactional_id, None)
            if event is not None:
                event.set()

    async def _finish_one(self, transactional_id: str, done: set[TopicPartition]) -> None:
        # A decision without records waits for those before it: the outcome is durable then.
        transaction = await self._commit(
            transactional_id, lambda ids: (ids.find(transactional_id), ())
        )
        if transaction is None or not transaction.prepared:
            return
        await self.markers.write(transaction, done)
        marked = Producer(transaction.producer_id, transaction.epoch)
        await self._commit(
            transactional_id,
            lambda ids: ids.completed(transactional_id, marked, self._clock.wall_ms()),
        )

    async def _wait_complete(self, transactional_id: str, until_s: float | None = None) -> None:
        """Wait a moment while a decided transaction of the id is not complete.

        Raises:
            ConcurrentTransactions: it takes longer.
        """
        if not transactional_id:
            raise InvalidRequest("a transactional id cannot be empty")
        now_s = asyncio.get_running_loop().time
        until_s = now_s() + COMPLETION_WAIT_S if until_s is None else until_s
        runtime = self._runtime(transactional_id)
        while True:
            ids = runtime.machine(TransactionMachine).coordinator
            transaction = ids.find(transactional_id)
            if transaction is None or not transaction.prepared:
                return
            if now_s() >= until_s:
                raise ConcurrentTransactions
            event = self._complete.setdefault(transactional_id, asyncio.Event())
            with suppress(TimeoutError):
                async with asyncio.timeout_at(until_s):
                    await event.wait()

    async def _commit(
        self,
        transactional_id: str,
        decide: Callable[[TransactionCoordinator], tuple[T, Sequence[Record]]],
    ) -> T:
        with unavailable():
            return await self._runtime(transactional_id).commit(
                TransactionMachine, lambda machine: decide(machine.coordinator)
            )

    def _runtime(self, transactional_id: str) -> Runtime:
        return self._runtimes[group_partition(transactional_id, len(self._runtimes))]

    def _ids(self, transactional_id: str) -> TransactionCoordinator:
        runtime = self._runtime(transactional_id)
        if not runtime.loaded:
            raise CoordinatorLoadInProgress
        return runtime.machine(TransactionMachine).coordinator
