"""Fetched bytes as records and as rows: the same ones, those of aborted transactions left out."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharegroup.client.core.positions import Position
from sharegroup.client.errors import CorruptRecordBatch, RecordDeserializationError
from sharegroup.client.group.arrow_chunks import ArrowChunk, ArrowChunkForm
from sharegroup.client.group.chunks import Chunk, FetchedBytes, decode_chunk
from sharegroup.client.records.decode import AS_BYTES, Decoding
from sharegroup.model.ids import TopicPartition
from sharegroup.model.log import AbortedTransaction
from sharegroup.wire.batch import TRANSACTIONAL, encode_batch, parse_header, parse_headers, stamp
from sharegroup.wire.markers import MarkerType, encode_marker

WHERE = TopicPartition("t", 0)
PRODUCERS = (1, 2)
_CRC_FROM = 21


class Log(NamedTuple):
    data: bytes
    visible: list[int]
    aborted: list[AbortedTransaction]
    end: int


def stamped(batch: bytes, offset: int) -> bytes:
    whole = bytearray(batch)
    stamp(whole, offset, leader_epoch=4)
    return bytes(whole)


def log_of(events: list[tuple[str, int, int]]) -> Log:
    """A log of plain batches, transactional ones, and their ends; its last transactions end."""
    data, offset = b"", 0
    open_from: dict[int, int] = {}
    offsets: dict[int, list[int]] = {one: [] for one in PRODUCERS}
    visible: list[int] = []
    aborted: list[AbortedTransaction] = []
    ends = [("commit", producer, 0) for producer in PRODUCERS]
    for what, producer, count in [*events, *ends]:
        if what in ("commit", "abort"):
            if producer not in open_from:
                continue
            first = open_from.pop(producer)
            kind = MarkerType.COMMIT if what == "commit" else MarkerType.ABORT
            batch = encode_marker(kind, producer_id=producer, producer_epoch=0, timestamp_ms=1)
            if what == "commit":
                visible += offsets[producer]
            else:
                aborted.append(AbortedTransaction(producer, first))
            offsets[producer] = []
            count = 1
        else:
            transactional = what == "write"
            batch = encode_batch(
                [(None, b"v")] * count,
                timestamp_ms=1,
                producer_id=producer if transactional else -1,
                producer_epoch=0 if transactional else -1,
                attributes=TRANSACTIONAL if transactional else 0,
            )
            mine = list(range(offset, offset + count))
            if transactional:
                open_from.setdefault(producer, offset)
                offsets[producer] += mine
            else:
                visible += mine
        data += stamped(batch, offset)
        offset += count
    return Log(data, sorted(visible), aborted, offset)


logs = st.lists(
    st.tuples(
        st.sampled_from(["plain", "write", "write", "commit", "abort"]),
        st.sampled_from(PRODUCERS),
        st.integers(1, 4),
    ),
    max_size=12,
).map(log_of)


def fetched(log: Log, first: int = 0, data: bytes | None = None) -> FetchedBytes:
    return FetchedBytes(
        WHERE, 1, Position(first), log.end, log.data if data is None else data, log.aborted
    )


def taken(chunk: Chunk, each: int) -> list[int]:
    found: list[int] = []
    while not chunk.empty:
        records, behind = chunk.take(each)
        found += [record.offset for record in records]
        assert found[-1] < behind.offset
    assert chunk.take(each)[1] == chunk.end
    return found


def rows(chunk: ArrowChunk) -> list[int]:
    found: list[int] = []
    while (batch := chunk.take()[0]) is not None:
        found += batch.column("offset").to_pylist()
    return found


@given(log=logs, each=st.integers(1, 5), first=st.integers(0, 30))
def test_records_and_rows_are_those_that_were_committed(log: Log, each: int, first: int) -> None:
    if not log.data:
        return
    first = min(first, log.end - 1)
    wanted = [offset for offset in log.visible if offset >= first]
    chunk = decode_chunk(fetched(log, first), AS_BYTES)
    assert taken(chunk, each) == wanted
    assert chunk.error is None
    assert chunk.end.offset == log.end
    arrow = ArrowChunk(fetched(log, first), ArrowChunkForm(each, False, AS_BYTES))
    assert rows(arrow) == wanted
    assert arrow.end.offset == log.end


@given(log=logs, which=st.integers(0, 20), at=st.integers(0, 200), each=st.integers(1, 5))
def test_damage_ends_a_chunk_and_changes_nothing_before_it(
    log: Log, which: int, at: int, each: int
) -> None:
    batches = parse_headers(log.data)
    if not batches:
        return
    begin = sum(header.length for header in batches[: which % len(batches)])
    end = begin + batches[which % len(batches)].length
    damaged = bytearray(log.data)
    damaged[begin + _CRC_FROM + at % (end - begin - _CRC_FROM)] ^= 0x40
    first = parse_header(log.data, begin).base_offset
    chunk = decode_chunk(fetched(log, data=bytes(damaged)), AS_BYTES)
    assert taken(chunk, each) == [offset for offset in log.visible if offset < first]
    assert isinstance(chunk.error, CorruptRecordBatch)
    assert first < chunk.end.offset <= log.end
    arrow = ArrowChunk(fetched(log, data=bytes(damaged)), ArrowChunkForm(each, False, AS_BYTES))
    assert rows(arrow) == [offset for offset in log.visible if offset < first]
    assert isinstance(arrow.error, CorruptRecordBatch)


@given(log=logs, at=st.integers(0, 2_000), each=st.integers(1, 5))
def test_no_damage_leads_out_of_the_log(log: Log, at: int, each: int) -> None:
    """Base offset, length and leader epoch are covered by no checksum."""
    if not log.data:
        return
    damaged = bytearray(log.data)
    damaged[at % len(damaged)] ^= 0x40
    chunk = decode_chunk(fetched(log, data=bytes(damaged)), AS_BYTES)
    assert set(taken(chunk, each)) <= set(range(log.end))
    assert 0 <= chunk.end.offset <= log.end
    assert chunk.error is not None or chunk.end.offset > 0
    arrow = ArrowChunk(fetched(log, data=bytes(damaged)), ArrowChunkForm(each, False, AS_BYTES))
    assert set(rows(arrow)) <= set(range(log.end))
    assert 0 <= arrow.end.offset <= log.end


def test_a_record_that_is_refused_is_where_the_chunk_ends() -> None:
    log = log_of([("plain", 1, 3)])

    def refuse_second(value: bytes, seen: list[Any] = []) -> bytes:  # noqa: B006
        seen.append(value)
        if len(seen) == 2:
            raise ValueError
        return value

    chunk = decode_chunk(fetched(log), Decoding(value_deserializer=refuse_second))
    assert [record.offset for record in chunk.take(5)[0]] == [0]
    assert isinstance(chunk.error, RecordDeserializationError)
    assert chunk.end.offset == 1


def test_an_epoch_of_the_leader_comes_with_each_record() -> None:
    chunk = decode_chunk(fetched(log_of([("plain", 1, 1)])), AS_BYTES)
    [record] = chunk.records
    assert record.leader_epoch == chunk.end.leader_epoch == 4


@pytest.mark.parametrize("count", [0, -1])
def test_a_form_without_rows_is_refused(count: int) -> None:
    with pytest.raises(Exception, match="max_records"):
        ArrowChunkForm(count, False, AS_BYTES)
