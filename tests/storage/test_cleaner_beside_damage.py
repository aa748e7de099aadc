"""The log cleaner beside damage: what it must not make of the segments around."""

from __future__ import annotations

from pathlib import Path

from sharegroup.storage import LocalPartitionLog
from sharegroup.wire.batch import batch_bounds
from tests.storage.cleaning import COMPACTED, keyed
from tests.storage.support import NOW_MS, append_durably, one_log, opened, run
from tests.storage.test_cleaner import FILLER, clean, fill, roll


def test_segments_on_both_sides_of_damage_do_not_become_one(tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(tmp_path, COMPACTED) as folder:
            log = await one_log(folder)
            await append_durably(log, keyed([(b"first", FILLER)]))
            await fill(log, 20)
            await roll(log)
        paths = sorted((tmp_path / "t-0").glob("*.log"))
        damaged = paths[len(paths) // 2]
        data = bytearray(damaged.read_bytes())
        data[200] ^= 1
        damaged.write_bytes(data)
        async with opened(tmp_path, COMPACTED) as folder:
            log = await one_log(folder)
            await clean(folder)  # it finds the damage
            [(first, last)] = log.damages()
            for wait in range(1, 4):
                await fill(log, 2)
                await roll(log)
                assert await clean(folder, NOW_MS + wait)
            log.check_invariants()
            assert damaged.read_bytes() == data
            found = [*await offsets_until(log, first), *await offsets_until(log, None, last + 1)]
        assert found == sorted(set(found))
        async with opened(tmp_path, COMPACTED) as folder:
            log = await one_log(folder)
            assert [tuple(one) for one in log.damages()] == [(first, last)]
            again = [*await offsets_until(log, first), *await offsets_until(log, None, last + 1)]
        assert again == found

    run(main())


async def offsets_until(
    log: LocalPartitionLog, end: int | None, offset: int = 0
) -> list[tuple[int, int]]:
    """The bounds of the batches from an offset on, before ``end``."""
    end = log.high_watermark if end is None else end
    found: list[tuple[int, int]] = []
    while offset < end:
        found += batch_bounds((await log.read(offset, 1 << 20, end_offset=end)).data)
        offset = found[-1][1] + 1
    return found
