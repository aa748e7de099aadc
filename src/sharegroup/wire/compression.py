"""The codecs that a record batch may name in its attributes (Kafka class CompressionType).

Used only where the broker itself must look into a batch; batches that pass through stay compressed.
"""

from __future__ import annotations

import zlib
from typing import Final

import cramjam

from sharegroup.model.errors import CorruptMessage, UnsupportedCompressionType

GZIP: Final = 1
SNAPPY: Final = 2
LZ4: Final = 3
ZSTD: Final = 4

_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER_BYTES: Final = 16
_GZIP_WINDOW: Final = 31
RECORDS_BYTES_MAX: Final = 256 * 1024 * 1024
"""No batch that we look into may unpack to more: what a gzip bomb costs us at most."""


def decompress(codec: int, data: bytes) -> bytes:
    """The plain records of a compressed batch.

    Raises:
        UnsupportedCompressionType: there is no such codec.
        Exception: the codec's own error where the data is damaged.
    """
    if codec == GZIP:
        return _gunzip(data)
    if codec == SNAPPY:
        return _unsnappy(data)
    if codec == LZ4:
        return bytes(cramjam.lz4.decompress(data))
    if codec == ZSTD:
        return bytes(cramjam.zstd.decompress(data))
    raise UnsupportedCompressionType(f"there is no compression type {codec}")


def _gunzip(data: bytes) -> bytes:
    unzipper = zlib.decompressobj(_GZIP_WINDOW)
    plain = unzipper.decompress(data, RECORDS_BYTES_MAX)
    if unzipper.unconsumed_tail:
        raise CorruptMessage(f"a batch unpacks to more than {RECORDS_BYTES_MAX} bytes")
    return plain


def _unsnappy(data: bytes) -> bytes:
    """Java's producers frame snappy blocks as xerial does; librdkafka may send one bare block."""
    if not data.startswith(_XERIAL_MAGIC):
        return bytes(cramjam.snappy.decompress_raw(data))
    blocks = []
    position = _XERIAL_HEADER_BYTES
    while position < len(data):
        size = int.from_bytes(data[position : position + 4], "big")
        position += 4
        blocks.append(bytes(cramjam.snappy.decompress_raw(data[position : position + size])))
        position += size
    return b"".join(blocks)
