"""Offsets by timestamp: which record is found, and how much of the log is read for it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from sharegroup.storage import LocalPartitionLog, LogSettings, timestamp_lookup
from sharegroup.storage.segment import Segment
from sharegroup.wire.batch import BatchHeader
from tests.storage.support import (
    NOW_MS,
    append_durably,
    batch,
    one_log,
    opened,
    read_values,
    run,
)

SMALL = LogSettings(segment_bytes=600, index_interval_bytes=150)


def test_timestamps_find_the_exact_record(tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(tmp_path, SMALL) as folder:
            log = await one_log(folder)
            assert await log.offset_of_max_timestamp() is None
            times = [NOW_MS - 900 + 10 * (number ^ 1) for number in range(60)]
            await append_durably(log, *(batch(b"v", timestamp_ms=time) for time in times))
            for target in range(NOW_MS - 910, NOW_MS - 300, 7):
                expected = next(
                    ((offset, time) for offset, time in enumerate(times) if time >= target), None
                )
                assert await log.offset_for_timestamp(target) == expected
            latest = max(times)
            assert await log.offset_of_max_timestamp() == (times.index(latest), latest)
            await log.delete_records(30)
            found = await log.offset_for_timestamp(0)
            assert found is not None
            assert found[0] == 30

    run(main())


@pytest.mark.parametrize("reopened", [False, True])
def test_the_largest_timestamp_within_any_bounds(tmp_path: Path, reopened: bool) -> None:
    async def main() -> None:
        rules = LogSettings(segment_bytes=2000, index_interval_bytes=150)
        draw = random.Random(1)
        times = [draw.choice((-1, NOW_MS, NOW_MS + draw.randint(-50, 50))) for _ in range(150)]
        async with opened(tmp_path, rules) as folder:
            await append_durably(
                await one_log(folder), *(batch(b"v", timestamp_ms=time) for time in times[:100])
            )
            if not reopened:
                await append_durably(
                    await one_log(folder), *(batch(b"v", timestamp_ms=time) for time in times[100:])
                )
                check_bounds(await one_log(folder), times, draw)
        if reopened:
            async with opened(tmp_path, rules) as folder:
                log = await one_log(folder)
                await append_durably(log, *(batch(b"v", timestamp_ms=time) for time in times[100:]))
                check_bounds(log, times, draw)

    def check_bounds(log: LocalPartitionLog, times: list[int], draw: random.Random) -> None:
        for _ in range(300):
            start, end = sorted(draw.sample(range(len(times) + 1), 2))
            best = max(times[start:end])
            expected = None if best < 0 else (times.index(best, start), best)
            assert timestamp_lookup.latest(log._segments, start, end) == expected

    run(main())


def test_the_largest_timestamp_is_found_by_few_headers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither records that are not durable yet nor a log start within a segment let the whole
    segment be read."""
    read = 0

    def counted(self: Segment, position: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
        nonlocal read
        for each in headers(self, position, end):
            read += 1
            yield each

    async def main() -> None:
        nonlocal read
        async with opened(tmp_path, LogSettings(index_interval_bytes=500)) as folder:
            log = await one_log(folder)
            early = [NOW_MS + 5000, *range(NOW_MS, NOW_MS + 1999)]
            await append_durably(log, *(batch(b"v", timestamp_ms=time) for time in early))
            await log.append(batch(b"v", timestamp_ms=NOW_MS + 6000))
            assert await log.offset_of_max_timestamp() == (0, NOW_MS + 5000)
            assert read < 30
            await log.wait_durable(log.log_end_offset)
            await log.append(batch(b"v", timestamp_ms=NOW_MS + 7000))
            assert await log.offset_of_max_timestamp() == (2000, NOW_MS + 6000)
            assert read < 60
            await log.wait_durable(log.log_end_offset)
            await append_durably(log, batch(b"v"), batch(b"v"))
            await log.delete_records(2002)
            read = 0
            assert await log.offset_of_max_timestamp() == (2002, NOW_MS)
            assert read < 30

    headers = Segment.headers
    monkeypatch.setattr(Segment, "headers", counted)
    run(main())


def test_segments_without_timestamps_need_no_repair(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with opened(tmp_path, SMALL) as folder:
            log = await one_log(folder)
            await append_durably(log, *(batch(b"v", timestamp_ms=-1) for _ in range(30)))
        paths = sorted((tmp_path / "t-0").glob("*index"))
        before = {path: path.read_bytes() for path in paths}
        assert len(before) > 4
        assert not any(before[path] for path in paths if path.suffix == ".timeindex")
        for _ in range(2):
            async with opened(tmp_path, SMALL) as folder:
                log = await one_log(folder)
                assert await log.offset_for_timestamp(0) is None
                assert await log.offset_of_max_timestamp() is None
        assert before == {path: path.read_bytes() for path in paths}
        assert not caplog.records

    run(main())


@pytest.mark.parametrize(
    ("suffixes", "first_ms", "last_ms"),
    [
        ([".timeindex"], NOW_MS, NOW_MS),
        ([".timeindex"], -1, NOW_MS),
        ([".timeindex", ".index"], -1, -1),
    ],
)
def test_an_index_that_has_lost_its_entries_is_rebuilt(
    suffixes: list[str],
    first_ms: int,
    last_ms: int,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        rules = LogSettings(index_interval_bytes=150)
        async with opened(tmp_path, rules) as folder:
            log = await one_log(folder)
            for timestamp_ms in (*[first_ms] * 9, last_ms):
                await append_durably(log, batch(b"v", timestamp_ms=timestamp_ms))
            log._roll()
            await append_durably(log, batch(b"v", timestamp_ms=-1))
        sealed = tmp_path / "t-0" / f"{0:020d}"
        whole = {suffix: sealed.with_suffix(suffix).read_bytes() for suffix in suffixes}
        for suffix in suffixes:
            sealed.with_suffix(suffix).write_bytes(b"")
        for _ in range(2):
            async with opened(tmp_path, rules) as folder:
                log = await one_log(folder)
                found = await log.offset_of_max_timestamp()
                assert found == ((9 if first_ms < 0 else 0, last_ms) if last_ms >= 0 else None)
                if last_ms < 0:
                    assert len(await read_values(log)) == 11
        assert whole == {suffix: sealed.with_suffix(suffix).read_bytes() for suffix in suffixes}
        said = [record.getMessage() for record in caplog.records]
        assert len(said) == 1
        assert "are rebuilt" in said[0]

    run(main())
