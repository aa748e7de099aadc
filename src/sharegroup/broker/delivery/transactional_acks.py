"""Acknowledgements in transactions, at the leader of their share partitions (KIP-1289).

**The way of one**: the partition of ``__share_group_state`` that has the state becomes part of the
transaction, durably. Then the transaction holds the records, durably, and the client is answered.
The end of the transaction, decided by its coordinator, is carried out in place of a marker.

Whether the transaction is still open is asked in the step in which its records are held. The write
of this step, and the end of the transaction, wait for each other: else the write could come later,
and its records would be held for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from sharegroup.broker.coordination.share_state_log import ShareStateLog
from sharegroup.broker.delivery.death_reasons import with_reasons
from sharegroup.broker.delivery.led_share_partition import LedSharePartition
from sharegroup.broker.delivery.share_partitions import SharePartitions
from sharegroup.broker.event_counters import Counters
from sharegroup.broker.hot_path_counters import Meters
from sharegroup.keyed_locks import Holding, KeyedLocks
from sharegroup.model.environment import Clock
from sharegroup.model.errors import KafkaError, UnknownTopicOrPartition
from sharegroup.model.ids import SharePartitionKey
from sharegroup.model.pending_acks import PendingAck, TransactionMark
from sharegroup.share.acknowledge import AckBatch
from sharegroup.share.pending import end_rules
from sharegroup.share.state_changes import StateChange

if TYPE_CHECKING:  # messages are loaded with the handlers that have them
    from sharegroup.wire.messages.acknowledgement_notes import Reason


class Wanted(NamedTuple):
    """What a member acknowledges in one share partition."""

    batches: Sequence[AckBatch]
    reasons: Sequence[Reason] = ()
    """Why records are rejected."""


class TransactionalAcks:
    """See the module. It is what ``transaction_markers`` knows as acknowledgements."""

    def __init__(
        self,
        state: ShareStateLog,
        share_partitions: SharePartitions,
        counters: Counters,
        meters: Meters,
        clock: Clock,
    ) -> None:
        self._state = state
        self._share_partitions = share_partitions
        self._counters = counters
        self._meters = meters
        self._clock = clock
        self._locks = KeyedLocks()

    # -- in a transaction -------------------------------------------------------------------

    async def hold(
        self,
        transaction: TransactionMark,
        member_id: str,
        wanted: Mapping[SharePartitionKey, Wanted],
        check_open: Callable[[SharePartitionKey], None],
    ) -> dict[SharePartitionKey, KafkaError | None]:
        """Let the transaction hold what a member acknowledges; durable on return. The records of a
        share partition are held together or not at all. Returns the error of each, or None.

        Args:
            check_open: raises an error unless the state of a share partition is part of the open
                transaction.
        """
        outcome: dict[SharePartitionKey, KafkaError | None] = {}
        changes: list[tuple[LedSharePartition, StateChange]] = []
        async with self._holding(transaction):
            for key, one in wanted.items():
                # Before `find`: a change of the group's order discards what is in memory.
                self._share_partitions.delivery_settings(key.group_id)
                try:
                    check_open(key)
                    led = self._share_partitions.find(key)
                    if led is None:
                        raise UnknownTopicOrPartition(
                            "no record of this partition was delivered to the group"
                        )
                    change = led.core.hold(member_id, one.batches, transaction)
                except KafkaError as error:
                    outcome[key] = error
                    self._counters.add("acknowledgements_refused", error.name)
                    continue
                outcome[key] = None
                self._share_partitions.schedule(led)
                if change is not None:
                    if one.reasons:
                        pending = tuple(with_reasons(change.pending, one.reasons))
                        change = change._replace(pending=pending)
                    changes.append((led, change))
            try:
                await self._share_partitions.persist(changes)
            except KafkaError as error:
                for led, _ in changes:
                    outcome[led.key] = error
        return outcome

    # -- its end ----------------------------------------------------------------------------

    async def end(
        self, state_partition: int, transaction: TransactionMark, *, committed: bool
    ) -> None:
        """See ``transaction_markers.TransactionalAcknowledgements``."""
        async with self._holding(transaction):
            found = await self._state.pending_of(state_partition, transaction)
            for key, pending in found.items():
                for mark in dict.fromkeys(one.transaction for one in pending):
                    own = [one for one in pending if one.transaction == mark]
                    await self._end_one(key, own, committed=committed)
                    if committed:
                        meter = self._meters.records_of(key.group_id, key.topic_id)
                        meter.acknowledge([(one.first, one.last, [one.kind]) for one in own])

    async def _end_one(
        self, key: SharePartitionKey, pending: Sequence[PendingAck], *, committed: bool
    ) -> None:
        share_partitions = self._share_partitions
        settings = share_partitions.delivery_settings(key.group_id)
        led = share_partitions.find(key)
        if led is None:
            # No load is necessary: what is durable says enough. A load that has begun may have read
            # the state before.
            await self._state.end_transaction(
                key,
                pending[0].transaction,
                end_rules(settings, self._clock.wall_ms()),
                committed=committed,
            )
            share_partitions.forget(key.group_id, key.topic_id, key.partition)
            if settings.dead_letters:
                share_partitions.died(key)
            return
        change = led.core.end_transaction(
            pending,
            committed=committed,
            now_ms=self._clock.monotonic_ms(),
            settings=settings,
        )
        share_partitions.schedule(led)
        await share_partitions.persist([(led, change)])

    def _holding(self, transaction: TransactionMark) -> Holding:
        return self._locks.holding(str(transaction.producer_id))
