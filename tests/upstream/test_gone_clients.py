"""Clients that go away while their requests are passed on."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from sharegroup.broker.authorization.access import Access
from sharegroup.broker.passing.passing import Asked, Passing
from sharegroup.broker.request_context import RequestContext
from sharegroup.client.network.cluster import Cluster
from sharegroup.model import errors
from sharegroup.wire import apis
from sharegroup.wire.apis import Api
from sharegroup.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from sharegroup.wire.messages.join_group import JoinGroupRequest
from sharegroup.wire.schema import Message
from tests.client.scripted_server import ScriptedServer

pytestmark = pytest.mark.process
REQUEST = EndTxnRequest("t", 1, 0, True)
CLIENT = object()
"""Stands for the connection of the client."""


class Gate:
    """Passes a request on when it is opened."""

    def __init__(self) -> None:
        self.reached, self.opened = asyncio.Event(), asyncio.Event()

    async def way(self, passing: Passing, api: Api, request: Any, asked: Asked) -> Any:
        self.reached.set()
        await self.opened.wait()
        return await passing.to_node(1, api, request, asked)


async def seen(_created: object) -> None: ...


async def here(_request: object) -> None: ...


async def done(_request: Message, _version: int) -> Message:
    return EndTxnResponse()


def answer(passing: Passing) -> asyncio.Task[Any]:
    context = RequestContext(1, "", "", CLIENT, Access(), ("", 0))
    return asyncio.create_task(passing.answer(apis.END_TXN, REQUEST, context, here))


def test_no_connection_stays_that_was_opened_for_a_client_that_is_gone() -> None:
    async def scenario() -> None:
        server, gate = ScriptedServer(), Gate()
        server.handle(apis.END_TXN, done, (0, 3))
        async with server, Cluster(server.address) as cluster:
            passing = Passing(cluster, {apis.END_TXN.key: gate.way}, seen)
            before = {*server._serving}
            answering = answer(passing)
            await gate.reached.wait()
            passing.disconnected(CLIENT)
            gate.opened.set()
            await answering
            [opened] = server._serving - before
            await asyncio.wait_for(asyncio.shield(opened), 60)

    asyncio.run(scenario())


def test_a_request_goes_on_whose_client_has_left() -> None:
    """As one of a producer with acks=0, which waits for no answer."""

    async def scenario() -> None:
        server, gate, came = ScriptedServer(), Gate(), asyncio.Event()

        async def taken(_request: Message, _version: int) -> Message:
            came.set()
            return EndTxnResponse()

        server.handle(apis.END_TXN, taken, (0, 3))
        gate.opened.set()
        async with server, Cluster(server.address) as cluster:
            passing = Passing(cluster, {apis.END_TXN.key: gate.way}, seen)
            answering = answer(passing)
            await gate.reached.wait()
            passing.disconnected(CLIENT)  # while the connection to the cluster is opened
            assert await answering == EndTxnResponse()
            assert came.is_set()

    asyncio.run(scenario())


def test_who_goes_while_it_waits_for_others_is_no_failure_of_the_broker() -> None:
    async def scenario() -> None:
        server, gate = ScriptedServer(), Gate()
        gate.opened.set()
        async with server, Cluster(server.address) as cluster:
            passing = Passing(cluster, {apis.JOIN_GROUP.key: gate.way}, seen)
            context = RequestContext(1, "", "", CLIENT, Access(), ("", 0))
            joining = asyncio.create_task(
                passing.answer(apis.JOIN_GROUP, JoinGroupRequest("g", 10_000), context, here)
            )
            await gate.reached.wait()
            passing.disconnected(CLIENT)
            with pytest.raises(errors.NetworkException):
                await joining

    asyncio.run(scenario())
