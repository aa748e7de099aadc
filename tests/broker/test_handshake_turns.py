"""TLS handshakes begin in turn: so many in a second, and address by address."""

from __future__ import annotations

import asyncio

from sharegroup.broker.network.tls.handshake_turns import HandshakeTurns
from sharegroup.model.limits import HANDSHAKES_AT_ONCE_MAX
from tests.broker.share_wire import until


class Handshake:
    """Writes down that it has begun."""

    def __init__(self, name: str, begun: list[str], *, ended: bool = False) -> None:
        self._name = name
        self._begun = begun
        self._ended = ended

    def begin(self) -> bool:
        if not self._ended:
            self._begun.append(self._name)
        return not self._ended


def test_a_few_begin_at_once_and_addresses_take_turns() -> None:
    async def scenario() -> None:
        turns, begun = HandshakeTurns(), list[str]()
        for _ in range(HANDSHAKES_AT_ONCE_MAX + 50):
            turns.enter(Handshake("flood", begun), "flood")
        assert begun == ["flood"] * HANDSHAKES_AT_ONCE_MAX
        turns.enter(Handshake("other", begun), "other")
        await until(lambda: "other" in begun)
        assert len(begun) <= HANDSHAKES_AT_ONCE_MAX + 10, "it does not wait behind the flood"
        await until(lambda: len(begun) == HANDSHAKES_AT_ONCE_MAX + 51)

    asyncio.run(scenario())


def test_what_has_ended_meanwhile_costs_nothing() -> None:
    async def scenario() -> None:
        turns, begun = HandshakeTurns(), list[str]()
        for _ in range(3 * HANDSHAKES_AT_ONCE_MAX):
            turns.enter(Handshake("ended", begun, ended=True), "a")
        for _ in range(HANDSHAKES_AT_ONCE_MAX):
            turns.enter(Handshake("begun", begun), "a")
        assert begun == ["begun"] * HANDSHAKES_AT_ONCE_MAX
        waiting, left = Handshake("waiting", begun), Handshake("left", begun)
        turns.enter(left, "a")
        turns.enter(waiting, "a")
        turns.leave(left, "a")
        turns.leave(left, "b")
        await until(lambda: "waiting" in begun)
        assert "left" not in begun
        turns.enter(waiting, "a")
        turns.close()

    asyncio.run(scenario())
