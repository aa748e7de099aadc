"""Transaction markers: the one-record control batches that end a transaction in a partition, and
which batches they abort (KIP-98; Kafka classes ControlRecordType and EndTransactionMarker).

Key: version i16, type i16 (0 abort, 1 commit). Value: version i16, coordinator epoch i32.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from enum import IntEnum
from typing import Final, NamedTuple

from sharegroup.model.errors import CorruptMessage, UnsupportedCompressionType
from sharegroup.model.log import AbortedTransaction
from sharegroup.wire.batch import (
    CONTROL,
    TRANSACTIONAL,
    BatchHeader,
    Buffer,
    Walk,
    decode_batch,
    encode_batch,
    parse_headers,
)

_KEY = struct.Struct(">hh")
_VALUE = struct.Struct(">hi")
VERSION: Final = 0
_ATTRIBUTES_AT: Final = 22
"""Where a batch has the low byte of its attributes."""


class MarkerType(IntEnum):
    """How a transaction ended. Other control records (KRaft's) have higher types."""

    ABORT = 0
    COMMIT = 1


class Marker(NamedTuple):
    """One marker."""

    type: int
    """A :class:`MarkerType`, or the type of a control record that ends no transaction; -1: the
    control batch is empty."""
    coordinator_epoch: int


def is_control(header: BatchHeader) -> bool:
    """Whether the batch holds control records: they are the broker's own, no application sees
    them."""
    return bool(header.attributes & CONTROL)


def is_transactional(header: BatchHeader) -> bool:
    """Whether the batch belongs to a transaction, its marker included."""
    return bool(header.attributes & TRANSACTIONAL)


def encode_marker(
    marker: MarkerType,
    *,
    producer_id: int,
    producer_epoch: int,
    timestamp_ms: int,
    coordinator_epoch: int = 0,
) -> bytes:
    """The control batch that ends a producer's transaction."""
    record = (_KEY.pack(VERSION, marker), _VALUE.pack(VERSION, coordinator_epoch))
    return encode_batch(
        [record],
        timestamp_ms=timestamp_ms,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        attributes=TRANSACTIONAL | CONTROL,
    )


def decode_marker(batch: Buffer) -> Marker:
    """The marker in a control batch. When all records of a transaction are gone, Kafka's log
    cleaner leaves an empty control batch as the last batch of its producer: its type is -1.

    Raises:
        CorruptMessage: ``batch`` has no control record with a key and a value of the known form.
    """
    try:
        for _, _, key, value in decode_batch(batch):
            _, kind = _KEY.unpack_from(key or b"")
            if kind not in (MarkerType.ABORT, MarkerType.COMMIT):
                return Marker(kind, -1)
            _, coordinator_epoch = _VALUE.unpack_from(value or b"")
            return Marker(kind, coordinator_epoch)
    except struct.error as error:
        raise CorruptMessage("a control record without its type") from error
    except UnsupportedCompressionType as error:
        raise CorruptMessage(f"a control batch: {error}") from error
    return Marker(-1, -1)


def marker_ranges(data: Buffer, batches: Walk) -> list[tuple[int, int]]:
    """(first, last offset) of each control batch in ``data``, whose walk is ``batches``."""
    return [
        bounds
        for bounds, at in zip(batches.bounds, batches.positions, strict=True)
        if data[at + _ATTRIBUTES_AT] & CONTROL
    ]


def aborted_ranges(
    data: Buffer, transactions: Iterable[AbortedTransaction]
) -> list[tuple[int, int]]:
    """(first, last offset) of the data batches in ``data`` that belong to one of the aborted
    ``transactions``; neighbours are joined.

    Kafka's rule for a committed reader (class Fetcher): from a transaction's first offset on all
    transactional batches of its producer are void, until an abort marker of that producer.
    """
    coming = sorted(transactions, key=lambda transaction: -transaction.first_offset)
    void: set[int] = set()
    ranges: list[tuple[int, int]] = []
    position = 0
    for header in parse_headers(data):
        start, position = position, position + header.length
        while coming and coming[-1].first_offset <= header.last_offset:
            void.add(coming.pop().producer_id)
        if not is_transactional(header) or header.producer_id not in void:
            continue
        if is_control(header):
            if decode_marker(memoryview(data)[start:position]).type == MarkerType.ABORT:
                void.discard(header.producer_id)
        elif ranges and ranges[-1][1] == header.base_offset - 1:
            ranges[-1] = (ranges[-1][0], header.last_offset)
        else:
            ranges.append((header.base_offset, header.last_offset))
    return ranges
