"""Decodes fetched bytes into records, for acquired offsets only.

A batch may hold offsets that we have not acquired. An acquired range may hold offsets without a
record (compacted away, control records): these are acknowledged as gaps. Unreadable data becomes a
delivery of its own, with an error and a decided acknowledgement: REJECT for a damaged batch,
RELEASE for a record whose deserializer raised. Compiled code does the work per record; all other
work is per batch.
"""

from __future__ import annotations

import gc
import logging
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import repeat
from typing import Any, Final, NamedTuple

from sharegroup.client.core.acknowledgements import UNDECIDED, AckType
from sharegroup.client.core.fetched import FetchedPartition
from sharegroup.client.core.record import Fields, HeldDelivery, Record, delivery_of
from sharegroup.client.errors import RecordDeserializationError
from sharegroup.client.records.batch_reader import pieces_of, records_of
from sharegroup.client.records.damage import note_astray, note_damage
from sharegroup.model.errors import ConfigError, SharegroupError
from sharegroup.model.ids import TopicIdPartition, TopicPartition
from sharegroup.model.offsets import OffsetRange
from sharegroup.records.batches import Bounds, Placed, place

log = logging.getLogger("sharegroup.client")

Deserializer = Callable[[bytes], Any]
"""Makes an object of a key's or a value's bytes. Not called for null: null stays None."""


class Decoding(NamedTuple):
    """How to read records."""

    check_crcs: bool = True
    key_deserializer: Deserializer | None = None
    value_deserializer: Deserializer | None = None

    @property
    def plain(self) -> bool:
        """Keys and values stay bytes."""
        return self.key_deserializer is None and self.value_deserializer is None


class _Unreadable(NamedTuple):
    first: int
    last: int
    kind: AckType
    error: SharegroupError


AS_BYTES: Final = Decoding()


@contextmanager
def not_collecting() -> Iterator[None]:
    """Turns the garbage collector off for a block."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def decode_all(
    fetched: Sequence[FetchedPartition], decoding: Decoding = AS_BYTES
) -> list[HeldDelivery]:
    """As :func:`decode_fetched`, for several partitions. The garbage collector is off meanwhile: it
    took half of the time, scanning thousands of new objects that are all in use.
    """
    with not_collecting():
        return [delivery for one in fetched for delivery in decode_fetched(one, decoding)]


def decode_fetched(fetched: FetchedPartition, decoding: Decoding = AS_BYTES) -> list[HeldDelivery]:
    """The deliveries of one fetched partition, in the order of their offsets."""
    deliveries = _empty_deliveries(fetched)
    if not deliveries:
        return deliveries
    where = deliveries[0].topic_partition
    last_wanted = deliveries[-1].last
    placed = _read(fetched.records, deliveries, decoding)
    unreadable: list[_Unreadable] = []
    at = 0  # both ascend: skip deliveries that end before this batch
    for piece in placed.pieces:
        first, last, raw = piece.first, piece.last, piece.value
        if piece.damage is not None:
            damage = note_damage(where, OffsetRange(first, min(last, last_wanted)), piece.damage)
            unreadable.append(_Unreadable(first, last, AckType.REJECT, damage))
        if raw is None:
            continue
        while at < len(deliveries) and deliveries[at].last < first:
            at += 1
        for delivery in _beginning_before(deliveries, at, last + 1):
            mine = _within(delivery, raw, first, last + 1)
            if delivery.keys is not None:
                delivery.keys.update(
                    {offset: key for offset, _, key, _, _ in mine if key is not None}
                )
            if not decoding.plain:
                mine = _deserialized(mine, where, decoding, unreadable)
            _fill(delivery, mine, max(first, delivery.first), min(last, delivery.last))
    note_astray(where, placed.astray, placed.cut)
    _release_missing(deliveries, placed.end)
    if unreadable:
        return [part for one in deliveries for part in _parts(one, unreadable)]
    return deliveries


def _read(
    records: bytes, deliveries: Sequence[HeldDelivery], decoding: Decoding
) -> Placed[list[Any] | None]:
    """Read the batches that overlap ``deliveries``; skip the others."""
    lasts = [delivery.last for delivery in deliveries]

    def wanted(first: int, last: int) -> bool:
        at = bisect_left(lasts, first)  # the first delivery that does not end before it
        return at < len(lasts) and deliveries[at].first <= max(first, last)

    def read(one: Bounds) -> list[Any] | None:
        return records_of(one.batch, decoding.check_crcs) if wanted(*one[:2]) else None

    pieces = pieces_of(records, decoding.check_crcs, wanted)
    if pieces is None:
        return place(memoryview(records), lasts[-1], read)
    return Placed(pieces, [], None)


def _empty_deliveries(fetched: FetchedPartition) -> list[HeldDelivery]:
    partition = TopicIdPartition(fetched.topic_id, fetched.partition)
    name = TopicPartition(fetched.topic, fetched.partition)
    lease, deadline = fetched.lease, fetched.lock_deadline
    return [
        HeldDelivery(
            partition,
            name,
            OffsetRange(one.first, one.last),
            one.delivery_count,
            lease,
            deadline,
            fetched.request,
            {} if fetched.ordered else None,
        )
        for one in sorted(fetched.acquired)
    ]


def _beginning_before(deliveries: list[HeldDelivery], at: int, end: int) -> Sequence[HeldDelivery]:
    stop = at
    while stop < len(deliveries) and deliveries[stop].first < end:
        stop += 1
    return deliveries[at:stop]


def _within(delivery: HeldDelivery, raw: list[Any], first: int, end: int) -> list[Any]:
    if delivery.first <= first and end - 1 <= delivery.last:
        return raw
    return [one for one in raw if delivery.first <= one[0] <= delivery.last]


def deserialized_fields(one: Fields, where: TopicPartition, decoding: Decoding) -> Fields:
    """The fields of a record of bytes, with its key and value deserialized.

    Raises:
        RecordDeserializationError: a deserializer raised.
    """
    offset, timestamp, raw_key, raw_value, headers = one
    key, value = raw_key, raw_value
    origin = "key"
    try:
        if key is not None and decoding.key_deserializer is not None:
            key = decoding.key_deserializer(key)
        origin = "value"
        if value is not None and decoding.value_deserializer is not None:
            value = decoding.value_deserializer(value)
    except Exception as error:
        raise RecordDeserializationError(where, offset, origin, raw_key, raw_value) from error
    return offset, timestamp, key, value, headers


def _deserialized(
    raw: list[Any], where: TopicPartition, decoding: Decoding, unreadable: list[_Unreadable]
) -> list[Any]:
    found: list[Any] = []
    for one in raw:
        try:
            found.append(deserialized_fields(one, where, decoding))
        except RecordDeserializationError as refusal:
            unreadable.append(_Unreadable(one[0], one[0], AckType.RELEASE, refusal))
    return found


def deserialized(record: Record, decoding: Decoding) -> Record:
    """A record of bytes, with its key and value deserialized.

    Raises:
        RecordDeserializationError: a deserializer raised.
    """
    if decoding.plain:
        return record
    fields = deserialized_fields(record._fields, record.topic_partition, decoding)
    return Record(fields, delivery_of(record))


def _fill(delivery: HeldDelivery, raw: Sequence[Fields], first: int, last: int) -> None:
    delivery.records += map(Record, raw, repeat(delivery))
    if len(raw) == last - first + 1:
        delivery.mark(first, last, UNDECIDED)
        return
    for one in raw:  # a compacted batch
        delivery.types[one[0] - delivery.first] = UNDECIDED


def _parts(delivery: HeldDelivery, unreadable: list[_Unreadable]) -> list[HeldDelivery]:
    """The delivery, cut so that each unreadable part is a delivery of its own."""
    parts: list[HeldDelivery] = []
    first = delivery.first
    for one in unreadable:
        begin, last = max(one.first, first), min(one.last, delivery.last)
        if begin > last:
            continue
        if first < begin:
            parts.append(_part_of(delivery, first, begin - 1))
        broken = delivery.part(begin, last)
        broken.mark(begin, last, one.kind)
        broken.error = one.error
        parts.append(broken)
        first = last + 1
    if not parts:
        return [delivery]
    if first <= delivery.last:
        parts.append(_part_of(delivery, first, delivery.last))
    return parts


def _part_of(delivery: HeldDelivery, first: int, last: int) -> HeldDelivery:
    part = delivery.part(first, last)
    part.types[:] = delivery.types[first - delivery.first : last - delivery.first + 1]
    part.records = [
        Record(one._fields, part) for one in delivery.records if first <= one.offset <= last
    ]
    return part


def _release_missing(deliveries: list[HeldDelivery], end: int) -> None:
    """Release offsets that were acquired and not sent to us; acknowledged as gaps, their records
    would be lost."""
    missing = [one for one in deliveries if one.last >= end]
    if missing:
        where = ", ".join(f"{one.first}-{one.last} of {one.partition}" for one in missing)
        log.warning("records were acquired but not sent, and are released: %s", where)
    for one in missing:
        one.mark(max(end, one.first), one.last, AckType.RELEASE)


def decoding_of(
    check_crcs: bool,
    key_deserializer: Callable[[bytes], Any] | None,
    value_deserializer: Callable[[bytes], Any] | None,
) -> Decoding:
    """How to read records. Raises ConfigError: a deserializer cannot be called."""
    wanted = {"key_deserializer": key_deserializer, "value_deserializer": value_deserializer}
    for name, one in wanted.items():
        if one is not None and not callable(one):
            raise ConfigError(f"{name} is {one!r}: give a function that takes bytes")
    return Decoding(check_crcs, key_deserializer, value_deserializer)
