"""The key hashes of a batch, and a batch cut to key ranges (KIP-X, "Key Based Filtering").

The hash of a key is a number of 63 bits and a constant of the protocol: MurmurHash2 of the key
under Kafka's seed and under a second seed, put together and mixed by the last step of SplitMix64.
The partition of a key is the MurmurHash2 under Kafka's seed, modulo the partition count: this one
alone would not spread the keys of one partition. A record without a key has the hash of its offset.

The hashes are computed by ``key_hashes.c`` where it is compiled, else in Python.
"""

from __future__ import annotations

import ctypes
import struct
from array import array
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from sharegroup.model.errors import CorruptMessage
from sharegroup.records import walk as walking
from sharegroup.records.check import check_counts, check_room, walk_plain
from sharegroup.records.compiled import address, header_tenants_with, pointer
from sharegroup.records.pure import LONG, last_header, number
from sharegroup.wire.batch import COMPRESSION_MASK, BatchHeader, with_records

Buffer = bytes | bytearray | memoryview

HASH_MAX: Final = 2**63 - 1
"""The hash space is 0 to this, inclusive."""

WHOLE_KEY: Final = -1
"""No separator ends the part of a key that names a tenant."""

KAFKA_SEED: Final = 0x9747B28C
SEEDS: Final = (KAFKA_SEED, 0x3C6EF372)
MURMUR_MULTIPLIER: Final = 0x5BD1E995
OFFSET_SALT: Final = 0x9E3779B97F4A7C15
FIRST_MULTIPLIER: Final = 0xBF58476D1CE4E5B9
SECOND_MULTIPLIER: Final = 0x94D049BB133111EB
_INT: Final = 2**32 - 1
_LONG: Final = 2**64 - 1


def hash_of_key(key: bytes) -> int:
    """The hash of a key; 0 to ``HASH_MAX``."""
    high, low = (murmur2(key, seed) for seed in SEEDS)
    return _mixed(high << 32 | low)


def hash_of_offset(offset: int) -> int:
    """The hash of a record without a key."""
    return _mixed(offset + OFFSET_SALT)


class KeyHashes(NamedTuple):
    """The key hashes of the records of one batch, in the order of the records."""

    hashes: array[int]
    starts: array[int]
    """Where each record begins in the plain records that were hashed."""

    @property
    def nbytes(self) -> int:
        """How many bytes both arrays take in memory."""
        return len(self.hashes) * 16


class Cut(NamedTuple):
    """A batch with only some of its records."""

    data: bytes
    """A whole batch; without records it is a header, as the log cleaner leaves it."""
    records: int


def key_hashes(
    header: BatchHeader, records: Buffer, *, compiled: bool = walking.IS_COMPILED
) -> KeyHashes:
    """The hashes of a batch's plain ``records``, which are all there is in the buffer.

    Raises:
        InvalidRecord, CorruptMessage: the records cannot be read.
    """
    if walking.LIBRARY is None or not compiled:
        return _pure_hashes(header, records, partial(_hash_of_record, header.base_offset))
    return _compiled_hashes(
        walking.LIBRARY.sharegroup_key_hashes, header, records, header.base_offset
    )


def tenant_hashes(
    header: BatchHeader,
    records: Buffer,
    separator: int = WHOLE_KEY,
    *,
    compiled: bool = walking.IS_COMPILED,
) -> KeyHashes:
    """As :func:`key_hashes`, of the part of each key before the first byte ``separator``; of the
    whole key if the byte is not in it, or with ``WHOLE_KEY``. Records without a key have all the
    hash of an empty key.
    """
    if walking.LIBRARY is None or not compiled:
        return _pure_hashes(header, records, partial(_hash_of_tenant, separator))
    return _compiled_hashes(walking.LIBRARY.sharegroup_tenant_hashes, header, records, separator)


def header_tenant_hashes(
    header: BatchHeader,
    records: Buffer,
    name: bytes,
    separator: int = WHOLE_KEY,
    *,
    compiled: bool = walking.IS_COMPILED,
) -> KeyHashes:
    """As :func:`tenant_hashes`, of the value of each record's last header ``name``. Records without
    the header have the hash of an empty value.
    """
    if _HEADER_TENANTS is None or not compiled:
        return _pure_hashes(header, records, partial(_hash_of_header, name, separator))
    return _compiled_hashes(
        _HEADER_TENANTS, header, records, separator, name, len(name), hashes_alone=True
    )


def _compiled_hashes(
    function: Any,
    header: BatchHeader,
    records: Buffer,
    *how: int | bytes,
    hashes_alone: bool = False,
) -> KeyHashes:
    """What one of the compiled functions finds; ``how`` are its own arguments. ``hashes_alone``: it
    needs no room for where the keys are."""
    count = header.record_count
    check_counts(header, dense=False)
    check_room(header, len(records))
    numbers = [array("q", bytes(8 * size)) for size in (count, count, 2 * count)]
    verdict = function(
        address(records), 0, len(records), count, header.last_offset_delta, *how,
        *map(pointer, numbers[: 2 if hashes_alone else 3]),
    )  # fmt: skip
    if verdict:
        walk_plain(header, records, dense=False)
        raise CorruptMessage("the records of a batch have changed while they were read")
    return KeyHashes(numbers[0], numbers[1])


def offsets_of(header: BatchHeader, records: Buffer, starts: Sequence[int]) -> Sequence[int]:
    """The offsets of a batch's records, ascending. The log cleaner leaves gaps between them.

    Args:
        starts: where each record begins in the plain ``records``.
    """
    if header.record_count == header.last_offset_delta + 1:
        return range(header.base_offset, header.last_offset + 1)
    plain = bytes(records)
    found = []
    for start in starts:
        _, at = number(plain, start, len(plain))
        _, at = number(plain, at + 1, len(plain), LONG)
        found.append(header.base_offset + number(plain, at, len(plain))[0])
    return found


def cut(
    header: BatchHeader,
    records: Buffer,
    index: KeyHashes,
    ranges: Sequence[tuple[int, int]],
    *,
    compiled: bool = walking.IS_COMPILED,
) -> Cut:
    """The batch with only the records whose hash lies in one of ``ranges`` (first and last hash,
    both inclusive). Offsets, timestamps and the batch's last offset stay; the result is not
    compressed.

    Args:
        records: the plain records that ``index`` was made from.
    """
    select = _compiled_select if compiled else _pure_select
    count, kept = select(records, index, ranges)
    left = header._replace(record_count=count, attributes=header.attributes & ~COMPRESSION_MASK)
    return Cut(with_records(left, kept), count)


def _compiled_select(
    records: Buffer, index: KeyHashes, ranges: Sequence[tuple[int, int]]
) -> tuple[int, Buffer]:
    library: Any = walking.LIBRARY
    count, end = len(index.hashes), len(records)
    flat = array("q", [limit for each in ranges for limit in each])
    chosen, size = bytearray(count + 1), ctypes.c_int64()
    kept = library.sharegroup_key_choose(
        end, count, pointer(index.hashes), pointer(index.starts), pointer(flat), len(ranges),
        address(chosen), ctypes.byref(size),
    )  # fmt: skip
    out = bytearray(size.value)
    if out:
        library.sharegroup_key_copy(
            address(records), end, count, pointer(index.starts), address(chosen), address(out)
        )
    return kept, out


def _pure_select(
    records: Buffer, index: KeyHashes, ranges: Sequence[tuple[int, int]]
) -> tuple[int, Buffer]:
    ends = [*index.starts[1:], len(records)]
    kept = [
        records[start:end]
        for one, start, end in zip(index.hashes, index.starts, ends, strict=True)
        if any(first <= one <= last for first, last in ranges)
    ]
    return len(kept), b"".join(kept)


class _Record(NamedTuple):
    """A record that was walked, in Python."""

    delta: int
    plain: bytes
    at: int
    """Where its key begins, with the length before it."""
    end: int

    @property
    def key(self) -> bytes | None:
        length, at = number(self.plain, self.at, self.end)
        return None if length < 0 else self.plain[at : at + length]


def _hash_of_record(base_offset: int, record: _Record) -> int:
    key = record.key
    return hash_of_offset(base_offset + record.delta) if key is None else hash_of_key(key)


def _hash_of_tenant(separator: int, record: _Record) -> int:
    return _hash_until(separator, record.key)


def _hash_of_header(name: bytes, separator: int, record: _Record) -> int:
    return _hash_until(separator, last_header(record.plain, record.at, record.end, name))


def _hash_until(separator: int, name: bytes | None) -> int:
    name = name or b""
    return hash_of_key(name if separator == WHOLE_KEY else name.partition(bytes([separator]))[0])


def _pure_hashes(
    header: BatchHeader, records: Buffer, hash_of: Callable[[_Record], int]
) -> KeyHashes:
    """``hash_of`` takes a record, and returns what is told of it."""
    plain = bytes(records)
    walk_plain(header, plain, dense=False)
    found = KeyHashes(array("q"), array("q"))
    at = 0
    for _ in range(header.record_count):
        found.starts.append(at)
        size, at = number(plain, at, len(plain))
        end = at + size
        _, at = number(plain, at + 1, end, LONG)
        delta, at = number(plain, at, end)
        found.hashes.append(hash_of(_Record(delta, plain, at, end)))
        at = end
    return found


def murmur2(data: bytes, seed: int = KAFKA_SEED) -> int:
    """Austin Appleby's MurmurHash2, as an unsigned 32-bit number."""
    size = len(data)
    whole = size & ~3
    h = seed ^ size
    for (k,) in struct.iter_unpack("<I", data[:whole]):
        k = k * MURMUR_MULTIPLIER & _INT
        k = (k ^ (k >> 24)) * MURMUR_MULTIPLIER & _INT
        h = h * MURMUR_MULTIPLIER & _INT ^ k
    if whole < size:
        h = (h ^ int.from_bytes(data[whole:], "little")) * MURMUR_MULTIPLIER & _INT
    h = (h ^ (h >> 13)) * MURMUR_MULTIPLIER & _INT
    return h ^ (h >> 15)


def _mixed(x: int) -> int:
    x &= _LONG
    x = (x ^ (x >> 30)) * FIRST_MULTIPLIER & _LONG
    x = (x ^ (x >> 27)) * SECOND_MULTIPLIER & _LONG
    return (x ^ (x >> 31)) >> 1


_HEADER_TENANTS: Final = header_tenants_with(walking.LIBRARY)
