"""Acknowledgements in transactions over a crash at every step that the broker takes with its disk.

As :mod:`tests.sim.test_transactions_over_crashes`, with a member of a share group: each transaction
writes one result and acknowledges one job. From each image a broker starts again, the producer is
replaced, and an independent check compares by wire what can be read:

* a job whose result is visible is acknowledged, and is delivered to nobody again;
* a job whose result is not visible is delivered again;
* what the producer was told is committed is visible; what it was told is aborted is not;
* no transaction holds a record any more.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from uuid import UUID

from sharegroup.broker.server import Broker
from sharegroup.client.network.connection import Connection
from sharegroup.model.pending_acks import TransactionMark
from sharegroup.sim import MemoryDisk, SimulatedLoop
from sharegroup.wire import apis
from sharegroup.wire.messages.share_acknowledge import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from tests.broker.share_wire import (
    ACCEPT,
    GROUP,
    REJECT,
    TIMEOUT_MS,
    Session,
    acquired,
    codes,
    connect,
    new_group,
    produce,
    until,
)
from tests.broker.transaction_wire import TOPIC, Peer, TransactionalProducer, close_all
from tests.sim.test_transactions_over_crashes import WatchedDisk, started

JOBS, RESULTS = 0, 1
"""The partitions."""
COUNT = 8
"""Jobs; the last of them are only delivered."""
ROUNDS = 6
NAME = "one"


async def hold(
    producer: TransactionalProducer, session: Session, connection: Connection, offset: int
) -> int:
    """Let the open transaction acknowledge one job; the error code."""
    kind = REJECT if offset % 3 == 2 else ACCEPT
    batch = AcknowledgementBatch(offset, offset, [kind])
    request = ShareAcknowledgeRequest(
        GROUP,
        session.member,
        topics=[AcknowledgeTopic(session.topic_id, [AcknowledgePartition(JOBS, [batch])])],
        transactional_id=producer.transactional_id,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
    )
    answer = await connection.send(apis.SHARE_ACKNOWLEDGE, request, timeout_ms=TIMEOUT_MS)
    return codes(answer)[JOBS]


def topic_id_of(broker: Broker) -> UUID:
    found = broker.parts.topics.find(TOPIC)
    assert found is not None
    return found.topic_id


async def play(disk: WatchedDisk, told: list[tuple[str, bool | None]]) -> None:
    """Transactions that commit and abort in turn, and one that is left open."""
    broker, port = await started(disk)
    peer = await Peer.connect(port)
    await peer.new_topic(2)
    topic_id = topic_id_of(broker)
    await produce(port, topic_id, JOBS, COUNT)
    await new_group(broker, port)
    connection = await connect(port)
    session = Session(connection, topic_id)
    assert acquired(await session.fetch(JOBS)) == {JOBS: [(0, COUNT - 1, 1)]}
    disk.images.clear()
    producer = await TransactionalProducer.start(port, NAME)
    for offset in range(ROUNDS):
        assert await producer.write({RESULTS: str(offset).encode()}) == [0]
        assert await hold(producer, session, connection, offset) == 0
        if offset == ROUNDS - 1:
            break
        commit = offset % 2 == 0
        told.append((str(offset), None))  # asked for: from now on it may be either
        assert await producer.end(commit=commit) == 0
        told.append((str(offset), commit))
    await TransactionalProducer.start(port, NAME)
    connection.close()
    await close_all()
    await broker.close()


async def check(disk: MemoryDisk, told: list[tuple[str, bool | None]]) -> None:
    """See the module."""
    broker, port = await started(disk)
    await TransactionalProducer.start(port, NAME)
    transactions = broker.parts.transactions
    await until(lambda: not any(each.prepared for each in transactions.all()))
    [producer] = [each.producer_id for each in transactions.all()]
    ended = TransactionMark(producer, 1 << 14)
    for shard in range(
        broker.parts.configs.broker.integer("share.coordinator.state.topic.num.partitions")
    ):
        assert not await broker.parts.state.pending_of(shard, ended)
    peer = await Peer.connect(port)
    visible = Counter(int(value) for value in await peer.committed(RESULTS))
    await new_group(broker, port)
    connection = await connect(port)
    session = Session(connection, topic_id_of(broker), "m-2")
    delivered = {
        offset
        for first, last, _ in acquired(await session.fetch(JOBS)).get(JOBS, [])
        for offset in range(first, last + 1)
    }
    for offset in range(COUNT):
        assert visible[offset] == (offset not in delivered), f"{offset}: {visible}, {delivered}"
    for name, outcome in dict(told).items():
        assert outcome is None or visible[int(name)] == outcome, f"{name} was told {outcome}"
    for led in broker.parts.share_partitions.all():
        led.core.check_invariants()
    connection.close()
    await close_all()
    await broker.close()


def test_results_and_acknowledgements_over_a_crash_at_every_step() -> None:
    told: list[tuple[str, bool | None]] = []
    disk = WatchedDisk(told)
    with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
        runner.run(play(disk, told))
    assert min(Counter(image.power_failure for image in disk.images).values()) > 20
    for image in disk.images:
        with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
            runner.run(check(image.disk, told[: image.told]))
