"""Nodes see that the process of another one is gone."""

from __future__ import annotations

import asyncio

import pytest

from sharegroup.upstream import peer_watch
from sharegroup.upstream.nodes_group import FleetMap, NodeFacts
from sharegroup.upstream.peer_watch import PeerWatch, WatchedPort
from tests.client.working import run, until

HOST = "127.0.0.1"


def test_a_node_that_is_gone_is_told_until_a_map_is_without_it() -> None:
    """The coordinator that was told first may have moved before it wrote that down."""

    async def scenario() -> None:
        watched, told = WatchedPort(), asyncio.Queue[NodeFacts]()
        port = await watched.open(HOST, 0)
        node = NodeFacts(2, "i2", {"PLAINTEXT": (HOST, 1)}, port)
        watch = PeerWatch(1, told.put)
        watch.told(FleetMap(1, {2: node}, {}))
        await until(lambda: bool(watched._watchers))
        await watched.close()
        assert [await told.get(), await told.get()] == [node, node]
        [task] = watch._tasks.values()
        watch.told(FleetMap(2, {}, {}))
        await asyncio.wait([task])
        assert task.cancelled()

    run(scenario)


def test_a_proxy_that_takes_connections_and_ends_them_is_not_asked_again_and_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(peer_watch, "PAUSE_S", 1_000.0)
    taken: asyncio.Queue[None]

    async def end(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        taken.put_nowait(None)
        writer.close()

    async def never(_node: NodeFacts) -> None:
        raise AssertionError("it has not refused")

    async def scenario() -> None:
        nonlocal taken
        taken = asyncio.Queue()
        async with await asyncio.start_server(end, HOST, 0) as proxy:
            port = proxy.sockets[0].getsockname()[1]
            watch = PeerWatch(1, never)
            watch.told(FleetMap(1, {2: NodeFacts(2, "i2", {"PLAINTEXT": (HOST, 1)}, port)}, {}))
            await taken.get()
            for _ in range(20):  # time for many more
                reader, writer = await asyncio.open_connection(HOST, port)
                assert await reader.read() == b""
                writer.close()
                await taken.get()
            assert taken.empty()
            await watch.close()

    run(scenario)
