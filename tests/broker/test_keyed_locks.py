from __future__ import annotations

import asyncio

import pytest

from sharegroup.broker.coordination.keyed_locks import KeyedLocks


def test_each_key_has_one_holder_at_a_time_in_order() -> None:
    async def main() -> None:
        locks = KeyedLocks()
        seen: list[str] = []

        async def work(key: str, name: str) -> None:
            async with locks.holding(key):
                seen.append(f"{name} in")
                await asyncio.sleep(0)
                seen.append(f"{name} out")

        async with asyncio.TaskGroup() as tasks:
            for key, name in (("a", "1"), ("a", "2"), ("b", "3")):
                tasks.create_task(work(key, name))
        assert seen.index("1 out") < seen.index("2 in")
        assert seen.index("3 in") < seen.index("1 out")
        assert len(locks) == 0

    asyncio.run(main())


def test_a_failed_or_cancelled_holder_releases_the_lock() -> None:
    async def main() -> None:
        locks = KeyedLocks()
        with pytest.raises(ValueError, match="no"):
            async with locks.holding("a"):
                raise ValueError("no")
        async with locks.holding("a"):
            waiting = asyncio.create_task(take(locks))
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            assert len(locks) == 1
        assert len(locks) == 0

    async def take(locks: KeyedLocks) -> None:
        async with locks.holding("a"):
            raise AssertionError("it was held")

    asyncio.run(main())
