"""Transactions over a crash at every step that the broker takes with its disk.

Producers run once, on a disk that keeps an image of itself at each step. From each image a broker
starts again: after each write as after a kill, which loses nothing that was written, and after each
sync of a file as after a power failure, which loses what was not synced. Then an independent
check, by wire:

* what a producer was told is committed can be read; what it was told is aborted cannot;
* no transaction is torn: its records can be read in all its partitions, or in none;
* each partition has one marker for each transaction that wrote to it, and no transaction is left
  undecided once its producer is replaced.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Sequence
from copy import deepcopy
from itertools import pairwise
from typing import NamedTuple

import pytest

from sharegroup.broker.configs.broker import load
from sharegroup.broker.server import Broker
from sharegroup.model.environment import DiskFile
from sharegroup.sim import MemoryDisk, SimulatedLoop, simulated_environment
from sharegroup.sim.disk import MemoryFile
from sharegroup.wire.batch import parse_headers
from sharegroup.wire.markers import is_control
from tests.broker.share_wire import until
from tests.broker.transaction_wire import Peer, TransactionalProducer, close_all

PARTITIONS = 3
ROUNDS = 4
NAMES = ("one", "two")


class Image(NamedTuple):
    """A disk at one moment, and what clients had been told by then."""

    disk: MemoryDisk
    told: int
    power_failure: bool
    """The writes that were not synced are lost; else none are."""


class WatchedFile(MemoryFile):
    """Takes an image after each write."""

    disk: WatchedDisk

    def append(self, data: bytes | Sequence[bytes | memoryview]) -> None:
        super().append(data)
        self.disk.take_image(power_failure=False)


class WatchedDisk(MemoryDisk):
    """Takes an image at each step."""

    def __init__(self, told: list[tuple[str, bool | None]]) -> None:
        super().__init__()
        self.images: list[Image] = []
        self._told = told
        self._syncs = 0

    def take_image(self, *, power_failure: bool) -> None:
        copy = MemoryDisk()
        copy._files, copy._folders = deepcopy(self._files), set(self._folders)
        if power_failure:
            copy.crash()
        self.images.append(Image(copy, len(self._told), power_failure))

    def open(self, path: str) -> MemoryFile:
        file = super().open(path)
        watched = WatchedFile(path, file._content)
        watched.disk = self
        return watched

    async def sync(self, files: Sequence[DiskFile]) -> None:
        await asyncio.sleep(0)  # others run while a sync takes its time
        self._syncs += 1
        for file in files[:: 1 if self._syncs % 2 else -1]:  # disks keep no order
            await super().sync([file])
            self.take_image(power_failure=True)


async def started(disk: MemoryDisk) -> tuple[Broker, int]:
    broker = await Broker.open(load("", []), simulated_environment(disk), "data")
    return broker, (await broker.listen("127.0.0.1", 0))[1]


async def transfer(port: int, name: str, older: bool, told: list[tuple[str, bool | None]]) -> None:
    """Transactions that commit and abort in turn, and one that is left open."""
    producer = await TransactionalProducer.start(port, name, older=older)
    for number in range(ROUNDS):
        partitions = [(number + step) % PARTITIONS for step in range(2)]
        if older:
            assert await producer.add(*partitions) == [0, 0]
        values = {partition: f"{name} {number}".encode() for partition in partitions}
        assert await producer.write(values) == [0, 0]
        if number == ROUNDS - 1:
            break
        commit = number % 2 == 0
        told.append((f"{name} {number}", None))  # asked for: from now on it may be either
        assert await producer.end(commit=commit) == 0
        told.append((f"{name} {number}", commit))


async def play(disk: WatchedDisk, older: bool, told: list[tuple[str, bool | None]]) -> None:
    broker, port = await started(disk)
    peer = await Peer.connect(port)
    await peer.new_topic(PARTITIONS)
    disk.images.clear()
    await asyncio.gather(*(transfer(port, name, older, told) for name in NAMES))
    successor = await TransactionalProducer.start(port, NAMES[0], older=older)
    assert successor.epoch > 0
    await close_all()
    await broker.close()


async def check(disk: MemoryDisk, older: bool, told: list[tuple[str, bool | None]]) -> None:
    """See the module."""
    broker, port = await started(disk)
    await until(lambda: not any(each.prepared for each in broker.parts.transactions.all()))
    for name in NAMES:
        producer = await TransactionalProducer.start(port, name)
        assert await producer.write({0: f"{name} again".encode()}) == [0]
        assert await producer.end(commit=True) == 0
    await until(lambda: not any(each.prepared for each in broker.parts.transactions.all()))
    peer = await Peer.connect(port)
    seen: dict[str, int] = defaultdict(int)
    for partition in range(PARTITIONS):
        log = broker.parts.topics.log("jobs", partition)
        assert log.last_stable_offset == log.high_watermark
        for value in await peer.committed(partition):
            seen[value.decode()] += 1
        kinds = defaultdict(list)
        offset = 0
        while offset < log.high_watermark:
            for header in parse_headers((await log.read(offset, 1 << 20)).data):
                epoch = header.producer_epoch if is_control(header) else None
                kinds[header.producer_id].append(epoch)
                offset = header.last_offset + 1
        for markers in kinds.values():
            assert markers[-1] is not None
            # One marker for each transaction. A transaction that has written nothing here may have
            # one too, with an epoch of its own. Without such epochs a crash repeats markers.
            pairs = pairwise(markers)
            assert older or not any(a == b for a, b in pairs if a is not None)
    outcomes = dict(told)
    for name in NAMES:
        assert seen.pop(f"{name} again") == 1
    for transaction, count in seen.items():
        assert count == 2, f"{transaction} is torn"
        assert outcomes.get(transaction, False) is not False, f"{transaction} was not committed"
    for transaction, outcome in outcomes.items():
        assert outcome is not True or seen[transaction] == 2, f"{transaction} is lost"
    await close_all()
    await broker.close()


@pytest.mark.parametrize("older", [False, True], ids=["version 2", "before"])
def test_transactions_over_a_crash_at_every_step(older: bool) -> None:
    told: list[tuple[str, bool | None]] = []
    disk = WatchedDisk(told)
    with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
        runner.run(play(disk, older, told))
    assert min(Counter(image.power_failure for image in disk.images).values()) > 30
    for image in disk.images:
        with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
            runner.run(check(image.disk, older, told[: image.told]))
