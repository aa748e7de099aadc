"""Deduplication at enqueue in a log: what is appended, what the producer is told, and what is known
after a restart."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatch
from hypothesis import given, settings
from hypothesis import strategies as st

from sharegroup.model.errors import KafkaError, KafkaStorageError, NotEnoughReplicas
from sharegroup.model.log import Appended
from sharegroup.records.message_ids import MESSAGE_ID
from sharegroup.records.walked_batches import WalkedBatches, prepare, walk_batches
from sharegroup.storage import LocalPartitionLog, LogSettings
from sharegroup.storage.id_journal import SUFFIX
from sharegroup.wire.batch import TRANSACTIONAL, check_crc, parse_headers
from sharegroup.wire.markers import MarkerType, encode_marker
from tests.records.making import Record, batch_of, record, sized, written, zigzag
from tests.storage.faulty_disk import FaultyDisk
from tests.storage.support import (
    NOW_MS,
    StillClock,
    abandon,
    one_log,
    open_folder,
    opened,
    run,
)

WINDOW_MS = 80_000
WITH_IDS = LogSettings(deduplication_window_ms=WINDOW_MS)
GZIP, ZSTD = 1, 4
Row = tuple[int, bytes, bytes | None]
"""Offset, value and id of a record."""


def row_of(delta: int, value: bytes, name: bytes | None) -> bytes:
    headers = b"\0" if name is None else zigzag(1) + sized(MESSAGE_ID.encode()) + sized(name)
    return record(delta, None, value, headers)


def batch(*names: bytes | None, producer: tuple[int, int, int] = (-1, -1, -1), **how: int) -> bytes:
    """Records with these ids; the value of a record is its id."""
    rows = [row_of(at, name or b"-", name) for at, name in enumerate(names)]
    how.setdefault("timestamp", NOW_MS)
    return batch_of(b"".join(rows), len(rows), producer=producer, **how)


def packed(codec: int, *names: bytes, size: int = 1) -> bytes:
    """The same, compressed, with values of ``size`` bytes."""
    rows: list[Record] = [(None, name * size, NOW_MS, [(MESSAGE_ID, name)]) for name in names]
    return written(rows, codec)


def marker(producer_id: int, kind: MarkerType) -> bytes:
    return encode_marker(kind, producer_id=producer_id, producer_epoch=0, timestamp_ms=NOW_MS)


async def values_of(log: LocalPartitionLog) -> list[tuple[int, bytes]]:
    """(offset, value) of all records, also of those that are not durable yet."""
    await log.wait_durable(log.log_end_offset)
    found, offset = [], log.log_start_offset
    while offset < log.high_watermark:
        data = (await log.read(offset, 1 << 20)).data
        position = 0
        for header in parse_headers(data):
            one = data[position : position + header.length]
            position += header.length
            check_crc(one)
            if header.record_count and not header.attributes & 32:
                found += [(each.offset, each.value) for each in DefaultRecordBatch(one)]
            offset = header.last_offset + 1
    return found


def files_in(path: Path) -> list[Path]:
    """The files with ids, in the order of their offsets."""
    return sorted(path.rglob(f"*{SUFFIX}"))


def segments_written_within(path: Path, now_ms: int, first_offset: int) -> None:
    """Let the segments from ``first_offset`` on have been written within the window, no others."""
    for log in path.rglob("*.log"):
        age_ms = WINDOW_MS // 2 if int(log.stem) >= first_offset else WINDOW_MS * 2
        os.utime(log, ns=((now_ms - age_ms) * 10**6,) * 2)


def told(appended: Appended) -> tuple[int, int, list[tuple[int, int]]]:
    """Base offset, last offset, and the repeated records."""
    repeated = [(each.record, each.offset) for each in appended.repeated]
    return appended.base_offset, appended.last_offset, repeated


def test_the_second_record_of_an_id_is_not_appended(tmp_path: Path) -> None:
    async def main() -> None:
        clock = StillClock()
        async with opened(tmp_path, WITH_IDS, clock=clock) as folder:
            log = await one_log(folder)
            assert told(await log.append(batch(b"a"))) == (0, 0, [])
            assert told(await log.append(batch(b"b", None))) == (1, 2, [])
            assert told(await log.append(batch(b"a"))) == (0, 0, [(0, 0)])
            assert told(await log.append(batch(None))) == (3, 3, [])
            assert told(await log.append(batch(b"b", b"a"))) == (1, 1, [(0, 1), (1, 0)])
            assert log.log_end_offset == 4
            clock.now_ms += WINDOW_MS - 1
            assert told(await log.append(batch(b"a"))) == (0, 0, [(0, 0)])
            clock.now_ms += 1
            assert told(await log.append(batch(b"a"))) == (4, 4, [])
            assert told(await log.append(batch(b"a"))) == (4, 4, [(0, 4)])
            expected = [(0, b"a"), (1, b"b"), (2, b"-"), (3, b"-"), (4, b"a")]
            assert await values_of(log) == expected
            log.check_invariants()

    run(main())


@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
def test_a_batch_with_some_repeated_records_keeps_its_offsets(tmp_path: Path, codec: int) -> None:
    async def main() -> None:
        async with opened(tmp_path, WITH_IDS) as folder:
            log = await one_log(folder)
            await log.append(packed(codec, b"a", b"b"))
            appended = await log.append(packed(codec, b"x", b"a", b"y", b"x", b"z"))
            assert told(appended) == (2, 6, [(1, 0), (3, 2)])
            kept = [(0, b"a"), (1, b"b"), (2, b"x"), (4, b"y"), (6, b"z")]
            assert await values_of(log) == kept
            assert told(await log.append(packed(codec, b"z", b"n"))) == (7, 8, [(0, 6)])
        async with opened(tmp_path, WITH_IDS) as folder:
            log = await one_log(folder)
            assert await values_of(log) == [*kept, (8, b"n")]
            assert folder.recovered.problems == []

    run(main())


def test_what_a_thread_has_prepared_is_used_only_if_it_still_holds(tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(tmp_path, WITH_IDS) as folder:
            log = await one_log(folder)
            await log.append(packed(ZSTD, b"a"))
            assert log.ids is not None
            batches = walk_batches(packed(ZSTD, b"a", b"b", b"c"), id_secret=log.ids.secret)
            assert log.ids.repeated(batches, log.log_end_offset) == ((0,),)
            prepare(batches, ((0,),))
            assert isinstance(batches, WalkedBatches)
            assert batches.prepared is not None
            await log.append(packed(ZSTD, b"b"))  # meanwhile
            assert told(await log.append(batches)) == (2, 4, [(0, 0), (1, 1)])
            again = walk_batches(packed(ZSTD, b"a", b"d"), id_secret=log.ids.secret)
            prepare(again, ((0,),))
            assert told(await log.append(again)) == (5, 6, [(0, 0)])
            assert await values_of(log) == [(0, b"a"), (1, b"b"), (4, b"c"), (6, b"d")]

    run(main())


def test_an_idempotent_producer_keeps_its_sequence(tmp_path: Path) -> None:
    async def main() -> None:
        folder = await open_folder(tmp_path, WITH_IDS)
        log = await one_log(folder)
        await log.append(batch(b"a", b"b", producer=(7, 0, 0)))
        only = batch(b"a", b"b", producer=(7, 0, 2), timestamp=NOW_MS + 1)
        assert told(await log.append(only)) == (0, 3, [(0, 0), (1, 1)])
        again = await log.append(only)  # a retry gets the same answer
        assert told(again) == (0, 3, [(0, 0), (1, 1)])
        assert again.duplicate
        # What is left of the batch is found by no time.
        await log.wait_durable(4)
        assert await log.offset_of_max_timestamp() == (0, NOW_MS)
        some = batch(b"b", b"c", producer=(7, 0, 4))
        assert told(await log.append(some)) == (4, 5, [(0, 1)])
        assert told(await log.append(some)) == (4, 5, [(0, 1)])
        await log.wait_durable(6)
        await abandon(folder)
        async with opened(tmp_path, WITH_IDS) as folder:
            log = await one_log(folder)
            assert told(await log.append(only)) == (0, 3, [(0, 0), (1, 1)])
            assert told(await log.append(some)) == (4, 5, [(0, 1)])
            assert told(await log.append(batch(b"c", b"d", producer=(7, 0, 6)))) == (6, 7, [(0, 5)])
            assert await values_of(log) == [(0, b"a"), (1, b"b"), (5, b"c"), (7, b"d")]
            log.check_invariants()

    run(main())


def test_ids_of_an_aborted_transaction_are_free_again(tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(tmp_path, WITH_IDS) as folder:
            log = await one_log(folder)
            await log.append(batch(b"a", producer=(7, 0, 0), attributes=TRANSACTIONAL))
            with pytest.raises(NotEnoughReplicas, match="open transaction"):
                await log.append(batch(b"n", b"a"))
            with pytest.raises(NotEnoughReplicas, match="open transaction"):
                await log.append(batch(b"a", producer=(8, 0, 0), attributes=TRANSACTIONAL))
            own = await log.append(batch(b"a", producer=(7, 0, 1), attributes=TRANSACTIONAL))
            assert told(own) == (0, 1, [(0, 0)])
            log.append_trusted(marker(7, MarkerType.ABORT))
            assert told(await log.append(batch(b"a", b"n"))) == (3, 4, [])
            await log.append(batch(b"t", producer=(7, 0, 2), attributes=TRANSACTIONAL))
            log.append_trusted(marker(7, MarkerType.COMMIT))
            assert told(await log.append(batch(b"t"))) == (5, 5, [(0, 5)])
            # A repeated record in a transaction that is aborted changes nothing for the first one.
            twice = await log.append(batch(b"t", producer=(7, 0, 3), attributes=TRANSACTIONAL))
            assert told(twice) == (5, 7, [(0, 5)])
            log.append_trusted(marker(7, MarkerType.ABORT))
            assert told(await log.append(batch(b"t"))) == (5, 5, [(0, 5)])
            log.check_invariants()

    run(main())


@pytest.mark.parametrize("clean", [True, False])
def test_ids_are_known_after_a_restart(tmp_path: Path, clean: bool) -> None:
    async def main() -> None:
        clock = StillClock()
        folder = await open_folder(tmp_path, WITH_IDS, clock=clock)
        log = await one_log(folder)
        names = [b"%d" % number for number in range(40)]
        for at, name in enumerate(names):  # files of ids are written meanwhile
            clock.now_ms += 1500
            await log.append(packed(GZIP if at % 2 else 0, name))
            await log.wait_durable(log.log_end_offset)
        await log.append(batch(b"open", producer=(7, 0, 0), attributes=TRANSACTIONAL))
        await log.append(batch(b"gone", producer=(8, 0, 0), attributes=TRANSACTIONAL))
        log.append_trusted(marker(8, MarkerType.ABORT))
        await log.wait_durable(log.log_end_offset)
        assert len(files_in(tmp_path)) > 3
        await (folder.close() if clean else abandon(folder))
        clock.now_ms += 10_000
        async with opened(tmp_path, WITH_IDS, clock=clock) as folder:
            log = await one_log(folder)
            assert folder.recovered.problems == []
            for at, name in enumerate(names):
                assert told(await log.append(batch(name))) == (at, at, [(0, at)])
            with pytest.raises(NotEnoughReplicas):
                await log.append(batch(b"open"))
            assert (await log.append(batch(b"gone"))).repeated == ()
            log.append_trusted(marker(7, MarkerType.ABORT))
            assert (await log.append(batch(b"open"))).repeated == ()
            clock.now_ms += 60_000  # a file says when its ids came
            assert (await log.append(batch(names[0]))).repeated == ()
            clock.now_ms += WINDOW_MS
            await log.append(batch(None))
            await log.wait_durable(log.log_end_offset)
            clock.now_ms += WINDOW_MS
            await log.append(batch(None))
            assert len(files_in(tmp_path)) <= 2

    run(main())


@pytest.mark.parametrize("harm", ["cut", "flip", "lose"])
def test_a_file_of_ids_that_cannot_be_read_is_made_up_for_by_the_log(
    tmp_path: Path, harm: str
) -> None:
    async def main() -> None:
        clock = StillClock()
        folder = await open_folder(tmp_path, WITH_IDS, clock=clock)
        log = await one_log(folder)
        for number in range(20):
            clock.now_ms += WINDOW_MS // 40
            await log.append(batch(b"%d" % number))
            await log.wait_durable(log.log_end_offset)
        await folder.close()
        files = files_in(tmp_path)
        for path in files[2:4]:
            content = path.read_bytes()
            path.write_bytes(content[:-5] if harm == "cut" else content[:-1] + b"\xee")
            if harm == "lose":
                path.unlink()
        async with opened(tmp_path, WITH_IDS, clock=clock) as folder:
            log = await one_log(folder)
            for number in range(20):
                assert told(await log.append(batch(b"%d" % number)))[2] == [(0, number)]
        assert len(files) > 3

    run(main())


def test_without_the_first_file_of_ids_all_that_was_written_in_the_window_is_read(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        clock = StillClock()
        rules = replace(WITH_IDS, segment_bytes=200)
        folder = await open_folder(tmp_path, rules, clock=clock)
        log = await one_log(folder)
        for number in range(20):
            clock.now_ms += WINDOW_MS // 40
            await log.append(batch(b"%d" % number))
            await log.wait_durable(log.log_end_offset)
        await folder.close()
        for path in files_in(tmp_path)[:2]:
            path.write_bytes(b"damaged")
        segments_written_within(tmp_path, clock.now_ms, first_offset=4)
        assert len(files_in(tmp_path)) > 3
        async with opened(tmp_path, rules, clock=clock) as folder:
            log = await one_log(folder)
            for number in range(4, 20):
                assert told(await log.append(batch(b"%d" % number)))[2] == [(0, number)]
            assert told(await log.append(batch(b"0")))[2] == []

    run(main())


def test_a_window_that_is_set_and_taken_away_while_the_log_is_open(tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(tmp_path, LogSettings()) as folder:
            log = await one_log(folder)
            assert log.ids is None
            await log.append(batch(b"a"))
            assert (await log.append(batch(b"a"))).base_offset == 1
            log.configure(WITH_IDS)
            assert (await log.append(batch(b"a"))).base_offset == 2  # ids count from here on
            assert told(await log.append(batch(b"a"))) == (2, 2, [(0, 2)])
            assert files_in(tmp_path)
            log.configure(LogSettings())
            assert (await log.append(batch(b"a"))).base_offset == 3
            assert not files_in(tmp_path)

    run(main())


def test_a_record_that_the_disk_refuses_leaves_its_id_free(tmp_path: Path) -> None:
    async def main() -> None:
        disk = FaultyDisk()
        async with opened(tmp_path, WITH_IDS, disk=disk) as folder:
            log = await one_log(folder)
            disk.append_errno = errno.ENOSPC
            with pytest.raises(KafkaStorageError):
                await log.append(batch(b"a"))
            disk.append_errno = 0
            assert told(await log.append(batch(b"a"))) == (0, 0, [])

    run(main())


def test_several_batches_of_one_request(tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(tmp_path, WITH_IDS) as folder:
            log = await one_log(folder)
            await log.append(batch(b"a"))
            both = await log.append(batch(b"a", b"b") + batch(b"b", b"a") + batch(b"c"))
            assert told(both) == (1, 5, [(0, 0), (2, 2), (3, 0)])
            assert told(await log.append(batch(b"a") + batch(b"b"))) == (0, 2, [(0, 0), (1, 2)])
            assert await values_of(log) == [(0, b"a"), (2, b"b"), (5, b"c")]

    run(main())


Step = tuple[str, Any]
NAMES = st.lists(st.sampled_from([None, b"a", b"b", b"c", b"d", b"e"]), min_size=1, max_size=5)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("plain"), NAMES),
        st.tuples(st.just("packed"), NAMES.map(lambda names: [n for n in names if n] or [b"f"])),
        st.tuples(st.just("idempotent"), NAMES),
        st.tuples(st.just("transactional"), NAMES),
        st.tuples(st.just("end"), st.booleans()),
        st.tuples(st.just("wait"), st.integers(1, WINDOW_MS)),
        st.tuples(st.just("restart"), st.booleans()),
    ),
    max_size=25,
)


class Naive:
    """What must be in the log: a list of offsets and ids, and which of them are taken."""

    def __init__(self) -> None:
        self.records: list[tuple[int, bytes]] = []
        self.taken: dict[bytes, tuple[int, int, bool]] = {}
        """Id → offset, time, in the open transaction."""
        self.end = 0

    def append(self, names: list[bytes | None], now_ms: int, kind: str) -> object:
        def first(name: bytes | None) -> tuple[int, int, bool] | None:
            found = taken.get(name) if name else None
            return None if found is None or now_ms - found[1] >= WINDOW_MS else found

        taken = dict(self.taken)
        open_one = kind == "transactional"
        if not open_one and any((one := first(name)) and one[2] for name in names):
            return NotEnoughReplicas
        repeated, records = [], []
        for at, name in enumerate(names):
            one = first(name)
            if one is not None:
                repeated.append((at, one[0]))
                continue
            records.append((self.end + at, name or b"-"))
            if name:
                taken[name] = (self.end + at, now_ms, open_one)
        base = repeated[0][1] if len(repeated) == len(names) else self.end
        if records or kind in ("idempotent", "transactional"):
            self.end += len(names)
        self.records += records
        self.taken = taken
        return base, repeated

    def finish(self, committed: bool) -> None:
        self.end += 1
        self.taken = {
            name: (offset, ms, False)
            for name, (offset, ms, is_open) in self.taken.items()
            if committed or not is_open
        }


class Both:
    """A log, and the naive one."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._clock = StillClock()
        self._naive = Naive()
        self._sequences = {7: 0, 8: 0}
        self._is_open = False

    async def open(self) -> None:
        self._folder = await open_folder(self._path, WITH_IDS, clock=self._clock)
        self._log = await one_log(self._folder)

    async def play(self, steps: list[Step]) -> None:
        await self.open()
        for kind, what in steps:
            if kind == "wait":
                self._clock.now_ms += what
            elif kind == "end":
                self._end(what)
            elif kind == "restart":
                await self._log.wait_durable(self._log.log_end_offset)
                await (self._folder.close() if what else abandon(self._folder))
                await self.open()
                if not what:  # ids from the log begin their window anew; the naive log's do not
                    break
            else:
                await self._append(kind, what)
            self._log.check_invariants()
        await self._compare()
        await self._folder.close()

    def _end(self, committed: bool) -> None:
        if self._is_open:
            which = MarkerType.COMMIT if committed else MarkerType.ABORT
            self._log.append_trusted(marker(8, which))
            self._naive.finish(committed)
        self._is_open = False

    async def _append(self, kind: str, names: list[Any]) -> None:
        expected = self._naive.append(names, self._clock.now_ms, kind)
        try:
            base, _, repeated = told(await self._log.append(self._batch(kind, names)))
        except KafkaError as error:
            got: object = type(error)
        else:
            got = base, repeated
            self._sequences[7] += len(names) * (kind == "idempotent")
            self._sequences[8] += len(names) * (kind == "transactional")
            self._is_open = self._is_open or kind == "transactional"
        assert got == expected

    def _batch(self, kind: str, names: list[Any]) -> bytes:
        if kind == "packed":
            return packed(ZSTD, *names)
        if kind == "idempotent":
            return batch(*names, producer=(7, 0, self._sequences[7]))
        if kind == "transactional":
            sequence = self._sequences[8]
            return batch(*names, producer=(8, 0, sequence), attributes=TRANSACTIONAL)
        return batch(*names)

    async def _compare(self) -> None:
        for name, (offset, ms, held) in self._naive.taken.items():
            if self._clock.now_ms - ms < WINDOW_MS and not held:
                assert told(await self._log.append(batch(name)))[2] == [(0, offset)]
        assert await values_of(self._log) == self._naive.records
        assert self._log.log_end_offset == self._naive.end


@settings(max_examples=60, deadline=None)
@given(steps=STEPS)
def test_a_log_does_what_a_naive_one_does(
    steps: list[Step], tmp_path_factory: pytest.TempPathFactory
) -> None:
    run(Both(tmp_path_factory.mktemp("log")).play(steps))
