"""Batches with a good checksum that lie: whoever believes one hangs, or runs out of memory."""

from __future__ import annotations

import gzip
from functools import cache
from typing import Final

import cramjam

from sharegroup.model.errors import CorruptMessage, InvalidRecord, KafkaError
from sharegroup.model.limits import DECOMPRESSED_BATCH_BYTES_MAX
from tests.records.making import batch_of, record, records, zigzag

GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
XERIAL = b"\x82SNAPPY\0\0\0\0\1\0\0\0\1"
BOMB_BYTES: Final = 4 * DECOMPRESSED_BATCH_BYTES_MAX
TEN: Final = records(10)


def blocks(*sizes_and_blocks: tuple[int, bytes]) -> bytes:
    return XERIAL + b"".join(size.to_bytes(4, "big") + block for size, block in sizes_and_blocks)


def packed(codec: int, body: bytes) -> bytes:
    """``body`` as one stream of this codec, as producers write it."""
    if codec == GZIP:
        return gzip.compress(body, mtime=0)
    if codec == SNAPPY:
        block = bytes(cramjam.snappy.compress_raw(body))
        return blocks((len(block), block))
    return bytes({LZ4: cramjam.lz4, ZSTD: cramjam.zstd}[codec].compress(body))


def of(codec: int, body: bytes, count: int = 10) -> bytes:
    return batch_of(body, count, attributes=codec)


@cache
def lies() -> dict[str, tuple[bytes, type[KafkaError]]]:
    """Each bad batch, by what is wrong with it, and the error that says so."""
    counts = {
        "count 11 of 10 records": batch_of(TEN, 11),
        "count 9 of 10 records": batch_of(TEN, 9),
        "count 2^31-1 in 151 bytes": batch_of(TEN, 2**31 - 1),
        "no records": batch_of(b"", 1),
        "count 11 of 10 packed records": of(ZSTD, packed(ZSTD, TEN), 11),
        "count 2^31-1, packed": of(ZSTD, packed(ZSTD, TEN), 2**31 - 1),
        "bytes behind the records": batch_of(TEN + b"\0", 10),
        "a wrong inner offset": batch_of(record(0) + record(7), 2),
        "an inner offset twice": batch_of(record(0) + record(0), 2),
        "wrong inner offsets, packed": of(GZIP, packed(GZIP, record(0) + record(0)), 2),
    }
    broken = {
        "a broken record": batch_of(record(0) + zigzag(9) + b"\0\0\2" + zigzag(99) + b"x" * 6, 2),
        "a record that is cut off": batch_of(TEN[:-1], 10),
        "a record that is too long": batch_of(record(0, behind=b"x"), 1),
        "a broken record, packed": of(LZ4, packed(LZ4, TEN[:-1] + b"\xff")),
        "a number without end": batch_of(b"\xff" * 80, 1),
        "a header over the record": batch_of(record(0, headers=b"\2" + zigzag(60) + b"a"), 1),
    }
    for name, codec in (("gzip", GZIP), ("snappy", SNAPPY), ("lz4", LZ4), ("zstd", ZSTD)):
        good = packed(codec, TEN)
        broken[f"junk under a {name} flag"] = of(codec, b"this is not compressed" * 9)
        broken[f"plain records under a {name} flag"] = of(codec, TEN)
        broken[f"nothing under a {name} flag"] = of(codec, b"")
        broken[f"{name}, cut off"] = of(codec, good[:-3])
        broken[f"{name}, and bytes behind it"] = of(codec, good + b"behind" * 9)
    broken |= _of_one_codec()
    return {
        **{name: (bad, InvalidRecord) for name, bad in counts.items()},
        **{name: (bad, CorruptMessage) for name, bad in broken.items()},
    }


def _of_one_codec() -> dict[str, bytes]:
    snappy = bytes(cramjam.snappy.compress_raw(TEN))
    lz4 = packed(LZ4, TEN)
    return {
        "snappy that claims 4 GiB": of(SNAPPY, b"\xff\xff\xff\xff\x0f" + snappy[1:]),
        "snappy that claims too much": of(SNAPPY, b"\xff\xff\x7f" + snappy[1:]),
        "a snappy block of 4 GiB": of(SNAPPY, blocks((2**32 - 1, snappy))),
        "a snappy block too many": of(SNAPPY, blocks((len(snappy), snappy), (9, b""))),
        "snappy of many empty blocks": of(SNAPPY, XERIAL + b"\0\0\0\1\0" * 300_000),
        "half a header of xerial": of(SNAPPY, XERIAL[:-3]),
        "lz4 of two frames": of(LZ4, packed(LZ4, records(5)) + packed(LZ4, records(5))),
        "lz4 of many empty blocks": of(LZ4, lz4[:7] + b"\0\0\0\x80" * 300_000 + b"\0" * 4),
    }


def bombs() -> dict[str, bytes]:
    """A gigabyte each, in kilobytes or a few megabytes; made when asked for."""
    zeros = bytes(BOMB_BYTES // 64)
    block = bytes(cramjam.snappy.compress_raw(zeros))
    lz4_block = bytes(cramjam.lz4.compress_block(bytes(1 << 22), store_size=False))
    lz4 = packed(LZ4, b"")
    frame = b"\x04\x22\x4d\x18\x60\x70\x73"  # blocks of 4 MiB that stand alone
    assert lz4[:4] == frame[:4]
    lz4_blocks = (len(lz4_block).to_bytes(4, "little") + lz4_block) * (BOMB_BYTES >> 22)
    return {
        "one gzip stream": of(GZIP, gzip.compress(bytes(BOMB_BYTES), 6, mtime=0)),
        "many gzip streams": of(GZIP, packed(GZIP, zeros) * 64),
        "one zstd frame": of(ZSTD, packed(ZSTD, bytes(BOMB_BYTES))),
        "many zstd frames": of(ZSTD, packed(ZSTD, zeros) * 64),
        "one snappy block": of(SNAPPY, bytes(cramjam.snappy.compress_raw(bytes(BOMB_BYTES)))),
        "many snappy blocks": of(SNAPPY, blocks(*[(len(block), block)] * 64)),
        "many lz4 blocks": of(LZ4, frame + lz4_blocks + b"\0" * 4),
    }
