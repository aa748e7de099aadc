"""read_committed on a partition that Apache Kafka wrote under transactional producers: the files
move over, and stock consumers see of them what they saw at Apache Kafka.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    AcknowledgeType,
    Consumer,
    IsolationLevel,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import OffsetSpec

from sharegroup.storage.checkpoints import PARTITION_METADATA, read_topic_id
from sharegroup.storage.disk import LocalDisk
from sharegroup.storage.indexes.transaction_index import TransactionIndex
from sharegroup.transactions.coordinator import TransactionCoordinator
from sharegroup.wire.batch import decode_batch
from sharegroup.wire.internal.transaction_log import decode_record, encode_record
from tests.apache_kafka.broker import KafkaBroker
from tests.foreign.share_reader import receive, share_consumer
from tests.servers.admin import ADMIN_SECONDS, SILENT, Admin, produce
from tests.servers.running import RunningServer
from tests.servers.sharegroup_server import SharegroupServer
from tests.spark.conftest import source_options
from tests.spark.reading import drained
from tests.storage.support import opened

pytestmark = pytest.mark.kafka

TOPIC = "transfers"
FOLDER = f"{TOPIC}-0"
FILLER = b"." * 30_000
SEGMENT_BYTES = 1024 * 1024  # the least that Apache Kafka takes

Seen = list[tuple[int, bytes]]


class Written(NamedTuple):
    """A partition that Apache Kafka wrote, and what it showed of it."""

    folder: Path
    topic_id: UUID
    committed: Seen
    shared: Seen
    by_spark: Seen
    stable: int
    end: int


def transactional(bootstrap: str, name: str) -> Producer:
    producer = Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": name, "linger.ms": 0, **SILENT}
    )
    producer.init_transactions(ADMIN_SECONDS)
    return producer


def write(producer: Producer, *values: bytes) -> None:
    """Each value in a batch of its own, durably in the log."""
    for value in values:
        producer.produce(TOPIC, value)
        assert producer.flush(ADMIN_SECONDS) == 0


def write_everything(bootstrap: str) -> Producer:
    """Committed, aborted and interleaved transactions over two segments; one stays open."""
    one, two, left_open = (transactional(bootstrap, name) for name in ("one", "two", "open"))
    produce(bootstrap, TOPIC, [b"plain 1"])
    one.begin_transaction()
    write(one, b"committed 1", b"committed 2")
    one.commit_transaction(ADMIN_SECONDS)
    one.begin_transaction()
    write(one, b"aborted 1", b"aborted 2")
    one.abort_transaction(ADMIN_SECONDS)
    one.begin_transaction()
    two.begin_transaction()
    write(one, b"aborted 3")
    write(two, b"committed 3")
    produce(bootstrap, TOPIC, [b"plain 2"])
    # One transaction reaches over the end of a segment: its marker is in the next one.
    write(one, *[b"aborted" + FILLER] * 20)
    write(two, *[b"committed" + FILLER] * 20)
    one.abort_transaction(ADMIN_SECONDS)
    two.commit_transaction(ADMIN_SECONDS)
    write_open(left_open)
    produce(bootstrap, TOPIC, [b"plain 3"])
    return left_open


def write_open(producer: Producer) -> None:
    producer.begin_transaction()
    write(producer, b"open 1", b"open 2")


def list_offset(bootstrap: str, isolation: IsolationLevel) -> int:
    partition = TopicPartition(TOPIC, 0)
    admin = Admin(bootstrap)  # without a name it would be gone before the answer comes
    done = admin.client.list_offsets({partition: OffsetSpec.latest()}, isolation_level=isolation)
    offset: int = done[partition].result(ADMIN_SECONDS).offset
    return offset


def read(bootstrap: str, isolation: str, end: int) -> Seen:
    """What a plain consumer sees below ``end``."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "not-used",
            "isolation.level": isolation,
            "enable.partition.eof": True,
            **SILENT,
        }
    )
    consumer.assign([TopicPartition(TOPIC, 0, OFFSET_BEGINNING)])
    seen: Seen = []
    try:
        while message := consumer.poll(ADMIN_SECONDS):
            if message.error() is not None:  # the end of what may be read
                break
            seen.append((message.offset(), message.value()))
        assert consumer.position([TopicPartition(TOPIC, 0)])[0].offset >= end
        return seen
    finally:
        consumer.close()


def share(bootstrap: str, isolation: str, count: int) -> Seen:
    """The first ``count`` records that a share group of that isolation level gets, in order."""
    group = f"group-{isolation}"
    admin = Admin(bootstrap)
    admin.start_group_at_earliest(group)
    admin.set_group(group, share_isolation_level=isolation)
    seen: Seen = []
    with share_consumer(bootstrap, group, TOPIC, explicit=True) as consumer:
        while len(seen) < count:
            for message in receive(consumer):
                seen.append((message.offset(), message.value()))
                consumer.acknowledge(message, AcknowledgeType.ACCEPT)
            consumer.commit_sync(ADMIN_SECONDS)
    return sorted(seen)


def spark_source(server: RunningServer, isolation: str) -> Seen:
    """What an availableNow run of the Spark source reads, as a new group."""
    options = source_options(server, TOPIC, isolationLevel=isolation)
    options["kafka.group.id"] = f"spark-{isolation}"
    return sorted((row["offset"], row["value"]) for row in drained(options))


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Written]:
    folder = tmp_path_factory.mktemp("kafka")
    with KafkaBroker(folder) as kafka:
        Admin(kafka.bootstrap).create_topic(TOPIC, segment_bytes=str(SEGMENT_BYTES))
        left_open = write_everything(kafka.bootstrap)
        stable = list_offset(kafka.bootstrap, IsolationLevel.READ_COMMITTED)
        committed = read(kafka.bootstrap, "read_committed", stable)
        shared = share(kafka.bootstrap, "read_committed", len(committed))
        by_spark = spark_source(kafka, "read_committed")
        end = list_offset(kafka.bootstrap, IsolationLevel.READ_UNCOMMITTED)
        kafka.stop()
    topic_id = read_topic_id(LocalDisk(), str(kafka.data / FOLDER))
    assert topic_id is not None
    yield Written(kafka.data / FOLDER, topic_id, committed, shared, by_spark, stable, end)
    left_open.purge()


def moved(written: Written, folder: Path, *, clean: bool) -> None:
    """Make Apache Kafka's partition one of ours; not ``clean``: as after a crash of ours."""

    async def catalogue() -> None:
        async with opened(folder / "data") as ours:
            await ours.create_topic(TOPIC, written.topic_id, 1, {})

    asyncio.run(catalogue())
    target = folder / "data" / FOLDER
    shutil.rmtree(target)
    shutil.copytree(written.folder, target)
    assert (target / PARTITION_METADATA).exists()
    if not clean:
        (folder / "data" / ".kafka_cleanshutdown").unlink()


@pytest.fixture(scope="module")
def ours(written: Written, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    folder = tmp_path_factory.mktemp("ours")
    moved(written, folder, clean=True)
    with SharegroupServer(folder) as server:
        yield server


def test_the_files_have_open_and_aborted_transactions(written: Written) -> None:
    assert len(list(written.folder.glob("*.log"))) == 2
    assert any(path.stat().st_size for path in written.folder.glob("*.txnindex"))
    assert written.shared == written.committed
    assert not any(value.startswith((b"aborted", b"open")) for _, value in written.committed)
    assert written.stable < written.end


def test_a_plain_consumer_sees_the_same_as_on_apache_kafka(
    ours: RunningServer, written: Written
) -> None:
    assert read(ours.bootstrap, "read_committed", written.stable) == written.committed
    uncommitted = read(ours.bootstrap, "read_uncommitted", written.end)
    assert [value for _, value in uncommitted][-3:] == [b"open 1", b"open 2", b"plain 3"]
    assert set(written.committed) < set(uncommitted)


def test_a_share_group_sees_the_same_as_on_apache_kafka(
    ours: RunningServer, written: Written
) -> None:
    assert share(ours.bootstrap, "read_committed", len(written.shared)) == written.shared
    everything = read(ours.bootstrap, "read_uncommitted", written.end)
    assert share(ours.bootstrap, "read_uncommitted", len(everything)) == everything


def test_the_spark_source_sees_the_same_as_a_share_group(
    ours: RunningServer, written: Written
) -> None:
    assert written.by_spark == written.committed
    assert spark_source(ours, "read_committed") == written.committed
    everything = read(ours.bootstrap, "read_uncommitted", written.end)
    assert spark_source(ours, "read_uncommitted") == everything


def test_the_offsets_listed_are_apache_kafkas(ours: RunningServer, written: Written) -> None:
    assert list_offset(ours.bootstrap, IsolationLevel.READ_COMMITTED) == written.stable
    assert list_offset(ours.bootstrap, IsolationLevel.READ_UNCOMMITTED) == written.end


@pytest.mark.parametrize("clean", [True, False], ids=["clean end", "crash"])
def test_the_transaction_index_is_apache_kafkas(
    written: Written, tmp_path: Path, clean: bool
) -> None:
    moved(written, tmp_path, clean=clean)

    async def indexes() -> list[TransactionIndex]:
        async with opened(tmp_path / "data") as folder:
            log = folder.log(TOPIC, 0)
            assert folder.recovered.clean is clean
            assert folder.recovered.problems == []
            assert log.last_stable_offset == written.stable
            return [segment.transactions for segment in log._segments]

    found = asyncio.run(indexes())
    for path, index in zip(sorted(written.folder.glob("*.log")), found, strict=True):
        theirs = path.with_suffix(".txnindex")
        assert index.to_bytes() == (theirs.read_bytes() if theirs.exists() else b"")
        mine = tmp_path / "data" / FOLDER / theirs.name
        assert index.to_bytes() == (mine.read_bytes() if mine.exists() else b"")


def test_the_transaction_log_is_apache_kafkas(written: Written) -> None:
    """What Apache Kafka wrote is read, and would be written in the same bytes."""
    records: list[tuple[bytes, bytes | None]] = []
    for path in written.folder.parent.glob("__transaction_state-*/*.log"):
        for _, _, key, value in decode_batch(path.read_bytes()):
            assert key is not None
            records.append((key, value))
            if value is not None:
                assert encode_record(decode_record(key, value)) == (key, value)
    ids = TransactionCoordinator(lambda: 0, lambda: 0, lambda: 0)
    for key, value in records:
        ids.replay(decode_record(key, value))
    ids.check_invariants()
    states = {each.transactional_id: each.state.label for each in ids}
    assert states == {"one": "CompleteAbort", "two": "CompleteCommit", "open": "Ongoing"}
    left_open = ids.find("open")
    assert left_open is not None
    assert left_open.partitions == {(TOPIC, 0)}
