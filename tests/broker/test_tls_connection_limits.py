"""TLS handshakes in progress count as connections, in ``max.connections`` and in
``max.connections.per.ip``: each limit at its edge, with sockets."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sharegroup.client.network.connection import Connection
from sharegroup.wire import apis
from sharegroup.wire.messages.metadata import MetadataRequest
from tests.broker.by_hand import TIMEOUT_MS, connect
from tests.broker.share_wire import until
from tests.broker.test_connections import is_refused
from tests.broker.test_tls_connections import Hand, Listener, listening, on_both_loops, question

ELSEWHERE = "127.0.0.2"
MOST = 4
IN_ALL = ("max.connections", [f"max.connections={MOST}"])
BY_ADDRESS = ("max.connections.per.ip", [f"max.connections.per.ip={MOST}"])
BY_OVERRIDE = (
    "max.connections.per.ip",
    ["max.connections.per.ip=1", f"max.connections.per.ip.overrides=127.0.0.1:{MOST}"],
)
limits = pytest.mark.parametrize(
    ("limit", "settings"), [IN_ALL, BY_ADDRESS, BY_OVERRIDE], ids=["in all", "address", "override"]
)


class Crowd:
    """Connections to both listeners, as many as there may be: the last are in their handshakes."""

    def __init__(self, listener: Listener) -> None:
        self.listener = listener
        self.plain: list[Connection] = []
        self.silent: list[Hand] = []

    async def fill(self, handshakes: int) -> None:
        """So many of them are handshakes that do not begin."""
        for _ in range(MOST - handshakes):
            self.plain.append(await connect(self.listener.plain_port))
        for _ in range(handshakes):
            await self.admitted()

    async def admitted(self) -> None:
        """One more handshake; it takes a place."""
        waiting = self.listener.broker.connections.waiting_room
        before = waiting.handshakes
        self.silent.append(await self.listener.hand())
        await until(lambda: waiting.handshakes == before + 1)

    async def left(self) -> None:
        """The newest handshake ends by the client's leaving."""
        waiting = self.listener.broker.connections.waiting_room
        before = waiting.handshakes
        leaving = self.silent.pop()
        leaving.writer.transport.abort()
        await until(lambda: waiting.handshakes == before - 1)

    async def is_full(self) -> None:
        """There is no place on either listener, and those that have one are not disturbed."""
        listener = self.listener
        waiting = len(self.silent)
        assert await is_closed(await listener.hand())
        assert await is_refused(listener.plain_port)
        for connection in self.plain:
            await connection.send(apis.METADATA, MetadataRequest([]), timeout_ms=TIMEOUT_MS)
        assert listener.broker.connections.waiting_room.handshakes == waiting

    def close(self) -> None:
        for connection in self.plain:
            connection.close()
        for hand in self.silent:
            hand.writer.transport.abort()


async def is_closed(hand: Hand) -> bool:
    """Whether the broker closes it, and says nothing."""
    try:
        return not await hand.reader.read(1)
    except ConnectionError:
        return True
    finally:
        hand.writer.close()


async def served(hand: Hand) -> None:
    """Finish its handshake, and ask."""
    hand.writer.write(hand.hello())
    hand.writer.write(await hand.finish())
    hand.tls.write(question(1))
    hand.writer.write(hand.outgoing.read())
    assert await hand.answers(1) == [1]


def refused(listener: Listener, limit: str) -> int:
    return listener.broker.parts.counters.statistics().get(("connections_refused", limit), 0)


@on_both_loops
@limits
@pytest.mark.parametrize("handshakes", [1, 3, MOST])
def test_a_handshake_takes_a_place_and_gives_it_back(
    tmp_path: Path, loop: Callable[[], Any], limit: str, settings: list[str], handshakes: int
) -> None:
    async def scenario(listener: Listener) -> None:
        crowd = Crowd(listener)
        await crowd.fill(handshakes)
        for turn in range(1, 4):
            await crowd.is_full()
            assert refused(listener, limit) == 2 * turn
            await crowd.left()
            await crowd.admitted()
        crowd.close()

    listening(tmp_path, loop, scenario, *settings)


@on_both_loops
@limits
def test_the_last_place_is_enough_for_a_handshake_and_its_connection(
    tmp_path: Path, loop: Callable[[], Any], limit: str, settings: list[str]
) -> None:
    """It is not counted twice where the one becomes the other."""

    async def scenario(listener: Listener) -> None:
        crowd = Crowd(listener)
        await crowd.fill(2)
        for hand in crowd.silent:
            await served(hand)
        crowd.silent, finished = [], crowd.silent
        await crowd.is_full()
        connections = listener.broker.connections
        for hand in finished:
            hand.writer.close()
        await until(lambda: len(connections) == MOST - len(finished))
        for _ in finished:
            await crowd.admitted()
        await crowd.is_full()
        crowd.close()

    listening(tmp_path, loop, scenario, *settings)


@on_both_loops
@limits
def test_a_handshake_that_fails_gives_its_place_back(
    tmp_path: Path, loop: Callable[[], Any], limit: str, settings: list[str]
) -> None:
    async def scenario(listener: Listener) -> None:
        crowd = Crowd(listener)
        await crowd.fill(1)
        for garbage in (b"GET / HTTP/1.1\r\n\r\n", question(1), bytes(100)):
            await crowd.is_full()
            broken = crowd.silent.pop()
            broken.writer.write(garbage)
            await broken.reader.read()  # to the end, with OpenSSL's alert for some
            broken.writer.close()
            await crowd.admitted()
        crowd.close()

    listening(tmp_path, loop, scenario, *settings)


@on_both_loops
def test_another_address_has_places_of_its_own(tmp_path: Path, loop: Callable[[], Any]) -> None:
    async def scenario(listener: Listener) -> None:
        crowd = Crowd(listener)
        await crowd.fill(2)
        other = await listener.hand(ELSEWHERE)
        await served(other)
        await crowd.is_full()
        other.writer.close()
        crowd.close()

    listening(tmp_path, loop, scenario, *BY_ADDRESS[1])


@on_both_loops
def test_no_place_for_anybody(tmp_path: Path, loop: Callable[[], Any]) -> None:
    """``max.connections.per.ip=0`` closes a listener to all but those with an override."""

    async def scenario(listener: Listener) -> None:
        assert await is_closed(await listener.hand(ELSEWHERE))
        hand = await listener.hand()
        await served(hand)
        hand.writer.close()

    settings = ["max.connections.per.ip=0", "max.connections.per.ip.overrides=127.0.0.1:1"]
    listening(tmp_path, loop, scenario, *settings)
