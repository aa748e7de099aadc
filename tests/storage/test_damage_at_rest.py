"""Damage below the recovery point, after a clean end: no scan looks there, no read trusts it."""

from __future__ import annotations

import os
import shutil
from itertools import pairwise
from pathlib import Path

import pytest

from sharegroup.model.errors import CorruptMessage
from sharegroup.storage import DataFolder, LocalPartitionLog, LogSettings
from sharegroup.wire.batch import batch_bounds, decode_batch
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

SMALL = LogSettings(segment_bytes=700, index_interval_bytes=150)
BATCHES = 34
RECORDS = 2 * BATCHES
FOLDER = Path("t-0")


def value(offset: int) -> bytes:
    return b"value %03d" % offset


async def fill(path: Path) -> None:
    """Offsets 0 to 67 in batches of two, in several segments, and a clean end."""
    async with opened(path, SMALL) as folder:
        batches = [
            batch(value(first), value(first + 1), timestamp_ms=NOW_MS - 1000 + first)
            for first in range(0, RECORDS, 2)
        ]
        await append_durably(await one_log(folder), *batches)


def sealed(path: Path) -> list[int]:
    """Base offsets of all segments but the last one."""
    bases = sorted(int(file.stem) for file in (path / FOLDER).glob("*.log"))
    assert len(bases) >= 4
    return bases[:-1]


def file_of(path: Path, base_offset: int, suffix: str = ".log") -> Path:
    return path / FOLDER / f"{base_offset:020d}{suffix}"


def flip(file: Path, position: int, bit: int) -> None:
    data = bytearray(file.read_bytes())
    data[position] ^= 1 << bit
    file.write_bytes(data)


async def read_around(log: LocalPartitionLog, start: int, max_bytes: int) -> dict[int, bytes]:
    """What a share group gets: everything from ``start`` on but what is damaged."""
    found: dict[int, bytes] = {}
    offset = start
    while offset < log.high_watermark:
        offset = log.after_damage(offset)
        if offset >= log.high_watermark:
            break
        try:
            data = (await log.read(offset, max_bytes)).data
        except CorruptMessage:
            assert log.after_damage(offset) > offset, "the damage is known from now on"
            continue
        assert data, f"nothing at {offset}, and no damage either"
        bounds = batch_bounds(data)
        assert bounds[0][0] <= offset <= bounds[0][1], "the batch that holds the offset comes first"
        found |= {at: text or b"" for at, _, _, text in decode_batch(data) if at >= offset}
        offset = bounds[-1][1] + 1
    return found


async def check(folder: DataFolder, lost: range | set[int]) -> None:
    """Every offset but the ``lost`` ones is read, from anywhere on, and the lost ones are named."""
    log = await one_log(folder)
    for start, max_bytes in ((0, 1), (5, 300), (17, 1 << 20)):
        found = await read_around(log, start, max_bytes)
        wanted = [at for at in range(start, RECORDS) if at not in lost]
        assert list(found) == wanted
        assert all(found[at] == value(at) for at in wanted)
    assert {at for d in log.damages() for at in range(d.first, d.last + 1)} == set(lost)
    log.check_invariants()


def test_no_flipped_bit_of_an_index_loses_a_record(tmp_path: Path) -> None:
    async def main() -> None:
        await fill(tmp_path / "whole")
        bases = sealed(tmp_path / "whole")
        for suffix in (".index", ".timeindex"):
            size = file_of(tmp_path / "whole", bases[1], suffix).stat().st_size
            assert size >= 16
            for position in range(size):
                shutil.copytree(tmp_path / "whole", tmp_path / "copy")
                flip(file_of(tmp_path / "copy", bases[1], suffix), position, position % 8)
                async with opened(tmp_path / "copy", SMALL) as folder:
                    await check(folder, set())
                    log = await one_log(folder)
                    for offset in range(0, RECORDS, 2):
                        found = await log.offset_for_timestamp(NOW_MS - 1000 + offset)
                        assert found == (offset, NOW_MS - 1000 + offset)
                    newest = NOW_MS - 1000 + RECORDS - 2
                    assert await log.offset_of_max_timestamp() == (RECORDS - 2, newest)
                shutil.rmtree(tmp_path / "copy")

    run(main())


def test_a_flipped_bit_in_a_sealed_segment_damages_only_its_batch(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        await fill(tmp_path / "whole")
        base = sealed(tmp_path / "whole")[1]
        size = len(batch(value(0), value(1)))
        for position in range(size):
            shutil.copytree(tmp_path / "whole", tmp_path / "copy")
            file = file_of(tmp_path / "copy", base)
            flip(file, size + position, position % 8)
            before = file.read_bytes()
            epoch_only = 12 <= position < 16  # the one field that no reader needs
            lost = set() if epoch_only else {base + 2, base + 3}
            caplog.clear()
            async with opened(tmp_path / "copy", SMALL) as folder:
                await check(folder, lost)
                errors = [r for r in caplog.records if r.levelname == "ERROR"]
                assert len(errors) == (0 if epoch_only else 1), "said once"
            assert file.read_bytes() == before, "the bytes are kept"
            caplog.clear()
            async with opened(tmp_path / "copy", SMALL) as folder:
                await check(folder, lost)
                assert not [r for r in caplog.records if r.levelname == "ERROR"]
            shutil.rmtree(tmp_path / "copy")

    run(main())


@pytest.mark.parametrize("position", [0, 8, 17, 30, 70])
def test_no_read_passes_over_damage_at_the_start_of_a_segment(
    tmp_path: Path, position: int
) -> None:
    """Neither when the damage is new, nor when it is known already."""

    async def main() -> None:
        await fill(tmp_path)
        base = sealed(tmp_path)[1]
        flip(file_of(tmp_path, base), position, 3)
        for _ in range(2):
            async with opened(tmp_path, SMALL) as folder:
                log = await one_log(folder)
                for _ in range(2):
                    data = (await log.read(base - 2, 1 << 20)).data
                    assert batch_bounds(data) == [(base - 2, base - 1)]
                with pytest.raises(CorruptMessage):
                    await log.read(base, 1 << 20)
                await check(folder, {base, base + 1})

    run(main())


@pytest.mark.parametrize("length", [1, 40, 61, 200, 500])
def test_zeroed_bytes_damage_only_their_batches(length: int, tmp_path: Path) -> None:
    async def main() -> None:
        await fill(tmp_path / "whole")
        base = sealed(tmp_path / "whole")[1]
        size = len(batch(value(0), value(1)))
        end = file_of(tmp_path / "whole", base).stat().st_size
        for position in range(size, end - length, 7):
            shutil.copytree(tmp_path / "whole", tmp_path / "copy")
            file = file_of(tmp_path / "copy", base)
            data = bytearray(file.read_bytes())
            data[position : position + length] = bytes(length)
            file.write_bytes(data)
            changed = {
                base + 2 * (at // size) + side
                for at, (old, new) in enumerate(
                    zip(file_of(tmp_path / "whole", base).read_bytes(), data, strict=True)
                )
                if old != new
                for side in (0, 1)
            }
            async with opened(tmp_path / "copy", SMALL) as folder:
                await check(folder, changed)
            shutil.rmtree(tmp_path / "copy")

    run(main())


def test_a_truncated_sealed_segment_is_detected_at_the_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        await fill(tmp_path / "whole")
        bases = sealed(tmp_path / "whole")
        base, following = bases[1], bases[2]
        size = len(batch(value(0), value(1)))
        for length in range(0, file_of(tmp_path / "whole", base).stat().st_size, 11):
            shutil.copytree(tmp_path / "whole", tmp_path / "copy")
            os.truncate(file_of(tmp_path / "copy", base), length)
            caplog.clear()
            async with opened(tmp_path / "copy", SMALL) as folder:
                assert folder.recovered.clean
                assert folder.recovered.damaged_batches == 1
                first_lost = base + 2 * (length // size)
                problem = f"offsets {first_lost} to {following - 1}"
                assert problem in folder.recovered.problems[0]
                await check(folder, range(first_lost, following))
            caplog.clear()
            async with opened(tmp_path / "copy", SMALL) as folder:
                await check(folder, range(base + 2 * (length // size), following))
                assert folder.recovered.damaged_batches == 0, "it is known"
            shutil.rmtree(tmp_path / "copy")

    run(main())


@pytest.mark.parametrize("crashed", [False, True])
def test_a_deleted_segment_is_detected_at_the_start(crashed: bool, tmp_path: Path) -> None:
    async def main() -> None:
        await fill(tmp_path / "whole")
        bases = [*sealed(tmp_path / "whole"), RECORDS]
        for base, following in list(pairwise(bases))[:-1]:
            shutil.copytree(tmp_path / "whole", tmp_path / "copy")
            file_of(tmp_path / "copy", base).unlink()
            if crashed:
                (tmp_path / "copy" / ".kafka_cleanshutdown").unlink()
            async with opened(tmp_path / "copy", SMALL) as folder:
                assert folder.recovered.damaged_batches == 1
                log = await one_log(folder)
                if base == 0:  # nothing comes before it: the log begins later, and says so
                    assert log.log_start_offset == following
                    assert "missing" in folder.recovered.problems[0]
                else:
                    await check(folder, range(base, following))
            shutil.rmtree(tmp_path / "copy")

    run(main())


def test_durable_offsets_are_not_used_again(tmp_path: Path) -> None:
    """The log comes back without its last segment, or with a part of it."""

    async def main() -> None:
        await fill(tmp_path / "whole")
        last = max(int(file.stem) for file in (tmp_path / "whole" / FOLDER).glob("*.log"))
        size = len(batch(value(0), value(1)))
        for length in (None, 0, size, size + 5):
            shutil.copytree(tmp_path / "whole", tmp_path / "copy")
            if length is None:
                file_of(tmp_path / "copy", last).unlink()
            else:
                os.truncate(file_of(tmp_path / "copy", last), length)
            first_lost = last + 2 * ((length or 0) // size)
            for _ in range(2):  # the second start finds what the first one has decided
                async with opened(tmp_path / "copy", SMALL) as folder:
                    log = await one_log(folder)
                    assert log.log_end_offset == RECORDS
                    await check(folder, range(first_lost, RECORDS))
            crashed = await open_folder(tmp_path / "copy", SMALL)
            assert await append_durably(await one_log(crashed), batch(b"new")) == RECORDS + 1
            await abandon(crashed)
            async with opened(tmp_path / "copy", SMALL) as folder:
                log = await one_log(folder)
                assert await read_around(log, RECORDS, 1000) == {RECORDS: b"new"}
            shutil.rmtree(tmp_path / "copy")

    run(main())


def test_offsets_seen_by_a_group_are_not_used_again(tmp_path: Path) -> None:
    async def main() -> None:
        await fill(tmp_path)
        async with opened(tmp_path, SMALL) as folder:
            log = await one_log(folder)
            await folder.give_up_offsets({log.topic_partition: RECORDS + 300})
            assert await append_durably(log, batch(b"new")) == RECORDS + 301
            await check_new(log)
        async with opened(tmp_path, SMALL) as folder:
            await check_new(await one_log(folder))
            assert folder.recovered.problems == []

    async def check_new(log: LocalPartitionLog) -> None:
        assert [tuple(d) for d in log.damages()] == [(RECORDS, RECORDS + 299)]
        assert await read_around(log, RECORDS, 1000) == {RECORDS + 300: b"new"}

    run(main())


def test_a_damaged_damage_list_is_rebuilt(tmp_path: Path) -> None:
    async def main() -> None:
        await fill(tmp_path)
        base = sealed(tmp_path)[1]
        flip(file_of(tmp_path, base), 70, 0)
        async with opened(tmp_path, SMALL) as folder:
            await check(folder, {base, base + 1})
        wrong = (
            b"",
            b"[[1]]",
            b'[["a",2,3,4]]',
            b"[[5,1,0,0]]",
            b"[[1e999,2,3,4]]",
            b"[" * 100_000,
        )
        for content in wrong:
            file_of(tmp_path, base, ".log.damaged").write_bytes(content)
            async with opened(tmp_path, SMALL) as folder:
                assert "itself damaged" in folder.recovered.problems[0]
                await check(folder, {base, base + 1})

    run(main())


@pytest.mark.parametrize(
    "name", ["recovery-point-offset-checkpoint", "log-start-offset-checkpoint"]
)
def test_no_flipped_bit_of_a_checkpoint_hides_a_record(name: str, tmp_path: Path) -> None:
    async def main() -> None:
        await fill(tmp_path / "whole")
        size = (tmp_path / "whole" / name).stat().st_size
        for position in range(size):
            for bit in (0, 3):
                shutil.copytree(tmp_path / "whole", tmp_path / "copy")
                flip(tmp_path / "copy" / name, position, bit)
                async with opened(tmp_path / "copy", SMALL) as folder:
                    await check(folder, set())
                    assert "damaged" in folder.recovered.problems[0]
                shutil.rmtree(tmp_path / "copy")

    run(main())


def test_a_crash_between_checkpoint_and_checksum_leaves_a_valid_checkpoint(tmp_path: Path) -> None:
    """The checksum is written first: between the two writes the old content must count."""

    async def main() -> None:
        await fill(tmp_path)
        path = tmp_path / "log-start-offset-checkpoint"
        before = path.read_bytes()
        async with opened(tmp_path, SMALL) as folder:
            await (await one_log(folder)).delete_records(9)
        assert path.read_bytes() != before
        path.write_bytes(before)
        async with opened(tmp_path, SMALL) as folder:
            assert folder.recovered.problems == []

    run(main())


def test_a_flipped_bit_in_a_topic_id_loses_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        await fill(tmp_path / "whole")
        name = FOLDER / "partition.metadata"
        content = (tmp_path / "whole" / name).read_bytes()
        for position in range(len(content)):
            shutil.copytree(tmp_path / "whole", tmp_path / "copy")
            flip(tmp_path / "copy" / name, position, position % 7)
            async with opened(tmp_path / "copy", SMALL) as folder:
                await check(folder, set())
            if position >= content.index(b"topic_id"):
                assert (tmp_path / "copy" / name).read_bytes() == content, "it is written again"
            shutil.rmtree(tmp_path / "copy")

    run(main())
