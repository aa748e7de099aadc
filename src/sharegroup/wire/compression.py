"""The codecs that a record batch may name in its attributes (Kafka class CompressionType).

The output of decompression is bounded, whatever the data claims: ``DECOMPRESSED_BATCH_BYTES_MAX``
bounds the memory, and so the time.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from typing import Any, Final

import cramjam

from sharegroup.model.errors import CorruptMessage, UnsupportedCompressionType
from sharegroup.model.limits import (
    COMPRESSED_BLOCKS_MAX,
    DECOMPRESSED_BATCH_BYTES_MAX,
    SNAPPY_RATIO_MAX,
)

GZIP: Final = 1
SNAPPY: Final = 2
LZ4: Final = 3
ZSTD: Final = 4

LZ4_FAST: Final = 9
"""The level of lz4 that stands for its fast algorithm, as in Kafka's class Lz4BlockOutputStream."""

Buffer = bytes | bytearray | memoryview

_CODECS: Final[dict[int, Any]] = {GZIP: cramjam.gzip, LZ4: cramjam.lz4, ZSTD: cramjam.zstd}
_ROOM_MIN: Final = 64 * 1024
_ROOM_RATIO: Final = 8
"""The first try has room for this many times the compressed bytes; few batches need a second
try."""
_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER_BYTES: Final = 16
_LZ4_MAGIC: Final = b"\x04\x22\x4d\x18"
_LZ4_BLOCK_CHECKSUM: Final = 0x10
_LZ4_CONTENT_SIZE: Final = 0x08
_LZ4_CONTENT_CHECKSUM: Final = 0x04
_LZ4_DICTIONARY: Final = 0x01
_LZ4_HEADER: Final = b"\x04\x22\x4d\x18\x60\x40\x82"
"""Independent blocks of 64 KiB, no checksums: what Java's producers write, and all that Java reads.
"""
_LZ4_BLOCK_BYTES: Final = 64 * 1024
_LZ4_STORED: Final = 1 << 31
_SNAPPY_HEADER: Final = _XERIAL_MAGIC + (1).to_bytes(4, "big") * 2
_SNAPPY_BLOCK_BYTES: Final = 32 * 1024


def compress(codec: int, data: Buffer, level: int | None = None) -> bytes:
    """``data`` compressed as Java's producers do it.

    Args:
        level: of gzip, lz4 and zstd, None for the codec's default; snappy has no levels.

    Raises:
        UnsupportedCompressionType: there is no such codec.
    """
    if codec == SNAPPY:
        return _SNAPPY_HEADER + b"".join(_snappy_blocks(bytes(data)))
    if codec == LZ4:
        return _LZ4_HEADER + b"".join(_lz4_blocks(bytes(data), level)) + bytes(4)
    if codec not in _CODECS:
        raise UnsupportedCompressionType(f"there is no compression type {codec}")
    return bytes(_CODECS[codec].compress(data, level))


def _snappy_blocks(data: bytes) -> Iterator[bytes]:
    for at in range(0, len(data), _SNAPPY_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[at : at + _SNAPPY_BLOCK_BYTES]))
        yield len(block).to_bytes(4, "big") + block


def _lz4_blocks(data: bytes, level: int | None) -> Iterator[bytes]:
    for at in range(0, len(data), _LZ4_BLOCK_BYTES):
        plain = data[at : at + _LZ4_BLOCK_BYTES]
        if level is not None and level != LZ4_FAST:
            yield _lz4_thorough(plain, level)
            continue
        block = bytes(cramjam.lz4.compress_block(plain, store_size=False))
        if len(block) < len(plain):
            yield len(block).to_bytes(4, "little") + block
        else:
            yield (_LZ4_STORED | len(plain)).to_bytes(4, "little") + plain


def _lz4_thorough(plain: bytes, level: int) -> bytes:
    """One block with its length. The codec has levels for frames only, so ``plain`` becomes a frame
    of its own: the one block of that frame depends on no other block."""
    frame = bytes(cramjam.lz4.compress(plain, level))
    size = int.from_bytes(frame[7:11], "little") & ~_LZ4_STORED
    return frame[7 : 11 + size]


def decompress(
    codec: int, data: Buffer, bytes_max: int = DECOMPRESSED_BATCH_BYTES_MAX
) -> bytes | memoryview:
    """The plain records of a compressed batch.

    Consecutive frames are one stream, as Java reads them. lz4 may have one frame only, because Java
    reads no more. Bytes after the last frame are damage.

    Raises:
        UnsupportedCompressionType: there is no such codec.
        CorruptMessage: the data is damaged, or unpacks to more than ``bytes_max``.
    """
    if codec == SNAPPY:
        return _unsnappy(bytes(data), bytes_max)
    if codec not in _CODECS:
        raise UnsupportedCompressionType(f"there is no compression type {codec}")
    if codec == LZ4:
        _check_lz4_frame(data)
    room = min(bytes_max, max(_ROOM_MIN, _ROOM_RATIO * len(data)))
    plain = bytearray(room)
    try:
        size = _CODECS[codec].decompress_into(data, plain)
    except cramjam.DecompressionError as error:
        if room >= bytes_max:
            raise _unreadable(error, bytes_max) from error
        return _in_large_room(codec, data, bytes_max)
    return memoryview(plain)[:size]


def _in_large_room(codec: int, data: Buffer, bytes_max: int) -> memoryview:
    """The second and last try. Pages that are never written cost nothing, so a batch that is merely
    damaged takes no more memory here than in the first try."""
    plain = mmap.mmap(-1, max(bytes_max, 1))
    try:
        size = _CODECS[codec].decompress_into(data, plain)
    except cramjam.DecompressionError as error:
        plain.close()
        raise _unreadable(error, bytes_max) from error
    return memoryview(plain)[:size]


def _unreadable(error: Exception, bytes_max: int) -> CorruptMessage:
    return CorruptMessage(
        f"the compressed records cannot be read, or are more than {bytes_max} bytes: {error}"
    )


def _unsnappy(data: bytes, bytes_max: int) -> bytes:
    """Java's producers frame snappy blocks as xerial does; librdkafka may send one bare block."""
    if not data.startswith(_XERIAL_MAGIC):
        return _snappy_block(data, bytes_max)
    blocks: list[bytes] = []
    size = 0
    position = _XERIAL_HEADER_BYTES
    while position < len(data):
        if data.startswith(_XERIAL_MAGIC, position):  # streams one after the other
            position += _XERIAL_HEADER_BYTES
            continue
        length = int.from_bytes(data[position : position + 4], "big")
        position += 4
        if length > len(data) - position or len(blocks) >= COMPRESSED_BLOCKS_MAX:
            raise CorruptMessage("a snappy block is cut off, or there are too many of them")
        block = _snappy_block(data[position : position + length], bytes_max - size)
        position += length
        size += len(block)
        blocks.append(block)
    if position != len(data):
        raise CorruptMessage("a snappy stream is cut off")
    return b"".join(blocks)


def _snappy_block(data: bytes, bytes_max: int) -> bytes:
    """Unpack one raw block. The size that it claims is refused if it is not possible."""
    try:
        claimed = cramjam.snappy.decompress_raw_len(data)
        if claimed > min(bytes_max, SNAPPY_RATIO_MAX * len(data)):
            raise CorruptMessage(f"a snappy block of {len(data)} bytes claims to hold {claimed}")
        return bytes(cramjam.snappy.decompress_raw(data))
    except cramjam.DecompressionError as error:
        raise _unreadable(error, bytes_max) from error


def _check_lz4_frame(data: Buffer) -> None:
    """Check that there is one frame and nothing after it. The codec checks the content of its
    blocks."""
    flags = data[4] if len(data) > 4 and data[:4] == _LZ4_MAGIC else None
    if flags is None:
        raise CorruptMessage("the compressed records are no lz4 frame")
    position = 7 + 8 * bool(flags & _LZ4_CONTENT_SIZE) + 4 * bool(flags & _LZ4_DICTIONARY)
    checksum = 4 * bool(flags & _LZ4_BLOCK_CHECKSUM)
    for _ in range(COMPRESSED_BLOCKS_MAX):
        size = int.from_bytes(data[position : position + 4], "little") & 0x7FFF_FFFF
        position += 4
        if not size or position > len(data):
            break
        position += size + checksum
    else:
        raise CorruptMessage(f"an lz4 frame of more than {COMPRESSED_BLOCKS_MAX} blocks")
    if position + 4 * bool(flags & _LZ4_CONTENT_CHECKSUM) != len(data):
        raise CorruptMessage("an lz4 frame does not end where its batch does")
