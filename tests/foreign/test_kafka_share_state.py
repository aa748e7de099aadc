"""``__share_group_state`` both ways: what Apache Kafka wrote is read by us and goes on with us, and
what we made of it is read by Apache Kafka.
"""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from confluent_kafka import AcknowledgeType

from sharegroup.broker.coordination.share_state_log import StateWrite
from sharegroup.broker.internal_topics import SHARE_GROUP_STATE
from sharegroup.broker.server import Broker
from sharegroup.model import errors
from sharegroup.model.ids import SharePartitionKey
from sharegroup.model.pending_acks import PendingAck, TransactionMark
from sharegroup.model.share_state import StateBatch
from sharegroup.storage.checkpoints import read_topic_id
from sharegroup.storage.disk import LocalDisk
from sharegroup.wire import apis
from sharegroup.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from sharegroup.wire.messages.delete_groups import DeleteGroupsRequest
from tests.apache_kafka.broker import KafkaBroker
from tests.apache_kafka.tools import run_tool
from tests.broker.by_hand import TIMEOUT_MS, connect
from tests.broker.peer import Peer, quads
from tests.broker.running import running
from tests.foreign.share_reader import receive, share_consumer
from tests.servers.admin import Admin, produce
from tests.storage.support import opened

pytestmark = pytest.mark.kafka

PREFIX = "share.coordinator."
STATE_PARTITIONS = 3
OPTIONS = (
    f"{PREFIX}state.topic.num.partitions={STATE_PARTITIONS}",
    f"{PREFIX}snapshot.update.records.per.snapshot=4",
)
TOPIC = "orders"
PARTITIONS = 2
RECORDS = 15
GROUPS = ("mixed", "altered", "deleted", "untouched")
READY_S = 120
TOMBSTONE = "<DELETE>"
"""What kafka-dump-log prints for a record without a value."""

Shown = dict[tuple[str, int], Any]
"""What is said of each share partition: (summary, start offset and batches, or an error)."""


@dataclass
class Moved:
    """State that Apache Kafka wrote and we went on with."""

    kafka: Path
    ours: Path
    topic_id: UUID
    at_kafka: Shown
    at_ours: Shown
    changed_at_ours: Shown
    changed_at_kafka: Shown


async def ready(peer: Peer) -> None:
    """Return when the share coordinator has loaded its partitions."""
    loading = (errors.NotCoordinator.code, errors.CoordinatorLoadInProgress.code)
    async with asyncio.timeout(READY_S):
        while True:
            if (await peer.summary())[0] not in loading:
                return
            await asyncio.sleep(0.05)


async def shown(port: int, topic_id: UUID) -> Shown:
    """Everything that APIs 84 and 87 say; no leader is fenced by it."""
    connection = await connect(port)
    found: Shown = {}
    for group in GROUPS:
        peer = Peer(connection, topic_id, group)
        for partition in range(PARTITIONS):
            peer.partition = partition
            await ready(peer)
            leader = (await peer.summary())[2]
            state = await peer.read(leader=max(leader, 0))
            batches = (state.error_code, state.start_offset, quads(state.state_batches))
            found[group, partition] = (await peer.summary(), batches)
    connection.close()
    return found


def consume(bootstrap: str, group: str) -> None:
    """Accept, release and reject by turns, until every record has come once; each answer is
    committed alone, so that there are snapshots among the updates."""
    Admin(bootstrap).start_group_at_earliest(group)
    verbs = (AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT)
    seen = set()
    with share_consumer(bootstrap, group, TOPIC, explicit=True) as consumer:
        while len(seen) < PARTITIONS * RECORDS:
            for message in receive(consumer):
                seen.add((message.partition(), message.offset()))
                consumer.acknowledge(message, verbs[message.offset() % 3])
                consumer.commit_sync(30)


async def administrate(port: int, topic_id: UUID) -> None:
    """One group begins anew elsewhere, one is deleted, and one has a leader elsewhere."""
    connection = await connect(port)
    peer = Peer(connection, topic_id, "mixed")
    _, epoch, leader, start, complete = await peer.summary()
    states = [(start + 200 + 10 * n, start + 205 + 10 * n, 2 * n, 1 + n) for n in range(3)]
    assert await peer.write(*states, epoch=epoch, leader=leader, complete=complete + 12) == 0
    partition = AlterShareGroupOffsetsRequestPartition(1, 12)
    topic = AlterShareGroupOffsetsRequestTopic(TOPIC, [partition])
    altered = await connection.send(
        apis.ALTER_SHARE_GROUP_OFFSETS,
        AlterShareGroupOffsetsRequest("altered", [topic]),
        timeout_ms=TIMEOUT_MS,
    )
    assert altered.error_code == altered.responses[0].partitions[0].error_code == 0, altered
    deleted = await connection.send(
        apis.DELETE_GROUPS, DeleteGroupsRequest(["deleted"]), timeout_ms=TIMEOUT_MS
    )
    assert deleted.results[0].error_code == 0
    connection.close()


async def settled(port: int, topic_id: UUID) -> Shown:
    """What is shown once it stays the same: a consumer's last releases come after its close."""
    before: Shown = {}
    while before != (now := await shown(port, topic_id)):
        before = now
        await asyncio.sleep(0.5)
    return now


async def go_on(broker: Broker, topic_id: UUID) -> None:
    """Writes, snapshots, a deleted key, pruning: all that a state log sees."""
    state = broker.parts.state
    for group in ("mixed", "altered"):
        key = SharePartitionKey(group, topic_id, 0)
        stored = await state.read(key, 5)
        base = stored.start_offset + 50
        for turn in range(7):
            batch = StateBatch(base + 2 * turn, base + 2 * turn, 2 * (turn % 3), 1 + turn % 2)
            await state.write([StateWrite(key, stored.state_epoch, 5, -1, turn, (batch,))])
        for count, lowers in ((9, False), (8, True)):  # as an operator releases a record
            batch = StateBatch(base + 30, base + 30, 0, count)
            change = StateWrite(key, stored.state_epoch, 5, -1, -1, (batch,), lowers)
            await state.write([change])
        assert batch in (await state.read(key, 5)).batches
        # What transactions hold: Kafka sees what an abort leaves.
        batch, marks = StateBatch(base + 40, base + 43, 0, 1), (TransactionMark(7, 0),)
        pending = PendingAck(base + 40, base + 43, 1, 1, *marks, "m", "")
        change = StateWrite(key, stored.state_epoch, 5, -1, -1, (batch,), pending=(pending,))
        await state.write([change])
        if group == "altered":  # in the other one they are still pending in the snapshots
            await state.write([StateWrite(key, -1, -1, -1, -1, (), ended=marks)])
    again = [SharePartitionKey("deleted", topic_id, partition) for partition in range(PARTITIONS)]
    await state.initialize([(key, 3) for key in again], 9)
    await state.delete([SharePartitionKey("mixed", topic_id, 1)])
    for shard in state.shards:
        await shard.shorten()
    await state.delete(again[:1])
    last = SharePartitionKey("altered", topic_id, 1)
    await state.write([StateWrite(last, -1, -1, 14, 1, (StateBatch(16, 16, 4, 3),))])


def replace_logs(source: Path, target: Path) -> None:
    """Let partition folders of ``target`` hold the logs of ``source``, and be who they were."""
    for folder in source.glob(f"{SHARE_GROUP_STATE}-*"):
        into = target / folder.name
        identity = (into / "partition.metadata").read_bytes()
        shutil.rmtree(into)
        shutil.copytree(folder, into)
        (into / "partition.metadata").write_bytes(identity)


async def move_to_ours(kafka: Path, ours: Path, topic_id: UUID) -> tuple[Shown, Shown]:
    """Our broker on Kafka's state log: what it shows, and what it shows after it went on."""
    state_id = read_topic_id(LocalDisk(), str(kafka / f"{SHARE_GROUP_STATE}-0"))
    assert state_id is not None
    async with opened(ours / "data") as folder:
        await folder.create_topic(TOPIC, topic_id, PARTITIONS, {})
        await folder.create_topic(SHARE_GROUP_STATE, state_id, STATE_PARTITIONS, {})
    replace_logs(kafka, ours / "data")
    small = f"{PREFIX}state.topic.segment.bytes=600"
    async with running(ours, *OPTIONS, small) as (broker, port):
        at_ours = await shown(port, topic_id)
        await go_on(broker, topic_id)
        starts = [broker.parts.topics.log(SHARE_GROUP_STATE, p).log_start_offset for p in range(3)]
        assert all(starts), f"nothing was pruned: {starts}"
    async with running(ours, *OPTIONS, small) as (_, port):
        return at_ours, await shown(port, topic_id)


@pytest.fixture(scope="module")
def moved(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Moved]:
    ours = tmp_path_factory.mktemp("ours")
    with KafkaBroker(tmp_path_factory.mktemp("kafka"), *OPTIONS) as kafka:
        admin = Admin(kafka.bootstrap)
        admin.create_topic(TOPIC, PARTITIONS)
        values = [b"%d" % n for n in range(PARTITIONS * RECORDS)]
        produce(kafka.bootstrap, TOPIC, values)  # as many in each partition
        with ThreadPoolExecutor() as members:  # joining takes five seconds at Apache Kafka
            consuming = [
                members.submit(consume, kafka.bootstrap, group)
                for group in ("mixed", "altered", "deleted")
            ]
        for done in consuming:
            done.result()
        found = read_topic_id(LocalDisk(), str(kafka.data / f"{TOPIC}-0"))
        assert found is not None
        asyncio.run(administrate(kafka.port, found))
        at_kafka = asyncio.run(settled(kafka.port, found))
        kafka.stop()
        at_ours, changed_at_ours = asyncio.run(move_to_ours(kafka.data, ours, found))
        replace_logs(ours / "data", kafka.data)
        (kafka.data / ".kafka_cleanshutdown").unlink()
        kafka.start()
        changed_at_kafka = asyncio.run(shown(kafka.port, found))
        yield Moved(
            kafka.data, ours / "data", found, at_kafka, at_ours, changed_at_ours, changed_at_kafka
        )


def test_our_broker_reads_apache_kafkas_state(moved: Moved) -> None:
    assert moved.at_ours == moved.at_kafka


def test_the_state_has_every_kind_of_record(moved: Moved) -> None:
    states = {batch[2] for _, (_, _, batches) in moved.at_kafka.values() for batch in batches}
    assert states == {0, 2, 4}, "released, accepted and rejected records"
    invalid = errors.InvalidRequest.code
    for partition in range(PARTITIONS):
        for group in ("deleted", "untouched"):
            assert moved.at_kafka[group, partition][1][0] == invalid, "no state"
    (_, state_epoch, _, start, _), _ = moved.at_kafka["altered", 1]
    assert (state_epoch > 0, start) == (True, 12)


def test_apache_kafka_reads_the_state_we_wrote(moved: Moved) -> None:
    assert moved.changed_at_kafka == moved.changed_at_ours
    assert moved.changed_at_ours != moved.at_ours


def test_kafka_dump_log_decodes_our_snapshots_updates_and_tombstones(moved: Moved) -> None:
    logs = sorted(moved.ours.glob(f"{SHARE_GROUP_STATE}-*/*.log"))
    assert len(logs) > STATE_PARTITIONS, "several segments"
    first = [min(folder.glob("*.log")).stem for folder in {log.parent for log in logs}]
    assert any(map(int, first)), "first segments are gone"
    files = ",".join(map(str, logs))
    decoder = "--share-group-state-decoder"
    dumped = run_tool("org.apache.kafka.tools.DumpLogSegments", "--files", files, decoder)
    assert set(re.findall(r"isvalid: (\w+)", dumped)) == {"true"}
    records = re.findall(r"^\|.* key: (\{.*?\}) payload: (.*)$", dumped, re.MULTILINE)
    kinds = {(json.loads(key)["type"], value == TOMBSTONE) for key, value in records}
    assert kinds == {("0", False), ("0", True), ("1", False)}
    last: dict[tuple[str, int], Any] = {}
    for key, value in records:
        data = json.loads(key)["data"]
        if json.loads(key)["type"] == "0" and value != TOMBSTONE:
            last[data["groupId"], data["partition"]] = json.loads(value)
    (_, state_epoch, leader_epoch, start, complete), _ = moved.changed_at_ours["altered", 0]
    snapshot = last["altered", 0]["data"]
    assert snapshot["stateEpoch"] == state_epoch
    assert snapshot["leaderEpoch"] == leader_epoch == 5
    assert snapshot["startOffset"] == start
    assert snapshot["deliveryCompleteCount"] == complete
    assert snapshot["createTimestamp"] <= snapshot["writeTimestamp"]
