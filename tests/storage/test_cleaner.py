"""The log cleaner, case by case."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sharegroup.model.errors import CorruptMessage
from sharegroup.model.ids import TopicPartition
from sharegroup.model.log import AbortedTransaction
from sharegroup.model.retention import Needed
from sharegroup.storage import DataFolder, LocalPartitionLog, checkpoints
from sharegroup.storage.cleaner.batch_cleaning import delete_horizon
from sharegroup.wire.batch import COMPRESSION_MASK, TRANSACTIONAL, decode_batch, end_offset_of
from sharegroup.wire.compression import GZIP, LZ4, SNAPPY, ZSTD
from sharegroup.wire.markers import MarkerType, encode_marker, is_control
from tests.storage.cleaning import (
    COMPACTED,
    KEYS_BYTES,
    RETENTION_MS,
    Seen,
    all_batches,
    contents,
    keyed,
    last_values,
)
from tests.storage.lacks import FullDisk
from tests.storage.support import (
    NOW_MS,
    append_durably,
    one_log,
    opened,
    run,
)
from tests.storage.test_checkup import checked

FILLER = b"x" * 150
DATA = Path("/data")


async def fill(log: LocalPartitionLog, rounds: int, keys: int = 3, codec: int = 0) -> None:
    """``rounds`` batches that each write all keys."""
    for number in range(rounds):
        pairs = [(b"key-%d" % key, b"%d" % number + FILLER) for key in range(keys)]
        await append_durably(log, keyed(pairs, codec))


async def roll(log: LocalPartitionLog) -> None:
    """Let everything that was written lie in sealed segments."""
    for _ in range(2):
        await append_durably(log, keyed([(b"filler", FILLER * 3)]))


async def clean(folder: DataFolder, now_ms: int = NOW_MS, key_bytes: int = KEYS_BYTES) -> bool:
    return await folder.clean(now_ms, key_bytes)


@pytest.mark.parametrize("codec", [0, GZIP, SNAPPY, LZ4, ZSTD])
def test_the_last_value_of_each_key_stays(tmp_path: Path, codec: int) -> None:
    async def main() -> None:
        async with opened(tmp_path, COMPACTED) as folder:
            log = await one_log(folder)
            await fill(log, 20, codec=codec)
            await roll(log)
            before = await contents(log)
            size = log.statistics().size_bytes
            assert await clean(folder)
            after = await contents(log)
            assert set(after) < set(before)
            assert last_values(after) == last_values(before)
            assert [record.offset for record in after] == sorted(r.offset for r in after)
            end = log.cleaning.first_dirty
            old = [record for record in after if record.offset < end]
            assert len(old) == len({record.key for record in old})
            assert log.statistics().size_bytes < size
            assert log.log_end_offset == before[-1].offset + 1
            codecs = {header.attributes & COMPRESSION_MASK for header, _ in await all_batches(log)}
            assert codecs <= {0, codec}
            assert not await clean(folder)  # nothing is dirty any more
            log.check_invariants()
        async with opened(tmp_path, COMPACTED) as folder:
            log = await one_log(folder)
            assert await contents(log) == after
            assert folder.recovered.problems == []
            assert not await clean(folder)

    run(main())


def test_a_tombstone_stays_for_its_time(tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(tmp_path, COMPACTED) as folder:
            log = await one_log(folder)
            await append_durably(log, keyed([(b"k", b"old"), (b"other", FILLER)]))
            await append_durably(log, keyed([(b"k", None)], time=NOW_MS - 7))
            await roll(log)
            assert await clean(folder)
            [tombstone] = [record for record in await contents(log) if record.key == b"k"]
            assert tombstone == Seen(2, NOW_MS - 7, b"k", None)
            horizons = {delete_horizon(header) for header, _ in await all_batches(log)}
            assert horizons == {None, NOW_MS + RETENTION_MS}
            await roll(log)
            assert await clean(folder, NOW_MS + RETENTION_MS - 1)
            assert tombstone in await contents(log)
            await roll(log)
            assert await clean(folder, NOW_MS + RETENTION_MS)
            assert b"k" not in {record.key for record in await contents(log)}

    run(main())


def test_a_tombstone_stays_until_the_named_groups_have_finished_it(tmp_path: Path) -> None:
    async def main() -> None:
        late_ms = NOW_MS + 2 * RETENTION_MS
        async with opened(tmp_path, replace(COMPACTED, names_groups=True)) as folder:
            log = await one_log(folder)
            await append_durably(log, keyed([(b"k", b"old"), (b"other", FILLER)]))
            await append_durably(log, keyed([(b"k", None)]))  # offset 2

            async def cleaned_at(now_ms: int) -> bool:
                """Whether the tombstone is there after a cleaning."""
                await roll(log)
                assert await clean(folder, now_ms)
                return (b"k", None) in {(one.key, one.value) for one in await contents(log)}

            assert await cleaned_at(NOW_MS)
            assert await cleaned_at(late_ms), "nobody knows yet what the groups need"
            folder.enforce_retention(late_ms, {log.topic_partition: Needed(2, 0)})
            assert await cleaned_at(late_ms)
            folder.enforce_retention(late_ms, {log.topic_partition: Needed(3, 0)})
            assert not await cleaned_at(late_ms)

    run(main())


def test_aborted_records_go_and_markers_after_their_time(tmp_path: Path) -> None:
    def write(log: LocalPartitionLog, producer: int, value: bytes) -> None:
        header = {"producer_id": producer, "producer_epoch": 0, "attributes": TRANSACTIONAL}
        sequence = producer_sequence[producer]
        producer_sequence[producer] += 1
        log.append_trusted(keyed([(b"k", value)], base_sequence=sequence, **header))

    def mark(log: LocalPartitionLog, producer: int, kind: MarkerType) -> None:
        log.append_trusted(
            encode_marker(kind, producer_id=producer, producer_epoch=0, timestamp_ms=NOW_MS)
        )

    producer_sequence = {1: 0, 2: 0}

    async def main() -> None:
        async with opened(tmp_path, COMPACTED) as folder:
            log = await one_log(folder)
            write(log, 1, b"committed")
            mark(log, 1, MarkerType.COMMIT)
            write(log, 2, b"aborted")
            mark(log, 2, MarkerType.ABORT)
            for producer in (1, 2):  # later ones, so that those above are not their last
                write(log, producer, b"aborted" + FILLER)
                mark(log, producer, MarkerType.ABORT)
            await roll(log)
            assert await clean(folder)
            data = [record for record in await contents(log) if record.key == b"k"]
            assert [record.value for record in data] == [b"committed"]
            markers = [header for header, _ in await all_batches(log) if is_control(header)]
            assert len(markers) == 4
            assert await log.aborted_transactions(0, log.log_end_offset)
            for now_ms in (NOW_MS + 1, NOW_MS + 1 + RETENTION_MS):
                await roll(log)
                assert await clean(folder, now_ms)
            left = [header for header, _ in await all_batches(log) if is_control(header)]
            # That at 1 has its record still. Those at 5 and 7 have an empty batch each, because it
            # is the last one of its producer. That at 3 has nothing.
            assert [header.base_offset for header in left] == [1, 5, 7]
            empty = [header for header, _ in await all_batches(log) if not header.record_count]
            assert {(h.producer_id, h.base_sequence) for h in empty} >= {(1, 1), (2, 1)}
        assert checked(tmp_path).findings == []  # the index may list transactions without records
        async with opened(tmp_path, COMPACTED) as folder:
            log = await one_log(folder)
            write(log, 1, b"next")  # its sequence goes on
            assert folder.recovered.problems == []
            assert next(r.value for r in await contents(log) if r.key == b"k") == b"committed"

    run(main())


def test_what_is_not_cleaned(tmp_path: Path) -> None:
    async def main() -> None:
        for settings, now_ms in (
            (replace(COMPACTED, cleaned=False), NOW_MS),
            (replace(COMPACTED, min_cleanable_ratio=1.0), NOW_MS),
            (replace(COMPACTED, min_compaction_lag_ms=10), NOW_MS + 9),
            (replace(COMPACTED, min_cleanable_ratio=1.0, max_compaction_lag_ms=10), NOW_MS + 10),
        ):
            async with opened(tmp_path, settings) as folder:
                log = await one_log(folder)
                if not log.log_end_offset:
                    await fill(log, 20)
                    await roll(log)
                assert not await clean(folder, now_ms)
        for settings, now_ms in (
            (replace(COMPACTED, min_compaction_lag_ms=10), NOW_MS + 10),
            (replace(COMPACTED, min_cleanable_ratio=1.0, max_compaction_lag_ms=10), NOW_MS + 11),
        ):
            async with opened(tmp_path, settings) as folder:
                log = await one_log(folder)
                await fill(log, 5)
                assert await clean(folder, now_ms)
                active = log.cleaning.segments[-1]
                assert log.cleaning.first_dirty == active.base_offset

    run(main())


def test_records_without_a_timestamp_wait_for_the_lag_from_the_last_write_on(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        settings = replace(COMPACTED, min_compaction_lag_ms=10_000)
        async with opened(tmp_path, settings) as folder:
            log = await one_log(folder)
            for _ in range(20):
                await append_durably(log, keyed([(b"k", FILLER)], time=-1))
            written_ms = log.cleaning.segments[0].newest_ms()
            assert not await clean(folder, written_ms + 9_000)
            assert await clean(folder, written_ms + 70_000)

    run(main())


def test_an_open_transaction_ends_what_is_cleaned(tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(tmp_path, COMPACTED) as folder:
            log = await one_log(folder)
            await fill(log, 10)
            open_from = log.log_end_offset
            header = {"producer_id": 1, "producer_epoch": 0, "base_sequence": 0}
            log.append_trusted(keyed([(b"key-0", b"open")], attributes=TRANSACTIONAL, **header))
            await fill(log, 10)
            assert await clean(folder)
            assert 0 < log.cleaning.first_dirty <= open_from
            kept = [record.offset for record in await contents(log) if record.offset >= open_from]
            assert kept == list(range(open_from, log.log_end_offset))

    run(main())


def test_the_key_table_is_bounded(tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(tmp_path, COMPACTED) as folder:
            log = await one_log(folder)
            for number in range(300):
                pairs = [(b"%d" % (number % 150), b"%d" % number)]
                await append_durably(log, keyed(pairs))
            await roll(log)
            before = last_values(await contents(log))
            runs, ends = 0, [0]
            while await clean(folder, key_bytes=24 * 80):
                runs += 1
                ends.append(log.cleaning.first_dirty)
                assert last_values(await contents(log)) == before
            assert runs > 3
            assert ends == sorted(set(ends))

    run(main())


def test_damage_found_while_cleaning_is_kept(tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(tmp_path, COMPACTED) as folder:
            log = await one_log(folder)
            await append_durably(log, keyed([(b"k", b"old")]), keyed([(b"broken", b"y" * 200)]))
            await append_durably(log, keyed([(b"tail", FILLER)]))
            await append_durably(log, keyed([(b"k", None)]))
            await fill(log, 20)
            await roll(log)
        path = next(iter(sorted((tmp_path / "t-0").glob("*.log"))))
        data = bytearray(path.read_bytes())
        data[200] ^= 1
        path.write_bytes(data)
        async with opened(tmp_path, COMPACTED) as folder:
            log = await one_log(folder)
            assert not await clean(folder)  # it finds the damage
            assert [tuple(damage) for damage in log.damages()] == [(1, 1)]
            assert folder.cleaning(NOW_MS).uncleanable == 1
            assert await clean(folder)
            assert path.read_bytes() == data
            with pytest.raises(CorruptMessage):
                await log.read(1, 1000)
            for wait in (1, RETENTION_MS + 1):
                await roll(log)
                assert await clean(folder, NOW_MS + wait)
            # The old value could not be cleaned, so what deletes it stays.
            assert Seen(3, NOW_MS, b"k", None) in await read_from(log, 2)

    run(main())


def test_aborted_records_beside_damage_stay_aborted(tmp_path: Path) -> None:
    """Their segment is not cleaned, the later one with the marker is."""

    async def main() -> None:
        async with opened(tmp_path, COMPACTED) as folder:
            log = await one_log(folder)
            producer = {"producer_id": 1, "producer_epoch": 0, "base_sequence": 0}
            log.append_trusted(keyed([(b"k", b"aborted")], attributes=TRANSACTIONAL, **producer))
            await append_durably(log, keyed([(b"broken", FILLER * 2)]))
            await append_durably(log, keyed([(b"filler", FILLER)]))
            log.append_trusted(
                encode_marker(MarkerType.ABORT, producer_id=1, producer_epoch=0, timestamp_ms=0)
            )
            assert log.cleaning.segments[-1].base_offset == 2
            await fill(log, 5)
            await roll(log)
        path = tmp_path / "t-0" / f"{0:020d}.log"
        flipped = bytearray(path.read_bytes())
        flipped[-20] ^= 1
        path.write_bytes(flipped)
        async with opened(tmp_path, COMPACTED) as folder:
            log = await one_log(folder)
            assert [tuple(damage) for damage in log.damages()] == [(1, 1)]
            for wait in (0, 1, RETENTION_MS + 1):
                assert await clean(folder, NOW_MS + wait)
                assert await log.aborted_transactions(0, 1) == [AbortedTransaction(1, 0)]
                await roll(log)
            assert log.cleaning.segments[1].transactions.entries
        async with opened(tmp_path, COMPACTED) as folder:
            log = await one_log(folder)
            data = (await log.read(0, 1000)).data
            assert [Seen(*record).value for record in decode_batch(data)] == [b"aborted"]
            assert await log.aborted_transactions(0, 1) == [AbortedTransaction(1, 0)]

    run(main())


async def read_from(log: LocalPartitionLog, offset: int) -> list[Seen]:
    found: list[Seen] = []
    while offset < log.high_watermark:
        data = (await log.read(offset, 1 << 20)).data
        found += [Seen(*record) for record in decode_batch(data)]
        offset = end_offset_of(data)
    return found


@pytest.mark.parametrize("where", [".log.cleaned", ".txnindex.cleaned"])
def test_a_cleaning_that_finds_no_room_leaves_nothing(where: str, tmp_path: Path) -> None:
    async def main() -> None:
        disk = FullDisk()
        async with opened(tmp_path, COMPACTED, disk=disk) as folder:
            log = await one_log(folder)
            await fill(log, 9)
            before = await contents(log)
            names = sorted(path.name for path in (tmp_path / "t-0").iterdir())
            disk.full, disk.where = True, where
            assert not await clean(folder)
            assert sorted(path.name for path in (tmp_path / "t-0").iterdir()) == names
            assert await contents(log) == before
            disk.full = False
            assert await clean(folder)
            assert last_values(await contents(log)) == last_values(before)

    run(main())


def test_damage_found_while_writing_leaves_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(tmp_path, COMPACTED) as folder:
            log = await one_log(folder)
            await append_durably(log, keyed([(b"a", FILLER)]), keyed([(b"b", FILLER)]))
            await fill(log, 5)
            assert await clean(folder)
            await fill(log, 5)
        path = tmp_path / "t-0" / f"{0:020d}.log"
        data = bytearray(path.read_bytes())
        data[100] ^= 1  # the keys of this segment are not read again
        path.write_bytes(data)
        async with opened(tmp_path, COMPACTED) as folder:
            log = await one_log(folder)
            assert log.damages() == []
            assert not await clean(folder)
            assert log.damages()
            assert not list((tmp_path / "t-0").glob("*.cleaned"))

    run(main())


def test_readers_in_the_middle_of_a_run_are_not_disturbed(tmp_path: Path) -> None:
    """A reader goes on from the offset where it was, whatever is exchanged meanwhile."""

    async def main() -> None:
        async with opened(tmp_path, COMPACTED) as folder:
            log = await one_log(folder)
            await fill(log, 30)
            await roll(log)
            before = last_values(await contents(log))
            for start in range(0, log.log_end_offset, 7):
                head = (await log.read(start, 1)).data
                assert head
            assert await clean(folder)
            for start in range(log.log_end_offset):
                tail = await read_from(log, start)
                assert all(r.offset >= start for r in tail[3:])
            assert last_values(await read_from(log, 0)) == before
            found = await log.offset_for_timestamp(NOW_MS)
            assert found == (min(r.offset for r in await contents(log)), NOW_MS)

    run(main())


def test_retention_meanwhile_ends_the_run(tmp_path: Path) -> None:
    async def main() -> None:
        settings = replace(COMPACTED, retention_ms=1)
        async with opened(tmp_path, settings) as folder:
            log = await one_log(folder)
            await fill(log, 20)
            cleaning = folder.clean(NOW_MS, KEYS_BYTES)
            first = cleaning.send(None)
            assert first is not None
            assert folder.enforce_retention(NOW_MS + 10) > 0
            cleaning.close()
            await folder._cleaner.close()
            assert log.failure is None
            log.check_invariants()
        async with opened(tmp_path, settings) as folder:
            assert folder.recovered.problems == []

    run(main())


def test_the_checkpoint_is_kafkas(tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(tmp_path, COMPACTED) as folder:
            log = await one_log(folder)
            await fill(log, 20)
            assert await clean(folder)
            text = (tmp_path / checkpoints.CLEANED).read_text()
            assert text == f"0\n1\nt 0 {log.cleaning.first_dirty}\n"
            disk = folder._environment.disk
            read = checkpoints.read_offsets(disk, str(tmp_path / checkpoints.CLEANED))
            assert read == {TopicPartition("t", 0): log.cleaning.first_dirty}

    run(main())


def test_a_damaged_swap_is_not_used_and_nothing_is_removed(tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(tmp_path, COMPACTED) as folder:
            log = await one_log(folder)
            await fill(log, 9)
            before = await contents(log)
        first = tmp_path / "t-0" / f"{0:020d}.log"
        data = bytearray(first.read_bytes())
        data[-3] ^= 1
        first.with_name(first.name + ".swap").write_bytes(data)
        [finding] = [each for each in checked(tmp_path).findings if each.kind == "cleaning"]
        assert finding.place == f"t-0/{first.name}.swap"
        async with opened(tmp_path, COMPACTED) as folder:
            assert await contents(await one_log(folder)) == before
            assert first.with_name(first.name + ".unusable").read_bytes() == data

    run(main())


def test_what_the_metrics_say(tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(tmp_path, COMPACTED) as folder:
            log = await one_log(folder)
            facts = folder.cleaning(NOW_MS)
            assert (facts.runs, facts.dirty_ratio, facts.last_run_wall_ms) == (0, 0.0, 0)
            await fill(log, 20)
            await roll(log)
            assert folder.cleaning(NOW_MS).dirty_ratio == 1.0
            assert await clean(folder)
            facts = folder.cleaning(NOW_MS)
            assert (facts.runs, facts.dirty_ratio, facts.uncleanable) == (1, 0.0, 0)
            assert 0 < facts.written_bytes < facts.read_bytes
            assert facts.last_run_wall_ms > 0
            await roll(log)
            assert 0.0 < folder.cleaning(NOW_MS).dirty_ratio < 1.0

    run(main())
