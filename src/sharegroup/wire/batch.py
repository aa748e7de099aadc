"""Record batches, format v2: the 61-byte header, and small batches for internal topics.

The broker reads and stamps headers and passes the rest as opaque bytes. Records are encoded and
decoded only for the broker's own internal topics and for the one batch that a timestamp look-up
lands in.

Layout (Kafka class DefaultRecordBatch): base offset i64, length i32 (of the bytes after it), leader
epoch i32, magic i8, CRC u32 (crc32c of all bytes after it), attributes i16, last offset delta i32,
base timestamp i64, max timestamp i64, producer id i64, producer epoch i16, base sequence i32,
record count i32, records.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from crc32c import crc32c

from sharegroup.model.environment import FileRange
from sharegroup.model.errors import CorruptMessage
from sharegroup.model.offsets import OFFSET_MAX
from sharegroup.wire.compression import decompress

Buffer = bytes | bytearray | memoryview
Value = bytes | tuple[bytes, ...]
"""A value may come in pieces, which are joined only in the batch."""
Record = tuple[bytes | None, Value | None]

HEADER_BYTES: Final = 61
MAGIC: Final = 2
CRC_START: Final = 21
"""The first byte that the CRC covers: attributes and everything after."""

STAMPED_BYTES: Final = 16
"""Base offset, length and leader epoch: what a broker writes into a producer's batch, all outside
the CRC."""

COMPRESSION_MASK: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
DELETE_HORIZON: Final = 0x40
"""The base timestamp is a delete horizon: when the batch's tombstones may go (KIP-534)."""

_LENGTH_END: Final = 12
_LARGE_PIECE_BYTES: Final = 1024
_HEADERS_MIN: Final = 16  # this many are read one by one before batches may count as small
_HEADER = struct.Struct(">qiibIhiqqqhii")
_BEFORE_CRC = struct.Struct(">qiibI")
_AFTER_CRC = struct.Struct(">hiqqqhii")
_BOUNDS = struct.Struct(">qi4xb6xi")
_STAMP = struct.Struct(">qii")
_CRC = struct.Struct(">I")
_MAX_TIMESTAMP = struct.Struct(">q")
_MAX_TIMESTAMP_AT: Final = 35


class BatchHeader(NamedTuple):
    """One batch header.

    ``length`` is the whole batch in bytes, header included; times are in milliseconds.
    """

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def last_offset(self) -> int:
        """The offset of the batch's last record."""
        return self.base_offset + self.last_offset_delta


def parse_header(data: Buffer, position: int = 0) -> BatchHeader:
    """The header at ``position``; only its magic and its length's lower bound are checked.

    Raises:
        CorruptMessage: fewer than 61 bytes, another magic, or a length that no batch has.
    """
    if len(data) - position < HEADER_BYTES:
        raise CorruptMessage(f"a batch header needs 61 bytes, {len(data) - position} are there")
    base_offset, length, *rest = _HEADER.unpack_from(data, position)
    # What BatchHeader(...) does, without a Python call: this runs for each batch.
    header = tuple.__new__(BatchHeader, (base_offset, length + _LENGTH_END, *rest))
    if header.magic != MAGIC:
        raise CorruptMessage(f"record batch of magic {header.magic}, only 2 is supported")
    if header.length < HEADER_BYTES or header.last_offset_delta < 0:
        raise CorruptMessage(f"a record batch cannot have a length of {header.length} bytes")
    return header


def parse_headers(data: Buffer) -> list[BatchHeader]:
    """The headers of all batches; ``data`` must end with the last one.

    Raises:
        CorruptMessage: a wrong magic or length, or bytes left over.
    """
    headers = []
    position = 0
    while position < len(data):
        header = parse_header(data, position)
        position += header.length
        headers.append(header)
    if position > len(data):
        raise CorruptMessage(f"the last record batch is {position - len(data)} bytes short")
    return headers


class Walk(NamedTuple):
    """Where the batches of a run lie, in offsets and in bytes."""

    bounds: list[tuple[int, int]]
    """(base offset, last offset) of each batch, both inclusive."""
    positions: list[int]
    """Where each batch begins, in bytes."""

    @property
    def end_offset(self) -> int:
        """One past the last offset."""
        return self.bounds[-1][1] + 1

    def between(self, data: bytes, first: int, last: int) -> bytes | memoryview:
        """The part of ``data`` with the whole batches that hold ``first`` … ``last``."""
        start, stop = self.span(len(data), first, last)
        return data if stop - start == len(data) else memoryview(data)[start:stop]

    def span(self, size: int, first: int, last: int) -> tuple[int, int]:
        """Where the whole batches that hold ``first`` … ``last`` begin and end; the run has
        ``size`` bytes."""
        begin = max(0, bisect_right(self.bounds, (first, OFFSET_MAX)) - 1)
        end = bisect_right(self.bounds, (last, OFFSET_MAX))
        return self.positions[begin], self.positions[end] if end < len(self.positions) else size

    def holding(self, data: bytes, ranges: Sequence[tuple[int, int]]) -> bytes | memoryview:
        """The parts of ``data`` with the whole batches that hold a record of ``ranges``, which
        ascend; batches that hold no such record are left out."""
        parts: list[tuple[int, int]] = []
        for first, last in ranges:
            begin = max(0, bisect_right(self.bounds, (first, OFFSET_MAX)) - 1)
            end = bisect_right(self.bounds, (last, OFFSET_MAX))
            if parts and begin <= parts[-1][1]:
                parts[-1] = (parts[-1][0], max(end, parts[-1][1]))
            else:
                parts.append((begin, end))
        ends = [*self.positions, len(data)]
        view = memoryview(data)
        pieces = [view[ends[begin] : ends[end]] for begin, end in parts]
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def walk(data: Buffer) -> Walk:
    """Bounds and positions of the batches in ``data``, which ends with the last one.

    Runs per share fetch: it must stay this lean.

    Raises:
        CorruptMessage: a wrong magic or length, or bytes left over.
    """
    bounds = []
    positions = []
    unpack = _BOUNDS.unpack_from
    position = 0
    end = len(data)
    try:
        while position < end:
            base_offset, length, magic, last_offset_delta = unpack(data, position)
            if magic != MAGIC or length < HEADER_BYTES - _LENGTH_END:
                raise CorruptMessage(f"no record batch of magic 2 at byte {position}")
            bounds.append((base_offset, base_offset + last_offset_delta))
            positions.append(position)
            position += length + _LENGTH_END
    except struct.error as error:
        raise CorruptMessage("the last record batch is cut off") from error
    if position != end:
        raise CorruptMessage(f"the last record batch is {position - end} bytes short")
    return Walk(bounds, positions)


def walk_headers(found: FileRange, batch_bytes_min: int) -> Walk | None:
    """As :func:`walk`, but reads the headers only, each on its own. None: the headers are too many,
    since the first batches have fewer than ``batch_bytes_min`` bytes on average.

    Raises:
        OSError: the file cannot be read.
        CorruptMessage: a wrong magic or length, or bytes left over.
    """
    bounds = []
    positions = []
    position = 0
    end = len(found)
    while position < end:
        header = parse_header(found.read(min(HEADER_BYTES, end - position), position))
        bounds.append((header.base_offset, header.last_offset))
        positions.append(position)
        position += header.length
        if len(bounds) >= _HEADERS_MIN and position < len(bounds) * batch_bytes_min:
            return None
    if position != end:
        raise CorruptMessage(f"the last record batch is {position - end} bytes short")
    return Walk(bounds, positions)


def batch_bounds(data: Buffer) -> list[tuple[int, int]]:
    """(base offset, last offset) of each batch, both inclusive.

    Raises:
        CorruptMessage: a wrong magic or length, or bytes left over.
    """
    return walk(data).bounds


def end_offset_of(data: Buffer) -> int:
    """One past the last offset of ``data``: whole batches, checked when they were appended. A
    header may be damaged since; then, of the batches before it.

    Raises:
        CorruptMessage: the first one is damaged.
    """
    last = -1
    position, end = 0, len(data) - HEADER_BYTES
    while position <= end:
        base_offset, length, _, last_offset_delta = _BOUNDS.unpack_from(data, position)
        if length < HEADER_BYTES - _LENGTH_END:
            break
        last = base_offset + last_offset_delta
        position += length + _LENGTH_END
    if last < 0:
        raise CorruptMessage("no record batch begins here")
    return last + 1


def crc_of(batch: Buffer) -> int:
    """The CRC that a whole batch should carry."""
    return crc32c(memoryview(batch)[CRC_START:])


def check_crc(batch: Buffer) -> None:
    """Check one whole batch.

    Raises:
        CorruptMessage: the CRC does not match.
    """
    (stated,) = _CRC.unpack_from(batch, CRC_START - 4)
    computed = crc_of(batch)
    if stated != computed:
        reason = f"stored crc = {stated}, computed crc = {computed}"
        raise CorruptMessage(f"Record is corrupt ({reason})")


def stamped_prefix(header: BatchHeader, base_offset: int, leader_epoch: int) -> bytes:
    """The first 16 bytes of a batch with offset and epoch set: write it before ``batch[16:]``, no
    copy needed."""
    return _STAMP.pack(base_offset, header.length - _LENGTH_END, leader_epoch)


def append_time_header(
    batch: Buffer, header: BatchHeader, base_offset: int, leader_epoch: int, append_time_ms: int
) -> bytes:
    """The whole 61-byte header under LogAppendTime: type and largest timestamp set, CRC computed
    again (Kafka class LogValidator)."""
    header = header._replace(
        attributes=header.attributes | LOG_APPEND_TIME, max_timestamp=append_time_ms
    )
    return remade_header(batch, header, base_offset, leader_epoch)


def states_max_timestamp(header: BatchHeader, batch: Buffer) -> bool:
    """Whether ``batch`` states the same largest timestamp as ``header``."""
    (stated,) = _MAX_TIMESTAMP.unpack_from(batch, _MAX_TIMESTAMP_AT)
    return bool(stated == header.max_timestamp)


def remade_header(batch: Buffer, header: BatchHeader, base_offset: int, leader_epoch: int) -> bytes:
    """``header`` as 61 bytes, with a new CRC over it and the records in ``batch``."""
    after_crc = _AFTER_CRC.pack(
        header.attributes,
        header.last_offset_delta,
        header.base_timestamp,
        header.max_timestamp,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        header.record_count,
    )
    crc = crc32c(memoryview(batch)[HEADER_BYTES : header.length], crc32c(after_crc))
    length = header.length - _LENGTH_END
    return _BEFORE_CRC.pack(base_offset, length, leader_epoch, MAGIC, crc) + after_crc


def stamp(
    batch: bytearray | memoryview,
    base_offset: int,
    leader_epoch: int,
    append_time_ms: int | None = None,
) -> None:
    """Write offset and epoch, and under LogAppendTime the time, into one whole batch, in place."""
    if append_time_ms is None:
        _STAMP.pack_into(batch, 0, base_offset, len(batch) - _LENGTH_END, leader_epoch)
        return
    header = parse_header(batch)
    batch[:HEADER_BYTES] = append_time_header(
        batch, header, base_offset, leader_epoch, append_time_ms
    )


def encode_batch(
    records: Sequence[Record],
    *,
    timestamp_ms: int,
    base_offset: int = 0,
    leader_epoch: int = 0,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    attributes: int = 0,
) -> bytes:
    """One uncompressed batch of (key, value) records, all of one timestamp.

    Raises:
        ValueError: there is no record.
    """
    if not records:
        raise ValueError("a record batch has at least one record")
    last = len(records) - 1
    after_crc = _AFTER_CRC.pack(
        attributes,
        last,
        timestamp_ms,
        timestamp_ms,
        producer_id,
        producer_epoch,
        base_sequence,
        last + 1,
    )
    pieces = [b"", after_crc]
    size = len(after_crc)
    for delta, (key, value) in enumerate(records):
        size += _add_record(pieces, delta, key, value)
    if size > len(pieces) * _LARGE_PIECE_BYTES:  # a copy of everything would cost more than calls
        crc = 0
        for piece in pieces:
            crc = crc32c(piece, crc)
    else:
        crc = crc32c(b"".join(pieces))
    length = size + CRC_START - _LENGTH_END
    pieces[0] = _BEFORE_CRC.pack(base_offset, length, leader_epoch, MAGIC, crc)
    return b"".join(pieces)


def with_records(header: BatchHeader, records: Buffer) -> bytes:
    """A whole batch of ``header``, with length and CRC computed, and ``records`` as they are. The
    caller has compressed the records if the header says so."""
    after_crc = _AFTER_CRC.pack(*header[5:])
    length = HEADER_BYTES + len(records) - _LENGTH_END
    crc = crc32c(records, crc32c(after_crc))
    head = _BEFORE_CRC.pack(header.base_offset, length, header.leader_epoch, MAGIC, crc)
    return b"".join((head, after_crc, records))


def batch_of_records(
    records: Buffer, count: int, base_timestamp: int, max_timestamp: int, attributes: int
) -> bytearray:
    """A producer's batch of ``count`` records, compressed if ``attributes`` say so. Base offset 0;
    leader epoch, producer id, epoch and sequence are -1."""
    length = HEADER_BYTES + len(records) - _LENGTH_END
    times = (base_timestamp, max_timestamp)
    batch = bytearray(
        _HEADER.pack(0, length, -1, MAGIC, 0, attributes, count - 1, *times, -1, -1, -1, count)
    )
    batch += records
    _CRC.pack_into(batch, CRC_START - 4, crc_of(batch))
    return batch


def decode_batch(data: Buffer) -> Iterator[tuple[int, int, bytes | None, bytes | None]]:
    """(offset, timestamp in ms, key, value) of each record of one or more batches; headers of
    records are skipped.

    Raises:
        CorruptMessage: a header, a compressed block or a record is not what it claims to be.
        UnsupportedCompressionType: there is no such codec.
    """
    position = 0
    for header in parse_headers(data):
        records = bytes(data[position + HEADER_BYTES : position + header.length])
        position += header.length
        codec = header.attributes & COMPRESSION_MASK
        if codec:
            records = bytes(decompress(codec, records))
        yield from _decode_records(header, records)


def _decode_records(
    header: BatchHeader, records: bytes
) -> Iterator[tuple[int, int, bytes | None, bytes | None]]:
    append_time = header.max_timestamp if header.attributes & LOG_APPEND_TIME else None
    position = 0
    try:
        for _ in range(header.record_count):
            size, position = read_varint(records, position)
            end = position + size
            timestamp_delta, position = read_varint(records, position + 1)
            offset_delta, position = read_varint(records, position)
            key, position = _field(records, position)
            value, position = _field(records, position)
            if size < 0 or position > end or end > len(records):
                raise CorruptMessage("a record is longer than its batch says")
            timestamp = header.base_timestamp + timestamp_delta
            yield (
                header.base_offset + offset_delta,
                timestamp if append_time is None else append_time,
                key,
                value,
            )
            position = end
    except IndexError as error:
        raise CorruptMessage("a record is cut off") from error


def _field(data: bytes, position: int) -> tuple[bytes | None, int]:
    size, position = read_varint(data, position)
    if size < 0:
        return None, position
    return data[position : position + size], position + size


def _add_record(pieces: list[bytes], delta: int, key: bytes | None, value: Value | None) -> int:
    """Add the bytes of a record to ``pieces``, key and value by reference; returns their number."""
    offset = zigzag(delta)
    size = 3 + len(offset)
    key_size = value_size = b"\1"  # of None
    if key is not None:
        key_size = zigzag(len(key))
        size += len(key)
    parts = value if isinstance(value, tuple) else (value or b"",)
    if value is not None:
        value_bytes = sum(map(len, parts))
        value_size = zigzag(value_bytes)
        size += value_bytes
    size += len(key_size) + len(value_size)
    length = zigzag(size)
    # Attributes and timestamp delta are one zero byte each; the last zero says "no headers".
    pieces += (length, b"\0\0", offset, key_size, key or b"", value_size, *parts, b"\0")
    return len(length) + size


def zigzag(number: int) -> bytes:
    """A number in the variable-length form that records have."""
    if 0 <= number < 64:
        return _SMALL[number]
    number = number << 1 if number >= 0 else (-number << 1) - 1
    if number < 1 << 14:
        return bytes((number & 0x7F | 0x80, number >> 7)) if number > 0x7F else bytes((number,))
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


_SMALL: Final = tuple(bytes((number << 1,)) for number in range(64))


def read_varint(data: bytes | bytearray | memoryview, position: int) -> tuple[int, int]:
    """The variable-length number at ``position``, and where it ends.

    Raises:
        CorruptMessage: the number is longer than 10 bytes.
    """
    byte = data[position]
    position += 1
    number = byte & 0x7F
    shift = 7
    while byte & 0x80:
        byte = data[position]
        position += 1
        number |= (byte & 0x7F) << shift
        shift += 7
        if shift > 70:
            raise CorruptMessage("a variable-length number of more than 10 bytes")
    return (number >> 1) ^ -(number & 1), position
