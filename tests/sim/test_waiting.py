"""How a poll of our share consumer waits when there is nothing, in virtual time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from sharegroup.client import ShareConsumer
from sharegroup.client.share.share_member import ShareMember
from sharegroup.sim import MemoryDisk
from tests.sim.test_broker_in_virtual_time import simulate, start


@pytest.mark.parametrize("timeout_ms", [1_001, 10.5])
def test_the_last_part_of_a_millisecond_is_not_spent_asking(
    timeout_ms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fetch waits for whole milliseconds, and 1.001 s are 1,000 of them when cut off."""
    fetch, asked = ShareMember.fetch, 0

    async def counted(member: ShareMember, **limits: Any) -> Any:
        nonlocal asked
        asked += 1
        assert asked < 10, "it asks again and again"
        return await fetch(member, **limits)

    monkeypatch.setattr(ShareMember, "fetch", counted)

    async def scenario(disk: MemoryDisk) -> None:
        broker, port = await start(disk)
        async with ShareConsumer(
            "nothing", group_id="g", bootstrap_servers=f"127.0.0.1:{port}"
        ) as consumer:
            now_s = asyncio.get_running_loop().time
            began_s = now_s()
            assert not await consumer.poll(timeout_ms)
            assert timeout_ms - 1.01 <= (now_s() - began_s) * 1_000 <= timeout_ms + 20
        await broker.close()

    simulate(scenario)
