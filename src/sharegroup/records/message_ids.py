"""The message ids of a batch's records (deduplication at enqueue), and a batch without some of its
records.

A record's id is the value of its header ``sharegroup.message.id``: any bytes. The last header of
the name counts, and an id that is null or empty is none. Dead letters (``__dlq.errors.…``) have no
id, nor have records that are sent back from there (``sharegroup.redriven``): each is a message of
its own, whatever headers it has copied. Ids are known by a keyed hash of 128 bits
(SipHash-2-4-128): without the secret nobody can choose ids that all fall into one place of a table.

The ids are found by ``message_ids.c`` where it is compiled, else in Python. The hashes are the
same, since they are kept on disk.
"""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from sharegroup.model.errors import CorruptMessage
from sharegroup.records import walk as walking
from sharegroup.records.check import walk_plain
from sharegroup.records.compiled import address, pointer
from sharegroup.records.pure import LONG, number
from sharegroup.wire.batch import COMPRESSION_MASK, LOG_APPEND_TIME, BatchHeader, with_records
from sharegroup.wire.compression import compress

Buffer = bytes | bytearray | memoryview

MESSAGE_ID: Final = "sharegroup.message.id"
"""The header with a record's id."""

SECRET_BYTES: Final = 16
USES_COMPILED: Final = walking.IS_COMPILED and sys.byteorder == "little"
"""The compiled code writes hashes in the machine's byte order, and the disk has little-endian."""

_NAME: Final = MESSAGE_ID.encode()
_REDRIVEN: Final = b"sharegroup.redriven"
_LETTER: Final = b"__dlq.errors."
_WORD: Final = 2**64 - 1
_NO_TIMESTAMP: Final = -1


class FoundIds(NamedTuple):
    """The ids of the records of one batch, in the order of the records."""

    hashes: array[int]
    """Two numbers for each record: the low and the high half of its id's hash."""
    has: bytearray
    """1 for each record that has an id, else 0."""
    starts: array[int]
    """Where each record begins in the plain records."""
    deltas: array[int]
    """The offset of each record, counted from the batch's base offset."""
    found: int
    """How many records have an id."""


def find_ids(
    header: BatchHeader,
    data: Buffer,
    start: int,
    secret: bytes,
    *,
    compiled: bool = USES_COMPILED,
) -> FoundIds:
    """The ids of the plain records of one batch, which stand in ``data`` from ``start`` on.

    Raises:
        InvalidRecord, CorruptMessage: the records cannot be read.
    """
    count = header.record_count
    ids = FoundIds(
        array("Q", bytes(16 * count)),
        bytearray(count),
        array("q", bytes(8 * count)),
        array("q", bytes(8 * count)),
        0,
    )
    library: Any = walking.LIBRARY
    if not compiled or not count:
        return _pure_find(header, data, start, secret, ids)
    found = library.sharegroup_ids_find(
        address(data), start, len(data), count, header.last_offset_delta, secret,
        pointer(ids.hashes), address(ids.has), pointer(ids.starts), pointer(ids.deltas),
    )  # fmt: skip
    if found < 0:
        _refuse(header, data, start)
    return ids._replace(found=found)


def _refuse(header: BatchHeader, data: Buffer, start: int) -> None:
    """Raise what the walk says of a batch that is not good."""
    walk_plain(header, memoryview(data)[start:], dense=False)
    raise CorruptMessage("the records of a batch have changed while they were read")


def without_records(
    header: BatchHeader, data: Buffer, start: int, ids: FoundIds, gone: Sequence[int]
) -> bytes:
    """A batch without the records that ``gone`` names by their index, ascending. Offsets, sequence
    numbers and the codec stay, as when the log cleaner removes records: the batch has holes. A
    batch without any record is a header.

    Args:
        data: the plain records from ``start`` on, which ``ids`` were found in.
    """
    count, end = len(ids.starts), len(data)
    left = header._replace(record_count=count - len(gone))
    if len(gone) == count:  # without a time: a look-up by time must find a record
        attributes = header.attributes & ~COMPRESSION_MASK
        return with_records(left._replace(attributes=attributes, max_timestamp=_NO_TIMESTAMP), b"")
    view, parts, at = memoryview(data), [], start
    for index in gone:
        begin = ids.starts[index]
        if at < begin:
            parts.append(view[at:begin])
        at = ids.starts[index + 1] if index + 1 < count else end
    parts.append(view[at:end])
    kept = b"".join(parts)
    if not header.attributes & LOG_APPEND_TIME:
        latest_ms = walk_plain(left, kept, dense=False).latest_ms
        left = left._replace(max_timestamp=max(_NO_TIMESTAMP, latest_ms))
    codec = header.attributes & COMPRESSION_MASK
    return with_records(left, compress(codec, kept) if codec else kept)


# In Python -----------------------------------------------------------------------------------


def _pure_find(
    header: BatchHeader, data: Buffer, start: int, secret: bytes, ids: FoundIds
) -> FoundIds:
    plain = bytes(data)
    walk_plain(header, plain, start, dense=False)
    at, found = start, 0
    for index in range(header.record_count):
        ids.starts[index] = at
        size, at = number(plain, at, len(plain))
        end = at + size
        _, at = number(plain, at + 1, end, LONG)
        ids.deltas[index], at = number(plain, at, end)
        for _ in ("key", "value"):
            length, at = number(plain, at, end)
            at += max(length, 0)
        name = _id_at(plain, at, end)
        if name:
            found += 1
            ids.has[index] = 1
            ids.hashes[2 * index], ids.hashes[2 * index + 1] = hash_of_id(secret, name)
        at = end
    return ids._replace(found=found)


def _id_at(plain: bytes, at: int, end: int) -> bytes:
    """The id in the headers at ``at``; empty: there is none."""
    count, at = number(plain, at, end)
    found, letter = b"", False
    for _ in range(count):
        length, at = number(plain, at, end)
        name, at = plain[at : at + length], at + length
        length, at = number(plain, at, end)
        length = max(length, 0)
        if name == _NAME:
            found = plain[at : at + length]
        letter = letter or name == _REDRIVEN or name.startswith(_LETTER)
        at += length
    return b"" if letter else found


def hash_of_id(secret: bytes, name: bytes) -> tuple[int, int]:
    """SipHash-2-4-128 of an id: the low and the high half."""
    k0, k1 = struct.unpack("<QQ", secret)
    v = [
        k0 ^ 0x736F6D6570736575,
        k1 ^ 0x646F72616E646F6D ^ 0xEE,
        k0 ^ 0x6C7967656E657261,
        k1 ^ 0x7465646279746573,
    ]
    padding = bytes(7 - len(name) % 8) + bytes((len(name) & 0xFF,))
    for (word,) in struct.iter_unpack("<Q", name + padding):
        v[3] ^= word
        _sip_rounds(v, 2)
        v[0] ^= word
    v[2] ^= 0xEE
    _sip_rounds(v, 4)
    low = v[0] ^ v[1] ^ v[2] ^ v[3]
    v[1] ^= 0xDD
    _sip_rounds(v, 4)
    return low, v[0] ^ v[1] ^ v[2] ^ v[3]


def _sip_rounds(v: list[int], rounds: int) -> None:
    a, b, c, d = v
    for _ in range(rounds):
        a = (a + b) & _WORD
        b = _rotated(b, 13) ^ a
        a = _rotated(a, 32)
        c = (c + d) & _WORD
        d = _rotated(d, 16) ^ c
        a = (a + d) & _WORD
        d = _rotated(d, 21) ^ a
        c = (c + b) & _WORD
        b = _rotated(b, 17) ^ c
        c = _rotated(c, 32)
    v[:] = a, b, c, d


def _rotated(word: int, bits: int) -> int:
    return (word << bits | word >> (64 - bits)) & _WORD
