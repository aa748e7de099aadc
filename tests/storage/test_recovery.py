"""After a crash: torn tails, damage in the middle, missing indexes, and a real kill -9."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sharegroup.app.environment import local_environment
from sharegroup.model.errors import CorruptMessage, OutOfOrderSequenceNumber
from sharegroup.storage import LogSettings
from sharegroup.storage.checkup.folder_check import FolderCheck
from tests.storage.support import (
    NOW_MS,
    abandon,
    append_durably,
    batch,
    one_log,
    open_folder,
    opened,
    read_values,
    run,
)

SMALL = LogSettings(segment_bytes=600, index_interval_bytes=150)
FIRST_LOG = Path("t-0") / f"{0:020d}.log"


async def crashed_with(path: Path, *batches: bytes, settings: LogSettings | None = None) -> None:
    """A folder whose process died after these batches were durable."""
    folder = await open_folder(path, settings)
    await append_durably(await one_log(folder), *batches)
    await abandon(folder)


def test_everything_durable_survives_a_crash(tmp_path: Path) -> None:
    async def main() -> None:
        values = [f"value {number}".encode() for number in range(60)]
        await crashed_with(tmp_path, *(batch(value) for value in values), settings=SMALL)
        async with opened(tmp_path, SMALL) as folder:
            assert not folder.recovered.clean
            assert folder.recovered.truncated_bytes == 0
            log = await one_log(folder)
            assert [value for _, value in await read_values(log)] == values
            assert await log.offset_of_max_timestamp() == (0, NOW_MS)
            log.check_invariants()

    run(main())


def test_a_torn_tail_is_truncated_wherever_it_was_torn(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        whole = tmp_path / "whole"
        kept, last = batch(b"a", b"b"), batch(b"torn off")
        await crashed_with(whole, kept, last)
        for torn_at in range(len(kept), len(kept) + len(last)):
            copy = tmp_path / f"torn at {torn_at}"
            shutil.copytree(whole, copy)
            os.truncate(copy / FIRST_LOG, torn_at)
            caplog.clear()
            async with opened(copy) as folder:
                assert folder.recovered.truncated_bytes == torn_at - len(kept)
                assert folder.recovered.damaged_batches == 0
                assert len(caplog.records) == (1 if torn_at > len(kept) else 0)
                log = await one_log(folder)
                assert await read_values(log) == [(0, b"a"), (1, b"b")]
                assert await append_durably(log, batch(b"next")) == 3
                assert (await read_values(log))[-1] == (2, b"next")

    run(main())


def test_a_tail_of_zeros_is_truncated(tmp_path: Path) -> None:
    async def main() -> None:
        await crashed_with(tmp_path, batch(b"a"))
        with (tmp_path / FIRST_LOG).open("ab") as file:
            file.write(bytes(10_000))
        async with opened(tmp_path) as folder:
            assert folder.recovered.truncated_bytes == 10_000
            assert (await one_log(folder)).log_end_offset == 1

    run(main())


@pytest.mark.parametrize("byte", [0, 7, 8, 11, 16, 17, 22, 30, 57, 65])
def test_a_flipped_bit_in_the_middle_is_quarantined_and_skipped(
    byte: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        batches = [batch(b"%d a" % number, b"%d b" % number) for number in range(5)]
        await crashed_with(tmp_path, *batches)
        before = flip(tmp_path / FIRST_LOG, 2 * len(batches[0]) + byte)
        async with opened(tmp_path) as folder:
            assert folder.recovered.damaged_batches == 1
            assert folder.recovered.truncated_bytes == 0
            assert [record.levelname for record in caplog.records] == ["ERROR"]
            log = await one_log(folder)
            assert log.log_end_offset == 10
            await check_around(log)
            await append_durably(log, batch(b"next"))
        assert (tmp_path / FIRST_LOG).read_bytes().startswith(before)
        async with opened(tmp_path) as folder:  # a clean start scans nothing and knows it still
            assert folder.recovered.clean
            await check_around(await one_log(folder))

    async def check_around(log: object) -> None:
        for offset in (4, 5):
            with pytest.raises(CorruptMessage, match="offsets 4 to 5"):
                await log.read(offset, 1000)  # type: ignore[attr-defined]
        assert [offset for offset, _ in await read_values(log, 6)][:4] == [6, 7, 8, 9]  # type: ignore[arg-type]
        data = (await log.read(0, 1 << 20)).data  # type: ignore[attr-defined]
        assert len(data) == 2 * len(batch(b"0 a", b"0 b"))

    run(main())


def flip(path: Path, position: int) -> bytes:
    data = bytearray(path.read_bytes())
    data[position] ^= 0x40
    path.write_bytes(data)
    return bytes(data)


def test_a_damaged_end_of_an_older_segment_is_not_truncated(tmp_path: Path) -> None:
    async def main() -> None:
        await crashed_with(tmp_path, *(batch(b"v" * 50) for _ in range(20)), settings=SMALL)
        size = (tmp_path / FIRST_LOG).stat().st_size
        os.truncate(tmp_path / FIRST_LOG, size - 3)
        async with opened(tmp_path, SMALL) as folder:
            assert folder.recovered.damaged_batches == 1
            log = await one_log(folder)
            second = log.statistics()
            assert second.log_end_offset == 20
            with pytest.raises(CorruptMessage):
                await read_values(log)
            log.check_invariants()

    run(main())


def test_a_crash_between_roll_and_first_sync_leaves_one_torn_tail(tmp_path: Path) -> None:
    async def main() -> None:
        await crashed_with(tmp_path, batch(b"a"), batch(b"b"))
        path = tmp_path / FIRST_LOG
        os.truncate(path, path.stat().st_size - 1)
        (tmp_path / "t-0" / f"{2:020d}.log").write_bytes(b"\0" * 7)
        async with opened(tmp_path) as folder:
            assert folder.recovered.damaged_batches == 0
            log = await one_log(folder)
            assert await read_values(log) == [(0, b"a")]
            assert await append_durably(log, batch(b"c")) == 2

    run(main())


@pytest.mark.parametrize("content", [None, b"", b"\1\2\3", bytes(80)])
def test_lost_or_wrong_indexes_are_rebuilt(content: bytes | None, tmp_path: Path) -> None:
    async def main() -> None:
        values = [f"value {number}".encode() for number in range(40)]
        async with opened(tmp_path, SMALL) as folder:
            log = await one_log(folder)
            times = [NOW_MS - 1000 + number for number in range(40)]
            await append_durably(
                log,
                *(batch(v, timestamp_ms=t) for v, t in zip(values, times, strict=True)),
            )
        for path in (tmp_path / "t-0").glob("*index"):
            if content is None:
                path.unlink()
            else:
                path.write_bytes(content)
        async with opened(tmp_path, SMALL) as folder:
            log = await one_log(folder)
            assert [value for _, value in await read_values(log)] == values
            for offset, time in enumerate(times):
                assert await log.offset_for_timestamp(time) == (offset, time)

    run(main())


def test_only_segments_past_the_recovery_point_are_scanned(tmp_path: Path) -> None:
    async def main() -> None:
        folder = await open_folder(tmp_path, SMALL)
        log = await one_log(folder)
        await append_durably(log, *(batch(b"v" * 50) for _ in range(20)))
        folder.checkpoint()
        assert log.recovery_point == 20
        await abandon(folder)
        flip(tmp_path / FIRST_LOG, 70)  # below the recovery point: a scan would find it
        async with opened(tmp_path, SMALL) as folder:
            assert folder.recovered.damaged_batches == 0
            assert (await one_log(folder)).log_end_offset == 20

    run(main())


def test_lost_durable_records_are_reported(tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(tmp_path) as folder:
            await append_durably(await one_log(folder), batch(b"a"), batch(b"b"))
        (tmp_path / FIRST_LOG).write_bytes(b"")
        async with opened(tmp_path) as folder:
            assert "data is missing" in folder.recovered.problems[0]

    run(main())


@pytest.mark.parametrize("snapshot", ["kept", "damaged", "missing"])
def test_producers_are_known_after_a_crash(snapshot: str, tmp_path: Path) -> None:
    async def main() -> None:
        def numbered(sequence: int) -> bytes:
            return batch(b"v" * 50, producer_id=5, producer_epoch=0, base_sequence=sequence)

        await crashed_with(tmp_path, *(numbered(n) for n in range(20)), settings=SMALL)
        for path in (tmp_path / "t-0").glob("*.snapshot"):
            if snapshot == "damaged":
                flip(path, path.stat().st_size - 1)
            elif snapshot == "missing":
                path.unlink()
        async with opened(tmp_path, SMALL) as folder:
            log = await one_log(folder)
            assert (await log.append(numbered(19))).duplicate
            assert not (await log.append(numbered(20))).duplicate

    run(main())


@pytest.mark.parametrize("clean", [True, False])
def test_the_last_five_batches_can_be_repeated_after_a_start(clean: bool, tmp_path: Path) -> None:
    """A clean end keeps what a replay after a crash gives (issue 27)."""

    async def main() -> None:
        def numbered(sequence: int) -> bytes:
            return batch(b"v", producer_id=5, producer_epoch=0, base_sequence=sequence)

        batches = [numbered(number) for number in range(8)]
        if clean:
            async with opened(tmp_path) as folder:
                await append_durably(await one_log(folder), *batches)
        else:
            await crashed_with(tmp_path, *batches)
        async with opened(tmp_path) as folder:
            log = await one_log(folder)
            for number in range(3, 8):
                appended = await log.append(batches[number])
                assert (appended.duplicate, appended.base_offset) == (True, number)
            with pytest.raises(OutOfOrderSequenceNumber):
                await log.append(batches[2])

    run(main())


WRITER = """
import asyncio, sys, time
from pathlib import Path
from sharegroup.storage import LogSettings
from tests.storage.support import batch, one_log, open_folder

async def main():
    folder = await open_folder(Path(sys.argv[1]), LogSettings(segment_bytes=20_000))
    log = await one_log(folder)
    print("from", log.log_end_offset, flush=True)
    while True:
        for _ in range(3):
            await log.append(batch(b"%d" % log.log_end_offset, bytes(100)))
        await log.wait_durable(log.log_end_offset)
        print(log.high_watermark, flush=True)

asyncio.run(main())
"""


@pytest.mark.process
def test_records_that_a_killed_process_called_durable_survive(tmp_path: Path) -> None:
    data = tmp_path / "data"
    durable = 0
    for lines in (30, 200, 77):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(data)], stdout=subprocess.PIPE, text=True
        )
        assert writer.stdout is not None
        with writer, writer.stdout:
            assert int(writer.stdout.readline().split()[1]) >= durable
            for _ in range(lines):
                durable = int(writer.stdout.readline())
            writer.send_signal(signal.SIGKILL)

        async def check(end: int = durable) -> None:
            folder = await open_folder(data)
            assert folder.recovered.damaged_batches == 0
            log = await one_log(folder)
            assert log.high_watermark >= end
            values = dict(await read_values(log))
            assert all(values[at] == b"%d" % at for at in range(0, log.high_watermark, 2))
            await abandon(folder)

        run(check())


def check_folder(path: Path) -> set[tuple[str, int | None, int | None]]:
    """What fsck finds: (kind, first offset, last offset)."""
    environment = local_environment()
    check = FolderCheck(environment.disk, str(path), environment.new_id)
    check.lock()
    try:
        check.run(lambda _: None)
    finally:
        check.unlock()
    return {(each.kind, each.first_offset, each.last_offset) for each in check.findings}


async def _crashed_in_segments(path: Path) -> list[int]:
    """A folder without checkpoints of its log, and the base offsets of its segments."""
    await crashed_with(path, *(batch(b"v" * 100) for _ in range(40)), settings=SMALL)
    bases = sorted(int(file.stem) for file in (path / "t-0").glob("*.log"))
    assert len(bases) >= 4
    return bases


def _log_of(path: Path, base: int) -> Path:
    return path / "t-0" / f"{base:020d}.log"


@pytest.mark.parametrize("sealed", [1, 2])
def test_deleted_last_segments_are_reported_after_a_crash(sealed: int, tmp_path: Path) -> None:
    """Their snapshots and indexes are there, so their offsets are not used again (issue 27)."""

    async def main() -> None:
        bases = await _crashed_in_segments(tmp_path)
        for base in bases[-1 - sealed :]:
            _log_of(tmp_path, base).unlink()
        found = check_folder(tmp_path)
        assert ("missing-records", bases[-1 - sealed], bases[-1] - 1) in found
        async with opened(tmp_path, SMALL) as folder:
            log = await one_log(folder)
            assert "data is missing" in "".join(folder.recovered.problems)
            assert log.log_end_offset == bases[-1]
            lost = [(damage.first, damage.last) for damage in log.damages()]
            assert lost == [(bases[-1 - sealed], bases[-1] - 1)]
        async with opened(tmp_path, SMALL) as folder:
            assert folder.recovered.problems == [], "said once"

    run(main())


def test_a_deleted_active_segment_is_reported_after_a_crash(tmp_path: Path) -> None:
    async def main() -> None:
        bases = await _crashed_in_segments(tmp_path)
        _log_of(tmp_path, bases[-1]).unlink()
        assert "missing-segment" in {kind for kind, _, _ in check_folder(tmp_path)}
        async with opened(tmp_path, SMALL) as folder:
            (problem,) = folder.recovered.problems
            assert f"{bases[-1]:020d}.log is missing" in problem
            assert (await one_log(folder)).log_end_offset == bases[-1]
        async with opened(tmp_path, SMALL) as folder:
            assert folder.recovered.problems == []

    run(main())


def test_a_deleted_first_segment_is_reported_without_checkpoints(tmp_path: Path) -> None:
    async def main() -> None:
        bases = await _crashed_in_segments(tmp_path)
        (tmp_path / "log-start-offset-checkpoint").unlink(missing_ok=True)
        _log_of(tmp_path, 0).unlink()
        assert ("missing-records", 0, bases[1] - 1) in check_folder(tmp_path)
        async with opened(tmp_path, SMALL) as folder:
            assert folder.recovered.damaged_batches == 1
            lost = [(damage.first, damage.last) for damage in (await one_log(folder)).damages()]
            assert lost == [(0, bases[1] - 1)]

    run(main())


def test_indexes_of_segments_that_retention_deleted_are_no_damage(tmp_path: Path) -> None:
    """A kill may come after a log file is removed and before its indexes are."""

    async def main() -> None:
        async with opened(tmp_path, SMALL) as folder:
            log = await one_log(folder)
            await append_durably(log, *(batch(b"v" * 100) for _ in range(40)))
            index = (tmp_path / "t-0" / f"{0:020d}.index").read_bytes()
            await log.delete_records(20)
        (tmp_path / "t-0" / f"{0:020d}.index").write_bytes(index)
        for _ in range(2):
            (tmp_path / ".kafka_cleanshutdown").unlink()
            assert {kind for kind, _, _ in check_folder(tmp_path)} <= {"not-clean"}
            async with opened(tmp_path, SMALL) as folder:
                assert folder.recovered.problems == []
        assert not (tmp_path / "t-0" / f"{0:020d}.index").exists()

    run(main())
