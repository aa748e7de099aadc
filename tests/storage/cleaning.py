"""What the cleaner's tests share: keyed batches, what a log holds, and a disk that dies."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from sharegroup.model.environment import DiskFile
from sharegroup.sim.disk import MemoryDisk, MemoryFile
from sharegroup.storage import LocalPartitionLog, LogSettings
from sharegroup.wire.batch import (
    COMPRESSION_MASK,
    HEADER_BYTES,
    BatchHeader,
    decode_batch,
    encode_batch,
    parse_header,
    parse_headers,
    with_records,
)
from sharegroup.wire.compression import compress
from tests.storage.support import NOW_MS

KEYS_BYTES = 1 << 20
RETENTION_MS = 1000
COMPACTED = LogSettings(
    segment_bytes=600,
    index_interval_bytes=100,
    compacted=True,
    cleaned=True,
    retention_ms=-1,
    min_cleanable_ratio=0.0,
    delete_retention_ms=RETENTION_MS,
)
Pair = tuple[bytes | None, bytes | None]


class Seen(NamedTuple):
    """One record as a reader sees it."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None


def keyed(pairs: Sequence[Pair], codec: int = 0, time: int = NOW_MS, **header: int) -> bytes:
    """A batch of (key, value) records."""
    plain = encode_batch(pairs, timestamp_ms=time, **header)
    if not codec:
        return plain
    parsed = parse_header(plain)
    packed = parsed._replace(attributes=parsed.attributes & ~COMPRESSION_MASK | codec)
    return with_records(packed, compress(codec, plain[HEADER_BYTES:]))


async def all_batches(log: LocalPartitionLog) -> list[tuple[BatchHeader, bytes]]:
    """Every batch that can be read."""
    found: list[tuple[BatchHeader, bytes]] = []
    offset = log.log_start_offset
    while offset < log.high_watermark:
        data = (await log.read(offset, 1 << 20)).data
        at = 0
        for header in parse_headers(data):
            found.append((header, data[at : at + header.length]))
            at += header.length
        if not data:
            break
        offset = found[-1][0].last_offset + 1
    return found


async def contents(log: LocalPartitionLog) -> list[Seen]:
    """Every record that can be read, markers included."""
    return [Seen(*record) for _, data in await all_batches(log) for record in decode_batch(data)]


def last_values(records: Iterable[Seen]) -> dict[bytes | None, bytes | None]:
    """What a table made of the records holds."""
    table = {record.key: record.value for record in records}
    return {key: value for key, value in table.items() if value is not None}


class Died(BaseException):
    """The process ends here."""


class DyingDisk(MemoryDisk):
    """A disk in memory. After ``left`` more changes each further one ends the process before it."""

    left = 10**9

    def count(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise Died

    async def sync(self, files: Sequence[DiskFile]) -> None:
        self.count()
        await super().sync(files)

    def write_file(self, path: str, data: bytes) -> None:
        self.count()
        super().write_file(path, data)

    def remove(self, path: str) -> None:
        if self.exists(path):
            self.count()
        super().remove(path)

    def rename(self, old: str, new: str) -> None:
        self.count()
        super().rename(old, new)

    def open(self, path: str) -> MemoryFile:
        if not self.exists(path):
            self.count()
        return super().open(path)

    def crash(self) -> None:
        self.left = 10**9
        super().crash()
