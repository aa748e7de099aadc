"""Message ids of a batch's records, and the table of ids: the compiled code and Python's are twins,
and both do what a naive table does."""

from __future__ import annotations

from array import array

import pytest
from aiokafka.record.default_records import DefaultRecordBatch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from sharegroup.model.errors import CorruptMessage, InvalidRecord
from sharegroup.records import walk
from sharegroup.records.id_table import SETTLED, IdTable, id_table
from sharegroup.records.message_ids import (
    MESSAGE_ID,
    SECRET_BYTES,
    FoundIds,
    find_ids,
    hash_of_id,
    without_records,
)
from sharegroup.wire.batch import HEADER_BYTES, check_crc, parse_header
from tests.records.making import Record, batch_of, record, sized, written, zigzag

SECRET = bytes(range(SECRET_BYTES))
WAYS = [True, False] if walk.IS_COMPILED else [False]
EVER = -(2**62)
NAMES = st.sampled_from(
    [MESSAGE_ID, "sharegroup.redriven", "__dlq.errors.x", "sharegroup.message.ie", "x", ""]
)
HEADERS = st.lists(st.tuples(NAMES, st.none() | st.binary(max_size=20)), max_size=3)


def headers_of(pairs: list[tuple[str, bytes | None]]) -> bytes:
    return zigzag(len(pairs)) + b"".join(sized(n.encode()) + sized(v) for n, v in pairs)


def with_ids(*ids: bytes | None, base_offset: int = 0) -> bytes:
    """A batch of records with these ids."""
    body = b"".join(
        record(at, headers=headers_of([] if one is None else [(MESSAGE_ID, one)]))
        for at, one in enumerate(ids)
    )
    return batch_of(body, len(ids), base_offset=base_offset)


def found_in(batch: bytes, compiled: bool) -> FoundIds:
    return find_ids(parse_header(batch), batch, HEADER_BYTES, SECRET, compiled=compiled)


def ids_of(*names: int | None) -> FoundIds:
    """As if found, without a batch; a name is its own hash."""
    hashes = array("Q")
    for name in names:
        hashes.extend((name or 0, name or 0))
    has = bytearray(name is not None for name in names)
    deltas = array("q", range(len(names)))
    return FoundIds(hashes, has, array("q", deltas), deltas, sum(has))


def test_the_hash_is_siphash_of_128_bits() -> None:
    # Vectors of the reference implementation (SipHash-2-4-128, key 00 01 … 0f).
    vectors = {
        0: "a3817f04ba25a8e66df67214c7550293",
        1: "da87c1d86b99af44347659119b22fc45",
    }
    for size, expected in vectors.items():
        low, high = hash_of_id(SECRET, bytes(range(size)))
        made = (low.to_bytes(8, "little") + high.to_bytes(8, "little")).hex()
        assert made == expected


@pytest.mark.parametrize("compiled", WAYS)
def test_which_header_is_the_id(compiled: bool) -> None:
    rows: list[tuple[list[tuple[str, bytes | None]], bytes | None]] = [
        ([], None),
        ([(MESSAGE_ID, b"a")], b"a"),
        ([(MESSAGE_ID, b"a"), ("x", b"b")], b"a"),
        ([(MESSAGE_ID, b"a"), (MESSAGE_ID, b"b")], b"b"),
        ([(MESSAGE_ID, b"a"), (MESSAGE_ID, None)], None),
        ([(MESSAGE_ID, b"")], None),
        ([(MESSAGE_ID.upper(), b"a")], None),
        ([(MESSAGE_ID, b"a"), ("sharegroup.redriven", b"1")], None),
        ([("__dlq.errors.topic", b"t"), (MESSAGE_ID, b"a")], None),
        ([("__dlq.errors", b"t"), (MESSAGE_ID, b"a")], b"a"),
    ]
    body = b"".join(record(at, headers=headers_of(pairs)) for at, (pairs, _) in enumerate(rows))
    ids = found_in(batch_of(body, len(rows)), compiled)
    for at, (_, expected) in enumerate(rows):
        assert bool(ids.has[at]) == (expected is not None), at
        if expected is not None:
            assert tuple(ids.hashes[2 * at : 2 * at + 2]) == hash_of_id(SECRET, expected)
    assert ids.found == 4
    assert list(ids.deltas) == list(range(len(rows)))


@pytest.mark.skipif(not walk.IS_COMPILED, reason="there is no compiled code here")
@given(st.lists(st.tuples(HEADERS, st.integers(1, 3)), min_size=1, max_size=20))
def test_twins_find_the_same(rows: list[tuple[list[tuple[str, bytes | None]], int]]) -> None:
    body, delta = b"", -1
    for pairs, step in rows:
        delta += step
        body += record(delta, headers=headers_of(pairs))
    batch = batch_of(body, len(rows), last_delta=delta)
    assert found_in(batch, True) == found_in(batch, False)


@pytest.mark.skipif(not walk.IS_COMPILED, reason="there is no compiled code here")
@given(st.binary(max_size=80), st.integers(0, 4), st.integers(0, 5))
def test_hostile_bytes_have_the_same_verdict(body: bytes, count: int, last: int) -> None:
    batch = batch_of(body, count, last_delta=last)
    verdicts = []
    for compiled in (True, False):
        try:
            found_in(batch, compiled)
            verdicts.append("good")
        except (CorruptMessage, InvalidRecord) as error:
            verdicts.append(str(error))
    assert verdicts[0] == verdicts[1]


@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
@given(gone=st.sets(st.integers(0, 5)))
@settings(max_examples=20)
def test_a_batch_without_some_records(codec: int, gone: set[int]) -> None:
    rows: list[Record] = [
        (b"k%d" % at, b"v" * at, 1000 + at, [(MESSAGE_ID, b"%d" % at)]) for at in range(6)
    ]
    plain, batch = written(rows), written(rows, codec)
    header = parse_header(batch)._replace(producer_id=7, producer_epoch=1, base_sequence=40)
    ids = found_in(plain, walk.IS_COMPILED)
    left = without_records(header, plain, HEADER_BYTES, ids, sorted(gone))
    check_crc(left)
    made = parse_header(left)
    kept = [at for at in range(6) if at not in gone]
    assert (made.record_count, made.last_offset_delta) == (len(kept), 5)
    assert (made.producer_id, made.base_sequence, made.length) == (7, 40, len(left))
    if not kept:
        assert len(left) == HEADER_BYTES
        return
    decoded = list(DefaultRecordBatch(left))
    assert [one.offset for one in decoded] == kept
    assert [one.key for one in decoded] == [b"k%d" % at for at in kept]
    assert made.max_timestamp == 1000 + kept[-1]
    assert made.attributes == codec


@pytest.mark.parametrize("compiled", WAYS)
def test_within_a_batch_the_first_counts(compiled: bool) -> None:
    table = id_table(compiled=compiled)
    batch = with_ids(b"a", b"b", None, b"a", None)
    ids = found_in(batch, compiled)
    assert table.decide(ids, 100, 5, EVER, SETTLED) == array("q", [-1, -1, -1, 100, -1])
    assert table.decide(ids, 200, 6, EVER, SETTLED) == array("q", [100, 101, -1, 100, -1])
    assert list(table.look(ids, EVER)) == [100, 101, -1, 100, -1]


@pytest.mark.parametrize("compiled", WAYS)
def test_the_edge_of_the_limit(compiled: bool) -> None:
    table = id_table(4, compiled=compiled)
    for name in range(4):
        table.decide(ids_of(name), name, 0, EVER, SETTLED)
    assert (len(table), table.early) == (4, 0)
    assert table.decide(ids_of(0), 9, 0, EVER, SETTLED) == array("q", [0])
    table.decide(ids_of(4), 4, 0, EVER, SETTLED)
    assert (len(table), table.early) == (4, 1)
    assert table.decide(ids_of(0), 5, 0, EVER, SETTLED) == array("q", [-1])  # forgotten
    table.check_invariants()


@pytest.mark.parametrize("compiled", WAYS)
def test_more_ids_in_a_batch_than_there_is_room_for(compiled: bool) -> None:
    table = id_table(4, compiled=compiled)
    mark = table.mark()
    assert table.decide(ids_of(*range(10)), 0, 0, EVER, SETTLED) == array("q", [-1] * 10)
    table.undo(mark)
    assert list(table.look(ids_of(*range(10)), EVER)) == [-1] * 10
    table.check_invariants()


@pytest.mark.parametrize("compiled", WAYS)
def test_a_table_grows_and_keeps_all(compiled: bool) -> None:
    table = id_table(1 << 14, compiled=compiled)
    undone, full = set(range(0, 9000, 7)), {1 << 10, 1 << 11, 1 << 12}
    for name in range(9000):
        mark = table.mark()
        if len(table) in full:  # it grows now, and what makes it grow is taken back
            full.remove(len(table))
            undone.add(name)
        table.decide(ids_of(name), name, name, EVER, SETTLED)
        if name in undone:
            table.undo(mark)
            assert table.mark() == mark
    assert not full
    firsts = table.look(ids_of(*range(9000)), EVER)
    assert list(firsts) == [-1 if name in undone else name for name in range(9000)]
    table.check_invariants()


class Twins(RuleBasedStateMachine):
    """Both tables, and a naive one: a list of all ids with offset, time and owner."""

    WINDOW_MS = 10
    LIMIT = 1 << 10

    def __init__(self) -> None:
        super().__init__()
        self.tables: list[IdTable] = [id_table(self.LIMIT, compiled=way) for way in WAYS]
        self.known: list[tuple[int, int, int, int]] = []
        """Name, offset, time, owner."""
        self.open: dict[int, int] = {}
        self.now_ms = 0
        self.end = 0

    @property
    def expired_ms(self) -> int:
        return self.now_ms - self.WINDOW_MS

    def living(self, name: int) -> tuple[int, int, int, int] | None:
        same = [one for one in self.known if one[0] == name and one[2] > self.expired_ms]
        return same[-1] if same else None

    @rule(
        names=st.lists(st.none() | st.integers(0, 12), min_size=1, max_size=8),
        owner=st.sampled_from([SETTLED, SETTLED, 1, 2]),
        fails=st.booleans(),
    )
    def append(self, names: list[int | None], owner: int, fails: bool) -> None:
        before, expected = list(self.known), list[int]()
        held = False
        for at, name in enumerate(names):
            one = None if name is None else self.living(name)
            held = held or (
                one is not None
                and one not in self.known[len(before) :]
                and one[3] >= 0
                and one[3] != owner
            )
            expected.append(-1 if one is None else one[1])
            if one is None and name is not None:
                self.known.append((name, self.end + at, self.now_ms, owner))
        for table in self.tables:
            mark = table.mark()
            decided = table.decide(ids_of(*names), self.end, self.now_ms, self.expired_ms, owner)
            assert decided is None if held else decided == array("q", expected)
            if fails:
                table.undo(mark)
        if held or fails:
            self.known = before
            return
        if owner >= 0 and len(self.known) > len(before):
            self.open.setdefault(owner, self.end)
        self.end += len(names)

    @rule(ms=st.integers(1, 12))
    def wait(self, ms: int) -> None:
        self.now_ms += ms

    @precondition(lambda self: self.open)
    @rule(data=st.data(), committed=st.booleans())
    def end_transaction(self, data: st.DataObject, committed: bool) -> None:
        owner = data.draw(st.sampled_from(sorted(self.open)))
        first = self.open.pop(owner)
        for table in self.tables:
            table.settle(owner, first, committed=committed)
        self.known = [
            (name, offset, ms, SETTLED if whose == owner else whose)
            for name, offset, ms, whose in self.known
            if whose != owner or committed
        ]

    @rule(shift=st.integers(-5, 5))
    def restart(self, shift: int) -> None:
        """The settled ids go to disk and come back; transactions that are open stay in the log."""
        settled = [one for one in self.known if one[3] == SETTLED and one[2] > self.expired_ms]
        assert len({table.export(0, self.end, shift) for table in self.tables}) == 1
        fresh = [id_table(self.LIMIT, compiled=way) for way in WAYS]
        for old, new in zip(self.tables, fresh, strict=True):
            new.load(old.export(0, self.end, shift), -shift, self.now_ms, self.expired_ms)
        self.tables, self.known, self.open = fresh, settled, {}

    @invariant()
    def tables_are_sound(self) -> None:
        for table in self.tables:
            table.check_invariants()
            names = ids_of(*range(13))
            living = [self.living(name) for name in range(13)]
            expected = [-1 if one is None else one[1] for one in living]
            assert list(table.look(names, self.expired_ms)) == expected


TestTwins = Twins.TestCase
