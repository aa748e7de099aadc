"""A marker is damaged on the disk, and the broker is killed: the coordinator's log says how the
transaction has ended."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TypeAlias

import pytest

from sharegroup.broker.internal_topics import TRANSACTION_STATE
from sharegroup.broker.server import Broker
from tests.broker import test_transactions
from tests.broker.running import Scenario
from tests.broker.test_damage import damage, positions
from tests.broker.test_transactions import BOTH, OK, complete, topic
from tests.broker.transaction_wire import TOPIC, Peer, TransactionalProducer

Work: TypeAlias = Callable[[Broker, int, TransactionalProducer], Coroutine[None, None, None]]
MARKER = 1
"""The offset of the first marker in partition 0."""


def run(folder: Path, scenario: Scenario) -> None:
    """In one segment, though the records are old and the markers are not."""
    test_transactions.run(
        folder, scenario, "log.roll.ms=9000000000000", "transaction.state.log.num.partitions=1"
    )


async def transact(
    broker: Broker, producer: TransactionalProducer, records: dict[int, bytes], *, commit: bool
) -> None:
    """One transaction, until its markers are durable."""
    await begin(producer, records)
    assert await producer.end(commit=commit) == OK
    await complete(broker)


async def begin(producer: TransactionalProducer, records: dict[int, bytes]) -> None:
    if producer.older:
        assert await producer.add(*records) == [OK] * len(records)
    assert await producer.write(records) == [OK] * len(records)


def killed(folder: Path, work: Work, *, older: bool) -> Path:
    """Do ``work`` as a producer, then kill the broker. Returns what it leaves."""

    async def scenario(broker: Broker, port: int) -> None:
        await topic(port)
        producer = await TransactionalProducer.start(port, older=older)
        await work(broker, port, producer)
        shutil.copytree(folder / "first", folder / "left")

    run(folder / "first", scenario)
    return folder / "left"


def check(folder: Path, wanted: list[bytes], *, open_from: int | None = None) -> None:
    """What a committed reader of partition 0 sees after the next start, and up to where."""

    async def scenario(broker: Broker, port: int) -> None:
        peer = await Peer.connect(port)
        assert await peer.committed(0, over_damage=True) == wanted
        log = broker.parts.topics.log(TOPIC, 0)
        end = log.high_watermark if open_from is None else open_from
        assert log.last_stable_offset == end

    run(folder, scenario)


@BOTH
@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
def test_a_transaction_ends_again_as_it_has_ended(
    commit: bool, older: bool, tmp_path: Path
) -> None:
    async def work(broker: Broker, port: int, producer: TransactionalProducer) -> None:
        await transact(broker, producer, {0: b"a", 1: b"a"}, commit=commit)
        other = await TransactionalProducer.start(port, "others", older=older)
        await transact(broker, other, {0: b"o"}, commit=True)
        await transact(broker, producer, {1: b"b"}, commit=not commit)
        await begin(producer, {1: b"c"})

    left = killed(tmp_path, work, older=older)
    damage(left, f"{TOPIC}-0", MARKER)
    for _ in range(2):
        check(left, [b"a", b"o"] if commit else [b"o"])


@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
def test_a_transaction_ends_again_whose_marker_is_taken_for_a_torn_tail(
    commit: bool, tmp_path: Path
) -> None:
    async def work(broker: Broker, port: int, producer: TransactionalProducer) -> None:
        await transact(broker, producer, {0: b"a"}, commit=commit)

    left = killed(tmp_path, work, older=False)
    damage(left, f"{TOPIC}-0", MARKER)
    for _ in range(2):
        check(left, [b"a"] if commit else [])


@BOTH
def test_what_is_open_in_the_partition_stays_open(older: bool, tmp_path: Path) -> None:
    async def work(broker: Broker, port: int, producer: TransactionalProducer) -> None:
        await transact(broker, producer, {0: b"a"}, commit=True)
        await begin(producer, {0: b"b"})

    left = killed(tmp_path, work, older=older)
    damage(left, f"{TOPIC}-0", MARKER)
    check(left, [], open_from=0)


@pytest.mark.parametrize("lost", [1, 2], ids=["its end", "in the middle"])
@BOTH
def test_a_transaction_that_the_coordinator_has_lost_stays_open(
    older: bool, lost: int, tmp_path: Path
) -> None:
    """The decision before it is not about it."""

    async def work(broker: Broker, port: int, producer: TransactionalProducer) -> None:
        await transact(broker, producer, {0: b"a"}, commit=True)
        await begin(producer, {0: b"b"})
        if lost == 2:
            await TransactionalProducer.start(port, "others")

    left = killed(tmp_path, work, older=older)
    (state,) = left.glob(f"**/{TRANSACTION_STATE}-0/*.log")
    at = [header.base_offset for _, header in positions(state.read_bytes())]
    damage(left, state.parent.name, at[-lost])
    check(left, [b"a"], open_from=2)
