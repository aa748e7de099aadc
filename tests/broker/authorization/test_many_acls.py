"""A request that makes, deletes or shows very many ACLs does not stop the others, and is still one
step for everybody who looks."""

from __future__ import annotations

import asyncio
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from sharegroup.broker.authorization.acl_index import AclIndex
from sharegroup.broker.internal_topics import SECURITY
from sharegroup.broker.server import Broker
from sharegroup.wire import apis
from sharegroup.wire.messages.create_acls import AclCreation, CreateAclsRequest
from sharegroup.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from sharegroup.wire.messages.describe_acls import DescribeAclsRequest
from tests.broker.authorization.clients import TWO_LISTENERS
from tests.broker.greedy import Greedy, frame
from tests.broker.running import running
from tests.broker.steps import counted

STORED = (*TWO_LISTENERS, "authorizer.class.name=StandardAuthorizer")
MANY = 400  # so few that the log is not rewritten
CALLS_PER_ACL_MAX = 32
MADE = [AclCreation(2, f"t{number}", 3, "User:a", "10.0.0.1", 3, 3) for number in range(MANY)]
CREATE = frame(apis.CREATE_ACLS, 3, CreateAclsRequest(MADE))
DELETE = frame(
    apis.DELETE_ACLS, 3, DeleteAclsRequest([DeleteAclsFilter(1, None, 1, None, None, 1, 1)])
)
SHOW = frame(apis.DESCRIBE_ACLS, 3, DescribeAclsRequest(1, None, 1, None, None, 1, 1))


@pytest.fixture(autouse=True)
def _turn_after_each_item(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sharegroup.broker.time_slices.SLICE_S", 0)


def with_admin(folder: Path, scenario: Any) -> None:
    async def main() -> None:
        async with asyncio.timeout(60), running(folder, *STORED) as (broker, _):
            _, port = await broker.listen("127.0.0.1", 0, "ADMIN")
            await scenario(broker, port)

    asyncio.run(main())


def test_no_step_of_the_loop_does_all_of_it(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        peer = await Greedy.connect(port, begun=True)
        for request in (CREATE, SHOW, DELETE, CREATE):
            with counted() as steps:
                peer.send(request)
                assert await peer.answer()
            assert steps.count > MANY
            assert steps.largest < MANY * CALLS_PER_ACL_MAX, request[:20]
        peer.close()

    with_admin(tmp_path, scenario)


@pytest.mark.parametrize("request_", [CREATE, DELETE], ids=["made", "deleted"])
def test_all_of_it_takes_effect_in_one_step(request_: bytes, tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        peer, other = [await Greedy.connect(port, begun=True) for _ in range(2)]
        if request_ is DELETE:
            peer.send(CREATE)
            await peer.answer()
        rules, loop = broker.parts.access_rules, asyncio.get_running_loop()
        seen: list[tuple[int, int]] = []

        def look() -> None:
            log = broker.parts.topics.internal_log(SECURITY, 0)
            seen.append((rules.acl_count, log.log_end_offset))
            again[0] = loop.call_soon(look)

        if request_ is CREATE:
            await broker.parts.security.change(lambda _: (None, ()))  # makes the topic
        again = [loop.call_soon(look)]
        peer.send(request_)
        answering = asyncio.ensure_future(peer.answer())
        answered = 0
        while not answering.done():
            other.send(frame(apis.API_VERSIONS, 0, apis.API_VERSIONS.request()))
            await other.answer()
            answered += 1
        again[0].cancel()
        assert answered > 10, "others are served meanwhile"
        before, after = (0, MANY) if request_ is CREATE else (MANY, 0)
        assert [count for count, _ in groupby(count for count, _ in seen)] == [before, after]
        assert [each for each, _ in groupby(end for _, end in seen)] == [
            before,
            before + MANY,
        ], "one batch of the log"
        peer.close()
        other.close()

    with_admin(tmp_path, scenario)


def test_two_that_make_the_same_at_once_make_each_once(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        peers = [await Greedy.connect(port, begun=True) for _ in range(3)]
        for peer in peers:
            peer.send(CREATE)
        for peer in peers:
            await peer.answer()
            peer.close()
        machine = broker.parts.security.state
        assert len(machine.acls) == len(machine.acl_ids) == MANY

    with_admin(tmp_path, scenario)


def test_a_start_puts_each_acl_into_the_index_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def first(broker: Broker, port: int) -> None:
        peer = await Greedy.connect(port, begun=True)
        peer.send(CREATE)
        await peer.answer()
        peer.close()

    with_admin(tmp_path, first)
    added = []
    add = AclIndex.add

    def counting(index: AclIndex, acl: Any) -> None:
        added.append(acl)
        add(index, acl)

    async def again(broker: Broker, port: int) -> None:
        assert len(added) == MANY
        assert broker.parts.access_rules.acl_count == MANY

    monkeypatch.setattr(AclIndex, "add", counting)
    with_admin(tmp_path, again)
