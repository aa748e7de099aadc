"""What a request says is what was decided, in few ranges."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from sharegroup.client.core.acknowledgements import AcknowledgedRange, AckType
from sharegroup.spark.source.holding.encode_acks import worded
from sharegroup.spark.source.offsets import Done

kinds = st.sampled_from([AckType.ACCEPT, AckType.RELEASE, AckType.REJECT])


@st.composite
def decided(draw: st.DrawFn) -> list[Done]:
    """Ascending, disjoint; often neighbours."""
    ranges, position = [], 0
    pieces = st.tuples(st.sampled_from([0, 0, 0, 3]), st.integers(1, 40), kinds)
    for gap, size, kind in draw(st.lists(pieces, max_size=30)):
        first = position + gap
        ranges.append(Done(first, first + size - 1, kind))
        position = first + size
    return ranges


@given(decided())
def test_every_offset_keeps_its_type(ranges: list[Done]) -> None:
    said = list(worded(ranges))
    found = {}
    for one in said:
        size = one.last - one.first + 1
        types = one.types * size if len(one.types) == 1 else one.types
        assert len(types) == size
        found.update(zip(range(one.first, one.last + 1), types, strict=True))
    assert found == {n: one.type for one in ranges for n in range(one.first, one.last + 1)}
    assert all(one.last < two.first for one, two in pairwise(said))


def test_answers_that_change_are_one_range() -> None:
    ranges = [Done(n, n, 1 + 2 * (n % 2)) for n in range(1_000)]
    assert list(worded(ranges)) == [AcknowledgedRange(0, 999, b"\x01\x03" * 500)]


def test_a_long_range_of_one_answer_takes_one_byte() -> None:
    assert list(worded([Done(0, 10**9, 1)])) == [AcknowledgedRange(0, 10**9, b"\x01")]
