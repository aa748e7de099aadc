"""Records that a share consumer has handed to a transaction, which acknowledges them (KIP-1289).

Until the broker knows, their locks are the consumer's, and are renewed if the consumer renews
locks. Then the transaction holds the records: its commit acknowledges them, its abort brings them
back. If the transaction ends before, they are released as by ``consumer.release``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Protocol

from sharegroup.client.core.acknowledgements import SENT, AckType
from sharegroup.client.core.record import HeldDelivery, Record, delivery_of
from sharegroup.client.errors import IllegalState
from sharegroup.model.ids import TopicIdPartition, TopicPartition
from sharegroup.model.offsets import OffsetRange


class HandedRecord(NamedTuple):
    """One record of a delivery."""

    delivery: HeldDelivery
    offset: int


class HandedOver:
    """Records that one call has handed over.

    Attributes:
        group_id: the share group.
        member_id: the member that has their locks.
        kind: ACCEPT or REJECT.
        reason: why they are rejected, for their dead letters.
    """

    def __init__(
        self,
        group_id: str,
        member_id: str,
        records: Sequence[HandedRecord],
        kind: AckType,
        reason: str | None,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.kind = kind
        self.reason = reason
        self._records: Sequence[HandedRecord] = records

    def ranges(self) -> dict[tuple[TopicPartition, TopicIdPartition], list[OffsetRange]]:
        """The offsets of each partition, by its name and its id."""
        offsets: dict[tuple[TopicPartition, TopicIdPartition], list[int]] = {}
        for delivery, offset in self._records:
            where = delivery.topic_partition, delivery.partition
            offsets.setdefault(where, []).append(offset)
        return {where: _adjoining(own) for where, own in offsets.items()}

    def held(self) -> None:
        """The transaction holds the records: the consumer has nothing to say of them any more."""
        self._mark(SENT)

    def give_back(self) -> None:
        """The transaction has ended. What it does not hold, the next poll or commit of the consumer
        releases, unless the application decides otherwise."""
        self._mark(AckType.RELEASE)

    def _mark(self, kind: int) -> None:
        for delivery, offset in self._records:
            delivery.mark(offset, offset, kind)
        self._records = ()


def hand_over(holder: object, records: Iterable[Record[Any, Any]]) -> list[HandedRecord]:
    """Hand records to a transaction, which acknowledges them: all of them, or none. ``holder``: has
    their deliveries in its hands.

    Raises:
        IllegalState: a record is not waiting for an acknowledgement; or its group has order per
            key.
    """
    handed: dict[HandedRecord, int] = {}
    try:
        for record in records:
            delivery, offset = delivery_of(record), record.offset
            if delivery.held is not holder:
                raise IllegalState(f"{record} was not returned by this consumer")
            if delivery.keys is not None:
                raise IllegalState("records of a group with order per key join no transaction")
            before = delivery.types[offset - delivery.first]
            delivery.hand_over(offset)
            handed[HandedRecord(delivery, offset)] = before
    except IllegalState:
        for (delivery, offset), before in handed.items():
            delivery.mark(offset, offset, before)
        raise
    return list(handed)


class HandsOver(Protocol):
    """A share consumer, on asyncio or blocking, as a transaction sees it."""

    def hand_over(
        self, *records: Record[Any, Any], kind: AckType = ..., reason: str | None = ...
    ) -> HandedOver:
        """Hand records to a transaction."""
        ...


def _adjoining(offsets: Iterable[int]) -> list[OffsetRange]:
    ranges: list[OffsetRange] = []
    for offset in sorted(offsets):
        if ranges and ranges[-1].last + 1 == offset:
            ranges[-1] = OffsetRange(ranges[-1].first, offset)
        else:
            ranges.append(OffsetRange(offset, offset))
    return ranges
