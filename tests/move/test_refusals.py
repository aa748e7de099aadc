"""What a move refuses, before it has changed anything; and what is interrupted goes on."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from sharegroup import TopicPartition, sync
from sharegroup.client import AckType
from tests.broker.authorization.clients import write_acls
from tests.cli.command import Commands, Finished, finish
from tests.foreign.share_reader import receive_accepting, share_consumer
from tests.move.queue import Done, states, work
from tests.servers import admin
from tests.servers.sharegroup_server import SharegroupServer

pytestmark = pytest.mark.process
ACCEPT = AckType.ACCEPT


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharegroupServer]:
    with SharegroupServer(tmp_path_factory.mktemp("source")) as running:
        yield running


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharegroupServer]:
    with SharegroupServer(tmp_path_factory.mktemp("target")) as running:
        yield running


def move(source: SharegroupServer, target: SharegroupServer, *words: str) -> Finished:
    sides = ("--from", source.bootstrap, "--to", target.bootstrap)
    return Commands(source.bootstrap).run("move", *sides, *words)


def end(bootstrap: str, topic: str) -> int:
    """Where the first partition ends; 0 without a topic."""
    where = TopicPartition(topic, 0)
    with sync.Admin(bootstrap) as client:
        if topic not in {one.name for one in client.list_topics()}:
            return 0
        return client.list_offsets([where])[where].offset


def worked_on(source: SharegroupServer, topic: str, **configs: str) -> None:
    """A topic with ten records, of which a group of its name has accepted three."""
    admin.Admin(source.bootstrap).create_topic(topic, 1, **configs)
    admin.produce(source.bootstrap, topic, [b"%d" % n for n in range(10)])
    admin.Admin(source.bootstrap).start_group_at_earliest(topic)
    work(source.bootstrap, topic, topic, {b"0": [ACCEPT], b"2": [ACCEPT], b"5": [ACCEPT]})


def test_groups_with_members_are_named(source: SharegroupServer, target: SharegroupServer) -> None:
    worked_on(source, "busy")
    with share_consumer(source.bootstrap, "busy", "busy", explicit=False) as consumer:
        receive_accepting(consumer, 7)
        refused = move(source, target, "-t", "busy")
    assert refused.status == 1
    assert refused.stderr == (
        f"sharegroup: these groups have members: busy (1 at {source.bootstrap}). Stop them, and "
        "run this again\n"
    )
    assert end(target.bootstrap, "busy") == 0


def test_a_topic_with_other_records_is_refused(
    source: SharegroupServer, target: SharegroupServer
) -> None:
    worked_on(source, "other")
    admin.Admin(target.bootstrap).create_topic("other", retention_ms="5000000")
    admin.produce(target.bootstrap, "other", [b"0", b"1", b"none of these"])
    refused = move(source, target, "-t", "other")
    assert refused.status == 1
    assert f"other-0 at {target.bootstrap} has other records from offset " in refused.stderr
    assert end(target.bootstrap, "other") == 3
    with sync.Admin(target.bootstrap) as client:
        assert client.describe_configs("topic", "other")["retention.ms"].value == "5000000"


def test_a_topic_with_more_partitions_is_refused(
    source: SharegroupServer, target: SharegroupServer
) -> None:
    worked_on(source, "wide")
    admin.Admin(target.bootstrap).create_topic("wide", partitions=2)
    refused = move(source, target, "-t", "wide")
    assert refused.status == 1
    assert "topic wide has 1 partitions, and 2 at " in refused.stderr


def test_an_open_transaction_is_refused(source: SharegroupServer, target: SharegroupServer) -> None:
    admin.Admin(source.bootstrap).create_topic("open")
    producer = Producer(
        {"bootstrap.servers": source.bootstrap, "transactional.id": "open", **admin.SILENT}
    )
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce("open", b"maybe")
    producer.flush(60)
    refused = move(source, target, "-t", "open")
    assert refused.status == 1
    assert f"open-0 has an open transaction at {source.bootstrap}" in refused.stderr
    producer.abort_transaction(60)


def test_what_is_not_there_and_what_is_the_same(
    source: SharegroupServer, target: SharegroupServer
) -> None:
    assert "has no topic nothing" in move(source, target, "-t", "nothing").stderr
    assert "has no group nobody" in move(source, target, "-g", "nobody", "-t", "busy").stderr
    same = move(source, source)
    assert (same.status, same.stderr) == (
        2,
        "sharegroup: --from and --to are the same broker\n",
    )


def test_progress_made_at_the_target_is_not_lost(
    source: SharegroupServer, target: SharegroupServer
) -> None:
    worked_on(source, "gone")
    dry = move(source, target, "-t", "gone", "--dry-run")
    assert dry.status == 0
    assert dry.stdout.endswith("nothing was written: this was a dry run\n")
    assert end(target.bootstrap, "gone") == 0
    # Somebody has told the group where to begin, and nobody has worked: the move knows better.
    admin.Admin(target.bootstrap).create_topic("gone")
    with sync.Admin(target.bootstrap) as client:
        client.alter_share_group_offsets("gone", {TopicPartition("gone", 0): 0})
    assert move(source, target, "-t", "gone").status == 0
    done = Done(finished=True, delivered=0, rests=False)
    left = states(target.bootstrap, "gone", "gone", 1)
    assert left == states(source.bootstrap, "gone", "gone", 1)
    assert {value for value, one in left.items() if one == done} == {b"0", b"2", b"5"}
    again = move(source, target, "-t", "gone", "--json")
    assert again.status == 0
    assert again.json["topics"][0]["there_before"] == 10
    work(target.bootstrap, "gone", "gone", {b"1": [ACCEPT]})
    refused = move(source, target, "-t", "gone")
    assert refused.status == 1
    assert f"group gone has worked on gone-0 at {target.bootstrap} already" in refused.stderr
    assert states(target.bootstrap, "gone", "gone", 1)[b"1"].finished


def test_settings_come_along(source: SharegroupServer, target: SharegroupServer) -> None:
    settings = {"deduplication_window_ms": "60000", "message_timestamp_type": "LogAppendTime"}
    worked_on(source, "set", **settings)
    admin.Admin(source.bootstrap).set_group("set", share_delivery_count_limit="9")
    with sync.Admin(source.bootstrap) as client:  # into a compacted topic they would not come
        client.alter_configs("topic", "set", {"cleanup.policy": "delete,compact"})
    assert move(source, target, "-t", "set").status == 0
    with sync.Admin(target.bootstrap) as client:
        topic = client.describe_configs("topic", "set")
        assert topic["deduplication.window.ms"].value == "60000"
        assert topic["message.timestamp.type"].value == "LogAppendTime"
        assert topic["cleanup.policy"].value == "delete,compact"
        assert topic["retention.ms"].value == "604800000"
        assert client.describe_configs("group", "set")["share.delivery.count.limit"].value == "9"


def test_a_missing_right_is_named_before_anything_is_copied(
    source: SharegroupServer, tmp_path: Path
) -> None:
    worked_on(source, "guarded")
    acls = write_acls(tmp_path / "acls.csv", ["ALLOW,User:ANONYMOUS,*,ALL,GROUP,*,LITERAL"])
    with SharegroupServer(tmp_path, f"authorizer.acl.file={acls}") as guarded:
        refused = move(source, guarded, "-t", "guarded")
    assert refused.status == 1
    assert refused.stderr == (
        "sharegroup: progress of share groups is written by whoever has the right CLUSTER_ACTION "
        f"on the cluster at {guarded.bootstrap}; without it, name consumer groups by --group\n"
    )


def test_an_interrupted_copy_goes_on(source: SharegroupServer, target: SharegroupServer) -> None:
    admin.Admin(source.bootstrap).create_topic("long")
    count = 60_000
    admin.produce(source.bootstrap, "long", [b"%01000d" % n for n in range(count)])
    sides = ("--from", source.bootstrap, "--to", target.bootstrap, "-t", "long", "--json")
    process = Commands(source.bootstrap).start("move", *sides)
    while process.poll() is None and not end(target.bootstrap, "long"):
        pass
    process.send_signal(signal.SIGINT)
    stopped = finish(process)
    assert stopped.status == 130, stopped
    assert stopped.stderr == "sharegroup: not all is moved: the same command goes on\n"
    assert 0 < end(target.bootstrap, "long") < count
    done = move(source, target, "-t", "long", "--json")
    assert done.status == 0, done
    [topic] = done.json["topics"]
    assert topic["there_before"] > 0
    assert topic["copied"] + topic["there_before"] == count
    assert end(target.bootstrap, "long") == count
