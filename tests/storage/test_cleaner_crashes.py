"""The log cleaner interrupted at any step: what the next start makes of it, and what fsck says."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from uuid import uuid4

from sharegroup.storage import checkpoints
from sharegroup.storage.checkup.findings import Finding, Severity
from sharegroup.storage.checkup.folder_check import FolderCheck
from sharegroup.wire.batch import TRANSACTIONAL
from sharegroup.wire.markers import MarkerType, encode_marker
from tests.storage.cleaning import (
    COMPACTED,
    Died,
    DyingDisk,
    contents,
    keyed,
    last_values,
)
from tests.storage.support import (
    NOW_MS,
    append_durably,
    one_log,
    open_folder,
    opened,
    run,
)
from tests.storage.test_checkup import checked
from tests.storage.test_cleaner import FILLER, clean, fill, roll

DATA = Path("/data")


def fsck(disk: DyingDisk) -> list[Finding]:
    check = FolderCheck(disk, str(DATA), uuid4)
    check.lock()
    check.run(lambda _: None)
    check.unlock()
    return check.findings


def test_fsck_names_a_cleaning_that_was_interrupted(tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(tmp_path, COMPACTED) as folder:
            await fill(await one_log(folder), 9)

    run(main())
    first = tmp_path / "t-0" / f"{0:020d}"
    for suffix in (".index", ".log"):
        Path(f"{first}{suffix}.cleaned").write_bytes(b"half of it")
    [finding] = checked(tmp_path).findings
    assert (finding.severity, finding.place) == (Severity.INFO, f"t-0/{first.name}.*.cleaned")
    assert "was interrupted" in finding.message
    run(main())
    assert checked(tmp_path).findings == []


def test_fsck_knows_transactions_of_which_only_the_marker_is_left() -> None:
    """A run ends between two groups: the first has lost the aborted records whose marker the second
    still has."""

    async def begun() -> DyingDisk:
        disk = DyingDisk()
        async with opened(DATA, COMPACTED, disk=disk) as folder:
            log = await one_log(folder)
            header = {"producer_id": 1, "producer_epoch": 0, "attributes": TRANSACTIONAL}
            for sequence in (0, 1):
                log.append_trusted(keyed([(b"k", b"aborted")], base_sequence=sequence, **header))
                await append_durably(log, keyed([(b"k", b"%d" % sequence)]))
                await roll(log)
                abort = encode_marker(
                    MarkerType.ABORT, producer_id=1, producer_epoch=0, timestamp_ms=NOW_MS
                )
                log.append_trusted(abort)
                await roll(log)
        return disk

    async def dies(changes: int, whole: DyingDisk) -> bool:
        disk = deepcopy(whole)
        folder = await open_folder(DATA, COMPACTED, disk=disk)
        disk.left = changes
        try:
            await clean(folder)
            died = False
        except Died:
            died = True
        disk.left = 10**9
        disk.crash()
        assert [each for each in fsck(disk) if each.severity is not Severity.INFO] == []
        return died

    deaths = 0

    async def main() -> None:
        nonlocal deaths
        whole = await begun()
        while await dies(deaths, whole):
            deaths += 1

    run(main())
    assert deaths > 20


def test_fsck_takes_no_hole_of_the_cleaner_for_damage(tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(tmp_path, COMPACTED) as folder:
            log = await one_log(folder)
            await fill(log, 20)
            assert await clean(folder)
            # As if the process ended between the last exchange and the checkpoint after it.
            log.cleaning.first_dirty = 0
        (tmp_path / checkpoints.CLEANED).unlink(missing_ok=True)
        assert checked(tmp_path).findings == []

    run(main())


def test_a_crash_at_any_change_of_the_disk_loses_nothing() -> None:
    """The process ends before the first, second, … change that a run makes on the disk."""
    deaths = 0

    async def begun() -> DyingDisk:
        disk = DyingDisk()
        # A clean shutdown before it: fsck then expects what the indexes say to be right.
        async with opened(DATA, COMPACTED, disk=disk) as folder:
            log = await one_log(folder)
            for _ in range(2):  # the second run has small segments, and makes one of several
                assert await clean(folder) or not log.log_end_offset
                for number in range(6):
                    pairs = [(b"key-%d" % key, FILLER) for key in range(number, 9, 4)]
                    await log.append(keyed(pairs))
                await append_durably(log, keyed([(b"key-1", None), (b"new", b"new")]))
                await roll(log)
        return disk

    async def lives_through(changes: int, whole: DyingDisk) -> bool:
        disk = deepcopy(whole)
        folder = await open_folder(DATA, COMPACTED, disk=disk)
        log = await one_log(folder)
        before = await contents(log)
        disk.left = changes
        try:
            await clean(folder)
            died = False
        except Died:
            died = True
        disk.left = 10**9
        disk.crash()
        assert {finding.severity for finding in fsck(disk)} <= {Severity.INFO}
        async with opened(DATA, COMPACTED, disk=disk) as folder:
            log = await one_log(folder)
            assert folder.recovered.problems == []
            after = await contents(log)
            assert set(after) <= set(before)
            assert last_values(after) == last_values(before)
            names = disk.list("/data/t-0")
            assert not [name for name in names if name.endswith((".cleaned", ".swap"))]
            while await clean(folder):
                pass
            last = await contents(log)
            assert last_values(last) == last_values(before)
            end = log.cleaning.first_dirty
            keys = [record.key for record in last if record.offset < end]
            assert len(keys) == len(set(keys))
            log.check_invariants()
        return not died

    async def main() -> None:
        nonlocal deaths
        whole = await begun()
        while not await lives_through(deaths, whole):
            deaths += 1

    run(main())
    assert deaths > 20
