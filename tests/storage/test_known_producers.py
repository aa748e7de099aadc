"""How long a log knows its idempotent producers."""

from __future__ import annotations

from pathlib import Path

from tests.storage.support import (
    NOW_MS,
    abandon,
    append_durably,
    batch,
    one_log,
    open_folder,
    opened,
    run,
)

DAY_MS = 86_400_000


def test_a_producer_with_old_records_is_known_after_a_start(tmp_path: Path) -> None:
    """It was not answered before the broker was killed, and repeats its batch."""
    who = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    old = batch(b"x", timestamp_ms=NOW_MS - 3 * DAY_MS, **who)

    async def main() -> None:
        folder = await open_folder(tmp_path)
        await append_durably(await one_log(folder), old)
        await abandon(folder)
        async with opened(tmp_path) as folder:
            folder.expire_producers(NOW_MS)
            assert (await (await one_log(folder)).append(old)).duplicate
            folder.expire_producers(NOW_MS + 2 * DAY_MS)
            assert not (await (await one_log(folder)).append(old)).duplicate

    run(main())
