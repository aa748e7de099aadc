"""Order per key on virtual time: a lock that expires, and a crash."""

from __future__ import annotations

import asyncio

from sharegroup.sim import MemoryDisk
from tests.broker.by_hand import GROUP, Member, topic_with_records
from tests.share.keyed import key_order
from tests.sim.test_broker_in_virtual_time import simulate, start

ACCEPT = 1
SETTINGS = {"share.auto.offset.reset": "earliest", "share.ordering": "key"}


def test_a_lock_that_expires_takes_back_all_of_its_key() -> None:
    async def scenario(disk: MemoryDisk) -> None:
        broker, port = await start(disk)
        topic_id = await topic_with_records(broker, port, 10)
        broker.parts.configs.set_group(GROUP, SETTINGS, validate_only=False)
        first, second = await Member.join(port, "first"), await Member.join(port, "second")
        assert await first.fetch(topic_id) == [(0, 9, 1)]
        assert await first.acknowledge(topic_id, 0, 4, kind=ACCEPT) == 0
        assert await second.fetch(topic_id) == []
        loop = asyncio.get_running_loop()
        before_s = loop.time()
        assert await second.fetch(topic_id, wait_ms=60_000) == [(5, 5, 2)]
        assert 29.9 <= loop.time() - before_s <= 30.2
        assert await first.acknowledge(topic_id, 6, 6, kind=ACCEPT) == 121, "a late answer"
        assert await second.acknowledge(topic_id, 5, 5, kind=ACCEPT) == 0
        assert await second.fetch(topic_id) == [(6, 9, 1)], "what failed is through"
        assert await second.acknowledge(topic_id, 6, 9, kind=ACCEPT) == 0
        (led,) = broker.parts.share_partitions.all()
        led.core.check_invariants()
        assert (led.core.start_offset, key_order(led.core).disorder.taken_back) == (10, 4)
        await broker.close()

    simulate(scenario)


def test_a_lock_that_expires_at_the_limit_blocks_its_key() -> None:
    """And it is blocked after a power failure too."""

    async def scenario(disk: MemoryDisk) -> None:
        broker, port = await start(disk)
        topic_id = await topic_with_records(broker, port, 3)
        blocking = {"share.ordering.on.failure": "block", "share.delivery.count.limit": "2"}
        broker.parts.configs.set_group(GROUP, SETTINGS | blocking, validate_only=False)
        first, second = await Member.join(port, "first"), await Member.join(port, "second")
        assert await first.fetch(topic_id) == [(0, 2, 1)]
        assert await second.fetch(topic_id, wait_ms=60_000) == [(0, 0, 2)]
        assert await first.fetch(topic_id, wait_ms=60_000) == [], "the lock has expired again"
        assert await first.fetch(topic_id, wait_ms=60_000) == []
        (led,) = broker.parts.share_partitions.all()
        led.core.check_invariants()
        assert (led.core.start_offset, led.core.order.blocked_keys) == (0, 1)
        disk.crash()

        again, port = await start(disk)
        member = await Member.join(port, "third")
        assert await member.fetch(topic_id) == []
        (led,) = again.parts.share_partitions.all()
        assert led.core.order.blocked_keys == 1
        assert key_order(led.core).is_blocked(
            0, again.parts.share_partitions.delivery_settings(GROUP)
        )
        led.core.check_invariants()
        await again.close()
        await broker.close()

    simulate(scenario)


def test_a_power_failure_leaves_the_order() -> None:
    async def scenario(disk: MemoryDisk) -> None:
        broker, port = await start(disk)
        topic_id = await topic_with_records(broker, port, 10)
        broker.parts.configs.set_group(GROUP, SETTINGS, validate_only=False)
        member = await Member.join(port, "first")
        assert await member.fetch(topic_id) == [(0, 9, 1)]
        assert await member.acknowledge(topic_id, 3, 4, kind=ACCEPT) == 121, "out of order"
        assert await member.acknowledge(topic_id, 0, 1, kind=ACCEPT) == 0
        disk.crash()

        again, port = await start(disk)
        member, other = await Member.join(port, "second"), await Member.join(port, "third")
        assert await member.fetch(topic_id) == [(2, 9, 1)]
        assert await other.fetch(topic_id) == []
        await again.close()
        await broker.close()

    simulate(scenario)
