"""Many producers on a disk that stalls, with time-outs, lost answers, crashes, and a log of
transactions that is rewritten again and again: in virtual time.

The producers are correct: they repeat what they have no answer to, abort when they are told to, and
go on. None may ever be told that it is at fault (INVALID_TXN_STATE), or that it was replaced. At
the end a reader sees exactly what they were told is committed.
"""

from __future__ import annotations

import asyncio
import errno
from collections import Counter
from collections.abc import Sequence
from random import Random

import pytest

from sharegroup.broker.coordination import transaction_coordinator
from sharegroup.broker.coordination.runtime import Growth
from sharegroup.model.environment import DiskFile
from sharegroup.model.errors import (
    ConcurrentTransactions,
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    InvalidProducerEpoch,
    KafkaStorageError,
    NotEnoughReplicas,
    TransactionAbortable,
)
from sharegroup.storage.disk import SyncFailed
from sharegroup.wire import apis
from sharegroup.wire.messages.end_txn import EndTxnRequest
from tests.broker.group_wire import FillingDisk, World
from tests.broker.transaction_wire import Peer, TransactionalProducer, close_all
from tests.sim.test_groups_over_crashes import run

PRODUCERS = 6
TRANSACTIONS = 25
PARTITIONS = 3
CRASHES = 2
TIMEOUT_MS = 2000
PAUSE_S = 0.02
OK = 0
AGAIN = {
    error.code
    for error in (
        ConcurrentTransactions,
        CoordinatorLoadInProgress,
        CoordinatorNotAvailable,
        KafkaStorageError,
        NotEnoughReplicas,
    )
}
ABORT = {InvalidProducerEpoch.code, TransactionAbortable.code}


class StallingDisk(FillingDisk):
    """Most syncs take milliseconds, some take longer than a transaction may."""

    def __init__(self, random: Random) -> None:
        super().__init__()
        self._random = random
        self.stalls = 0

    async def sync(self, files: Sequence[DiskFile]) -> None:
        rare = self._random.random() < 0.01
        self.stalls += rare
        life = self.life
        await asyncio.sleep(2.5 if rare else self._random.uniform(0.001, 0.03))
        if life != self.life:  # the broker that waits for it is dead
            raise SyncFailed({file.path: OSError(errno.EIO, "crashed") for file in files})
        await super().sync(files)


class Client:
    """A transactional id, which connects again to the broker that runs."""

    def __init__(self, world: World, name: str, random: Random, told: Counter[int]) -> None:
        self._world, self._name, self._random, self._told = world, name, random, told
        self.committed: list[bytes] = []

    async def run(self) -> None:
        """All its transactions."""
        self._producer = await TransactionalProducer.start(self._world._port, self._name)
        assert await self._producer.initialize(timeout_ms=TIMEOUT_MS) == OK
        for number in range(TRANSACTIONS):
            value = f"{self._name} {number}".encode()
            whole = True
            for partition in self._random.sample(range(PARTITIONS), 2):
                whole = whole and await self._write(partition, value)
            if self._random.random() < 0.05:
                await asyncio.sleep(1.5 * TIMEOUT_MS / 1000)
            if whole and self._random.random() < 0.8 and await self._end(commit=True):
                self.committed.append(value)
            else:
                assert await self._end(commit=False)

    async def _reconnect(self) -> None:
        old = self._producer
        new = TransactionalProducer(*await asyncio.open_connection("127.0.0.1", self._world._port))
        new.transactional_id = self._name
        new.producer_id, new.epoch = old.producer_id, old.epoch
        new._sequences = dict(old._sequences)
        self._producer = new

    async def _write(self, partition: int, value: bytes) -> bool:
        """Whether the record is in the log; else the transaction must be aborted."""
        while True:
            (code,) = await self._producer.write({partition: value})
            self._told[code] += 1
            if code == OK or code in ABORT:
                return code == OK
            assert code in AGAIN, code
            await asyncio.sleep(PAUSE_S)
            await self._reconnect()

    async def _end(self, *, commit: bool) -> bool:
        """Whether the transaction has this outcome; else it must be aborted."""
        while True:
            if self._random.random() < 0.1:  # the answer is lost
                here = self._producer
                request = EndTxnRequest(self._name, here.producer_id, here.epoch, commit)
                here.post(apis.END_TXN, 5, request)
                await asyncio.sleep(self._random.uniform(0, 0.1))
                await self._reconnect()
            code = await self._producer.end(commit=commit)
            self._told[code] += 1
            if code == OK:
                return True
            if commit and code in ABORT:
                return False
            assert code in AGAIN, code
            await asyncio.sleep(PAUSE_S)
            await self._reconnect()


@pytest.mark.parametrize("seed", range(3))
def test_no_correct_producer_is_told_that_it_is_at_fault(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = Random(seed)
    monkeypatch.setattr(transaction_coordinator, "GROWTH", Growth(lambda: 40, 0))
    disk = StallingDisk(random)
    told: Counter[int] = Counter()

    async def main() -> None:
        world = World(disk, [])
        await world.start()
        peer = await Peer.connect(world._port)
        await peer.new_topic(PARTITIONS)
        clients = [Client(world, f"id-{each}", random, told) for each in range(PRODUCERS)]
        working = asyncio.gather(*(client.run() for client in clients))
        for _ in range(CRASHES):
            await asyncio.sleep(random.uniform(1, 10))
            await world.crash()
        await working
        await asyncio.sleep(10)  # virtual seconds: markers of the last ones
        assert not any(each.prepared for each in world.broker.parts.transactions.all())
        state = world.broker.parts.topics.log("__transaction_state", 0)
        assert state.log_start_offset > 0, "the log was never rewritten"
        peer = await Peer.connect(world._port)
        seen: Counter[bytes] = Counter()
        for partition in range(PARTITIONS):
            seen.update(await peer.committed(partition))
        wanted = Counter({v: 2 for each in clients for v in each.committed})
        assert not wanted - seen, "a committed record is lost"
        assert not seen - wanted, "a record is there that was not committed"
        await close_all()
        await world.stop()

    run(main())
    assert disk.stalls > 0
    assert told[TransactionAbortable.code] > 0, "no commit came too late"
    assert told[OK] > PRODUCERS * TRANSACTIONS
