"""Decodes fetched bytes into Arrow record batches, for acquired offsets only.

What :mod:`sharegroup.client.records.decode` does record by record happens here column by column:
one :class:`~sharegroup.client.core.record.HeldDelivery` for each record batch, with one byte per
offset between its first and its last record. Gaps, damaged batches and missing records get the same
acknowledgement types in both modules.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from sharegroup.arrow.records import Bytes, Ints
from sharegroup.arrow.rows import RowBuilder
from sharegroup.client.core.acknowledgements import SENT, UNDECIDED, AckType
from sharegroup.client.core.fetched import FetchedPartition
from sharegroup.client.core.record import HeldDelivery
from sharegroup.client.errors import CorruptRecordBatch
from sharegroup.client.records.damage import note_astray, note_damage
from sharegroup.model.errors import CorruptMessage
from sharegroup.model.ids import TopicIdPartition, TopicPartition
from sharegroup.model.offsets import OffsetRange
from sharegroup.records.batches import Bounds, end_offset, place

log = logging.getLogger("sharegroup.client")

RecordBatch: TypeAlias = Any
"""pyarrow.RecordBatch."""


class ArrowDecoding(NamedTuple):
    """How to make record batches: which columns, and about how many rows.

    A fetch asks for ``rows_wanted`` rows and gets whole batches of the log, so usually a few more.
    Up to a quarter more rows stay in one record batch.
    """

    columns: tuple[str, ...]
    rows_wanted: int
    check_crcs: bool = True

    @property
    def rows_max(self) -> int:
        """The most rows of a record batch."""
        return self.rows_wanted * 5 // 4


class ArrowDelivery(HeldDelivery):
    """A delivery whose ``records`` are one Arrow record batch, ascending in offset. Offsets between
    the records that were not acquired count as sent.
    """

    __slots__ = ()

    def within(self, offsets: OffsetRange) -> RecordBatch:
        """The rows of these offsets, without a copy."""
        rows: RecordBatch = self.records
        first, end = np.searchsorted(_offsets(rows), [offsets.first, offsets.last + 1])
        return rows.slice(first, end - first)


class _Piece(NamedTuple):
    """The content of one delivery: rows, or a damaged batch."""

    first: int
    rows: RecordBatch | None
    damage: CorruptRecordBatch | None = None
    last: int = -1


def decode_arrow(
    fetched: Sequence[FetchedPartition], decoding: ArrowDecoding
) -> list[ArrowDelivery]:
    """The deliveries of these partitions, in the order of their offsets in each."""
    return [delivery for one in fetched for delivery in _decode(one, decoding)]


def _decode(fetched: FetchedPartition, decoding: ArrowDecoding) -> list[ArrowDelivery]:
    if not fetched.acquired:
        return []
    ranges = np.array(sorted(fetched.acquired), np.int64)
    data = memoryview(fetched.records)
    pieces, end = _pieces(fetched, ranges, data, decoding)
    first = int(ranges[0, 0])
    types = _types(ranges)
    _mark(types, first, pieces)
    _release_missing(types, first, end, fetched)
    starts = [first, *(one.first for one in pieces[1:])]
    ends = [*starts[1:], first + len(types)]
    nothing = _Piece(first, None)
    return [
        _delivery(fetched, start, types[start - first : end - first], piece)
        for start, end, piece in zip(starts, ends, pieces or [nothing], strict=True)
    ]


def _pieces(
    fetched: FetchedPartition, ranges: Ints, data: memoryview, decoding: ArrowDecoding
) -> tuple[list[_Piece], int]:
    """The pieces of all batches, ascending, and the offset after the last whole batch."""
    builder = RowBuilder(
        decoding.columns,
        fetched.topic,
        fetched.partition,
        ranges,
        check_crcs=decoding.check_crcs,
    )
    try:
        pieces = list(_rows(builder, data, decoding))
        return pieces, end_offset(data) or -1  # offsets ascend: otherwise rows() would have raised
    except CorruptMessage:
        return _one_by_one(builder, fetched, ranges, data, decoding)


def _rows(builder: RowBuilder, data: memoryview, decoding: ArrowDecoding) -> Iterator[_Piece]:
    for rows in builder.rows(data):
        count = rows.num_rows
        parts = 1 if count <= decoding.rows_max else -(-count // decoding.rows_wanted)
        size = -(-count // parts)
        for start in range(0, count, size):
            part = rows.slice(start, size)
            yield _Piece(int(_offsets(part)[0]), part)


def _one_by_one(
    builder: RowBuilder,
    fetched: FetchedPartition,
    ranges: Ints,
    data: memoryview,
    decoding: ArrowDecoding,
) -> tuple[list[_Piece], int]:
    """Read each batch by itself, because some batch is damaged."""
    where = TopicPartition(fetched.topic, fetched.partition)
    last_wanted = int(ranges[-1, 1])

    def read(one: Bounds) -> list[_Piece]:
        return list(_rows(builder, one.batch, decoding))

    placed = place(data, last_wanted, read)
    pieces: list[_Piece] = []
    for one in placed.pieces:
        pieces += one.value or []
        ours = ranges[(ranges[:, 0] <= one.last) & (ranges[:, 1] >= one.first)]
        if one.damage is None or not len(ours):
            continue
        damage = note_damage(where, OffsetRange(one.first, min(one.last, last_wanted)), one.damage)
        begin, end = max(one.first, int(ours[0, 0])), min(one.last, int(ours[-1, 1]))
        pieces.append(_Piece(begin, None, damage, end))
    note_astray(where, placed.astray, placed.cut)
    return pieces, placed.end


def _types(ranges: Ints) -> Bytes:
    """One byte for each offset from the first to the last acquired one: GAP if the offset was
    acquired, else SENT.
    """
    first, last = int(ranges[0, 0]), int(ranges[-1, 1])
    types = np.full(last - first + 1, AckType.GAP, np.uint8)
    if len(ranges) > 1:
        changes = np.zeros(len(types) + 1, np.int8)
        changes[ranges[:, 0] - first] += 1
        changes[ranges[:, 1] - first + 1] -= 1
        types[np.cumsum(changes[:-1], dtype=np.int8) == 0] = SENT
    return types


def _mark(types: Bytes, first: int, pieces: Sequence[_Piece]) -> None:
    for piece in pieces:
        if piece.rows is not None:
            types[_offsets(piece.rows) - first] = UNDECIDED
        else:
            damaged = types[piece.first - first : piece.last - first + 1]
            damaged[damaged == AckType.GAP] = AckType.REJECT


def _release_missing(types: Bytes, first: int, end: int, fetched: FetchedPartition) -> None:
    """Release offsets that were acquired and not sent to us; acknowledged as gaps, their records
    would be lost."""
    missing = types[max(end - first, 0) :]
    if len(missing):
        log.warning(
            "records were acquired but not sent, and are released: from %s of %s-%s",
            max(end, first),
            fetched.topic,
            fetched.partition,
        )
        missing[missing == AckType.GAP] = AckType.RELEASE


def _delivery(fetched: FetchedPartition, first: int, types: Bytes, piece: _Piece) -> ArrowDelivery:
    delivery = ArrowDelivery(
        TopicIdPartition(fetched.topic_id, fetched.partition),
        TopicPartition(fetched.topic, fetched.partition),
        OffsetRange(first, first + len(types) - 1),
        0,  # the rows have the delivery count
        fetched.lease,
        fetched.lock_deadline,
    )
    delivery.types = bytearray(types)
    delivery.error = piece.damage
    if piece.rows is not None:
        delivery.records = piece.rows
    return delivery


def _offsets(rows: RecordBatch) -> Ints:
    found: Ints = rows.column("offset").to_numpy()
    return found
