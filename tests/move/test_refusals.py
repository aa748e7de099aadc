"""What a move refuses, before it has changed anything."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Place

from sharegroup import TopicPartition, sync
from tests.broker.authorization.clients import ADMIN, write_acls
from tests.foreign.share_reader import receive_accepting, share_consumer
from tests.move.machines import ACCEPT, end, move, worked_on
from tests.move.queue import Done, states, work
from tests.servers import admin
from tests.servers.process import HOST, free_port
from tests.servers.sharegroup_server import SharegroupServer

pytestmark = pytest.mark.process


def test_groups_with_members_are_named(source: SharegroupServer, target: SharegroupServer) -> None:
    worked_on(source.bootstrap, "busy")
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
    worked_on(source.bootstrap, "other")
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
    worked_on(source.bootstrap, "wide")
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


def test_offsets_in_an_open_transaction_are_refused(
    source: SharegroupServer, target: SharegroupServer
) -> None:
    """Also where it has written nothing. One with offsets of other topics is no matter."""
    for name in ("read", "filtered", "elsewhere"):
        admin.Admin(source.bootstrap).create_topic(name)
        admin.produce(source.bootstrap, name, [b"1", b"2"])
    settings = {"bootstrap.servers": source.bootstrap, **admin.SILENT}
    producer = Producer({**settings, "transactional.id": "filter"})
    producer.init_transactions(60)
    producer.begin_transaction()
    members = Consumer({**settings, "group.id": "filters"})
    where = Place("filtered", 0, 1)
    producer.send_offsets_to_transaction([where], members.consumer_group_metadata(), 60)
    members.close()
    assert move(source, target, "-t", "elsewhere", "-g", "filters").status == 0
    refused = move(source, target, "-t", "filtered", "-t", "read")
    assert refused.status == 1
    assert "group filters has offsets in an open transaction at " in refused.stderr
    assert end(target.bootstrap, "filtered") == 0
    producer.commit_transaction(60)
    assert move(source, target, "-t", "filtered", "-t", "read").status == 0
    with sync.Admin(target.bootstrap) as client:
        [offset] = client.list_consumer_group_offsets("filters").values()
    assert offset.offset == 1


@pytest.mark.parametrize("shares", [True, False])
def test_a_group_of_another_kind_at_the_target_is_refused(
    source: SharegroupServer, target: SharegroupServer, shares: bool
) -> None:
    """Before anything is copied."""
    name = "kind-share" if shares else "kind-consumer"
    sides = (source, target) if shares else (target, source)
    worked_on(sides[0].bootstrap, name)
    admin.Admin(sides[1].bootstrap).create_topic(f"{name}-else")
    admin.produce(sides[1].bootstrap, f"{name}-else", [b"1"])
    topic = name if shares else f"{name}-else"
    with sync.Admin(sides[1].bootstrap) as client:
        client.alter_consumer_group_offsets(name, {TopicPartition(f"{name}-else", 0): 1})
    for words in (("--dry-run",), ()):
        refused = move(source, target, "-t", topic, "-g", name, *words)
        assert refused.status == 1
        kind = "classic" if shares else "share"
        assert f"group {name} is of type {kind} at {target.bootstrap}" in refused.stderr
    assert end(target.bootstrap, topic) == 0


def test_a_record_that_is_too_large_is_said(
    source: SharegroupServer, target: SharegroupServer
) -> None:
    admin.Admin(source.bootstrap).create_topic("large")
    admin.produce(source.bootstrap, "large", [b"x" * 5_000])
    admin.Admin(target.bootstrap).create_topic("large", max_message_bytes="4000")
    refused = move(source, target, "-t", "large")
    assert refused.status == 1
    assert refused.stderr.startswith("sharegroup: a record of large-0 takes a batch of 50")
    with sync.Admin(target.bootstrap) as client:
        client.alter_configs("topic", "large", {"max.message.bytes": "6000"})
    assert move(source, target, "-t", "large").status == 0


def test_what_is_not_there_and_what_is_the_same(
    source: SharegroupServer, target: SharegroupServer
) -> None:
    assert "has no topic nothing" in move(source, target, "-t", "nothing").stderr
    admin.Admin(source.bootstrap).create_topic("idle")
    assert "has no group nobody" in move(source, target, "-g", "nobody", "-t", "idle").stderr
    same = move(source, source)
    assert same.status == 1
    assert same.stderr.startswith(
        f"sharegroup: {source.bootstrap} and {source.bootstrap} have the same topics: both are of "
    )


def test_progress_made_at_the_target_is_not_lost(
    source: SharegroupServer, target: SharegroupServer
) -> None:
    worked_on(source.bootstrap, "gone")
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


RIGHTS_AT_TARGET = [
    *(("TOPIC", one) for one in ("CREATE", "READ", "WRITE", "DESCRIBE_CONFIGS", "ALTER_CONFIGS")),
    *(("GROUP", one) for one in ("READ", "ALTER_CONFIGS")),
]
RIGHTS_AT_SOURCE = [
    *(("TOPIC", one) for one in ("READ", "DESCRIBE_CONFIGS")),
    *(("GROUP", one) for one in ("DESCRIBE", "DESCRIBE_CONFIGS")),
]


class Guarded:
    """A broker where anybody has these rights alone, and where ``admin`` reaches a super user."""

    def __init__(self, folder: Path, rights: list[tuple[str, str]], *more: str) -> None:
        folder.mkdir()
        acls = [f"ALLOW,User:ANONYMOUS,*,{one},{kind},*,LITERAL" for kind, one in rights]
        self.admin = f"{HOST}:{free_port()}"
        self.server = SharegroupServer(
            folder,
            f"listeners=PLAINTEXT://{HOST}:0,ADMIN://{self.admin}",
            "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,ADMIN:PLAINTEXT",
            f"listener.principal.map=ADMIN:{ADMIN}",
            f"super.users={ADMIN}",
            f"authorizer.acl.file={write_acls(folder / 'acls.csv', [*acls, *more])}",
        )


def test_the_rights_that_the_page_names_are_enough(tmp_path: Path) -> None:
    cluster_action = "ALLOW,User:ANONYMOUS,*,CLUSTER_ACTION,CLUSTER,kafka-cluster,LITERAL"
    source = Guarded(tmp_path / "source", RIGHTS_AT_SOURCE)
    target = Guarded(tmp_path / "target", RIGHTS_AT_TARGET, cluster_action)
    with source.server, target.server:
        worked_on(source.admin, "guarded")
        done = move(source.server, target.server)
        assert done.status == 0, done
        assert states(target.admin, "guarded", "guarded", 1)[b"2"].finished


def test_a_missing_right_is_named_before_anything_is_copied(
    source: SharegroupServer, tmp_path: Path
) -> None:
    worked_on(source.bootstrap, "guarded")
    target = Guarded(tmp_path / "target", RIGHTS_AT_TARGET)
    with target.server:
        refused = move(source, target.server, "-t", "guarded")
        assert end(target.admin, "guarded") == 0
    assert refused.status == 1
    assert refused.stderr == (
        "sharegroup: progress of share groups is written by whoever has the right CLUSTER_ACTION "
        f"on the cluster at {target.server.bootstrap}; without it, name consumer groups by "
        "--group\n"
    )
