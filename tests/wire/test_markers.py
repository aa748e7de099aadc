from __future__ import annotations

import pytest

from sharegroup.model.errors import CorruptMessage
from sharegroup.model.log import AbortedTransaction
from sharegroup.wire.batch import (
    CONTROL,
    TRANSACTIONAL,
    encode_batch,
    parse_header,
    stamp,
    with_records,
)
from sharegroup.wire.markers import (
    Marker,
    MarkerType,
    aborted_ranges,
    decode_marker,
    encode_marker,
    is_control,
    is_transactional,
)


def log(*batches: bytes) -> bytes:
    """The batches one behind the other, with offsets from 0 on."""
    stamped = b""
    offset = 0
    for batch in batches:
        copy = bytearray(batch)
        stamp(copy, offset, 0)
        offset = parse_header(copy).last_offset + 1
        stamped += copy
    return stamped


def data(producer_id: int, count: int = 1, attributes: int = TRANSACTIONAL) -> bytes:
    return encode_batch(
        [(None, b"v")] * count, timestamp_ms=0, producer_id=producer_id, attributes=attributes
    )


def end(producer_id: int, marker: MarkerType) -> bytes:
    return encode_marker(marker, producer_id=producer_id, producer_epoch=0, timestamp_ms=0)


@pytest.mark.parametrize("kind", MarkerType)
def test_a_marker_round_trips(kind: MarkerType) -> None:
    batch = encode_marker(
        kind, producer_id=7, producer_epoch=3, timestamp_ms=11, coordinator_epoch=5
    )
    header = parse_header(batch)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 3, -1)
    assert is_control(header)
    assert is_transactional(header)
    assert decode_marker(batch) == Marker(kind, 5)


def test_other_control_records_end_nothing() -> None:
    batch = encode_batch([(b"\0\0\0\2", b"leader change")], timestamp_ms=0, attributes=CONTROL)
    assert decode_marker(batch).type == 2


def test_an_empty_control_batch_ends_nothing() -> None:
    """The log cleaner leaves one where a whole transaction is gone."""
    marker = end(1, MarkerType.ABORT)
    empty = with_records(parse_header(marker)._replace(record_count=0), b"")
    assert decode_marker(empty) == Marker(-1, -1)


@pytest.mark.parametrize("record", [(None, None), (b"\0", b"\0"), (b"\0\0\0\0", b"\0")])
def test_a_control_record_that_cannot_be_read(record: tuple[bytes | None, bytes | None]) -> None:
    with pytest.raises(CorruptMessage):
        decode_marker(encode_batch([record], timestamp_ms=0, attributes=CONTROL))


def test_records_of_an_aborted_transaction_are_found() -> None:
    run = log(
        data(1, 2),  # 0-1 aborted
        data(2, 2),  # 2-3 committed
        data(1, 3),  # 4-6 aborted
        data(1, 1, attributes=0),  # 7 same producer, no transaction
        end(1, MarkerType.ABORT),  # 8
        data(1, 2),  # 9-10 the next transaction of 1: committed
        end(2, MarkerType.COMMIT),  # 11
        end(1, MarkerType.COMMIT),  # 12
        data(3),  # 13 aborted
        data(3),  # 14 aborted
    )
    aborted = [AbortedTransaction(3, 13), AbortedTransaction(1, 0)]
    assert aborted_ranges(run, aborted) == [(0, 1), (4, 6), (13, 14)]
    assert aborted_ranges(run, []) == []


def test_a_read_may_begin_inside_an_aborted_transaction() -> None:
    run = log(data(1), data(1), end(1, MarkerType.ABORT), data(1))
    tail = run[len(data(1)) :]
    assert aborted_ranges(tail, [AbortedTransaction(1, 0)]) == [(1, 1)]
