"""Applies an operator's decisions about the records of a share group: of blocked ones
(``share.ordering.on.failure=block``), or of all that are not finished."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from sharegroup.broker.authorization.access import Access
from sharegroup.broker.authorization.audit import tell_groups
from sharegroup.broker.authorization.resources import Operation
from sharegroup.broker.delivery.asked_pauses import checked_pauses
from sharegroup.broker.delivery.death_reasons import with_reasons
from sharegroup.broker.delivery.led_share_partition import LedSharePartition
from sharegroup.broker.delivery.parts import DeliveryParts
from sharegroup.model.errors import InvalidRecordState, InvalidRequest, UnknownTopicId
from sharegroup.model.ids import SharePartitionKey
from sharegroup.model.log import ReadableLog
from sharegroup.share.by_hand import VERBS
from sharegroup.share.record_state import Verb

if TYPE_CHECKING:  # messages are loaded with the handlers that have them
    from sharegroup.wire.messages.share_acknowledge import (
        AcknowledgementBatch,
        AcknowledgePartition,
    )

DEEDS: Final = {
    Verb.GAP: "purged",
    Verb.ACCEPT: "accepted",
    Verb.RELEASE: "released",
    Verb.REJECT: "archived",
    Verb.RENEW: "extended the locks of",
}
"""What the log says that somebody has done."""


class Outcome(NamedTuple):
    """What decisions came to: how many records they were about, and how many of them were held."""

    records: int = 0
    held: int = 0


class DecisionsByHand:
    """The decisions of one request about one share partition."""

    def __init__(self, parts: DeliveryParts, key: SharePartitionKey, access: Access) -> None:
        self._parts = parts
        self._key = key
        self._access = access

    async def decide(self, partition: AcknowledgePartition, *, every_state: bool) -> Outcome:
        """Apply the decisions, durably, one after the other.

        Args:
            every_state: they may be about all records that are not finished. If not, each is about
                one record, which is blocked and is released or rejected.

        Raises:
            InvalidRequest: a decision is malformed; nothing was applied.
            InvalidRecordState: a record is not blocked, or was not nearly delivered yet; the
                decisions before it in the request are applied.
            UnknownTopicId, TopicAuthorizationFailed, UnknownTopicOrPartition: as their names say.
            KafkaError: the state cannot be read or written.
        """
        name = self._parts.topics.name_of(self._key.topic_id)
        if name is None:
            raise UnknownTopicId
        self._access.require_topic(Operation.READ, name)
        for batch in partition.acknowledgement_batches:
            _check(batch, every_state=every_state)
        checked_pauses(partition.pauses)
        log = self._parts.topics.log(name, self._key.partition)
        total = Outcome()
        for batch in partition.acknowledgement_batches:
            if not every_state:
                await self._require_blocked(log, batch.first_offset)
            done = Outcome()
            try:
                async for part in self._decided(log, batch, partition):
                    done = Outcome(done.records + part.records, done.held + part.held)
            finally:  # also if a later part of the range cannot be written
                self._tell(batch, name, done)
            total = Outcome(total.records + done.records, total.held + done.held)
        return total

    async def _require_blocked(self, log: ReadableLog, offset: int) -> None:
        settings = self._parts.share_partitions.delivery_settings(self._key.group_id)
        led = await self._parts.share_partitions.get(self._key, log)
        if not settings.key_max:
            raise InvalidRecordState(
                "The group has no order per key: none of its records is blocked."
            )
        if not led.core.order.is_blocked(offset, settings):
            raise InvalidRecordState(f"Offset {offset} does not wait for an operator.")

    async def _decided(
        self, log: ReadableLog, batch: AcknowledgementBatch, partition: AcknowledgePartition
    ) -> AsyncIterator[Outcome]:
        """Decide about a part of the range at a time; others get a turn in between. Each outcome is
        durable."""
        share_partitions = self._parts.share_partitions
        high_watermark = (await log.offsets()).high_watermark
        first, end = batch.first_offset, min(batch.last_offset + 1, high_watermark)
        while first < end:
            settings = share_partitions.delivery_settings(self._key.group_id)
            led = await share_partitions.get(self._key, log)
            end = min(end, self._end(led))
            if first >= end:
                break
            decided = led.core.decide(
                first,
                end - 1,
                Verb(batch.acknowledge_types[0]),
                now_ms=self._parts.clock.monotonic_ms(),
                settings=settings,
                extend_ms=_asked_ms(partition, first, settings.lock_ms),
            )
            share_partitions.schedule(led)
            change = decided.change
            if change is not None:
                if change.dead and partition.reasons:
                    dead = tuple(with_reasons(change.dead, partition.reasons))
                    change = change._replace(dead=dead)
                await share_partitions.persist([(led, change)])
            share_partitions.wake(led)
            yield Outcome(decided.records, decided.held)
            first = decided.end
            await asyncio.sleep(0)

    def _end(self, led: LedSharePartition) -> int:
        """Where the records end that the group may have."""
        log = led.log
        if not self._parts.share_partitions.reads_committed(self._key.group_id):
            return log.high_watermark
        # It may have got later ones while it read uncommitted.
        got = min(led.core.end_offset, log.high_watermark)
        return max(log.last_stable_offset, got)

    def _tell(self, batch: AcknowledgementBatch, topic: str, done: Outcome) -> None:
        """Count and log what had an effect."""
        if not done.records:
            return
        verb = Verb(batch.acknowledge_types[0])
        self._parts.counters.add("decisions_by_hand", verb.name.lower(), done.records)
        tell_groups(
            self._access.principal,
            self._access.host,
            f"{DEEDS[verb]} by hand",
            f"{done.records} records of group {self._key.group_id}, {done.held} of them held: "
            f"{topic}:{self._key.partition} offsets {batch.first_offset} to {batch.last_offset}",
        )


def _check(batch: AcknowledgementBatch, *, every_state: bool) -> None:
    kinds: Sequence[int] = batch.acknowledge_types
    if every_state:
        if not 0 <= batch.first_offset <= batch.last_offset:
            raise InvalidRequest(
                f"{batch.first_offset} to {batch.last_offset} is not a range of offsets."
            )
        if len(kinds) != 1 or kinds[0] not in VERBS:
            raise InvalidRequest(
                "By hand, all records of a range are accepted, or released, rejected, renewed, "
                "purged."
            )
        return
    single = batch.first_offset == batch.last_offset and len(kinds) == 1
    if not single or kinds[0] not in (Verb.RELEASE, Verb.REJECT):
        raise InvalidRequest("By hand, records are released or rejected one by one.")


def _asked_ms(partition: AcknowledgePartition, offset: int, unless_asked: int) -> int:
    """How long locks are to be extended: what the first pause that names the offset says."""
    for one in partition.pauses:
        if one.first <= offset <= one.last:
            return one.pause_ms
    return unless_asked
