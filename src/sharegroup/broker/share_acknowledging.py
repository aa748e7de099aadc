"""Acknowledgements of one request: applied partition by partition, made durable together, answered
when they are.

Used by ShareFetch (piggybacked) and ShareAcknowledge alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol
from uuid import UUID

from sharegroup.broker.share_partitions import LedSharePartition
from sharegroup.model.errors import KafkaError, UnknownTopicOrPartition
from sharegroup.model.ids import SharePartitionKey, TopicIdPartition
from sharegroup.share.acknowledge import AckBatch
from sharegroup.share.changes import StateChange

if TYPE_CHECKING:
    from sharegroup.broker.server import Broker


class AckBatchMessage(Protocol):
    """AcknowledgementBatch of either request."""

    @property
    def first_offset(self) -> int: ...

    @property
    def last_offset(self) -> int: ...

    @property
    def acknowledge_types(self) -> Sequence[int]: ...


class AckPartitionMessage(Protocol):
    """A partition of either request."""

    @property
    def partition_index(self) -> int: ...

    @property
    def acknowledgement_batches(self) -> Sequence[AckBatchMessage]: ...


Outcome = dict[TopicIdPartition, KafkaError | None]


class AckRound:
    """One request's acknowledgements: :meth:`apply` all of them, then :meth:`persist` once.

    ``outcome`` has a line for each partition that carried any: None, or why it was refused.
    """

    def __init__(
        self, broker: Broker, group_id: str, member_id: str, *, renew_allowed: bool
    ) -> None:
        self._broker = broker
        self._group_id = group_id
        self._member_id = member_id
        self._renew_allowed = renew_allowed
        self._changes: list[tuple[LedSharePartition, StateChange]] = []
        self.outcome: Outcome = {}

    def apply(self, topic_id: UUID, partitions: Iterable[AckPartitionMessage]) -> None:
        """Apply what the request says about one topic; a partition's ranges succeed together or not
        at all."""
        for partition in partitions:
            if not partition.acknowledgement_batches:
                continue
            key = TopicIdPartition(topic_id, partition.partition_index)
            try:
                self._apply_one(key, partition.acknowledgement_batches)
            except KafkaError as error:
                self.outcome[key] = error
                self._broker.counters.add("acknowledgements_refused", error.name)
            else:
                self.outcome[key] = None

    def _apply_one(self, key: TopicIdPartition, batches: Sequence[AckBatchMessage]) -> None:
        self._broker.topics.log_by_id(key)
        led = self._broker.share_partitions.find(
            SharePartitionKey(self._group_id, key.topic_id, key.partition)
        )
        if led is None:
            raise UnknownTopicOrPartition("nothing of this partition was delivered to the group")
        settings = self._broker.share_partitions.delivery_settings(self._group_id)
        change = led.core.acknowledge(
            self._member_id,
            [AckBatch(b.first_offset, b.last_offset, b.acknowledge_types) for b in batches],
            now_ms=self._broker.clock.monotonic_ms(),
            settings=settings,
            renew_allowed=self._renew_allowed,
        )
        self._broker.share_partitions.schedule(led)
        if change is not None:
            self._changes.append((led, change))

    async def persist(self) -> None:
        """Make what was applied durable; a failure becomes the outcome of the partitions it
        concerns."""
        try:
            await self._broker.share_partitions.persist(self._changes)
        except KafkaError as error:
            for led, _ in self._changes:
                self.outcome[TopicIdPartition(led.key.topic_id, led.key.partition)] = error
