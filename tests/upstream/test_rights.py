"""Who may have requests passed on: the broker in front of a cluster asks its own ACLs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from sharegroup import Admin, Producer
from sharegroup.broker.passing.rights import NEEDS
from sharegroup.broker.passing.ways import WAYS
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


def test_what_belongs_to_the_brokers_is_nobodys(node: SharegroupServer) -> None:
    async def scenario() -> None:
        async with Admin(node.bootstrap) as ours:
            names = {one.transactional_id for one in await ours.list_transactions()}
            assert not {name for name in names if name.startswith("__sharegroup_")}
            with pytest.raises(errors.TopicAuthorizationFailed):
                await ours.delete_topics("__sharegroup_fleet_configs")
        with pytest.raises(errors.TransactionalIdAuthorizationFailed):
            async with Producer(node.bootstrap, transactional_id="__sharegroup_fleet_configs.0"):
                pass

    asyncio.run(scenario())


def test_each_request_that_is_passed_on_says_what_its_client_needs() -> None:
    assert NEEDS.keys() == WAYS.keys()
