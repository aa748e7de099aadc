"""Where the broker is told to, share groups get no records of topics that can lose them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException

from sharegroup import Admin, ShareConsumer
from sharegroup.model import errors
from tests.apache_kafka.three_brokers import ThreeBrokers
from tests.foreign.share_reader import receive_accepting, share_consumer
from tests.servers import admin
from tests.servers.running import RunningServer
from tests.servers.sharegroup_server import SharegroupServer
from tests.upstream.reading import read

pytestmark = pytest.mark.process
SECONDS = 60
ALONE = "it has partitions on one broker alone, and is lost with it: give it more replicas, or set"
UNCLEAN = "unclean.leader.election.enable"


@contextmanager
def refusing(cluster: str, folder: Path) -> Iterator[SharegroupServer]:
    folder.mkdir()
    setting = "upstream.unsafe.topics=refuse"
    with SharegroupServer(folder, setting, arguments=["--upstream", cluster]) as running:
        yield running


def refusal(bootstrap: str, topic: str) -> KafkaError:
    """The error that a member of librdkafka gets."""
    with share_consumer(bootstrap, "readers", topic, explicit=False) as consumer:
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            try:
                assert not list(consumer.poll(0.5))
            except KafkaException as error:
                told: KafkaError = error.args[0]
                return told
    raise AssertionError(f"no error in {SECONDS} s")


def test_share_groups_get_no_records_of_a_topic_on_one_broker(
    cluster: RunningServer, tmp_path: Path
) -> None:
    sentence = f"share groups get no records of risky: {ALONE} upstream.unsafe.topics=warn"

    async def ours(bootstrap: str) -> None:
        async with ShareConsumer(
            "risky", group_id="readers", bootstrap_servers=bootstrap
        ) as consumer:
            with pytest.raises(errors.PolicyViolation) as refused:
                await consumer.poll(SECONDS * 1_000)
            assert str(refused.value) == sentence

    with refusing(cluster.bootstrap, tmp_path / "node") as node:
        nodes = admin.Admin(node.bootstrap)
        nodes.create_topic("risky")
        nodes.start_group_at_earliest("readers")
        admin.produce(node.bootstrap, "risky", [b"1", b"2"])
        read(node.bootstrap, "ordinary", "risky", 2)
        asyncio.run(ours(node.bootstrap))
        told = refusal(node.bootstrap, "risky")
        assert (told.code(), sentence in told.str()) == (KafkaError.POLICY_VIOLATION, True)
        said = node.output()
        assert "WARNING share groups get no records of " in said
        assert f"WARNING the group readers asks for risky-0: {sentence}" in said


@pytest.mark.kafka
def test_a_topic_that_becomes_safe_is_read(tmp_path: Path) -> None:
    folder = tmp_path / "cluster"
    folder.mkdir()

    async def make(cluster: str) -> None:
        async with Admin(cluster) as theirs:
            await theirs.create_topics("unclean", configs={UNCLEAN: "true"})
            await theirs.create_topics("clean", configs={UNCLEAN: "false"})

    async def mend(bootstrap: str) -> None:
        async with Admin(bootstrap) as ours:
            await ours.alter_configs("topic", "unclean", {UNCLEAN: "false"})

    with ThreeBrokers(folder) as cluster:
        asyncio.run(make(cluster.bootstrap))
        with refusing(cluster.bootstrap, tmp_path / "node") as node:
            admin.Admin(node.bootstrap).start_group_at_earliest("readers")
            for topic in ("clean", "unclean"):
                admin.produce(node.bootstrap, topic, [topic.encode()])
            told = refusal(node.bootstrap, "unclean")
            assert f"it has {UNCLEAN}=true, so what is confirmed may be lost" in told.str()
            with share_consumer(node.bootstrap, "readers", "clean", explicit=False) as consumer:
                assert receive_accepting(consumer, 1) == [b"clean"]
            asyncio.run(mend(node.bootstrap))
            node.process.wait_until(
                lambda: "share groups get records of unclean again" in node.output(),
                timeout_s=SECONDS,
            )
            with share_consumer(node.bootstrap, "readers", "unclean", explicit=False) as consumer:
                assert receive_accepting(consumer, 1) == [b"unclean"]
