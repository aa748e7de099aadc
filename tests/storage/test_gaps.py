"""Gaps between segments, as Apache Kafka's cleaner leaves them: legal once, and nowhere else."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from sharegroup.model.ids import TopicPartition
from sharegroup.model.log_settings import NO_LIMIT
from sharegroup.storage import LogSettings, checkpoints
from sharegroup.storage.checkup.findings import Severity
from sharegroup.wire.batch import HEADER_BYTES, parse_headers
from tests.storage.cleaning import COMPACTED, Seen, all_batches, contents, keyed
from tests.storage.support import (
    NOW_MS,
    TOPIC_ID,
    abandon,
    append_durably,
    one_log,
    open_folder,
    opened,
    run,
)
from tests.storage.test_checkup import checked
from tests.storage.test_damage_at_rest import file_of, sealed

BATCHES = 30
PLAIN = LogSettings(segment_bytes=600, index_interval_bytes=100, retention_ms=NO_LIMIT)


def cut(path: Path, base: int, batches: int) -> set[int]:
    """Remove the last batches of a segment, and empty its indexes; returns their offsets."""
    file = file_of(path, base)
    headers = parse_headers(file.read_bytes())
    gone = headers[-batches:]
    file.write_bytes(file.read_bytes()[: sum(header.length for header in headers[:-batches])])
    for suffix in (".index", ".timeindex"):
        file_of(path, base, suffix).write_bytes(b"")
    return {o for header in gone for o in range(header.base_offset, header.last_offset + 1)}


def cleaned_until(path: Path, offset: int) -> None:
    """What Kafka's cleaner writes."""
    (path / checkpoints.CLEANED).write_text(f"0\n1\nt 0 {offset}\n")


async def made(path: Path, settings: LogSettings) -> list[Seen]:
    """A log of many segments; its records."""
    async with opened(path, settings) as folder:
        await folder.create_topic("t", TOPIC_ID, 1, {"cleanup.policy": "compact"})
        log = folder.log("t", 0)
        for number in range(BATCHES):
            await append_durably(log, keyed([(b"%d" % number, b"v" * 40)] * 2))
        return await contents(log)


def lose_ends(path: Path) -> tuple[set[int], int]:
    """Cut three segments short, one of them to nothing. Returns (offsets, end of the gaps)."""
    bases = sealed(path)
    lost = cut(path, bases[0], 1) | cut(path, bases[2], 2)
    number = len(parse_headers(file_of(path, bases[3]).read_bytes()))
    return lost | cut(path, bases[3], number), bases[4]


@pytest.mark.parametrize("clean_stop", [True, False])
def test_gaps_of_another_cleaner_are_closed(tmp_path: Path, clean_stop: bool) -> None:
    async def main() -> None:
        before = await made(tmp_path, COMPACTED)
        lost, end = lose_ends(tmp_path)
        cleaned_until(tmp_path, end)
        if not clean_stop:
            (tmp_path / checkpoints.CLEAN_MARKER).unlink()
            (tmp_path / checkpoints.RECOVERY_POINTS).unlink()
        left = [record for record in before if record.offset not in lost]
        async with opened(tmp_path, COMPACTED) as folder:
            assert folder.recovered.problems == []
            log = await one_log(folder)
            assert await contents(log) == left
            for offset in range(log.log_end_offset):
                first = parse_headers((await log.read(offset, 1)).data)[0]
                assert first.base_offset <= offset <= first.last_offset
            found = await log.offset_for_timestamp(NOW_MS)
            assert found == (left[0].offset, NOW_MS)
            await append_durably(log, keyed([(b"next", b"value")]))
            after = await contents(log)
            log.check_invariants()
        async with opened(tmp_path, COMPACTED) as folder:
            assert folder.recovered.problems == []
            assert await contents(await one_log(folder)) == after

    run(main())
    assert [f for f in checked(tmp_path).findings if f.severity is not Severity.INFO] == []


def test_a_gap_before_an_empty_last_segment_is_not_used_again(tmp_path: Path) -> None:
    async def main() -> None:
        before = await made(tmp_path, COMPACTED)
        bases = sealed(tmp_path)
        end = before[-1].offset + 1
        active = max(int(log.stem) for log in file_of(tmp_path, 0).parent.glob("*.log"))
        lost = cut(tmp_path, bases[-1], 1) | cut(tmp_path, active, BATCHES)
        for name in (checkpoints.CLEAN_MARKER, checkpoints.RECOVERY_POINTS):
            (tmp_path / name).unlink()
        for snapshot in file_of(tmp_path, 0).parent.glob("*.snapshot"):
            snapshot.unlink()
        cleaned_until(tmp_path, active)
        assert checked(tmp_path).partitions[TopicPartition("t", 0)].end_offset == active
        async with opened(tmp_path, COMPACTED) as folder:
            assert folder.recovered.problems == []
            log = await one_log(folder)
            assert log.log_end_offset == active < end
            assert await contents(log) == [each for each in before if each.offset not in lost]

    run(main())


def test_fsck_knows_such_gaps_before_they_are_closed(tmp_path: Path) -> None:
    async def main() -> None:
        await made(tmp_path, COMPACTED)

    run(main())
    _, end = lose_ends(tmp_path)
    cleaned_until(tmp_path, end)
    findings = checked(tmp_path).findings
    assert "missing-records" not in {finding.kind for finding in findings}
    cleaned_until(tmp_path, end - 1)
    findings = checked(tmp_path).findings
    assert "missing-records" in {finding.kind for finding in findings}


def test_other_gaps_are_damage(tmp_path: Path) -> None:
    """Behind the checkpoint; in a log that is not compacted; and in one that we have cleaned."""

    async def problems(path: Path, settings: LogSettings) -> list[str]:
        async with opened(path, settings) as folder:
            await one_log(folder)
            return folder.recovered.problems

    async def main() -> None:
        await made(tmp_path / "whole", COMPACTED)
        for case, settings, more in (
            ("behind", COMPACTED, -1),
            ("plain", PLAIN, 0),
            ("legal", COMPACTED, 0),
        ):
            path = tmp_path / case
            shutil.copytree(tmp_path / "whole", path)
            _, end = lose_ends(path)
            cleaned_until(path, end + more)
            assert bool(await problems(path, settings)) is (case != "legal"), case
        # The start has closed the gaps: a second loss is found.
        bases = sealed(tmp_path / "legal")
        cut(tmp_path / "legal", bases[2], 1)
        assert len(await problems(tmp_path / "legal", COMPACTED)) == 1

    run(main())


def test_what_we_have_cleaned_has_no_gaps(tmp_path: Path) -> None:
    async def main() -> None:
        settings = replace(COMPACTED, segment_bytes=2000)
        async with opened(tmp_path, settings) as folder:
            log = await one_log(folder)
            for number in range(BATCHES):
                # The second half of the segments has nothing to clean.
                key = b"same" if number < BATCHES / 2 else b"%d" % number
                await append_durably(log, keyed([(key, b"v" * 200)]))
            assert await folder.clean(NOW_MS, 1 << 20)
        cut(tmp_path, sealed(tmp_path)[-2], 1)
        async with opened(tmp_path, settings) as folder:
            assert len(folder.recovered.problems) == 1

    run(main())


def test_a_crash_while_gaps_are_closed(tmp_path: Path) -> None:
    async def main() -> None:
        before = await made(tmp_path / "whole", COMPACTED)
        lost, end = lose_ends(tmp_path / "whole")
        left = [record for record in before if record.offset not in lost]
        cleaned_until(tmp_path / "whole", end)
        size = file_of(tmp_path / "whole", sealed(tmp_path / "whole")[2]).stat().st_size
        for written in (0, 1, 40, HEADER_BYTES - 1, HEADER_BYTES):
            path = tmp_path / f"{written}"
            shutil.copytree(tmp_path / "whole", path)
            folder = await open_folder(path, COMPACTED)
            await abandon(folder)
            shutil.copy(tmp_path / "whole" / checkpoints.CLEANED, path)
            for name in (checkpoints.SPARSE, checkpoints.CLEANED):
                (path / (name + checkpoints.CHECKSUMS)).unlink(missing_ok=True)
            (path / checkpoints.SPARSE).unlink()
            file = file_of(path, sealed(path)[2])
            file.write_bytes(file.read_bytes()[: size + written])
            async with opened(path, COMPACTED) as folder:
                assert folder.recovered.problems == []
                assert await contents(await one_log(folder)) == left
                assert len(await all_batches(await one_log(folder))) == BATCHES - 3  # one in a gap

    run(main())
