"""The newest batches of a partition, compared with a list of them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sharegroup.upstream.recent_batches import RecentBatches
from sharegroup.wire.batch import encode_batch

BEGIN = 5
BATCHES = st.lists(st.tuples(st.integers(0, 2), st.integers(1, 3)), min_size=1, max_size=8)
"""Of each batch: the gap before it, and its records."""


def encoded(sizes: list[tuple[int, int]]) -> list[tuple[int, int, bytes]]:
    """First and last offset of each batch, and the batch."""
    batches, offset = [], BEGIN
    for gap, records in sizes:
        first = offset + gap
        offset = first + records
        data = encode_batch([(None, b"v" * first)] * records, timestamp_ms=0, base_offset=first)
        batches.append((first, offset - 1, data))
    return batches


@given(BATCHES, st.data())
def test_a_read_is_that_of_a_list(sizes: list[tuple[int, int]], data: st.DataObject) -> None:
    batches = encoded(sizes)
    recent = RecentBatches(BEGIN)
    for _, last, batch in batches:
        if data.draw(st.booleans()):
            recent.forget_before(data.draw(st.integers(recent.begin, recent.end)))
        recent.append(batch)
        assert recent.end == last + 1
    offset = data.draw(st.integers(recent.begin, recent.end - 1))
    end = data.draw(st.integers(offset, recent.end + 1))
    bytes_max = data.draw(st.integers(0, 500))
    wanted = [one for one in batches if one[1] >= offset and one[0] < end]
    fitting = wanted[:1]
    for one in wanted[1:]:
        if sum(len(each[2]) for each in [*fitting, one]) > bytes_max:
            break
        fitting.append(one)
    found, behind = recent.read(offset, end, bytes_max)
    assert found == b"".join(one[2] for one in fitting)
    assert behind == (fitting[-1][1] + 1 if fitting else offset)
    left = [one for one in batches if one[1] >= offset]
    assert recent.size_from(offset) == sum(len(one[2]) for one in left)


def test_what_is_forgotten_takes_no_room() -> None:
    recent = RecentBatches()
    for offset in range(1_000):
        recent.append(encode_batch([(None, b"v" * 100)], timestamp_ms=0, base_offset=offset))
        recent.forget_before(offset)
    assert recent.begin >= 998
    assert recent.size_from(0) < 1_000
