"""Which log the cleaner takes next, and from where on."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest

from sharegroup.model.ids import TopicPartition
from sharegroup.storage import checkpoints
from tests.storage.cleaning import COMPACTED, KEYS_BYTES, contents, last_values
from tests.storage.support import NOW_MS, one_log, opened, run
from tests.storage.test_cleaner import clean, fill, roll


def test_the_dirtiest_log_is_cleaned_first(tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(tmp_path, COMPACTED) as folder:
            half_clean = await one_log(folder)
            await fill(half_clean, 10)
            assert await clean(folder)
            await fill(half_clean, 5)
            await folder.create_topic("dirty", UUID(int=9), 1, {})
            dirty = folder.log("dirty", 0)
            await fill(dirty, 3)
            before = half_clean.cleaning.first_dirty
            assert await folder.clean(NOW_MS, KEYS_BYTES)
            assert dirty.cleaning.first_dirty > 0
            assert half_clean.cleaning.first_dirty == before
            assert await folder.clean(NOW_MS, KEYS_BYTES)
            assert half_clean.cleaning.first_dirty > before
            assert not await folder.clean(NOW_MS, KEYS_BYTES)

    run(main())


def test_a_log_that_fails_is_left_out_and_the_others_are_cleaned(tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(tmp_path, COMPACTED) as folder:
            await fill(await one_log(folder), 10)
            await folder.create_topic("other", UUID(int=9), 1, {})
            await fill(folder.log("other", 0), 10)
        path = sorted((tmp_path / "t-0").glob("*.log"))[0]
        data = bytearray(path.read_bytes())
        data[100] ^= 1
        path.write_bytes(data)
        async with opened(tmp_path, COMPACTED) as folder:
            for _ in range(3):
                await folder.clean(NOW_MS, KEYS_BYTES)
            assert folder.log("other", 0).cleaning.first_dirty > 0
            assert folder.cleaning(NOW_MS).uncleanable == 1

    run(main())


@pytest.mark.parametrize("said", [10**6, 1])
def test_a_checkpoint_that_cannot_be_true_begins_again_at_the_start(
    tmp_path: Path, said: int
) -> None:
    async def main() -> None:
        async with opened(tmp_path, COMPACTED) as folder:
            log = await one_log(folder)
            await fill(log, 20)
            await roll(log)
            if said == 1:
                await log.delete_records(log.cleaning.segments[3].base_offset)
            table = last_values(await contents(log))
        disk = folder._environment.disk
        checkpoints.write_offsets(
            disk, str(tmp_path / checkpoints.CLEANED), {TopicPartition("t", 0): said}
        )
        async with opened(tmp_path, COMPACTED) as folder:
            log = await one_log(folder)
            assert await clean(folder)
            assert log.log_start_offset < log.cleaning.first_dirty < log.log_end_offset
            assert last_values(await contents(log)) == table

    run(main())
