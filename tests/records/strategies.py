"""Records as producers write them, and bytes as nobody should."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.records.making import written

field = st.none() | st.binary(max_size=12) | st.integers(60, 9000).map(lambda n: b"x" * n)
header = st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5))
one_record = st.tuples(field, field, st.integers(0, 2**41), st.lists(header, max_size=3))


@st.composite
def damaged(draw: st.DrawFn) -> tuple[bytes, int]:
    """Records by a producer, then changed, cut and put together wrongly; or any bytes."""
    made = draw(st.lists(one_record, min_size=1, max_size=4))
    data = bytearray(written(made)[61:])
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(data) - 1))
        data[at] = draw(st.sampled_from([0, 1, 2, 0x7F, 0x80, 0xFF]) | st.integers(0, 255))
    data = data[: len(data) - draw(st.integers(0, 3))]
    return bytes(data) + draw(st.binary(max_size=3)), len(made) + draw(st.integers(-2, 2))
