"""Brokers in front of one cluster share the work, and go on where others were."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from itertools import cycle
from pathlib import Path
from urllib.request import urlopen

import pytest
from confluent_kafka import Producer
from confluent_kafka import ShareConsumer as Librdkafka

from sharegroup import Admin, ShareConsumer, sync
from sharegroup.client.core.record import Record
from sharegroup.model.ids import TopicPartition
from tests.apache_kafka.broker import KafkaBroker
from tests.cli.command import Commands
from tests.foreign.share_reader import (
    RECEIVE_SECONDS,
    receive,
    receive_accepting,
    share_consumer,
)
from tests.servers import admin
from tests.servers.process import HOST, ServerFailed, free_port
from tests.servers.running import RunningServer
from tests.servers.sharegroup_server import SharegroupServer

pytestmark = pytest.mark.process
PARTITIONS = 30
FORGETS = (
    "producer.id.expiration.ms=1000",
    "producer.id.expiration.check.interval.ms=100",
    "transactional.id.expiration.ms=1000",
    "transaction.remove.expired.transaction.cleanup.interval.ms=100",
)
"""A broker of the cluster, what it knows of producers after a second."""
IMPATIENT = {"socket_timeout_ms": 3_000}
"""For a client that a broker does not answer and does not refuse."""


def in_front_of(cluster: RunningServer, folder: Path, *arguments: str) -> SharegroupServer:
    """Another broker, not started."""
    folder.mkdir()
    return SharegroupServer(folder, arguments=["--upstream", cluster.bootstrap, *arguments])


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


def test_several_brokers_share_the_work(cluster: RunningServer, tmp_path: Path) -> None:
    admin.Admin(cluster.bootstrap).create_topic("shared", partitions=PARTITIONS)
    values = {b"%d" % number for number in range(4 * PARTITIONS)}
    with ExitStack() as stack:
        nodes = [stack.enter_context(in_front_of(cluster, tmp_path / name)) for name in "abc"]
        admin.Admin(nodes[0].bootstrap).start_group_at_earliest("sharers")
        every = ",".join(node.bootstrap for node in nodes)
        assert len({leader for leader, _ in leaders(nodes[2], "shared").values()}) == 3
        with (
            share_consumer(every, "sharers", "shared", explicit=False) as one,
            share_consumer(every, "sharers", "shared", explicit=False) as other,
        ):
            everything(cluster, values, one, other)
            nodes[2].kill()
            everything(cluster, {b"killed " + value for value in values}, one, other)
            nodes[2].start()
            everything(cluster, {b"back " + value for value in values}, one, other)
            nodes[1].stop()
            everything(cluster, {b"stopped " + value for value in values}, one, other)
        asyncio.run(nothing_left(nodes[0]))
        nodes[1].start()
        asyncio.run(nothing_left(nodes[1]))
        assert "Traceback" not in "".join(node.output() for node in nodes)


def leaders(node: SharegroupServer, topic: str) -> dict[int, tuple[int, str]]:
    """Partition → id and address of the broker that leads it, by Kafka's metadata."""
    metadata = Producer({"bootstrap.servers": node.bootstrap, **admin.SILENT}).list_topics(topic)
    brokers = metadata.brokers
    found = {number: one.leader for number, one in metadata.topics[topic].partitions.items()}
    return {
        number: (leader, f"{brokers[leader].host}:{brokers[leader].port}")
        for number, leader in found.items()
    }


def everything(cluster: RunningServer, values: set[bytes], *consumers: Librdkafka) -> None:
    """Send records, and read until all of them have come."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, **admin.SILENT})
    for number, value in enumerate(sorted(values)):
        producer.produce("shared", value, partition=number % PARTITIONS)
    assert producer.flush(60) == 0
    missing = set(values)
    deadline = time.monotonic() + RECEIVE_SECONDS
    for consumer in cycle(consumers):
        missing -= {one.value() for one in consumer.poll(0.2) if one.error() is None}
        if not missing:
            break
        assert time.monotonic() < deadline, f"missing: {missing}"
    for consumer in consumers:
        consumer.commit_sync(RECEIVE_SECONDS)


def everything_of(*consumers: Librdkafka, until: bytes) -> list[bytes | None]:
    """The values that come until one of them does."""
    deadline = time.monotonic() + RECEIVE_SECONDS
    values: list[bytes | None] = []
    for consumer in cycle(consumers):
        values += [one.value() for one in consumer.poll(0.1) if one.error() is None]
        if until in values:
            break
        assert time.monotonic() < deadline
    return values


async def first_of(consumer: ShareConsumer[bytes, bytes]) -> Record[bytes, bytes]:
    while True:
        for record in await consumer.poll(1_000):
            return record


async def nothing_left(node: SharegroupServer) -> None:
    """All is accepted, says each broker of all partitions."""
    async with Admin(node.bootstrap) as ours:
        names = [group.group_id for group in await ours.list_groups()]
        assert names.count("sharers") == 1
        assert len(names) == len(set(names))
        copy = f"copy-{node.port}"
        await ours.fork_share_group("sharers", copy)
        for name in ("sharers", copy):
            found = await ours.list_share_group_offsets(name)
            assert len(found) == PARTITIONS
            assert {one.lag for one in found.values()} == {0}


def test_a_broker_that_was_paused_gives_out_nothing(cluster: RunningServer, tmp_path: Path) -> None:
    pause_a_broker(cluster, tmp_path)


@pytest.mark.kafka
def test_a_cluster_may_forget_producers_that_are_silent(tmp_path: Path) -> None:
    """It fences no producer that it has forgotten, and gives the next one another id."""
    (tmp_path / "cluster").mkdir()
    with KafkaBroker(tmp_path / "cluster", *FORGETS) as cluster:
        pause_a_broker(cluster, tmp_path, forgotten)


def forgotten(cluster: RunningServer) -> None:
    """Return when the cluster knows no producer of the state, and no transactional id."""
    parts = [TopicPartition("__sharegroup_fleet_share_group_state", one) for one in range(24)]
    deadline = time.monotonic() + RECEIVE_SECONDS
    with sync.Admin(cluster.bootstrap) as theirs:
        while any(theirs.describe_producers(parts).values()) or theirs.list_transactions():
            assert time.monotonic() < deadline


def pause_a_broker(
    cluster: RunningServer,
    tmp_path: Path,
    before: Callable[[RunningServer], None] = lambda _: None,
) -> None:
    """It stands still until another one has what it had. ``before`` is called before each step."""
    admin.Admin(cluster.bootstrap).create_topic("paused")
    with (
        in_front_of(cluster, tmp_path / "one") as one,
        in_front_of(cluster, tmp_path / "other") as other,
    ):
        [(_, address)] = leaders(one, "paused").values()
        leader, next_ = (one, other) if address == one.bootstrap else (other, one)
        admin.Admin(one.bootstrap).start_group_at_earliest("pausers")
        with (
            share_consumer(leader.bootstrap, "pausers", "paused", explicit=True) as zombie,
            share_consumer(
                next_.bootstrap, "pausers", "paused", explicit=False, **IMPATIENT
            ) as consumer,
        ):
            before(cluster)
            admin.produce(cluster.bootstrap, "paused", [b"1"])
            [held] = receive(zombie)
            before(cluster)
            os.kill(leader.process.pid, signal.SIGSTOP)
            assert receive_accepting(consumer, 1) == [b"1"], "it was not answered"
            before(cluster)
            os.kill(leader.process.pid, signal.SIGCONT)
            zombie.acknowledge(held)
            assert all(each.error is not None for each in zombie.commit_sync(10))
            admin.produce(cluster.bootstrap, "paused", [b"2"])
            both = everything_of(zombie, consumer, until=b"2")
            assert both == [b"2"], "what was accepted meanwhile does not come again"
            assert leader.process.running, "it shares the work again"
        assert "Traceback" not in one.output() + other.output()
        assert "are lost with it: " in one.output(), "topics have no second replica"


def test_our_consumer_does_not_wait_for_a_broker_that_stands_still(
    cluster: RunningServer, tmp_path: Path
) -> None:
    """Its request would wait for ever: the cluster says that the broker is none any more."""

    async def scenario() -> None:
        [(_, address)] = leaders(one, "still").values()
        leader, next_ = (one, other) if address == one.bootstrap else (other, one)
        async with ShareConsumer[bytes, bytes](
            "still",
            group_id="waiters",
            bootstrap_servers=f"{leader.bootstrap},{next_.bootstrap}",
            acknowledgement_mode="explicit",
            request_timeout_ms=3_600_000,
        ) as consumer:
            held = await first_of(consumer)
            os.kill(leader.process.pid, signal.SIGSTOP)
            try:
                consumer.accept(held)
                [outcome] = (await consumer.commit()).values()
                assert outcome is not None, "nobody has confirmed it"
                again = await first_of(consumer)
                assert again.value == b"1"
                consumer.accept(again)
                assert [*(await consumer.commit()).values()] == [None]
            finally:
                os.kill(leader.process.pid, signal.SIGCONT)

    admin.Admin(cluster.bootstrap).create_topic("still")
    with (
        in_front_of(cluster, tmp_path / "one") as one,
        in_front_of(cluster, tmp_path / "other") as other,
    ):
        admin.Admin(one.bootstrap).start_group_at_earliest("waiters")
        admin.produce(cluster.bootstrap, "still", [b"1"])
        asyncio.run(scenario())


def test_what_one_broker_is_told_the_others_know(cluster: RunningServer, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Admin(one.bootstrap) as here, Admin(other.bootstrap) as there:
            await here.alter_configs("group", "told", {"share.record.lock.duration.ms": "20000"})
            await here.alter_client_quotas({"user": "told"}, {"consumer_byte_rate": 1000.0})
            await here.alter_configs("broker", "", {"message.max.bytes": "777777"})
            async with asyncio.timeout(60):
                while not await there.describe_client_quotas({"user": "told"}):
                    pass
                group = await there.describe_configs("group", "told")
                while group["share.record.lock.duration.ms"].value != "20000":
                    group = await there.describe_configs("group", "told")
                broker = await there.describe_configs("broker", "")
                while broker["message.max.bytes"].value != "777777":
                    broker = await there.describe_configs("broker", "")
            writer.init_transactions(admin.ADMIN_SECONDS)
            # Clients ask all brokers for what each knows.
            listed = [
                transaction.transactional_id for transaction in await here.list_transactions()
            ]
            assert listed.count("told") == 1

    with (
        in_front_of(cluster, tmp_path / "one") as one,
        in_front_of(cluster, tmp_path / "other") as other,
    ):
        settings = {"bootstrap.servers": one.bootstrap, "transactional.id": "told"}
        writer = Producer({**settings, **admin.SILENT})
        asyncio.run(scenario())


def test_a_broker_is_drained_and_resumed(cluster: RunningServer, tmp_path: Path) -> None:
    admin.Admin(cluster.bootstrap).create_topic("drained", partitions=PARTITIONS)
    at = f"{HOST}:{free_port()}"
    with (
        in_front_of(cluster, tmp_path / "one", "--metrics", at) as one,
        in_front_of(cluster, tmp_path / "other") as other,
    ):
        commands = Commands(other.bootstrap)
        rows = commands.ok("nodes", "list", "--json").json
        assert [row["drained"] for row in rows] == [False, False]
        assert all(row["partitions"] > 0 for row in rows)
        [row] = [row for row in rows if row["address"] == one.bootstrap]
        node = str(row["node"])
        assert samples(at) == {"nodes": 2, "parts": 12, "lease": 1}
        assert "leads no partition" in commands.ok("nodes", "drain", node).stdout
        assert {leader for leader, _ in leaders(one, "drained").values()} != {row["node"]}
        rows = commands.ok("nodes", "list", "--json").json
        assert {row["node"] for row in rows if row["drained"]} == {int(node)}
        assert samples(at) == {"nodes": 2, "parts": 0, "lease": 1}
        one.kill()
        one.start()
        assert samples(at)["parts"] == 0, "it stays so"
        commands.ok("nodes", "resume", node)
        deadline = time.monotonic() + RECEIVE_SECONDS
        while samples(at)["parts"] != 12:
            assert time.monotonic() < deadline
        refused = commands.inside("nodes", "drain", "7")
        assert (refused.status, "there is no node 7" in refused.stderr) == (2, True)


def test_two_brokers_with_one_id_or_one_port_are_refused(
    cluster: RunningServer, tmp_path: Path
) -> None:
    port = free_port()
    settings = ["-o", "node.id=7", "-o", f"upstream.watched.port={port}"]
    with in_front_of(cluster, tmp_path / "one", *settings) as one:
        socket.create_connection((HOST, port), 30).close()
        same = in_front_of(cluster, tmp_path / "same", *settings)
        with pytest.raises(ServerFailed, match="ended with status 2"):
            same.start()
        assert f"cannot listen on {HOST}:{port}, where other brokers see" in same.output()
        assert "set upstream.watched.port to a port that is free, or to 0" in same.output()
        other = in_front_of(cluster, tmp_path / "other", "-o", "node.id=7")
        with pytest.raises(ServerFailed, match="ended with status 2"):
            other.start()
        assert f"the broker at {one.bootstrap} has the same node.id, 7" in other.output()
        one.kill()
        other.start()
        other.stop()


def samples(address: str) -> dict[str, float]:
    """What a broker's metrics say of the fleet."""
    with urlopen(f"http://{address}/metrics", timeout=30) as answer:
        text = answer.read().decode()
    found = re.findall(r"^sharegroup_fleet_(\w+) (\S+)$", text, re.MULTILINE)
    return {name: float(number) for name, number in found}


def test_an_open_admin_client_goes_on_at_the_next_broker(
    cluster: RunningServer, tmp_path: Path
) -> None:
    first, second = (in_front_of(cluster, tmp_path / name) for name in ("first", "second"))
    groups = [f"movers-on-{number}" for number in range(8)]

    async def scenario() -> None:
        async with Admin(f"{first.bootstrap},{second.bootstrap}") as ours:
            await ours.create_topics("moved")
            at = {TopicPartition("moved", 0): 0}
            for group in groups:
                await ours.alter_share_group_offsets(group, at)
            await asyncio.to_thread(first.kill)
            await asyncio.to_thread(second.start)
            # And when some of the groups go from a broker that lives to another one.
            for _ in range(2):
                for group in groups:
                    assert (await ours.list_share_group_offsets(group)).keys() == at.keys()
                    assert group in await ours.describe_share_groups([group])
                if not first.process.running:
                    await asyncio.to_thread(first.start)

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
