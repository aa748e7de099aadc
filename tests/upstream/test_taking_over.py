"""Brokers in front of one cluster: the last one to start goes on where the others were."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sharegroup.upstream.lease import LEASE_S
from tests.foreign.share_reader import receive, receive_accepting, share_consumer
from tests.servers import admin
from tests.servers.process import HOST, free_port
from tests.servers.running import RunningServer
from tests.servers.sharegroup_server import SharegroupServer

pytestmark = pytest.mark.process


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


def test_a_broker_that_was_taken_over_from_answers_nothing_more(
    cluster: RunningServer, tmp_path: Path
) -> None:
    admin.Admin(cluster.bootstrap).create_topic("taken")
    admin.produce(cluster.bootstrap, "taken", [b"%d" % n for n in range(10)])
    with (
        in_front_of(cluster, tmp_path / "first") as first,
        share_consumer(first.bootstrap, "takers", "taken", explicit=True) as zombie,
    ):
        admin.Admin(first.bootstrap).start_group_at_earliest("takers")
        held = receive(zombie)
        assert len(held) == 10
        with (
            in_front_of(cluster, tmp_path / "second") as second,
            share_consumer(second.bootstrap, "takers", "taken", explicit=False) as consumer,
        ):
            assert "are lost with it: " in second.output(), "they have no second replica"
            for message in held:
                zombie.acknowledge(message)
            outcome = zombie.commit_sync(60)
            assert outcome is None or all(one.error is not None for one in outcome)
            assert len(receive_accepting(consumer, 10)) == 10
            first.process.wait_until(lambda: "has taken over" in first.output(), timeout_s=30)
            admin.produce(cluster.bootstrap, "taken", [b"%d" % n for n in range(10, 20)])
            assert len(receive_accepting(consumer, 10)) == 10
            assert [one.value() for one in zombie.poll(1) if one.error() is None] == []
            assert "Traceback" not in first.output() + second.output()


def test_a_broker_that_was_paused_gives_out_nothing(cluster: RunningServer, tmp_path: Path) -> None:
    admin.Admin(cluster.bootstrap).create_topic("paused")
    with (
        in_front_of(cluster, tmp_path / "first") as first,
        share_consumer(first.bootstrap, "pausers", "paused", explicit=False) as zombie,
    ):
        admin.Admin(first.bootstrap).start_group_at_earliest("pausers")
        admin.produce(cluster.bootstrap, "paused", [b"1"])
        assert receive_accepting(zombie, 1) == [b"1"]
        zombie.poll(0.1)  # a fetch waits at the broker
        os.kill(first.process.pid, signal.SIGSTOP)
        with (
            in_front_of(cluster, tmp_path / "second") as second,
            share_consumer(second.bootstrap, "pausers", "paused", explicit=False) as consumer,
        ):
            admin.produce(cluster.bootstrap, "paused", [b"2"])
            assert receive_accepting(consumer, 1) == [b"2"]
            assert not consumer.poll(LEASE_S + 0.5), "meanwhile the lease of the first one ends"
            os.kill(first.process.pid, signal.SIGCONT)
            admin.produce(cluster.bootstrap, "paused", [b"3"])
            first.process.wait_until(lambda: "has taken over" in first.output(), timeout_s=60)
            assert [one.value() for one in zombie.poll(1) if one.error() is None] == []
            assert receive_accepting(consumer, 1) == [b"3"]


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
