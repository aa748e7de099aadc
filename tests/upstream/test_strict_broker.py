"""A broker in front of a cluster asks its own ACLs before it passes a request on. It has a file of
its own: the broker of the other tests serves the cluster, and this one would stand by."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from kafka.admin import KafkaAdminClient
from kafka.errors import ClusterAuthorizationFailedError
from kafka.structs import TopicPartition

from sharegroup import Admin, Producer
from sharegroup.model import errors
from tests.servers import admin
from tests.servers.running import RunningServer
from tests.servers.sharegroup_server import SharegroupServer
from tests.upstream.reading import read

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def strict(cluster: RunningServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker at which nobody has a right but User:admin."""
    options = "authorizer.class.name=StandardAuthorizer", "super.users=User:admin"
    with SharegroupServer(
        tmp_path_factory.mktemp("strict"), *options, arguments=["--upstream", cluster.bootstrap]
    ) as running:
        yield running.bootstrap


def test_who_may_move_replicas_is_asked_here(strict: str) -> None:
    client = KafkaAdminClient(bootstrap_servers=strict)
    where = TopicPartition("guarded", 0)
    for attempt in (
        lambda: client.elect_leaders(0, {where.topic: [where.partition]}),
        lambda: client.alter_partition_reassignments({where: [1]}),
        client.list_partition_reassignments,
    ):
        with pytest.raises(ClusterAuthorizationFailedError):
            attempt()
    client.close()


def test_what_a_client_may_not_do_is_not_passed_on(cluster: RunningServer, strict: str) -> None:
    admin.Admin(cluster.bootstrap).create_topic("guarded")
    admin.produce(cluster.bootstrap, "guarded", [b"1"])
    read(cluster.bootstrap, "guarded-readers", "guarded", 1)

    async def scenario() -> None:
        async with Admin(strict) as ours:
            assert await ours.list_groups() == []
            with pytest.raises(errors.GroupAuthorizationFailed):
                await ours.delete_groups("guarded-readers")
            with pytest.raises(errors.GroupAuthorizationFailed):
                await ours.list_consumer_group_offsets("guarded-readers")
            for attempt in (
                ours.create_topics("guarded-too"),
                ours.delete_topics("guarded"),
                ours.describe_configs("topic", "guarded"),
                ours.alter_configs("topic", "guarded", {"retention.ms": "1"}),
            ):
                with pytest.raises(errors.TopicAuthorizationFailed):
                    await attempt
        async with Producer(strict) as producer:
            with pytest.raises(errors.KafkaError):
                await producer.send("guarded", b"2", partition=0)
        async with Admin(cluster.bootstrap) as theirs:
            assert {one.name for one in await theirs.list_topics()} >= {"guarded"}
            assert "guarded-readers" in {one.group_id for one in await theirs.list_groups()}

    asyncio.run(scenario())
