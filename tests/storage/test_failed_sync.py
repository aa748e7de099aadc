"""After a failed fsync nothing that lies in the cache is taken for durable."""

from __future__ import annotations

from pathlib import Path

import pytest

from sharegroup.model.errors import KafkaStorageError
from sharegroup.storage import LogSettings
from tests.storage.forgetful_disk import ForgetfulDisk
from tests.storage.support import (
    abandon,
    append_durably,
    batch,
    one_log,
    open_folder,
    read_values,
    run,
)

PATH = Path("data")


def numbered(sequence: int) -> bytes:
    value = b"%d " % sequence + bytes(60)
    return batch(value, producer_id=5, producer_epoch=0, base_sequence=sequence)


@pytest.mark.parametrize("settings", [LogSettings(), LogSettings(segment_bytes=300)])
def test_a_retry_after_the_restart_is_durable_when_it_is_answered(settings: LogSettings) -> None:
    async def main() -> None:
        disk = ForgetfulDisk()
        folder = await open_folder(PATH, settings, disk=disk)
        await append_durably(await one_log(folder), *map(numbered, range(3)))
        folder.checkpoint()
        await append_durably(await one_log(folder), *map(numbered, range(3, 7)))
        disk.sync_fails = ".log"
        log = await one_log(folder)
        for sequence in (7, 8):
            await log.append(numbered(sequence))
        with pytest.raises(KafkaStorageError, match="sync failed"):
            await log.wait_durable(9)
        await abandon(folder)
        disk.sync_fails = ""

        folder = await open_folder(PATH, settings, disk=disk)
        log = await one_log(folder)
        for sequence in (7, 8):
            assert (await log.append(numbered(sequence))).duplicate
        await log.wait_durable(9)
        await abandon(folder)
        disk.lose_power()

        folder = await open_folder(PATH, settings, disk=disk)
        values = await read_values(await one_log(folder))
        assert [(at, int((value or b"").split(b" ")[0])) for at, value in values] == [
            (offset, offset) for offset in range(9)
        ]
        assert folder.recovered.damaged_batches == 0
        await abandon(folder)

    run(main())


def test_a_sync_that_fails_at_the_start_too_takes_one_partition_out_of_service() -> None:
    async def main() -> None:
        disk = ForgetfulDisk()
        folder = await open_folder(PATH, disk=disk)
        await append_durably(await one_log(folder), numbered(0))
        await folder.create_topic("other", folder.topics["t"].topic_id, 1, {})
        disk.sync_fails = "/t-0/"
        log = await one_log(folder)
        await log.append(numbered(1))
        with pytest.raises(KafkaStorageError):
            await log.wait_durable(2)
        await abandon(folder)
        for _ in range(2):
            folder = await open_folder(PATH, disk=disk)
            with pytest.raises(KafkaStorageError, match="faulty"):
                folder.log("t", 0)
            assert folder.log("other", 0).failure is None
            await abandon(folder)
        disk.sync_fails = ""
        folder = await open_folder(PATH, disk=disk)
        assert (await (await one_log(folder)).append(numbered(1))).duplicate
        await abandon(folder)
        disk.lose_power()
        folder = await open_folder(PATH, disk=disk)
        assert len(await read_values(await one_log(folder))) == 2
        await abandon(folder)

    run(main())


def test_without_a_marker_the_log_is_truncated(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        disk = ForgetfulDisk()
        folder = await open_folder(PATH, disk=disk)
        await append_durably(await one_log(folder), numbered(0))
        disk.sync_fails, disk.open_fails = ".log", "sync-failed"
        log = await one_log(folder)
        await log.append(numbered(1))
        with pytest.raises(KafkaStorageError):
            await log.wait_durable(2)
        await abandon(folder)
        assert "cannot mark a failed sync" in caplog.text
        disk.sync_fails = disk.open_fails = ""
        folder = await open_folder(PATH, disk=disk)
        log = await one_log(folder)
        assert log.log_end_offset == 1
        assert not (await log.append(numbered(1))).duplicate
        await abandon(folder)

    run(main())


@pytest.mark.parametrize("marks", [True, False])
def test_nothing_is_truncated_at_a_start_whose_sync_fails(
    marks: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """What was durable before is: the recovery point that a start knows is old."""

    async def main() -> None:
        disk = ForgetfulDisk()
        folder = await open_folder(PATH, disk=disk)
        for number in range(3):
            await append_durably(await one_log(folder), numbered(number))
        await abandon(folder)
        disk.sync_fails = "/t-0/"
        if not marks:
            disk.open_fails = "sync-failed"
        for _ in range(2):
            folder = await open_folder(PATH, disk=disk)
            with pytest.raises(KafkaStorageError, match="faulty"):
                folder.log("t", 0)
            await abandon(folder)
        assert ("cannot mark a failed sync" in caplog.text) != marks
        disk.sync_fails = disk.open_fails = ""
        folder = await open_folder(PATH, disk=disk)
        assert len(await read_values(await one_log(folder))) == 3
        await abandon(folder)

    run(main())


def test_a_disk_that_fails_while_the_log_is_written_anew_takes_nothing() -> None:
    async def main() -> None:
        disk = ForgetfulDisk()
        folder = await open_folder(PATH, disk=disk)
        for number in range(3):
            await append_durably(await one_log(folder), numbered(number))
        disk.sync_fails = "/t-0/"
        log = await one_log(folder)
        await log.append(numbered(3))
        with pytest.raises(KafkaStorageError):
            await log.wait_durable(4)
        await abandon(folder)
        disk.write_fails = "sync-failed"  # the copies
        folder = await open_folder(PATH, disk=disk)
        with pytest.raises(KafkaStorageError, match="faulty"):
            folder.log("t", 0)
        await abandon(folder)
        disk.write_fails = disk.sync_fails = ""
        folder = await open_folder(PATH, disk=disk)
        assert len(await read_values(await one_log(folder))) == 4
        await abandon(folder)

    run(main())
