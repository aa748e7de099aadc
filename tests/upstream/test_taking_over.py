"""Brokers in front of one cluster: the last one to start goes on where the others were."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Producer

from sharegroup import Admin
from sharegroup.model.ids import TopicPartition
from tests.foreign.share_reader import receive, receive_accepting, share_consumer
from tests.servers import admin
from tests.servers.process import HOST, ServerFailed, free_port
from tests.servers.running import RunningServer
from tests.servers.sharegroup_server import SharegroupServer

pytestmark = pytest.mark.process
PARTITIONS = 20


def in_front_of(cluster: RunningServer, folder: Path) -> SharegroupServer:
    """Another broker, not started."""
    folder.mkdir()
    return SharegroupServer(folder, arguments=["--upstream", cluster.bootstrap])


def test_what_was_accepted_does_not_come_again_from_another_node(
    cluster: RunningServer, tmp_path: Path
) -> None:
    admin.Admin(cluster.bootstrap).create_topic("moves")
    admin.produce(cluster.bootstrap, "moves", [b"%d" % n for n in range(10)])
    for number in range(2):
        with in_front_of(cluster, tmp_path / f"node-{number}") as node:
            if not number:
                admin.Admin(node.bootstrap).start_group_at_earliest("movers")
            with share_consumer(node.bootstrap, "movers", "moves", explicit=False) as consumer:
                expected = 10 if not number else 1
                found = receive_accepting(consumer, expected)
            assert len(found) == expected
            admin.produce(cluster.bootstrap, "moves", [b"later"])
            node.kill()


def test_a_broker_that_was_paused_gives_out_nothing(cluster: RunningServer, tmp_path: Path) -> None:
    admin.Admin(cluster.bootstrap).create_topic("paused")
    second = in_front_of(cluster, tmp_path / "second")
    with (
        in_front_of(cluster, tmp_path / "first") as first,
        share_consumer(first.bootstrap, "pausers", "paused", explicit=True) as zombie,
        share_consumer(first.bootstrap, "pausers", "paused", explicit=False) as waiting,
    ):
        admin.Admin(first.bootstrap).start_group_at_earliest("pausers")
        admin.produce(cluster.bootstrap, "paused", [b"1"])
        [held] = receive(zombie)
        waiting.poll(0.1)  # a fetch waits at the broker
        os.kill(first.process.pid, signal.SIGSTOP)
        with (
            second,
            share_consumer(second.bootstrap, "pausers", "paused", explicit=False) as consumer,
        ):
            assert "standing by" in second.output(), "until the lease of the first one ends"
            assert "are lost with it: " in second.output(), "topics have no second replica"
            assert receive_accepting(consumer, 1) == [b"1"], "it was not answered"
            admin.produce(cluster.bootstrap, "paused", [b"2"])
            os.kill(first.process.pid, signal.SIGCONT)
            zombie.acknowledge(held)
            outcome = zombie.commit_sync(10)
            assert outcome is None or all(one.error is not None for one in outcome)
            with pytest.raises(ServerFailed, match="ended with status 1"):
                first.process.wait_until(lambda: False, timeout_s=60)
            assert "has taken over" in first.output()
            assert [one.value() for one in waiting.poll(1) if one.error() is None] == []
            assert receive_accepting(consumer, 1) == [b"2"]
            assert "Traceback" not in first.output() + second.output()


@pytest.mark.parametrize("ending", ["stop", "kill"])
def test_who_stands_by_goes_on_with_the_members(
    cluster: RunningServer, tmp_path: Path, ending: str
) -> None:
    topic = f"shift-{ending}"
    admin.Admin(cluster.bootstrap).create_topic(topic)
    second = in_front_of(cluster, tmp_path / "second")
    with in_front_of(cluster, tmp_path / "first") as first:
        admin.Admin(first.bootstrap).start_group_at_earliest(topic)
        both = f"{first.bootstrap},{second.bootstrap}"
        with share_consumer(both, topic, topic, explicit=False) as consumer:
            admin.produce(cluster.bootstrap, topic, [b"1"])
            assert receive_accepting(consumer, 1) == [b"1"]
            second.process.start()
            second.process.wait_until(lambda: "standing by" in second.output(), timeout_s=60)
            first.stop() if ending == "stop" else first.kill()
            second.process.wait_until(lambda: "ready on" in second.output(), timeout_s=60)
            admin.produce(cluster.bootstrap, topic, [b"2"])
            assert b"2" in receive_accepting(consumer, 1)
    second.stop()
    assert "Traceback" not in first.output() + second.output()


def test_an_open_admin_client_goes_on_at_the_next_broker(
    cluster: RunningServer, tmp_path: Path
) -> None:
    first, second = (in_front_of(cluster, tmp_path / name) for name in ("first", "second"))

    async def scenario() -> None:
        async with Admin(f"{first.bootstrap},{second.bootstrap}") as ours:
            await ours.create_topics("moved")
            at = {TopicPartition("moved", 0): 0}
            await ours.alter_share_group_offsets("movers-on", at)
            await asyncio.to_thread(first.kill)
            await asyncio.to_thread(second.start)
            assert (await ours.list_share_group_offsets("movers-on")).keys() == at.keys()

    with first:
        asyncio.run(scenario())
    second.stop()


def test_what_comes_into_a_finished_partition_is_seen_by_the_next_broker(
    cluster: RunningServer, tmp_path: Path
) -> None:
    admin.Admin(cluster.bootstrap).create_topic("finished", partitions=PARTITIONS)
    with in_front_of(cluster, tmp_path / "node") as node:
        admin.Admin(node.bootstrap).start_group_at_earliest("finishers")
        with share_consumer(node.bootstrap, "finishers", "finished", explicit=False) as consumer:
            produce_everywhere(cluster.bootstrap, "finished", 100)
            assert len(receive_accepting(consumer, 100 * PARTITIONS)) == 100 * PARTITIONS
        for _ in range(2):
            node.kill()
            node.start()
            with share_consumer(node.bootstrap, "finishers", "finished", explicit=False) as next_:
                admin.produce(cluster.bootstrap, "finished", [b"x"])
                assert len(receive_accepting(next_, 1)) == 1, "all partitions are looked at now"
                next_.poll(1)
                produce_everywhere(cluster.bootstrap, "finished", 1)
                assert len(receive_accepting(next_, PARTITIONS)) == PARTITIONS


def produce_everywhere(bootstrap: str, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, **admin.SILENT})
    for partition in range(PARTITIONS):
        for _ in range(count):
            producer.produce(topic, b"x", partition=partition)
    assert producer.flush(60) == 0


def test_who_stands_by_may_be_stopped_and_a_broker_comes_back_at_once(
    cluster: RunningServer, tmp_path: Path
) -> None:
    second = in_front_of(cluster, tmp_path / "second")
    with in_front_of(cluster, tmp_path / "first") as first:
        second.process.start()
        second.process.wait_until(lambda: "standing by" in second.output(), timeout_s=60)
        assert second.process.stop() == 0
        assert "Traceback" not in second.output()
        first.kill()
        first.start()
        assert "standing by" not in first.output(), "nobody else has its folder"


def test_a_broker_of_the_cluster_that_is_killed_is_waited_for(tmp_path: Path) -> None:
    folder = tmp_path / "cluster"
    folder.mkdir()
    with SharegroupServer(folder) as cluster, in_front_of(cluster, tmp_path / "node") as node:
        admin.Admin(node.bootstrap).create_topic("jobs")
        admin.Admin(node.bootstrap).start_group_at_earliest("workers")
        admin.produce(node.bootstrap, "jobs", [b"%d" % n for n in range(10)])
        with share_consumer(node.bootstrap, "workers", "jobs", explicit=False) as consumer:
            assert len(receive_accepting(consumer, 10)) == 10
            cluster.kill()
            cluster.start()
            admin.produce(node.bootstrap, "jobs", [b"later"])
            assert receive_accepting(consumer, 1) == [b"later"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--upstream", "127.0.0.1:1"], "the cluster cannot be used: "),
        (["--upstream-config", "client.properties"], "--upstream-config needs --upstream"),
    ],
)
def test_a_cluster_that_is_not_there_is_a_sentence(
    tmp_path: Path, arguments: list[str], sentence: str
) -> None:
    command = [sys.executable, "-m", "sharegroup", "serve", "--data", str(tmp_path / "data")]
    command += ["--listen", f"{HOST}:{free_port()}", *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert ended.returncode == 2
    assert sentence in ended.stderr
    assert "Traceback" not in ended.stderr
