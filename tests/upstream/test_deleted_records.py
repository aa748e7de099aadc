"""Records that the cluster deletes: its retention, or somebody's DeleteRecords."""

from __future__ import annotations

import asyncio

import pytest
from confluent_kafka import ShareConsumer

from sharegroup import Admin
from sharegroup.client import OffsetSpec
from sharegroup.model.ids import TopicPartition
from tests.foreign.share_reader import receive_accepting, share_consumer
from tests.servers import admin
from tests.servers.running import RunningServer
from tests.servers.sharegroup_server import SharegroupServer

pytestmark = pytest.mark.process


def delete_before(bootstrap: str, topic: str, offset: int) -> None:
    async def scenario() -> None:
        async with Admin(bootstrap) as theirs:
            await theirs.delete_records({TopicPartition(topic, 0): offset})

    asyncio.run(scenario())


def received_to(consumer: ShareConsumer, last: bytes) -> list[bytes | None]:
    """Records up to this one. The broker may have read the ones before it within the second before
    they were deleted."""
    values: list[bytes | None] = []
    while last not in values:
        values += receive_accepting(consumer, 1)
    return values


def test_a_group_goes_on_behind_deleted_records(
    cluster: RunningServer, node: SharegroupServer
) -> None:
    admin.Admin(cluster.bootstrap).create_topic("deleted")
    admin.Admin(node.bootstrap).start_group_at_earliest("deleters")
    admin.produce(cluster.bootstrap, "deleted", [b"%d" % n for n in range(10)])
    with share_consumer(node.bootstrap, "deleters", "deleted", explicit=False) as consumer:
        assert len(receive_accepting(consumer, 10)) == 10
    admin.produce(cluster.bootstrap, "deleted", [b"%d" % n for n in range(10, 30)])
    delete_before(cluster.bootstrap, "deleted", 20)
    with share_consumer(node.bootstrap, "deleters", "deleted", explicit=False) as consumer:
        values = received_to(consumer, b"29")
        assert set(values) >= {b"%d" % n for n in range(20, 30)}
    admin.produce(cluster.bootstrap, "deleted", [b"30"])
    delete_before(cluster.bootstrap, "deleted", 31)
    admin.produce(cluster.bootstrap, "deleted", [b"31"])
    with share_consumer(node.bootstrap, "deleters", "deleted", explicit=False) as consumer:
        assert set(received_to(consumer, b"31")) <= {b"30", b"31"}


def test_records_that_are_deleted_through_the_broker_are_gone_in_the_cluster(
    cluster: RunningServer, node: SharegroupServer
) -> None:
    admin.Admin(node.bootstrap).create_topic("trimmed")
    admin.produce(node.bootstrap, "trimmed", [b"%d" % n for n in range(10)])
    delete_before(node.bootstrap, "trimmed", 7)

    async def scenario() -> None:
        for bootstrap in (node.bootstrap, cluster.bootstrap):
            async with Admin(bootstrap) as one:
                where = TopicPartition("trimmed", 0)
                assert (await one.list_offsets([where], OffsetSpec.EARLIEST))[where].offset == 7

    asyncio.run(scenario())
