"""A broker gives memory back after masses have left."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from sharegroup.app.idle_memory import BUSY_REQUESTS, LOOKS, WORTH_BYTES, IdleMemory
from tests.broker.by_hand import connect
from tests.broker.classic_wire import ClassicMember
from tests.servers.sharegroup_server import SharegroupServer

MEMBERS = 500
METADATA = bytes(200_000)  # small enough to lie between others in glibc's heap
BACK_S = 60
"""It takes some seconds; this is when the test gives up."""


@pytest.mark.process
def test_the_memory_of_members_goes_back_when_they_have_left(tmp_path: Path) -> None:
    async def come_and_go(port: int) -> None:
        members = [ClassicMember(await connect(port)) for _ in range(MEMBERS)]
        try:
            await asyncio.gather(*(come(each, members) for each in members))
            assert set(await asyncio.gather(*(each.leave() for each in members))) == {0}
        finally:
            for each in members:
                each.disconnect()

    delay = "group.initial.rebalance.delay.ms=200"
    looks = ("--log-level", "debug")  # a failure shows what each look found
    with SharegroupServer(tmp_path, delay, arguments=looks) as server:
        alone = status_kib(server, "VmRSS")
        asyncio.run(come_and_go(server.port))
        with_members = status_kib(server, "VmHWM")
        theirs = MEMBERS * len(METADATA) // 1024
        assert with_members > theirs
        # Some memory goes back by itself as the members leave. Of the rest, so much is kept.
        kept = max(alone + WORTH_BYTES * 5 // 4096, with_members - theirs * 3 // 4)
        server.process.wait_until(lambda: status_kib(server, "VmRSS") < kept, timeout_s=BACK_S)


async def come(member: ClassicMember, members: list[ClassicMember]) -> None:
    """Join, and join again with each round, until a round has all ``members``."""
    member.metadata, member.session_ms = METADATA, 60_000
    await member.join()
    while not any(each.joined and len(each.joined.members) == len(members) for each in members):
        await asyncio.sleep(0.05)  # a client's pause between two heartbeats
        if await member.heartbeat():
            await member.join()


def status_kib(server: SharegroupServer, field: str) -> int:
    """A field of the process's status."""
    pid = server.process.pid
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith(f"{field}:"))
    return int(line.split()[1])


def test_it_goes_back_when_much_has_been_free_for_several_looks() -> None:
    memory = IdleMemory(10)
    assert not memory.may_be_much(10 + WORTH_BYTES - 1)
    assert memory.may_be_much(10 + WORTH_BYTES)
    looks = [memory.is_idle(WORTH_BYTES, 0) for _ in range(LOOKS)]
    assert looks == [False] * (LOOKS - 1) + [True]
    memory.given_back(10, WORTH_BYTES)
    assert not memory.may_be_much(10)
    assert not any(memory.is_idle(WORTH_BYTES, 0) for _ in range(2 * LOOKS)), "not resident"


def test_a_busy_broker_keeps_its_memory() -> None:
    memory = IdleMemory(0)
    assert not any(memory.is_idle(WORTH_BYTES, BUSY_REQUESTS + 1) for _ in range(2 * LOOKS))
    for _ in range(2 * LOOKS):
        assert not memory.is_idle(WORTH_BYTES, 0)
        assert not memory.is_idle(0, 0), "it was used in between"
    assert not memory.is_idle(WORTH_BYTES - 1, 0)
