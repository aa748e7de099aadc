"""Who may have requests passed on: the broker in front of a cluster asks its own ACLs."""

from __future__ import annotations

import asyncio

import pytest

from sharegroup import Admin, Producer
from sharegroup.broker.passing.rights import NEEDS
from sharegroup.broker.passing.ways import WAYS
from sharegroup.model import errors
from tests.servers.sharegroup_server import SharegroupServer

pytestmark = pytest.mark.process


def test_what_belongs_to_the_brokers_is_nobodys(node: SharegroupServer) -> None:
    async def scenario() -> None:
        async with Admin(node.bootstrap) as ours:
            names = {one.transactional_id for one in await ours.list_transactions()}
            assert not {name for name in names if name.startswith("__sharegroup_")}
            with pytest.raises(errors.TopicAuthorizationFailed):
                await ours.delete_topics("__sharegroup_fleet_settings")
        with pytest.raises(errors.TransactionalIdAuthorizationFailed):
            async with Producer(node.bootstrap, transactional_id="__sharegroup_fleet_settings.0"):
                pass

    asyncio.run(scenario())


def test_each_request_that_is_passed_on_says_what_its_client_needs() -> None:
    assert NEEDS.keys() == WAYS.keys()
