"""What peers can make the broker say: one line each, no forged ones, and not as often as they
like."""

from __future__ import annotations

import asyncio
import logging
import struct
from pathlib import Path

import pytest

from sharegroup.broker.event_counters import SAY_EVERY_MS, Counters, NowAndThen
from sharegroup.broker.server import Broker
from sharegroup.share.session import ShareSessions
from sharegroup.sim import MemoryDisk
from sharegroup.wire import apis
from sharegroup.wire.messages.share_fetch import ShareFetchRequest
from tests.broker.greedy import Greedy, frame
from tests.broker.running import run
from tests.sim.test_broker_in_virtual_time import simulate, start

FORGED = "x\n2026-01-01 00:00:00,000 INFO \x1b[2Jall is well\u202e"


def test_lines_of_one_kind_are_rate_limited() -> None:
    now = [5]
    said = NowAndThen(lambda: now[0])
    assert said.due("a") == ""
    assert [said.due("a"), said.due("a"), said.due("b")] == [None, None, ""]
    now[0] += SAY_EVERY_MS - 1
    assert said.due("a") is None
    now[0] += 1
    assert said.due("a") == " (3 more like this were not shown)"
    now[0] += SAY_EVERY_MS
    assert said.due("a") == ""


def test_malformed_requests_are_counted_and_logged_at_a_limited_rate(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        for _ in range(100):
            peer = await Greedy.connect(port)
            peer.send(struct.pack(">i", -5))
            assert await peer.closed()
            peer.close()
        assert broker.parts.counters.statistics()["malformed_requests", ""] == 100

    with caplog.at_level(logging.INFO, "sharegroup.broker"):
        run(tmp_path, scenario)
    assert 1 <= sum("closing the connection" in line for line in caplog.messages) <= 3


def test_a_handler_that_fails_again_and_again_writes_one_traceback(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        monkeypatch.delattr(ShareSessions, "update")  # as a mistake of ours would
        peer = await Greedy.connect(port)
        for _ in range(50):
            peer.send(frame(apis.SHARE_FETCH, 1, ShareFetchRequest("g", "m", 1)))
            await peer.answer()
        assert broker.parts.counters.statistics()["handler_failures", "ShareFetch"] == 50
        peer.close()
        monkeypatch.undo()

    with caplog.at_level(logging.INFO, "sharegroup.broker"):
        run(tmp_path, scenario)
    assert 1 <= sum(line.startswith("ShareFetch failed") for line in caplog.messages) <= 3


def test_closed_idle_connections_are_logged_together(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(disk: MemoryDisk) -> None:
        broker, port = await start(disk, "connections.max.idle.ms=20000")
        for _ in range(50):
            await asyncio.get_running_loop().create_connection(asyncio.Protocol, "h", port)
        await asyncio.sleep(30)
        assert broker.parts.counters.statistics()["connections_idle_closed", ""] == 50
        await broker.close()

    with caplog.at_level(logging.INFO, "sharegroup.broker"):
        simulate(scenario)
    assert sum("idle connection" in line for line in caplog.messages) == 1


def test_names_from_peers_cannot_forge_log_lines(caplog: pytest.LogCaptureFixture) -> None:
    counters = Counters(lambda: 0)
    with caplog.at_level(logging.INFO, "sharegroup.broker"):
        counters.trouble("request_errors", "ShareFetch", FORGED)
        counters.say(logging.WARNING, "malformed_requests", FORGED)
        logging.getLogger("sharegroup.authorizer").warning("denied %s", FORGED)
    assert len(caplog.messages) == 3
    assert all(line.isprintable() for line in caplog.messages)
