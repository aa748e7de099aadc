"""From one machine to two brokers in front of a cluster, and back to a machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from sharegroup import sync
from sharegroup.client import AckType
from tests.cli.command import Commands, Finished
from tests.move.queue import Done, Seen, records, states, work
from tests.servers import admin
from tests.servers.sharegroup_server import SharegroupServer
from tests.upstream.conftest import clusters

pytestmark = pytest.mark.process
ACCEPT, RELEASE, REJECT = AckType.ACCEPT, AckType.RELEASE, AckType.REJECT
SETTINGS = {"retention_ms": "864000000", "deduplication_window_ms": "1"}
RESTS = {"share_release_backoff_ms": "600000", "share_release_backoff_max_ms": "600000"}


@pytest.fixture(scope="module", params=clusters()[-1:])
def nodes(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[SharegroupServer]]:
    """Two brokers in front of a cluster."""
    with ExitStack() as stack:
        cluster = stack.enter_context(request.param(tmp_path_factory.mktemp("cluster")))
        yield [
            stack.enter_context(
                SharegroupServer(
                    tmp_path_factory.mktemp(name), arguments=["--upstream", cluster.bootstrap]
                )
            )
            for name in ("first", "second")
        ]


def machine(folder: Path, name: str) -> SharegroupServer:
    (folder / name).mkdir(exist_ok=True)
    return SharegroupServer(folder / name)


def moved(source: SharegroupServer, target: SharegroupServer, *words: str) -> Finished:
    sides = ("--from", source.bootstrap, "--to", target.bootstrap)
    return Commands(source.bootstrap).run("move", *sides, "--json", *words)


def fill(bootstrap: str, topic: str) -> None:
    """Records of all kinds, and between them what an aborted transaction wrote."""
    admin.Admin(bootstrap).create_topic(topic, partitions=3, **SETTINGS)
    admin.produce(bootstrap, topic, [b"first %d" % n for n in range(60)])
    transactional = {"transactional.id": topic, "compression.type": "lz4"}
    producer = Producer({"bootstrap.servers": bootstrap, **transactional, **admin.SILENT})
    producer.init_transactions(60)
    for word in (b"aborted", b"committed"):
        producer.begin_transaction()
        for number in range(20):
            producer.produce(
                topic,
                b"%s %d" % (word, number),
                key=b"k%d" % number,
                headers=[("h", b"v"), ("n", None)],
            )
        producer.flush(60)
        if word == b"aborted":
            producer.abort_transaction(60)
        else:
            producer.commit_transaction(60)
    # A batch that is copied as it is.
    admin.produce(bootstrap, topic, [b"large %d " % n + b"x" * 5_000 for n in range(30)], 1)


def test_there_and_back(nodes: list[SharegroupServer], tmp_path: Path) -> None:
    source = machine(tmp_path, "machine")
    with source:
        fill(source.bootstrap, "jobs")
        settings = admin.Admin(source.bootstrap)
        settings.start_group_at_earliest("workers")
        settings.set_group("workers", share_isolation_level="read_committed")
        answers: dict[bytes | None, list[AckType]] = {b"first %d" % n: [ACCEPT] for n in range(40)}
        work(source.bootstrap, "workers", "jobs", answers)
        settings.set_group("workers", **RESTS)
        answers = {b"committed 3": [RELEASE], b"committed 7": [REJECT], b"committed 11": [ACCEPT]}
        work(source.bootstrap, "workers", "jobs", answers)
        read(source.bootstrap, "readers", "jobs", 100, begin="earliest")
    with source:  # as somebody does who has only the folder
        before = states(source.bootstrap, "workers", "jobs", 3)
        log = records(source.bootstrap, "jobs", 3)
        done = moved(source, nodes[0])
    assert done.status == 0, done
    with sync.Admin(nodes[1].bootstrap) as client:
        known = "deduplication.window.ms" in client.describe_configs("topic", "jobs")
    left_out = [] if known else ["deduplication.window.ms"]  # Apache Kafka does not know it
    says = "sharegroup: topic jobs: the target does not take deduplication.window.ms\n"
    assert done.stderr == ("" if known else says)
    assert done.json["topics"][0] == {
        "topic": "jobs",
        "partitions": 3,
        "copied": 110,
        "there_before": 0,
        "offsets": "others",
        "settings_left_out": left_out,
    }
    left = {one["group"]: (one["left_before"], one["left_after"]) for one in done.json["groups"]}
    unfinished = [value for value, one in before.items() if not one.finished]
    assert left == {"workers": (len(unfinished),) * 2, "readers": (10, 10)}
    assert len(before) == 110
    assert any(one.rests for one in before.values())

    check(nodes[1], before, log)
    work_left = {value: [ACCEPT] for value, one in before.items() if not one.finished}
    taken = [value for value, one in before.items() if not one.finished and not one.rests][:10]
    work(nodes[1].bootstrap, "workers", "jobs", {value: work_left[value] for value in taken})
    after = states(nodes[0].bootstrap, "workers", "jobs", 3)
    assert all(after[value].finished for value in taken)

    with machine(tmp_path, "another") as target:
        back = moved(nodes[1], target)
        assert back.status == 0, back
        assert [one["topic"] for one in back.json["topics"]] == ["jobs"]
        check(target, after, records(nodes[0].bootstrap, "jobs", 3))
        assert read(target.bootstrap, "readers", "jobs", 10) == 10


def check(
    at: SharegroupServer, done: Mapping[bytes | None, Done], log: Mapping[int, Mapping[int, Seen]]
) -> None:
    """The same records are in the same order, and the same became of them."""
    copy = records(at.bootstrap, "jobs", 3)
    assert {index: [*own.values()] for index, own in copy.items()} == {
        index: [*own.values()] for index, own in log.items()
    }
    assert states(at.bootstrap, "workers", "jobs", 3) == done


def read(bootstrap: str, group: str, topic: str, count: int, *, begin: str = "error") -> int:
    """Let a consumer group read and commit so many records, none of them twice."""
    settings = {"group.id": group, "auto.offset.reset": begin, "enable.auto.commit": False}
    settings |= {"isolation.level": "read_committed", **admin.SILENT}
    consumer = Consumer({"bootstrap.servers": bootstrap, **settings})
    consumer.subscribe([topic])
    values: list[bytes | None] = []
    ends: dict[int, int] = {}
    while len(values) < count:
        message = consumer.poll(1)
        if message is not None:
            assert message.error() is None, message.error()
            index, offset = message.partition(), message.offset()
            assert index is not None
            assert offset is not None
            values.append(message.value())
            ends[index] = offset + 1
    offsets = [TopicPartition(topic, index, end) for index, end in ends.items()]
    consumer.commit(offsets=offsets, asynchronous=False)
    consumer.close()
    assert len(set(values)) == count
    return len(values)
