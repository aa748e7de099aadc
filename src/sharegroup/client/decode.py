"""From fetched bytes to records, for the offsets that were acquired and no others.

A batch may hold offsets that are not ours; a range may hold offsets that no batch has (compacted
away, control records): these are acknowledged as gaps. The work per record is one line; all else is
per batch.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from aiokafka.record.memory_records import MemoryRecords

from sharegroup.client.core.acknowledgements import UNDECIDED, AckType
from sharegroup.client.core.delivery import Delivery
from sharegroup.client.errors import CorruptRecordBatch
from sharegroup.client.node_session import FetchedPartition
from sharegroup.client.record import Record
from sharegroup.model.ids import TopicIdPartition, TopicPartition
from sharegroup.model.offsets import OffsetRange

log = logging.getLogger("sharegroup.client")


def decode_fetched(
    fetched: FetchedPartition, *, check_crcs: bool = True
) -> tuple[list[Delivery], list[CorruptRecordBatch]]:
    """The deliveries of one fetched partition, and its damaged batches, whose offsets are
    decided: REJECT.
    """
    partition = TopicIdPartition(fetched.topic_id, fetched.partition)
    deliveries = [
        Delivery(
            partition,
            OffsetRange(one.first, one.last),
            one.delivery_count,
            fetched.lease,
            fetched.lock_deadline,
        )
        for one in fetched.acquired
    ]
    errors: list[CorruptRecordBatch] = []
    end = -1
    batches = MemoryRecords(fetched.records)
    while (batch := batches.next_batch()) is not None:
        first, end = batch.base_offset, batch.next_offset
        ours = [one for one in deliveries if one.first < end and one.last >= first]
        if not ours or batch.is_control_batch:
            continue
        try:
            _decode_batch(batch, ours, fetched.topic, fetched.partition, check_crcs)
        except Exception as error:  # noqa: BLE001  # each codec has exceptions of its own
            where = TopicPartition(fetched.topic, fetched.partition)
            errors.append(CorruptRecordBatch(where, first, str(error) or repr(error)))
            _mark_all(ours, first, end - 1, AckType.REJECT)
    _release_missing(deliveries, end)
    return deliveries, errors


def _decode_batch(
    batch: Any, deliveries: list[Delivery], topic: str, partition: int, check_crc: bool
) -> None:
    if check_crc and not batch.validate_crc():
        raise ValueError("its checksum does not match")
    first, last = batch.base_offset, batch.next_offset - 1
    raw = list(batch)  # all or nothing: a batch that is damaged half-way gives no records
    for delivery in deliveries:
        if delivery.first <= first and last <= delivery.last:
            mine = raw
        else:
            mine = [r for r in raw if delivery.first <= r.offset <= delivery.last]
        count = delivery.delivery_count
        delivery.records += [
            Record(
                topic, partition, r.offset, r.timestamp, r.key, r.value, r.headers, count, delivery
            )
            for r in mine
        ]
        _mark_records(delivery, max(first, delivery.first), min(last, delivery.last), mine)


def _mark_records(delivery: Delivery, first: int, last: int, raw: list[Any]) -> None:
    if len(raw) == last - first + 1:
        delivery.mark(first, last, UNDECIDED)
        return
    for record in raw:  # a compacted batch
        delivery.types[record.offset - delivery.first] = UNDECIDED


def _mark_all(deliveries: Iterable[Delivery], first: int, last: int, kind: AckType) -> None:
    for delivery in deliveries:
        delivery.mark(max(first, delivery.first), min(last, delivery.last), kind)


def _release_missing(deliveries: list[Delivery], end: int) -> None:
    """Acquired, but not sent to us: given back rather than taken for a gap, which would lose
    them.
    """
    missing = [one for one in deliveries if one.last >= end]
    if missing:
        where = ", ".join(f"{one.first}-{one.last} of {one.partition}" for one in missing)
        log.warning("acquired without their records, and released: %s", where)
        _mark_all(missing, end, max(one.last for one in missing), AckType.RELEASE)
