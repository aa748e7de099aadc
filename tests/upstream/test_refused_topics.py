"""Where the broker is told to, share groups get no records of topics that can lose them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from confluent_kafka import KafkaError

from sharegroup import ShareConsumer
from sharegroup.model import errors
from tests.servers import admin
from tests.servers.running import RunningServer
from tests.upstream.reading import read
from tests.upstream.refusing import SECONDS, refusal, refusing

pytestmark = pytest.mark.process
ALONE = "it has partitions on one broker alone, and is lost with it: give it more replicas, or set"


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
