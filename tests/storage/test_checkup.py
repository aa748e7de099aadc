"""The checks of a folder that nobody has open: what they name, what a repair leaves."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from sharegroup.app.environment import local_environment
from sharegroup.storage import checkpoints
from sharegroup.storage.checkup.findings import Finding, Severity
from sharegroup.storage.checkup.folder_check import FolderCheck
from sharegroup.storage.checkup.folder_repair import FolderRepair
from sharegroup.wire.markers import MarkerType
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
from tests.storage.test_damage_at_rest import (
    RECORDS,
    SMALL,
    file_of,
    fill,
    flip,
    read_around,
    sealed,
    value,
)
from tests.storage.test_transaction_index import Writer


def checked(path: Path, *, repair: bool = False) -> FolderCheck:
    """Check a folder, and repair it."""
    environment = local_environment()
    check = FolderCheck(environment.disk, str(path), environment.new_id)
    check.lock()
    try:
        check.run(lambda _: None)
        if repair:
            FolderRepair(check, environment.new_id).run({})
    finally:
        check.unlock()
    return check


def found(path: Path, *, repair: bool = False) -> list[Finding]:
    return checked(path, repair=repair).findings


def offsets(findings: list[Finding], *severities: Severity) -> set[int]:
    """The offsets that findings of these severities name."""
    return {
        at
        for finding in findings
        if finding.records and finding.severity in severities
        for at in range(finding.first_offset or 0, (finding.last_offset or 0) + 1)
    }


def readable(path: Path) -> dict[int, bytes]:
    """What a broker gives after a start."""
    records: dict[int, bytes] = {}

    async def main() -> None:
        async with opened(path, SMALL) as folder:
            log = await one_log(folder)
            log.check_invariants()
            records.update(await read_around(log, log.log_start_offset, 1 << 20))

    run(main())
    return records


def but(lost: set[int]) -> dict[int, bytes]:
    return {at: value(at) for at in range(RECORDS) if at not in lost}


def content(path: Path) -> dict[str, tuple[bytes, int]]:
    return {
        file.relative_to(path).as_posix(): (file.read_bytes(), file.stat().st_mtime_ns)
        for file in path.rglob("*")
        if file.is_file()
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    run(fill(tmp_path / "whole"))
    return tmp_path / "whole"


def copied(folder: Path) -> Path:
    copy = folder.parent / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    return Path(shutil.copytree(folder, copy))


def batch_at(data: bytes, position: int) -> int:
    """How many batches lie before the one that holds a byte."""
    count = start = 0
    while (start := start + 12 + int.from_bytes(data[start + 8 : start + 12], "big")) <= position:
        count += 1
    return count


def test_a_sound_folder_has_no_findings_and_is_not_changed(folder: Path) -> None:
    before = content(folder)
    assert found(folder) == []
    assert found(folder, repair=True) == []
    assert content(folder) == before


def test_every_byte_of_a_segment(folder: Path) -> None:
    """The batch of a flipped byte is named, and no other; after a repair all others are read."""
    base = sealed(folder)[1]
    data = file_of(folder, base).read_bytes()
    starts: dict[int, int] = {}
    for position in range(len(data)):
        starts.setdefault(batch_at(data, position), position)
    last = batch_at(data, len(data) - 1)
    for position in range(len(data)):
        if 0 < batch_at(data, position) < last and position % 7:
            continue  # batches are alike: every byte of the first and the last one, some between
        copy = copied(folder)
        flip(file_of(copy, base), position, position % 8)
        before = content(copy)
        first = base + 2 * batch_at(data, position)
        findings = found(copy)
        start = starts[(first - base) // 2]
        if 12 <= position - start < 16:
            continue  # the leader epoch, which no CRC covers and nothing needs
        assert offsets(findings, Severity.ERROR) == {first, first + 1}, position
        assert content(copy) == before
        if position % 5:
            continue
        repaired = checked(copy, repair=True)
        assert not any(finding.open for finding in repaired.findings)
        again = found(copy)
        lost = {first, first + 1}
        assert offsets(again, Severity.KNOWN) == lost
        assert not any(finding.open for finding in again)
        assert readable(copy) == but(lost)


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_every_byte_of_an_index(suffix: str, folder: Path) -> None:
    base = sealed(folder)[1]
    whole = file_of(folder, base, suffix).read_bytes()
    for position in range(len(whole)):
        copy = copied(folder)
        file = file_of(copy, base, suffix)
        flip(file, position, position % 8)
        findings = found(copy, repair=True)
        assert [(f.severity, f.kind) for f in findings] == [(Severity.WARNING, "index")], position
        assert findings[0].place == f"t-0/{file.name}"
        assert found(copy) == []
        if position % 5 == 0:
            assert readable(copy) == but(set())


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("size", [None, 0, 5])
def test_an_index_that_is_missing_or_cut_off(suffix: str, size: int | None, folder: Path) -> None:
    file = file_of(folder, sealed(folder)[0], suffix)
    whole = file.read_bytes()
    assert len(whole) > 5
    if size is None:
        file.unlink()
    else:
        os.truncate(file, size)
    problems = [finding for finding in found(folder) if finding.kind == "index"]
    # an offset index may know less than the log; a time index must have its largest timestamp
    assert bool(problems) == (size != 0 or suffix == ".timeindex")
    found(folder, repair=True)
    assert found(folder) == []
    assert readable(folder) == but(set())


def test_every_byte_of_a_snapshot(folder: Path) -> None:
    file = max((folder / "t-0").glob("*.snapshot"))
    whole = file.read_bytes()
    for position in range(len(whole)):
        copy = copied(folder)
        damaged = copy / "t-0" / file.name
        flip(damaged, position, position % 8)
        kept = damaged.read_bytes()
        findings = found(copy, repair=True)
        assert [finding.kind for finding in findings] == ["snapshot-unreadable"]
        assert damaged.read_bytes() == whole
        assert damaged.with_name(f"{file.name}.damaged.1").read_bytes() == kept
        assert found(copy) == []


@pytest.mark.parametrize("bit", [0, 7])
@pytest.mark.parametrize("name", [checkpoints.RECOVERY_POINTS, checkpoints.LOG_STARTS])
def test_every_byte_of_a_checkpoint(name: str, bit: int, folder: Path) -> None:
    """A byte that is no text any more, and another digit, which the checksum tells."""
    whole = (folder / name).read_bytes()
    for position in range(len(whole)):
        copy = copied(folder)
        flip(copy / name, position, bit)
        findings = found(copy, repair=True)
        assert [(f.kind, f.place) for f in findings] == [("checkpoint", name)]
        assert (copy / name).read_bytes() == whole
        assert found(copy) == []
    (folder / name).unlink()
    assert [finding.kind for finding in found(folder, repair=True)] == ["checkpoint"]
    assert (folder / name).read_bytes() == whole


@pytest.mark.parametrize("offset", [10_000_000_000, 2**70])
@pytest.mark.parametrize("name", [checkpoints.RECOVERY_POINTS, checkpoints.LOG_STARTS])
def test_an_impossible_offset_in_a_checkpoint_is_ignored(
    name: str, offset: int, folder: Path
) -> None:
    whole = (folder / name).read_bytes()
    (folder / name).write_text(f"0\n1\nt 0 {offset}\n")
    findings = found(folder, repair=True)
    assert {finding.kind for finding in findings} == {"checkpoint"}
    assert (folder / name).read_bytes() == whole
    assert readable(folder) == but(set())


def test_a_log_start_past_the_end_is_repaired(folder: Path) -> None:
    (folder / checkpoints.LOG_STARTS).write_text("0\n1\nt 0 9000\n")
    assert {finding.kind for finding in found(folder, repair=True)} == {"checkpoint"}
    assert readable(folder) == but(set())


@pytest.mark.parametrize("which", [0, 1, 2])
@pytest.mark.parametrize("how", ["gone", "empty", "cut"])
def test_a_range_of_missing_records_is_reported(which: int, how: str, folder: Path) -> None:
    bases = [*sealed(folder), RECORDS]
    base, following = bases[which], bases[which + 1]
    file = file_of(folder, base)
    first = base
    if how == "gone":
        file.unlink()
    else:
        size = 0 if how == "empty" else file.stat().st_size // 2
        first = base + 2 * batch_at(file.read_bytes(), size) if size else base
        os.truncate(file, size)
    lost = set(range(first, following))
    assert offsets(found(folder), Severity.ERROR) == lost
    found(folder, repair=True)
    again = found(folder)
    assert offsets(again, Severity.KNOWN) == lost
    assert not any(finding.open for finding in again)
    assert readable(folder) == but(lost)


@pytest.mark.parametrize("how", ["last segment", "all segments", "folder"])
def test_lost_offsets_at_the_end_are_not_used_again(how: str, folder: Path) -> None:
    last = max(int(file.stem) for file in (folder / "t-0").glob("*.log"))
    if how == "last segment":
        file_of(folder, last).unlink()
    elif how == "all segments":
        for file in (folder / "t-0").glob("*.log"):
            file.unlink()
    else:
        shutil.rmtree(folder / "t-0")
    lost = set(range(last if how == "last segment" else 0, RECORDS))
    assert offsets(found(folder), Severity.ERROR) == lost
    assert not any(finding.open for finding in found(folder, repair=True))
    again = found(folder)
    assert offsets(again, Severity.KNOWN) == lost
    assert not any(finding.open for finding in again)

    async def main() -> None:
        async with opened(folder, SMALL) as broker:
            log = await one_log(broker)
            assert log.log_end_offset == RECORDS
            await append_durably(log, batch(b"next"))
            assert (await read_around(log, RECORDS, 1 << 20)) == {RECORDS: b"next"}

    run(main())


def test_wrong_base_offsets_are_quarantined_not_corrected(folder: Path) -> None:
    """No checksum covers a base offset: a batch with a wrong one may be a copy of another batch."""
    base = sealed(folder)[1]
    file = file_of(folder, base)
    whole = file.read_bytes()
    length = 12 + int.from_bytes(whole[8:12], "big")
    for position in (0, length):
        flip(file, position + 6, 3)
    kept = file.read_bytes()
    lost = {base, base + 1, base + 2, base + 3}
    assert offsets(found(folder, repair=True), Severity.ERROR) == lost
    assert file.read_bytes() == kept
    assert not list(file.parent.glob("*.damaged.1")), "no file was replaced"
    assert offsets(found(folder), Severity.KNOWN) == lost
    assert readable(folder) == but(lost)


def test_a_copy_of_a_batch_in_the_place_of_another_is_not_given_its_offset(folder: Path) -> None:
    """As a write to the wrong place leaves it: a whole batch, and both neighbours fit."""
    base = sealed(folder)[1]
    file = file_of(folder, base)
    whole = file.read_bytes()
    length = 12 + int.from_bytes(whole[8:12], "big")
    file.write_bytes(whole[:length] + whole[:length] + whole[2 * length :])
    lost = {base + 2, base + 3}
    assert offsets(found(folder, repair=True), Severity.ERROR) == lost
    assert readable(folder) == but(lost)


def test_a_damage_list_is_verified_by_the_log(folder: Path) -> None:
    base = sealed(folder)[1]
    side = file_of(folder, base, ".log.damaged")
    side.write_text(f"[[0, 100, {base}, {base + 1}]]")
    findings = found(folder)
    assert [(f.severity, f.kind) for f in findings] == [(Severity.WARNING, "damage-list")]
    found(folder, repair=True)
    assert readable(folder) == but(set())
    flip(file_of(folder, base), 70, 1)
    side.write_bytes(b"[[\0")
    kinds = {finding.kind for finding in found(folder, repair=True)}
    assert kinds == {"damage-list-unreadable", "damaged-batches"}
    assert offsets(found(folder), Severity.KNOWN) == {base, base + 1}


def test_a_torn_tail_and_old_indexes_after_a_crash_are_not_damage(tmp_path: Path) -> None:
    async def main() -> None:
        await fill(tmp_path)
        folder = await open_folder(tmp_path, SMALL)
        await append_durably(await one_log(folder), batch(b"one"), batch(b"two"))
        await abandon(folder)

    run(main())
    last = max((tmp_path / "t-0").glob("*.log"))
    with last.open("ab") as file:
        file.write(batch(b"torn")[:-3])
    before = content(tmp_path)
    findings = found(tmp_path)
    assert {(f.severity, f.kind) for f in findings} == {
        (Severity.INFO, "not-clean"),
        (Severity.INFO, "torn-tail"),
    }
    found(tmp_path, repair=True)
    assert content(tmp_path) == before
    assert readable(tmp_path).keys() == set(range(RECORDS + 2))


def test_a_failed_sync_is_reported(folder: Path) -> None:
    (folder / "t-0" / "sync-failed").write_text("60")
    findings = found(folder)
    assert [(f.severity, f.kind) for f in findings] == [(Severity.INFO, "sync-failed")]
    assert "offset 60" in findings[0].message


def test_a_transaction_index_is_verified_by_the_markers(tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(tmp_path, SMALL) as folder:
            log = await one_log(folder)
            writer = Writer(log)
            for producer in range(12):
                writer.data(producer, 2)
                kind = MarkerType.ABORT if producer % 2 else MarkerType.COMMIT
                writer.end(producer, kind)
            await log.wait_durable(log.log_end_offset)

    run(main())
    assert found(tmp_path) == []
    files = sorted((tmp_path / "t-0").glob("*.txnindex"))
    assert len(files) >= 2
    for file in files:
        whole = file.read_bytes()
        for position in range(len(whole)):
            flip(file, position, position % 8)
            findings = found(tmp_path, repair=position % 9 == 0)
            assert [finding.kind for finding in findings] == ["transaction-index"], position
            if position % 9:
                file.write_bytes(whole)
            assert file.read_bytes() == whole
        file.unlink()
        assert [finding.kind for finding in found(tmp_path, repair=True)] == ["transaction-index"]
        assert file.read_bytes() == whole


# -- the catalog and the other small files --------------------------------------------------------


@pytest.mark.parametrize("name", ["meta.properties", "t-0/leader-epoch-checkpoint"])
@pytest.mark.parametrize("damage", [b"", b"\xff\xfe", None])
def test_missing_and_damaged_small_files_are_rewritten(
    name: str, damage: bytes | None, folder: Path
) -> None:
    whole = (folder / name).read_bytes()
    if damage is None:
        (folder / name).unlink()
    else:
        (folder / name).write_bytes(damage)
    (finding,) = found(folder, repair=True)
    assert (finding.severity, finding.place) == (Severity.WARNING, name)
    assert (folder / name).read_bytes() == whole


def test_records_with_any_timestamp_are_sound(tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(tmp_path, SMALL) as folder:
            times = [NOW_MS, NOW_MS - 500, -1, NOW_MS + 7, NOW_MS + 7, 3] * 6
            batches = [batch(b"x" * 50, timestamp_ms=time) for time in times]
            await append_durably(await one_log(folder), *batches)

    run(main())
    assert found(tmp_path) == []


def test_a_lost_tail_is_detected_without_its_checkpoint(folder: Path) -> None:
    """The snapshot of a clean end bears the offset where the log ended."""
    (folder / checkpoints.RECOVERY_POINTS).unlink()
    last = max((folder / "t-0").glob("*.log"))
    os.truncate(last, last.stat().st_size - 5)
    lost = {RECORDS - 2, RECORDS - 1}
    assert offsets(found(folder), Severity.ERROR) == lost
    found(folder, repair=True)
    again = found(folder)
    assert offsets(again, Severity.KNOWN) == lost
    assert not any(finding.open for finding in again)
    assert readable(folder) == but(lost)
