"""Share fetches of large batches, which are sent from their file: the same answers, and errors."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from pathlib import Path

import pytest

from sharegroup.broker.server import Broker
from sharegroup.model.errors import KafkaStorageError
from sharegroup.storage.disk import LocalDisk, LocalFile
from sharegroup.wire.batch import HEADER_BYTES, parse_headers
from tests.broker.running import run
from tests.broker.share_wire import (
    ACCEPT,
    GROUP,
    RELEASE,
    TOPIC,
    Session,
    acquired,
    codes,
    connect,
    parts,
    produce,
    started,
)
from tests.storage.faulty_disk import FaultyDisk

BATCHES, RECORDS, RECORD_BYTES = 24, 10, 2000
ALL = BATCHES * RECORDS
STORAGE_ERROR = KafkaStorageError.code
EARLIEST = {"share.auto.offset.reset": "earliest"}
LOOK_UP_BYTES = 32 * 1024  # read to find a batch's place


class CountingDisk(LocalDisk):
    """Remembers how many bytes each read wanted."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: list[int] = []

    def open(self, path: str) -> CountedFile:
        return CountedFile(path, self)


class CountedFile(LocalFile):
    def __init__(self, path: str, disk: CountingDisk) -> None:
        super().__init__(path, disk.home)
        self._disk = disk

    def pread(self, size: int, position: int) -> bytes:
        self._disk.reads.append(size)
        return super().pread(size, position)


async def begun(
    broker: Broker, port: int, *batches: int, configs: Mapping[str, str] = {}
) -> Session:
    """A session that has accepted a large batch, so that the broker knows their size, and
    ``batches`` behind it."""
    session = await started(broker, port, partitions=1)
    broker.parts.configs.set_group(GROUP, {**EARLIEST, **configs}, validate_only=False)
    await produce(port, session.topic_id, 0, RECORDS, size=RECORD_BYTES)
    assert acquired(await session.fetch(0)) == {0: [(0, 9, 1)]}
    await session.acknowledge({0: [(0, 9, [ACCEPT])]})
    await produce(port, session.topic_id, 0, *batches, size=RECORD_BYTES)
    return session


def stored(folder: Path, first: int, last: int) -> bytes:
    """The whole batches that hold ``first`` … ``last``, as they lie in the log."""
    (path,) = folder.glob(f"data/{TOPIC}-0*/*.log")
    data, start, found = path.read_bytes(), 0, b""
    for header in parse_headers(data):
        if header.last_offset >= first and header.base_offset <= last:
            found += data[start : start + header.length]
        start += header.length
    return found


def test_only_headers_are_read(tmp_path: Path) -> None:
    disk = CountingDisk()

    async def scenario(broker: Broker, port: int) -> None:
        session = await begun(broker, port, *[RECORDS] * (BATCHES - 1))
        disk.reads.clear()
        answer = await session.fetch()
        assert acquired(answer) == {0: [(10, ALL - 1, 1)]}
        assert parts(answer)[0].records == stored(tmp_path, 10, ALL - 1)
        assert disk.reads.count(HEADER_BYTES) == BATCHES - 1
        assert sum(disk.reads) < 3 * LOOK_UP_BYTES

    run(tmp_path, scenario, disk=disk)


def test_an_answer_ends_with_the_last_batch_that_is_acquired(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        session = await begun(broker, port, *[RECORDS] * (BATCHES - 1))
        answer = await session.fetch(max_records=25)
        assert acquired(answer) == {0: [(10, 39, 1)]}
        assert parts(answer)[0].records == stored(tmp_path, 10, 39)
        answer = await session.fetch(acks={0: [(20, 29, [RELEASE])]})
        assert acquired(answer) == {0: [(20, 29, 2), (40, ALL - 1, 1)]}
        assert parts(answer)[0].records == stored(tmp_path, 20, ALL - 1)

    run(tmp_path, scenario)


def test_small_batches_behind_large_ones_are_read_together(tmp_path: Path) -> None:
    disk = CountingDisk()

    async def scenario(broker: Broker, port: int) -> None:
        session = await begun(broker, port, *[1] * 100)
        disk.reads.clear()
        answer = await session.fetch()
        assert acquired(answer) == {0: [(10, 109, 1)]}
        assert parts(answer)[0].records == stored(tmp_path, 10, 109)
        assert disk.reads.count(HEADER_BYTES) == 16
        assert disk.reads.count(len(parts(answer)[0].records)) == 1

    run(tmp_path, scenario, disk=disk)


LOOKING = {
    "committed": {"share.isolation.level": "read_committed"},
    "keys": {"share.ordering": "key"},
}


@pytest.mark.parametrize("configs", LOOKING.values(), ids=LOOKING)
def test_groups_that_look_into_batches_read_them(tmp_path: Path, configs: dict[str, str]) -> None:
    disk = CountingDisk()

    async def scenario(broker: Broker, port: int) -> None:
        session = await begun(broker, port, *[RECORDS] * (BATCHES - 1), configs=configs)
        disk.reads.clear()
        answer = await session.fetch()
        assert parts(answer)[0].records == stored(tmp_path, 10, ALL - 1)
        assert disk.reads.count(HEADER_BYTES) == 0
        assert disk.reads.count(len(parts(answer)[0].records)) == 1

    run(tmp_path, scenario, disk=disk)


def test_a_disk_that_cannot_read_headers_is_a_storage_error(tmp_path: Path) -> None:
    disk = FaultyDisk()

    async def scenario(broker: Broker, port: int) -> None:
        session = await begun(broker, port, *[RECORDS] * (BATCHES - 1))
        disk.read_errno = errno.EIO
        assert codes(await session.fetch()) == {0: STORAGE_ERROR}
        disk.read_errno = 0
        other = Session(await connect(port), session.topic_id, "m-2", GROUP)
        assert codes(await other.fetch(0)) == {0: STORAGE_ERROR}, "until the broker is restarted"

    run(tmp_path, scenario, disk=disk)
