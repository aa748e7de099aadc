"""From fetched bytes to Arrow deliveries: the same words and records as the way through records."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharegroup.arrow.schema import column_names
from sharegroup.client.core.acknowledgements import SENT, UNDECIDED, AckType
from sharegroup.client.core.fetched import FetchedPartition
from sharegroup.client.core.held_deliveries import AcknowledgementMode, Holdings
from sharegroup.client.core.record import HeldDelivery
from sharegroup.client.errors import IllegalState
from sharegroup.client.records.arrow_decode import ArrowDecoding, ArrowDelivery, decode_arrow
from sharegroup.client.records.decode import decode_fetched
from sharegroup.client.share.arrow_batches import answer_rows
from sharegroup.model.offsets import OffsetRange
from tests.client.test_decode import batch, control, fetched

DECODING = ArrowDecoding(column_names(include_headers=True), rows_wanted=1_000)


def words(deliveries: Sequence[HeldDelivery]) -> dict[int, int]:
    """Offset → the word on it; each offset in at most one delivery."""
    found: dict[int, int] = {}
    for one in deliveries:
        for offset, word in enumerate(one.types, one.first):
            if word != SENT:
                assert offset not in found
                found[offset] = word
    return found


def by_record(deliveries: list[HeldDelivery]) -> list[tuple[object, ...]]:
    return [
        (r.offset, r.timestamp, r.key, r.value, list(r.headers), r.topic, r.partition,
         r.delivery_count)
        for one in deliveries
        for r in one.records
    ]  # fmt: skip


def by_row(deliveries: list[ArrowDelivery]) -> list[tuple[object, ...]]:
    return [
        (row["offset"], int(row["timestamp"].timestamp() * 1000 + 0.5), row["key"], row["value"],
         [(h["key"], h["value"]) for h in row["headers"]], row["topic"], row["partition"],
         row["delivery_count"])
        for one in deliveries
        if one.error is None and len(one.records)
        for row in one.records.to_pylist()
    ]  # fmt: skip


@st.composite
def fetches(draw: st.DrawFn) -> FetchedPartition:
    """Batches of all kinds, cut off, and ranges that fit them more or less."""
    data, end = bytearray(), 0
    for _ in range(draw(st.integers(0, 5))):
        first = end + draw(st.integers(0, 2))
        end = first + draw(st.integers(1, 8))
        kind = draw(st.sampled_from(["whole", "whole", "compacted", "control", "damaged"]))
        offsets = None
        if kind == "compacted":
            offsets = sorted(draw(st.sets(st.integers(first, end - 1), min_size=1)))
        if kind == "control":
            end = first + 1
            data += control(first)
            continue
        one = batch(first, end - 1, codec=draw(st.integers(0, 4)), offsets=offsets)
        if kind == "damaged":
            one[-1] ^= 1
        data += one
    cut = draw(st.integers(0, 70)) if draw(st.booleans()) else 0
    cuts = sorted(draw(st.sets(st.integers(0, end + 5), max_size=8)))
    ranges = [
        (first, last - 1, draw(st.integers(1, 3)))
        for first, last in zip(cuts[::2], cuts[1::2], strict=False)
    ]
    return fetched(data[: len(data) - cut], *draw(st.permutations(ranges)))


@given(fetches(), st.integers(1, 9))
def test_every_offset_gets_the_same_answer_as_when_decoded_by_records(
    one: FetchedPartition, rows_wanted: int
) -> None:
    by_records = decode_fetched(one)
    arrow = decode_arrow([one], DECODING._replace(rows_wanted=rows_wanted))
    assert words(arrow) == words(by_records)
    assert by_row(arrow) == by_record(by_records)
    assert all(len(delivery.records) <= rows_wanted * 5 // 4 for delivery in arrow)
    errors = {str(d.error) for d in by_records if d.error is not None}
    assert {str(d.error).partition(" is damaged")[0] for d in arrow if d.error is not None} == {
        error.partition(" is damaged")[0] for error in errors
    }


def test_a_damaged_batch_keeps_its_place_between_the_others() -> None:
    damaged = batch(5, 9)
    damaged[-1] ^= 1
    before, broken, after = decode_arrow(
        [fetched(batch(0, 4) + damaged + batch(10, 14), (2, 12, 1))], DECODING
    )
    assert "offset 5 of t-3 is damaged" in str(broken.error)
    assert (broken.first, broken.types) == (5, bytes([AckType.REJECT]) * 5)
    assert [one.records["offset"].to_pylist() for one in (before, after)] == [
        [2, 3, 4],
        [10, 11, 12],
    ]


def test_after_an_invalid_length_the_records_are_released() -> None:
    data = batch(0, 4) + batch(5, 9)
    struct.pack_into(">i", data, len(batch(0, 4)) + 8, 3)
    [delivery] = decode_arrow([fetched(data, (0, 9, 1))], DECODING)
    assert delivery.records["offset"].to_pylist() == [0, 1, 2, 3, 4]
    assert delivery.types[5:] == bytes([AckType.RELEASE]) * 5


def test_checksums_need_not_be_checked() -> None:
    damaged = batch(0, 4)
    damaged[17] ^= 1
    one = fetched(damaged, (0, 4, 1))
    [delivery] = decode_arrow([one], DECODING)
    assert delivery.error is not None
    [delivery] = decode_arrow([one], DECODING._replace(check_crcs=False))
    assert len(delivery.records) == 5


def test_rows_are_found_by_offset_without_a_copy() -> None:
    [delivery] = decode_arrow([fetched(batch(0, 9, offsets=[0, 2, 4, 6, 8]), (0, 9, 1))], DECODING)
    rows = delivery.within(OffsetRange(2, 5))
    assert rows["offset"].to_pylist() == [2, 4]
    assert rows["value"].buffers()[2].address == delivery.records["value"].buffers()[2].address


@given(
    st.lists(st.integers(0, 2), min_size=10, max_size=10),
    st.lists(st.integers(0, 9), min_size=1, unique=True),
    st.data(),
)
def test_answers_go_to_the_delivery_that_holds_the_record(
    owners: list[int], offsets: list[int], data: st.DataObject
) -> None:
    """Three fetches of one partition, whose offsets lie between each other's; some rows of them are
    answered for, in any order, as if record by record.
    """
    holdings = Holdings(AcknowledgementMode.EXPLICIT)
    for fetch in range(3):
        ranges = [(offset, offset, 1) for offset in range(10) if owners[offset] == fetch]
        holdings.buffer(decode_arrow([fetched(batch(0, 9), *ranges)], DECODING))
    deliveries = holdings.next_deliveries(100, 0.0)
    answers = data.draw(st.lists(st.integers(1, 4) | st.none(), min_size=len(offsets),
                                 max_size=len(offsets)))  # fmt: skip
    rows = pa.table({"topic": ["t"] * len(offsets), "partition": [3] * len(offsets),
                     "offset": offsets})  # fmt: skip
    answer_rows(holdings, rows, pa.array(answers, pa.int8()))
    said = dict(zip(offsets, answers, strict=True))
    assert words(deliveries) == {at: said.get(at) or UNDECIDED for at in range(10)}
    with pytest.raises(IllegalState, match="offset 10 of t-3 is not waiting"):
        answer_rows(holdings, pa.table({"topic": ["t"], "partition": [3], "offset": [10]}), 1)


@pytest.mark.parametrize("columns", [(False, 7), (True, 8)])
def test_headers_are_decoded_on_request(columns: tuple[bool, int]) -> None:
    include, count = columns
    decoding = ArrowDecoding(column_names(include), rows_wanted=10)
    [delivery] = decode_arrow([fetched(batch(0, 1), (0, 1, 1))], decoding)
    assert delivery.records.num_columns == count
