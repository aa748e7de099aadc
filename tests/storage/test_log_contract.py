"""What every log of a store must do, whatever it is made of. See ``test_store_contract.py``."""

from __future__ import annotations

import asyncio

import pytest

from sharegroup.model.errors import CorruptMessage, OffsetOutOfRange
from sharegroup.model.log import LogOffsets, ReadableLog
from sharegroup.wire.batch import TRANSACTIONAL
from sharegroup.wire.markers import MarkerType, encode_marker
from tests.storage.implementations import MESSAGE_BYTES_MAX, Folders, append
from tests.storage.late_store import LateLog
from tests.storage.support import TOPIC_ID, StillClock, batch, run
from tests.storage.support import read_values as values_of


def known(log: ReadableLog) -> tuple[int, int, int]:
    return log.log_start_offset, log.last_stable_offset, log.high_watermark


def test_records_are_read_where_they_were_appended(stores: Folders) -> None:
    async def main() -> None:
        async with stores.opened() as store:
            await store.create_topic("a", TOPIC_ID, 2, {})
            log = store.log("a", 0)
            assert await append(log, b"0", b"1") == 0
            assert await append(log, b"2") == 2
            assert await log.offsets() == (0, 3, 3, 3)
            assert known(log) == (0, 3, 3)
            assert await values_of(log) == [(0, b"0"), (1, b"1"), (2, b"2")]
            assert await values_of(log, 1) == [(1, b"1"), (2, b"2")]
            read = await log.read(0, 1 << 20, end_offset=2)
            assert (read.log_start_offset, read.high_watermark) == (0, 3)
            assert len(read.data) < len((await log.read(0, 1 << 20)).data)
            assert (await log.read(3, 1 << 20)).data == b""
            assert await values_of(store.log("a", 1)) == []
            assert store.flush_seconds.count > 0

    run(main())


def test_readers_are_told_when_the_high_watermark_moves(stores: Folders) -> None:
    async def main() -> None:
        async with stores.opened() as store:
            await store.create_topic("a", TOPIC_ID, 1, {})
            log = store.log("a", 0)
            told: list[int] = []
            all_told = asyncio.Event()

            def advanced(moved: ReadableLog) -> None:
                assert moved is log
                told.append(moved.high_watermark)
                if told[-1] == 3:
                    all_told.set()

            log.on_advance = advanced
            await append(log, b"0", b"1")
            await append(log, b"2")
            await all_told.wait()
            assert told == [2, 3]

    run(main())


def test_what_is_known_of_a_log_is_never_past_the_log(stores: Folders) -> None:
    async def main() -> None:
        store = await stores.open()
        await store.create_topic("a", TOPIC_ID, 1, {})
        for _ in range(3):
            await append(store.log("a", 0), b"0", b"1")
        await store.log("a", 0).delete_records(2)
        await store.close()
        async with stores.opened() as again:
            log = again.log("a", 0)
            before = known(log)
            now = await log.offsets()
            assert now == LogOffsets(2, 6, 6, 6)
            assert all(one <= other for one, other in zip(before, now[:3], strict=True))
            assert known(log) == now[:3]
            await append(log, b"2")
            assert known(log)[2] <= 7
            assert (await log.offsets()).end == 7

    run(main())


def test_offsets_are_found_by_time(stores: Folders) -> None:
    async def main() -> None:
        async with stores.opened() as store:
            await store.create_topic("a", TOPIC_ID, 1, {})
            log = store.log("a", 0)
            assert await log.offset_of_max_timestamp() is None
            now_ms = StillClock().wall_ms()
            for late_ms in (0, 20, 10):
                await log.append(batch(b"value", timestamp_ms=now_ms + late_ms))
            await log.wait_durable(3)
            assert await log.offset_for_timestamp(now_ms + 5) == (1, now_ms + 20)
            assert await log.offset_for_timestamp(now_ms + 21) is None
            assert await log.offset_of_max_timestamp() == (1, now_ms + 20)

    run(main())


@pytest.mark.parametrize("late", [False, True])
def test_aborted_transactions_are_told_for_a_span(local_stores: Folders, late: bool) -> None:
    async def main() -> None:
        async with local_stores.opened() as store:
            await store.create_topic("a", TOPIC_ID, 1, {})
            owned = store.internal_log("a", 0)  # only this one takes a marker made by hand
            log = LateLog(owned) if late else owned
            await append(log, b"0")
            producer = {"producer_id": 7, "producer_epoch": 0}
            await log.append(batch(b"1", **producer, base_sequence=0, attributes=TRANSACTIONAL))
            await log.wait_durable(2)
            assert await log.offsets() == (0, 1, 2, 2)
            marker = encode_marker(MarkerType.ABORT, timestamp_ms=0, **producer)
            await log.wait_durable(owned.append_trusted(marker).last_offset + 1)
            assert await log.offsets() == (0, 3, 3, 3)
            assert await log.aborted_transactions(0, 3) == [(7, 1)]
            assert await log.aborted_transactions(0, 1) == []

    run(main())


def test_offsets_outside_the_log_are_refused(stores: Folders) -> None:
    async def main() -> None:
        async with stores.opened() as store:
            await store.create_topic("a", TOPIC_ID, 1, {})
            log = store.log("a", 0)
            await append(log, b"0")
            await append(log, b"1")
            assert await log.delete_records(1) == 1
            for offset in (0, 3):
                with pytest.raises(OffsetOutOfRange):
                    await log.read(offset, 1000)
            with pytest.raises(OffsetOutOfRange):
                await log.delete_records(3)
            assert await log.delete_records(-1) == 2

    run(main())


def test_corrupt_batches_are_refused_and_leave_nothing(stores: Folders) -> None:
    async def main() -> None:
        async with stores.opened() as store:
            await store.create_topic("a", TOPIC_ID, 1, {})
            log = store.log("a", 0)
            broken = bytearray(batch(b"value"))
            broken[-1] ^= 1
            with pytest.raises(CorruptMessage):
                await log.append(bytes(broken))
            assert (await log.offsets()).end == 0

    run(main())


def test_an_internal_log_returns_offsets_at_once(local_stores: Folders) -> None:
    async def main() -> None:
        store = await local_stores.open()
        await store.create_topic("__own", TOPIC_ID, 1, {MESSAGE_BYTES_MAX: "100"})
        log = store.internal_log("__own", 0)
        large = b"x" * 500
        assert log.append_trusted(batch(large)).base_offset == 0
        assert log.append_trusted(batch(b"b", b"c")).last_offset == 2
        await log.wait_durable(3)
        assert log.log_end_offset == 3
        local_stores.crash()
        async with local_stores.opened() as again:
            assert await values_of(again.log("__own", 0)) == [(0, large), (1, b"b"), (2, b"c")]

    run(main())
