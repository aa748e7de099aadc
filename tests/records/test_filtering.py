"""Batches as fetches with key ranges answer them: each record in exactly one range, in order."""

from __future__ import annotations

from uuid import UUID

import pytest
from aiokafka.record.default_records import DefaultRecordBatch
from hypothesis import given
from hypothesis import strategies as st

from sharegroup.broker.delivery.hash_index import ENTRY_BYTES, HashIndex
from sharegroup.cooperative.hash_split import HASH_MAX, WHOLE
from sharegroup.cooperative.intervals import minus, normal
from sharegroup.model.ids import TopicIdPartition
from sharegroup.records.filtering import KEPT_RECORDS_MIN, Filtered, Room, Wish, filtered
from sharegroup.records.key_hashes import hash_of_key, hash_of_offset
from sharegroup.wire.batch import CONTROL, HEADER_BYTES, TRANSACTIONAL, parse_headers
from sharegroup.wire.compression import compress
from sharegroup.wire.markers import MarkerType, encode_marker
from tests.records.making import batch_of, record, records

WHERE = TopicIdPartition(UUID(int=1), 0)
MIB = 1 << 20
Row = tuple[int, int, bytes | None, bytes | None]

RECORDS = st.lists(
    st.tuples(
        st.one_of(st.none(), st.binary(max_size=8)),
        st.integers(0, 40),  # bytes of value
        st.integers(1, 3),  # offsets up to the next
    ),
    max_size=20,
)
BATCHES = st.lists(
    st.one_of(
        st.tuples(RECORDS, st.integers(0, 4), st.booleans(), st.integers(0, 3)),
        st.sampled_from([MarkerType.ABORT, MarkerType.COMMIT]),
    ),
    min_size=1,
    max_size=6,
)
EDGES = st.lists(st.integers(0, HASH_MAX - 1), max_size=4, unique=True).map(sorted)


def log_of(batches: list) -> bytes:
    """Batches as a compacted log has them: with holes between records, and behind them."""
    log, offset = b"", 7
    for one in batches:
        if isinstance(one, MarkerType):
            marker = encode_marker(one, producer_id=1, producer_epoch=0, timestamp_ms=1)
            log += offset.to_bytes(8, "big") + marker[8:]
            offset += 1
            continue
        rows, codec, transactional, gap = one
        body, delta = b"", -1
        for at, (key, size, step) in enumerate(rows):
            delta += step
            body += record(delta, key, b"v" * size, timestamp_delta=at)
        delta += gap + (not rows)
        log += batch_of(
            compress(codec, body) if codec else body,
            len(rows),
            last_delta=delta,
            attributes=codec | (TRANSACTIONAL if transactional else 0),
            base_offset=offset,
        )
        offset += delta + 1
    return log


def rows_of(log: bytes) -> list[Row]:
    """The records, by aiokafka's reader, without markers."""
    found: list[Row] = []
    position = 0
    for header in parse_headers(log):
        batch = DefaultRecordBatch(log[position : position + header.length])
        position += header.length
        assert batch.validate_crc()
        if header.record_count and not header.attributes & CONTROL:
            found += [(one.offset, one.timestamp, one.key, one.value) for one in batch]
    return found


def hash_of(row: Row) -> int:
    return hash_of_offset(row[0]) if row[2] is None else hash_of_key(row[2])


class Broker:
    """Answers fetches of one partition, as ``broker/delivery/range_reading.py`` does."""

    def __init__(self, log: bytes, cache_bytes: int, values: bool) -> None:
        self.log = log
        self.index = HashIndex(lambda: cache_bytes)
        self.values = values

    def fetch(self, ranges: tuple[tuple[int, int], ...], at: int, room: int) -> list[Filtered]:
        found = []
        wish = Wish(ranges, at, Room(room, must=True))
        for one in filtered(self.log, wish, lambda header: self.index.recall(WHERE, header)):
            if one.known is not None:
                self.index.keep(WHERE, one.header, one.known, ranges, values=self.values)
            found.append(one)
            self.index.check_invariants()
        return found


@given(
    BATCHES,
    EDGES,
    st.sampled_from([1, 150, 400, MIB]),
    st.sampled_from([0, 2 * ENTRY_BYTES, MIB]),
    st.booleans(),
)
def test_each_record_is_in_one_range(
    batches: list, edges: list[int], room: int, cache_bytes: int, values: bool
) -> None:
    log = log_of(batches)
    whole = rows_of(log)
    end = parse_headers(log)[-1].last_offset + 1
    broker = Broker(log, cache_bytes, values)
    begins, ends = [0, *(edge + 1 for edge in edges)], [*edges, HASH_MAX]
    for first, last in zip(begins, ends, strict=True):
        mine: list[Row] = []
        holes: list[tuple[int, int]] = []
        at = 7
        while at < end:
            found = broker.fetch(((first, last),), at, room)
            assert found, "a fetch comes further"
            assert found[-1].next_offset > at
            answer = [bytes(one.data) for one in found if one.data]
            got = [row for data in answer for row in rows_of(data) if row[0] >= at]
            assert len(answer) <= 1 or sum(map(len, answer)) <= room
            mine += got
            holes += [hole for one in found for hole in one.holes]
            at = found[-1].next_offset
            assert all(row[0] < at for row in got)
            assert all(one.last_offset < at for data in answer for one in parse_headers(data))
        assert mine == [row for row in whole if first <= hash_of(row) <= last]
        if (first, last) != (0, HASH_MAX):  # who reads all of it sees by itself what is missing
            taken = normal((row[0], row[0]) for row in whole)
            assert normal(holes) == minus(((7, end - 1),), taken)
            assert sum(b - a + 1 for a, b in holes) == sum(b - a + 1 for a, b in normal(holes))


def test_a_batch_that_does_not_fit_is_cut_short() -> None:
    """A megabyte of zeros in a small batch does not become a megabyte of answer."""
    rows = b"".join(record(at, b"k", bytes(10_000)) for at in range(100))
    log = batch_of(compress(4, rows), 100, attributes=4)
    mine = ((0, hash_of_key(b"k")),)
    other = batch_of(record(0, b"other"), 1, base_offset=100)
    assert len(log) < 10_000
    assert Broker(log, MIB, False).fetch(mine, 0, 50_000)[0].data == log, "all of it: as stored"
    mixed = rows + record(100, b"other")
    log = batch_of(compress(4, mixed), 101, attributes=4)
    (found,) = Broker(log + other, MIB, False).fetch(mine, 3, 50_000)
    assert [row[0] for row in rows_of(bytes(found.data))] == list(range(3, found.next_offset))
    assert 20_000 < len(found.data) <= 50_000
    (found,) = Broker(log, MIB, False).fetch(mine, 3, 10)
    assert [row[0] for row in rows_of(bytes(found.data))] == [3]
    assert found.next_offset == 4


def test_a_damaged_batch_goes_out_as_it_is() -> None:
    """With a new checksum its reader would take the damage for data."""
    good = batch_of(record(0, b"a", b"value") + record(1, b"b", b"value"), 2)
    bad = good[:-3] + b"X" + good[-2:]
    (found,) = Broker(bad, MIB, False).fetch(((0, 0),), 0, MIB)
    assert (bytes(found.data), found.next_offset) == (bad, 2)
    liar = batch_of(record(0, b"a")[:-1], 1)
    (found,) = Broker(liar, MIB, False).fetch(((0, 0),), 0, MIB)
    assert bytes(found.data) == liar


@pytest.mark.parametrize("values", [True, False])
def test_unpacked_records_are_kept_until_all_were_served(values: bool) -> None:
    log = batch_of(compress(4, record(0, b"a") + record(1, b"b")), 2, attributes=4)
    broker = Broker(log, MIB, values)
    (header,) = parse_headers(log)
    half = HASH_MAX // 2
    broker.fetch(((0, half),), 0, MIB)
    known = broker.index.recall(WHERE, header)
    assert known is not None
    assert (known.plain is not None) == values
    broker.fetch(((half + 1, HASH_MAX),), 0, MIB)
    known = broker.index.recall(WHERE, header)
    assert known is not None
    assert known.plain is None, "a served entry is evicted"


def test_what_was_used_longest_ago_goes_first() -> None:
    count = KEPT_RECORDS_MIN
    one, two, three = (batch_of(records(count), count, base_offset=at) for at in range(3))
    broker = Broker(one, 2 * (ENTRY_BYTES + 16 * count), False)
    for log in (one, two, one, three):
        broker.log = log
        broker.fetch(((0, 0),), 0, MIB)
    known = [broker.index.recall(WHERE, parse_headers(log)[0]) for log in (one, two, three)]
    assert [each is not None for each in known] == [True, False, True]
    broker.log = few = batch_of(records(count - 1), count - 1)
    broker.fetch(((0, 0),), 0, MIB)
    assert broker.index.recall(WHERE, parse_headers(few)[0]) is None, "not worth it"


def test_the_whole_space_needs_no_hashes() -> None:
    log = batch_of(record(0, b"k"), 1)
    broker = Broker(log, MIB, False)
    assert broker.fetch(WHOLE, 0, MIB)[0].data == log
    assert len(broker.index) == 0
    assert broker.fetch(WHOLE, 0, HEADER_BYTES)[0].data == log, "the first goes out"
