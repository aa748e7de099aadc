"""Kafka's ``.snapshot`` file: the producers of a partition at one offset (Kafka class
ProducerStateManager, version 1).

Version i16, crc32c u32 of all bytes after the CRC, count i32, then a row per producer: id i64,
epoch i16, last sequence i32, last offset i64, offset delta i32, timestamp i64, coordinator epoch
i32, first offset of its open transaction i64 (or -1).

Then follow rows that Kafka does not have: a producer's batches before its last one, oldest first,
each as id i64, first and last sequence i32, first and last offset i64. So a retry of one of these
batches is recognised after a clean end too, not only after a replay. Kafka checks the CRC of
everything, and reads only its own rows. A snapshot that was written when a segment began has one
more byte. A snapshot of a clean end, or of Kafka, lacks it: there may be no segment at its offset.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from crc32c import crc32c

from sharegroup.transactions.producers import BATCHES_KEPT, ProducedBatch, ProducerEntry

_HEAD = struct.Struct(">hI")
_COUNT = struct.Struct(">i")
_ENTRY = struct.Struct(">qhiqiqiq")
_EARLIER = struct.Struct(">qiiqq")
VERSION: Final = 1
PRODUCER_BYTES_MAX: Final = _ENTRY.size + (BATCHES_KEPT - 1) * _EARLIER.size
"""What a producer can take in the file."""


def encode(entries: Sequence[ProducerEntry], *, begins: bool = False) -> bytes:
    """The file's content; ``begins``: a segment begins at its offset."""
    rows = [_ENTRY.pack(*entry[:-1]) for entry in entries]
    rows += [_EARLIER.pack(each.producer_id, *batch) for each in entries for batch in each.earlier]
    body = _COUNT.pack(len(entries)) + b"".join(rows) + b"\x01" * begins
    return _HEAD.pack(VERSION, crc32c(body)) + body


def decode(data: bytes) -> list[ProducerEntry]:
    """The producers in a file.

    Raises:
        ValueError: another version, a wrong CRC or a wrong length.
    """
    try:
        version, crc = _HEAD.unpack_from(data)
        (count,) = _COUNT.unpack_from(data, _HEAD.size)
    except struct.error as error:
        raise ValueError("the producer snapshot is cut off") from error
    body = data[_HEAD.size :]
    if version != VERSION or crc != crc32c(body):
        raise ValueError("the producer snapshot is of another version or damaged")
    end = _COUNT.size + count * _ENTRY.size
    if not _COUNT.size <= end <= len(body):
        raise ValueError(f"the producer snapshot does not have the {count} rows that it counts")
    earlier: defaultdict[int, list[ProducedBatch]] = defaultdict(list)
    size = (len(body) - end) // _EARLIER.size * _EARLIER.size
    for producer_id, *batch in _EARLIER.iter_unpack(body[end : end + size]):
        earlier[producer_id].append(ProducedBatch(*batch))
    rows = _ENTRY.iter_unpack(body[_COUNT.size : end])
    return [ProducerEntry(*row)._replace(earlier=tuple(earlier.get(row[0], ()))) for row in rows]


def begins_segment(data: bytes) -> bool:
    """Whether a readable file says that a segment begins at its offset.

    Raises:
        ValueError: see :func:`decode`.
    """
    rows = len(decode(data)) * _ENTRY.size
    return bool((len(data) - _HEAD.size - _COUNT.size - rows) % _EARLIER.size)
