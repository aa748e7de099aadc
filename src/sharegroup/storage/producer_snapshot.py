"""Kafka's ``.snapshot`` file: the producers of a partition at one offset (Kafka class
ProducerStateManager, version 1).

Version i16, crc32c u32 of what follows it, count i32, then per producer: id i64, epoch i16, last
sequence i32, last offset i64, offset delta i32, timestamp i64, coordinator epoch i32, first offset
of its open transaction i64 (or -1).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from crc32c import crc32c

from sharegroup.transactions.producers import ProducerEntry

_HEAD = struct.Struct(">hI")
_COUNT = struct.Struct(">i")
_ENTRY = struct.Struct(">qhiqiqiq")
VERSION: Final = 1


def encode(entries: Sequence[ProducerEntry]) -> bytes:
    """The file's content."""
    body = _COUNT.pack(len(entries)) + b"".join(_ENTRY.pack(*entry) for entry in entries)
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
    rows = _ENTRY.iter_unpack(body[_COUNT.size : _COUNT.size + count * _ENTRY.size])
    return [ProducerEntry(*row) for row in rows]
