"""When a log rolls by time."""

from __future__ import annotations

from pathlib import Path

import pytest

from sharegroup.storage import LogSettings, TimestampType
from tests.storage.support import (
    NOW_MS,
    StillClock,
    append_durably,
    batch,
    one_log,
    opened,
    run,
)


def test_append_times_roll_segments_whatever_the_clock_of_a_producer(tmp_path: Path) -> None:
    """A clock that counts microseconds made a segment for every batch (issue 27)."""

    async def main() -> None:
        settings = LogSettings(timestamp_type=TimestampType.LOG_APPEND_TIME, segment_ms=1000)
        clock = StillClock()
        async with opened(tmp_path, settings, clock=clock) as folder:
            log = await one_log(folder)
            for number in range(20):
                await append_durably(log, batch(b"a", timestamp_ms=(NOW_MS + number) * 1000))
            assert log.statistics().segments == 1
            clock.now_ms += 1001
            await append_durably(log, batch(b"a", timestamp_ms=0))
            assert log.statistics().segments == 2

    run(main())


@pytest.mark.parametrize("timestamp_ms", [-1, 0, 1000])
def test_segments_roll_by_the_clock_if_record_times_stand_still(
    timestamp_ms: int, tmp_path: Path
) -> None:
    async def main() -> None:
        clock = StillClock()
        async with opened(tmp_path, LogSettings(segment_ms=1000), clock=clock) as folder:
            log = await one_log(folder)
            for _ in range(9):
                await append_durably(log, batch(b"a", timestamp_ms=timestamp_ms))
                clock.now_ms += 501
            assert log.statistics().segments == 5

    run(main())
