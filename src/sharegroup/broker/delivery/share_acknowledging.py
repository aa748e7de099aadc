"""Acknowledgements of one request: applied partition by partition, made durable together, then
answered.

ShareFetch (piggybacked acknowledgements) and ShareAcknowledge both use this.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Final
from uuid import UUID

from sharegroup.broker.authorization.access import Access
from sharegroup.broker.authorization.resources import Operation
from sharegroup.broker.delivery.asked_pauses import checked_pauses
from sharegroup.broker.delivery.death_reasons import with_reasons
from sharegroup.broker.delivery.led_share_partition import LedSharePartition
from sharegroup.broker.delivery.parts import DeliveryParts
from sharegroup.model import errors
from sharegroup.model.ids import SharePartitionKey, TopicIdPartition
from sharegroup.model.offsets import OFFSET_MAX, OffsetRange
from sharegroup.share.acknowledge import AckBatch, checked_answers
from sharegroup.share.state_changes import StateChange

if TYPE_CHECKING:  # messages are loaded with the handlers that have them
    from sharegroup.wire.messages.share_acknowledge import AcknowledgePartition, AcknowledgeTopic
    from sharegroup.wire.messages.share_fetch import FetchPartition, FetchTopic

AS_ACK_BATCH: Final = attrgetter("first_offset", "last_offset", "acknowledge_types")
"""The fields of a batch in the message, as an :data:`AckBatch`."""

Outcome = dict[TopicIdPartition, errors.KafkaError | None]
GoneBack = dict[TopicIdPartition, Sequence[OffsetRange]]
"""Accepts that had no effect and are no error: ``share.state_changes.StateChange``."""


class AckRound:
    """One request's acknowledgements: :meth:`apply` them, then :meth:`persist` when ``changed``.

    ``outcome`` has an entry for each partition with acknowledgements: None, or the error. A
    partition without acknowledgements gets an entry in two cases: when other partitions had some,
    and when its topic is refused or does not have it (Kafka class KafkaApis).
    """

    def __init__(
        self,
        parts: DeliveryParts,
        group_id: str,
        member_id: str,
        access: Access,
        *,
        renew_allowed: bool,
    ) -> None:
        self._parts = parts
        self._group_id = group_id
        self._member_id = member_id
        self._access = access
        self._renew_allowed = renew_allowed
        self._changes: list[tuple[LedSharePartition, StateChange]] = []
        self._empty: list[TopicIdPartition] = []
        self._asked = False
        self.outcome: Outcome = {}
        self.gone_back: GoneBack = {}

    def apply(self, topics: Sequence[AcknowledgeTopic | FetchTopic]) -> None:
        """Apply the acknowledgements. The ranges of a partition succeed together or not at all,
        unless the group has order per key (:mod:`sharegroup.share.order.key_order`)."""
        for topic in topics:
            self._apply_topic(topic.topic_id, topic.partitions)
        if self._asked:
            self.outcome.update(dict.fromkeys(self._empty))

    def _apply_topic(
        self, topic_id: UUID, partitions: Sequence[AcknowledgePartition | FetchPartition]
    ) -> None:
        asked = any(partition.acknowledgement_batches for partition in partitions)
        if asked and self._parts.topics.name_of(topic_id) is not None:
            self._parts.meters.topic(topic_id).share_acknowledge_requests += 1
        for partition in partitions:
            key = TopicIdPartition(topic_id, partition.partition_index)
            try:
                self._apply_one(key, partition)
            except errors.KafkaError as error:
                self.outcome[key] = error
                self._parts.counters.add("acknowledgements_refused", error.name)
                if not isinstance(error, errors.UnknownTopicId):
                    self._parts.meters.topic(topic_id).share_acknowledge_failures += 1

    def _apply_one(
        self, key: TopicIdPartition, partition: FetchPartition | AcknowledgePartition
    ) -> None:
        batches = partition.acknowledgement_batches
        name = self._parts.topics.name_of(key.topic_id)
        if name is None:
            raise errors.UnknownTopicId
        self._access.require_topic(Operation.READ, name)
        if not batches:
            topic = self._parts.topics.find(name)
            if topic is None or not 0 <= key.partition < topic.partition_count:
                raise errors.UnknownTopicOrPartition
            self._empty.append(key)
            return
        acks: list[AckBatch] = list(map(AS_ACK_BATCH, batches))
        settings = self._parts.share_partitions.delivery_settings(self._group_id)
        led = self._parts.share_partitions.find(SharePartitionKey(self._group_id, *key))
        if led is None:
            # Malformed acknowledgements get their own error, even for an unknown partition. Behind
            # the last offset there can be is no window: only their form is looked at.
            behind = OFFSET_MAX + 1
            checked_answers(acks, start=behind, end=behind, renew_allowed=self._renew_allowed)
            raise errors.UnknownTopicOrPartition(
                "no record of this partition was delivered to the group"
            )
        self._asked = True
        change = led.core.acknowledge(
            self._member_id,
            acks,
            now_ms=self._parts.clock.monotonic_ms(),
            settings=settings,
            renew_allowed=self._renew_allowed,
            pauses=checked_pauses(partition.pauses) if partition.pauses else (),
        )
        self._parts.share_partitions.schedule(led)
        self.outcome[key] = None
        self._parts.meters.records_of(self._group_id, key.topic_id).acknowledge(acks)
        if change is not None:
            if change.dead and partition.reasons:
                change = change._replace(dead=tuple(with_reasons(change.dead, partition.reasons)))
            self._changes.append((led, change))
            if change.gone_back:
                self.gone_back[key] = change.gone_back
            if change.late:
                error = errors.InvalidRecordState(
                    f"{change.late} records are not held by the member, or not next of their key."
                )
                self.outcome[key] = error
                self._parts.counters.add("acknowledgements_refused", error.name)

    @property
    def changed(self) -> bool:
        """Whether :meth:`persist` has anything to write."""
        return bool(self._changes)

    async def persist(self) -> None:
        """Make the applied changes durable; on failure all changed partitions get the error."""
        try:
            await self._parts.share_partitions.persist(self._changes)
        except errors.KafkaError as error:
            for led, _ in self._changes:
                self.outcome[TopicIdPartition(led.key.topic_id, led.key.partition)] = error
