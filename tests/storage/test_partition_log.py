"""Append, read, roll, idempotence, time look-ups, and a log that fails."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sharegroup.model.errors import (
    CorruptMessage,
    InvalidProducerEpoch,
    InvalidRecord,
    InvalidTimestamp,
    KafkaStorageError,
    MessageTooLarge,
    OffsetOutOfRange,
    OutOfOrderSequenceNumber,
    RecordListTooLarge,
)
from sharegroup.storage import FlushPolicy, LogSettings, TimestampType
from sharegroup.storage.flush import LOGS_MAX
from sharegroup.storage.segments import FEW_BYTES
from sharegroup.wire.batch import (
    CONTROL,
    TRANSACTIONAL,
    batch_bounds,
    check_crc,
    crc_of,
    decode_batch,
    parse_header,
    parse_headers,
)
from tests.storage.faulty_disk import FaultyDisk, HeldDisk
from tests.storage.support import (
    NOW_MS,
    OTHER_ID,
    append_durably,
    batch,
    one_log,
    opened,
    read_values,
    run,
)

SMALL = LogSettings(segment_bytes=600, index_interval_bytes=150)


def test_records_come_back_with_dense_offsets(tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(tmp_path) as folder:
            log = await one_log(folder)
            assert (await log.append(batch(b"a", b"b"))).base_offset == 0
            appended = await log.append(batch(b"c"))
            assert (appended.base_offset, appended.last_offset) == (2, 2)
            assert log.high_watermark == 0
            await log.wait_durable(3)
            assert await read_values(log) == [(0, b"a"), (1, b"b"), (2, b"c")]
            log.check_invariants()

    run(main())


def test_records_that_are_flushed_later_cost_no_sync_of_their_own(tmp_path: Path) -> None:
    async def main() -> None:
        disk = FaultyDisk()
        async with opened(tmp_path, disk=disk) as folder:
            log = await one_log(folder)
            await append_durably(log, batch(b"a"))
            rounds = len(disk.synced)
            log.append_trusted(batch(b"b"), flush=False)
            await folder.flusher.running_over()
            assert (log.high_watermark, len(disk.synced)) == (1, rounds)
            await append_durably(log, batch(b"c"))  # goes with it
            assert (log.high_watermark, len(disk.synced)) == (3, rounds + 1)
            log.append_trusted(batch(b"d"), flush=False)
            await log.wait_durable(4)  # somebody asks
            assert (log.high_watermark, len(disk.synced)) == (4, rounds + 2)
            log.append_trusted(batch(b"e"), flush=False)  # a stop writes it
        async with opened(tmp_path) as folder:
            assert (await one_log(folder)).high_watermark == 5

    run(main())


def test_records_are_visible_only_after_their_sync(tmp_path: Path) -> None:
    async def main() -> None:
        disk = HeldDisk()
        async with opened(tmp_path, disk=disk) as folder:
            log = await one_log(folder)
            moved: list[int] = []
            log.on_advance = lambda log: moved.append(log.high_watermark)
            disk.holds = True
            await log.append(batch(b"a"))
            await disk.begun(1)
            await log.append(batch(b"b"))  # while the first sync runs
            waiting = asyncio.ensure_future(log.wait_durable(2))
            assert (await log.read(0, 1000)).data == b""
            disk.let_go(log)
            await log.wait_durable(1)
            assert moved == [1]
            await waiting
            assert moved == [1, 2]

    run(main())


def test_one_sync_covers_all_appends_to_a_log_before_it(tmp_path: Path) -> None:
    async def main() -> None:
        disk = FaultyDisk()
        async with opened(tmp_path, disk=disk) as folder:
            await folder.create_topic("many", OTHER_ID, 3, {})
            disk.synced.clear()
            logs = [folder.log("many", number) for number in range(3)]
            for log in logs:
                for _ in range(5):
                    await log.append(batch(b"x"))
            await asyncio.gather(*(log.wait_durable(5) for log in logs))
            assert [len(files) for files in disk.synced] == [1, 1, 1]

    run(main())


def test_a_log_waits_for_its_own_files_and_for_a_free_thread(tmp_path: Path) -> None:
    async def main() -> None:
        disk = HeldDisk()
        async with opened(tmp_path, disk=disk) as folder:
            await folder.create_topic("many", OTHER_ID, LOGS_MAX + 2, {})
            logs = [folder.log("many", number) for number in range(LOGS_MAX + 2)]
            disk.synced.clear()
            disk.holds = True
            for log in logs:
                await log.append(batch(b"x"))
            await disk.begun(LOGS_MAX)
            await logs[-1].append(batch(b"y"))  # it waits, and one sync will do for both
            disk.let_go(logs[1])
            await logs[1].wait_durable(1)
            assert [log.high_watermark for log in logs] == [0, 1, *[0] * LOGS_MAX]
            await disk.begun(LOGS_MAX + 1)
            disk.let_go(logs[2])
            await disk.begun(LOGS_MAX + 2)
            disk.let_go(logs[-1])
            await logs[-1].wait_durable(2)
            disk.holds = False
            disk.let_go(*logs)
            await asyncio.gather(*(log.wait_durable(1) for log in logs))
            assert len(disk.synced) == len(logs)

    run(main())


def test_flush_left_to_the_system_is_visible_at_once(tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(tmp_path, LogSettings(flush_policy=FlushPolicy.SYSTEM)) as folder:
            log = await one_log(folder)
            await log.append(batch(b"a"))
            assert log.high_watermark == 1
            await log.wait_durable(1)
            assert log.recovery_point == 0
            log.check_invariants()
            log.configure(LogSettings())
            await folder.flusher.idle()
            assert log.recovery_point == 1

    run(main())


def test_rolled_segments_survive_a_clean_restart(tmp_path: Path) -> None:
    async def main() -> None:
        values = [f"value {number}".encode() for number in range(60)]
        async with opened(tmp_path, SMALL) as folder:
            log = await one_log(folder)
            await append_durably(log, *(batch(value) for value in values))
            assert log.statistics().segments > 5
            log.check_invariants()
            assert [value for _, value in await read_values(log)] == values
        async with opened(tmp_path, SMALL) as folder:
            assert folder.recovered.clean
            assert folder.recovered.problems == []
            log = await one_log(folder)
            assert [value for _, value in await read_values(log)] == values
            assert (await log.append(batch(b"next"))).base_offset == 60
            for start in range(60):
                assert (await read_values(log, start))[0][0] == start
            log.check_invariants()

    run(main())


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_reads_agree_with_a_list_of_batches(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    sizes = data.draw(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 200)), min_size=1))
    reads = data.draw(
        st.lists(st.tuples(st.integers(0, 60), st.integers(0, 900), st.integers(0, 80)))
    )

    async def main() -> None:
        async with opened(tmp_path_factory.mktemp("log"), SMALL) as folder:
            log = await one_log(folder)
            model: list[tuple[int, int, int]] = []  # first, last, bytes
            for count, size in sizes:
                encoded = batch(*[b"v" * size] * count)
                if len(encoded) > SMALL.segment_bytes:
                    continue
                appended = await log.append(encoded)
                model.append((appended.base_offset, appended.last_offset, len(encoded)))
            await log.wait_durable(log.log_end_offset)
            for offset, max_bytes, end in reads:
                if offset > log.log_end_offset:
                    with pytest.raises(OffsetOutOfRange):
                        await log.read(offset, max_bytes)
                    continue
                end = min(end, log.high_watermark)
                got = batch_bounds((await log.read(offset, max_bytes, end_offset=end)).data)
                expected = [
                    (first, last) for first, last, _ in model if last >= offset and last < end
                ]
                assert got == expected[: len(got)]
                assert bool(got) == (bool(expected) and offset < end)
                total = sum(size for first, last, size in model if (first, last) in got)
                assert len(got) <= 1 or total <= max_bytes

    run(main())


def test_a_read_stops_at_the_end_offset_it_is_given(tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(tmp_path) as folder:
            log = await one_log(folder)
            await append_durably(log, batch(b"a", b"b"), batch(b"c", b"d"), batch(b"e"))
            assert batch_bounds((await log.read(1, 1 << 20, end_offset=4)).data) == [(0, 1), (2, 3)]
            assert batch_bounds((await log.read(0, 1 << 20, end_offset=3)).data) == [(0, 1)]
            assert (await log.read(2, 1 << 20, end_offset=3)).data == b""
            with pytest.raises(OffsetOutOfRange):
                await log.read(6, 100)
            with pytest.raises(OffsetOutOfRange):
                await log.read(-1, 100)

    run(main())


def test_a_read_goes_on_over_segments_with_few_bytes(tmp_path: Path) -> None:
    """Up to some kilobytes, and never past the size that was asked for."""

    async def main() -> None:
        async with opened(tmp_path, SMALL) as folder:
            log = await one_log(folder)
            one = batch(bytes(400))
            await append_durably(log, *[one] * 40)
            size = len(one)
            assert log.statistics().segments > 20
            data = (await log.read(0, 1 << 20)).data
            assert FEW_BYTES <= len(data) < FEW_BYTES + 2 * size
            assert [header.base_offset for header in parse_headers(data)][:3] == [0, 1, 2]
            assert len((await log.read(0, 3 * size)).data) == 3 * size
            assert len((await log.read(0, 3 * size - 1)).data) == 2 * size
            assert len((await log.read(0, 1)).data) == size

    run(main())


def test_append_time_is_stamped_and_the_crc_holds(tmp_path: Path) -> None:
    async def main() -> None:
        settings_ = LogSettings(timestamp_type=TimestampType.LOG_APPEND_TIME)
        async with opened(tmp_path, settings_) as folder:
            log = await one_log(folder)
            appended = await log.append(batch(b"a", b"b", timestamp_ms=5))
            assert appended.append_time_ms == NOW_MS
            await log.wait_durable(2)
            data = (await log.read(0, 1000)).data
            check_crc(data)
            assert [timestamp for _, timestamp, _, _ in decode_batch(data)] == [NOW_MS, NOW_MS]
            assert await log.offset_for_timestamp(NOW_MS) == (0, NOW_MS)
            assert await log.offset_for_timestamp(NOW_MS + 1) is None

    run(main())


def test_a_retry_gets_its_first_offset_and_a_gap_is_refused(tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(tmp_path) as folder:
            log = await one_log(folder)
            first = batch(b"a", b"b", producer_id=9, producer_epoch=1, base_sequence=0)
            second = batch(b"c", producer_id=9, producer_epoch=1, base_sequence=2)
            await append_durably(log, first, second)
            again = await log.append(first)
            assert (again.base_offset, again.last_offset, again.duplicate) == (0, 1, True)
            assert log.log_end_offset == 3
            with pytest.raises(OutOfOrderSequenceNumber):
                await log.append(batch(b"x", producer_id=9, producer_epoch=1, base_sequence=4))
            with pytest.raises(InvalidProducerEpoch):
                await log.append(batch(b"x", producer_id=9, producer_epoch=0, base_sequence=3))
        async with opened(tmp_path) as folder:
            log = await one_log(folder)
            assert (await log.append(second)).duplicate
            await log.append(batch(b"d", producer_id=9, producer_epoch=1, base_sequence=3))
            assert log.log_end_offset == 4

    run(main())


def damaged(data: bytes, attributes: int = 0, **changes: int) -> bytes:
    """A batch with other attributes and a right CRC."""
    changed = bytearray(data)
    changed[21:23] = attributes.to_bytes(2, "big")
    for field, value in changes.items():
        position = {"record_count": 57, "last_offset_delta": 23}[field]
        changed[position : position + 4] = value.to_bytes(4, "big")
    changed[17:21] = crc_of(changed).to_bytes(4, "big")
    return bytes(changed)


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        (b"", InvalidRecord),
        (batch(b"a")[:-1], CorruptMessage),
        (batch(b"a") + b"\0", CorruptMessage),
        (batch(b"a")[:-1] + b"\1", CorruptMessage),
        (batch(b"a")[:16] + b"\1" + batch(b"a")[17:], CorruptMessage),
        (damaged(batch(b"a"), attributes=CONTROL), InvalidRecord),
        (damaged(batch(b"a"), attributes=TRANSACTIONAL), InvalidRecord),
        (damaged(batch(b"a"), record_count=2), InvalidRecord),
        (damaged(batch(b"a"), record_count=0), InvalidRecord),
        (batch(b"a", producer_id=1, producer_epoch=0, base_sequence=-1), InvalidRecord),
        (batch(b"a", producer_id=1, producer_epoch=0, base_sequence=0) * 2, InvalidRecord),
        (batch(b"a", timestamp_ms=NOW_MS + 3_600_001), InvalidTimestamp),
        (batch(b"a" * 500), MessageTooLarge),
        (batch(b"a" * 200) * 4, RecordListTooLarge),
    ],
)
def test_a_bad_record_set_changes_nothing(
    bad: bytes, error: type[Exception], tmp_path: Path
) -> None:
    async def main() -> None:
        async with opened(
            tmp_path, LogSettings(segment_bytes=1000, max_message_bytes=500)
        ) as folder:
            log = await one_log(folder)
            with pytest.raises(error):
                await log.append(bad)
            assert log.log_end_offset == 0
            assert await append_durably(log, batch(b"good")) == 1

    run(main())


def test_several_batches_in_one_append_are_stamped_one_after_the_other(tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(tmp_path) as folder:
            log = await one_log(folder)
            await append_durably(log, batch(b"a"), batch(b"b", b"c") + batch(b"d"))
            data = (await log.read(0, 1000)).data
            assert [header.base_offset for header in parse_headers(data)] == [0, 1, 3]
            assert log.append_trusted(batch(b"e")).base_offset == 4

    run(main())


def test_a_full_disk_refuses_the_append_and_nothing_else(tmp_path: Path) -> None:
    async def main() -> None:
        disk = FaultyDisk()
        async with opened(tmp_path, disk=disk) as folder:
            log = await one_log(folder)
            await append_durably(log, batch(b"a"))
            disk.append_errno = errno.ENOSPC
            with pytest.raises(KafkaStorageError, match="No space"):
                await log.append(batch(b"b"))
            assert await read_values(log) == [(0, b"a")]
            disk.append_errno = 0
            await append_durably(log, batch(b"c"))
            assert await read_values(log) == [(0, b"a"), (1, b"c")]

    run(main())


def test_a_write_error_takes_the_partition_out_of_service(tmp_path: Path) -> None:
    async def main() -> None:
        disk = FaultyDisk()
        async with opened(tmp_path, disk=disk) as folder:
            log = await one_log(folder)
            disk.append_errno = errno.EIO
            with pytest.raises(KafkaStorageError):
                await log.append(batch(b"b"))
            disk.append_errno = 0
            for call in (log.append(batch(b"b")), log.read(0, 100), log.wait_durable(5)):
                with pytest.raises(KafkaStorageError):
                    await call

    run(main())


def test_a_read_error_takes_the_partition_out_of_service(tmp_path: Path) -> None:
    async def main() -> None:
        disk = FaultyDisk()
        async with opened(tmp_path, disk=disk) as folder:
            log = await one_log(folder)
            await append_durably(log, batch(b"a"))
            disk.read_errno = errno.EIO
            with pytest.raises(KafkaStorageError):
                await log.read(0, 100)
            disk.read_errno = 0
            assert log.failure is not None

    run(main())


def test_a_failed_sync_is_final_and_the_other_partition_goes_on(tmp_path: Path) -> None:
    async def main() -> None:
        disk = FaultyDisk()
        async with opened(tmp_path, disk=disk) as folder:
            await folder.create_topic("two", OTHER_ID, 2, {})
            bad, good = folder.log("two", 0), folder.log("two", 1)
            disk.sync_fails = "two-0"
            await bad.append(batch(b"lost"))
            await good.append(batch(b"kept"))
            waits = await asyncio.gather(
                bad.wait_durable(1), good.wait_durable(1), return_exceptions=True
            )
            assert isinstance(waits[0], KafkaStorageError)
            assert waits[1] is None
            disk.sync_fails = ""
            with pytest.raises(KafkaStorageError):
                await bad.append(batch(b"again"))
            assert bad.high_watermark == 0
            assert await append_durably(good, batch(b"more")) == 2
        assert not (tmp_path / ".kafka_cleanshutdown").exists()

    run(main())


def test_a_listener_that_fails_does_not_stop_the_flush(tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(tmp_path) as folder:
            log = await one_log(folder)

            def listener(_log: object) -> None:
                raise RuntimeError("a listener's mistake")

            log.on_advance = listener
            assert await append_durably(log, batch(b"a")) == 1

    run(main())


def test_a_stored_batch_carries_our_epoch_and_offset(tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(tmp_path) as folder:
            log = await one_log(folder)
            await append_durably(log, batch(b"a"), batch(b"b", leader_epoch=77))
            raw = (tmp_path / "t-0" / "00000000000000000000.log").read_bytes()
            header = parse_header(raw, len(batch(b"a")))
            assert (header.base_offset, header.leader_epoch) == (1, 0)

    run(main())
