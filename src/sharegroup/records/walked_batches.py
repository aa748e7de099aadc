"""Walks the records of produced batches before the append, and compresses batches anew where their
topic asks for it. The result remembers the walk, so that the append need not walk again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sharegroup.model.limits import DECOMPRESSED_BATCH_BYTES_MAX
from sharegroup.model.log import Recompression
from sharegroup.records.check import plain_records, walk_records
from sharegroup.records.message_ids import FoundIds, find_ids, without_records
from sharegroup.records.walk_result import Walked
from sharegroup.wire.batch import (
    COMPRESSION_MASK,
    HEADER_BYTES,
    BatchHeader,
    Buffer,
    crc_of,
    parse_headers,
    with_records,
)
from sharegroup.wire.compression import compress


class Prepared(NamedTuple):
    """Batches without the records that ``gone`` names, by batch."""

    gone: tuple[tuple[int, ...], ...]
    batches: bytes


class WalkedBatches(bytes):
    """Batches whose records :func:`walk_batches` has walked, so that the append need not."""

    walks: list[Walked]
    id_secret: bytes | None = None
    """The secret of ``ids``; None: they were not looked for."""
    ids: Sequence[FoundIds] = ()
    prepared: Prepared | None = None
    """The batches without repeated records, made in a thread."""

    @property
    def unpacked_bytes(self) -> int:
        """The size of the records, unpacked."""
        return sum(walk.position for walk in self.walks)


def walk_batches(
    batches: bytes,
    bytes_max: int = DECOMPRESSED_BATCH_BYTES_MAX,
    record_bytes_max: int | None = None,
    id_secret: bytes | None = None,
) -> WalkedBatches:
    """Walk the records of all batches without any other check. All compressed batches together may
    unpack to ``bytes_max``, each of their records to ``record_bytes_max``. With ``id_secret`` their
    message ids are found too.

    Raises:
        CorruptMessage, InvalidRecord, UnsupportedCompressionType: as
            :func:`sharegroup.records.check.check_records`.
    """
    walked = WalkedBatches(batches)
    walked.walks = []
    view = memoryview(batches)
    start, room = 0, bytes_max
    for header in parse_headers(batches):
        batch = view[start : start + header.length]
        one = walk_records(header, batch, bytes_max=room, record_bytes_max=record_bytes_max)
        walked.walks.append(one)
        start += header.length
        if header.attributes & COMPRESSION_MASK:
            room -= one.position
    if id_secret is not None:
        headers = parse_headers(batches)
        walked.ids = [ids_of(batches, at, one, id_secret) for at, one in enumerate(headers)]
        walked.id_secret = id_secret
    return walked


def ids_of(batches: bytes, at: int, header: BatchHeader, secret: bytes) -> FoundIds:
    """The message ids of batch number ``at`` of a record set; they may be known already.

    Raises:
        CorruptMessage, InvalidRecord, UnsupportedCompressionType: the records cannot be read.
    """
    if isinstance(batches, WalkedBatches) and batches.id_secret == secret:
        return batches.ids[at]
    return find_ids(header, *_plain(header, _batch(batches, at)), secret)


def without_repeats(
    batches: bytes,
    headers: Sequence[BatchHeader],
    ids: Sequence[FoundIds],
    gone: tuple[tuple[int, ...], ...],
) -> bytes:
    """The batches without the records that ``gone`` names by batch and index."""
    parts: list[Buffer] = []
    for at, (header, found, some) in enumerate(zip(headers, ids, gone, strict=True)):
        batch = _batch(batches, at)
        if some:
            batch = without_records(header, *_plain(header, batch), found, some)
        parts.append(batch)
    return b"".join(parts)


def prepare(batches: WalkedBatches, gone: tuple[tuple[int, ...], ...]) -> None:
    """Make the batches without repeated records, so that the append need not."""
    rest = without_repeats(batches, parse_headers(batches), batches.ids, gone)
    batches.prepared = Prepared(gone, rest)


def _batch(batches: bytes, at: int) -> Buffer:
    """Batch number ``at``; nearly always there is only one."""
    headers = parse_headers(batches)
    if len(headers) == 1:
        return batches
    start = sum(header.length for header in headers[:at])
    return memoryview(batches)[start : start + headers[at].length]


def _plain(header: BatchHeader, batch: Buffer) -> tuple[Buffer, int]:
    """(bytes, where the plain records begin in them)."""
    if header.attributes & COMPRESSION_MASK:
        return bytes(plain_records(header, batch)), 0
    return bytes(batch), HEADER_BYTES


def recompressed(
    batches: bytes,
    how: Recompression,
    bytes_max: int = DECOMPRESSED_BATCH_BYTES_MAX,
    record_bytes_max: int | None = None,
    id_secret: bytes | None = None,
) -> WalkedBatches:
    """As :func:`walk_batches`; batches of another codec than ``how`` says are compressed anew. A
    batch that is too large, or whose CRC is wrong, stays as it is: the append refuses it.

    Raises:
        CorruptMessage, InvalidRecord, UnsupportedCompressionType: as :func:`walk_batches`.
    """
    walked = walk_batches(batches, bytes_max, record_bytes_max, id_secret)
    view, start, parts = memoryview(batches), 0, list[Buffer]()
    for header in parse_headers(batches):
        batch = view[start : start + header.length]
        start += header.length
        codec = header.attributes & COMPRESSION_MASK
        good = header.length <= how.batch_bytes_max and header.crc == crc_of(batch)
        parts.append(_packed(header, batch, how) if good and codec != how.codec else batch)
    result = WalkedBatches(b"".join(parts))
    result.walks, result.ids, result.id_secret = walked.walks, walked.ids, walked.id_secret
    return result


def _packed(header: BatchHeader, batch: Buffer, how: Recompression) -> bytes:
    plain = plain_records(header, batch)
    packed = header._replace(attributes=header.attributes & ~COMPRESSION_MASK | how.codec)
    return with_records(packed, compress(how.codec, plain, how.level) if how.codec else plain)
