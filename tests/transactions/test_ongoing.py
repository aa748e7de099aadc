"""Open transactions against a naive model that remembers everything."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sharegroup.transactions.ongoing import EndedTransaction, OngoingTransactions

# (producer, ends its transaction, how many offsets the high watermark then trails behind)
STEPS = st.lists(st.tuples(st.integers(0, 3), st.booleans(), st.integers(0, 6)), max_size=60)


@given(steps=STEPS)
def test_agrees_with_the_whole_history(steps: list[tuple[int, bool, int]]) -> None:
    ongoing = OngoingTransactions()
    began: dict[int, int] = {}
    ended: list[tuple[int, int]] = []
    high_watermark = 0
    for offset, (producer, ends, behind) in enumerate(steps):
        if ends:
            first = began.pop(producer, None)
            expected = None
            if first is not None:
                stable = min(began.values(), default=offset + 1)
                expected = EndedTransaction(producer, first, offset, stable)
                ended.append((first, offset))
            assert ongoing.ended(producer, offset) == expected
        else:
            ongoing.appended(producer, offset)
            began.setdefault(producer, offset)
        high_watermark = max(high_watermark, offset + 1 - behind)
        unknown = [first for first, marker in ended if marker >= high_watermark]
        assert ongoing.first_unstable(high_watermark) == min(
            [*unknown, *began.values()], default=None
        )
        assert {p: ongoing.first_offset(p) for p in began} == began
        assert len(ongoing) == len(began)
        ongoing.check_invariants()


def test_a_snapshot_round_trips_in_order() -> None:
    ongoing = OngoingTransactions()
    ongoing.load({7: 30, 8: 10})
    ongoing.check_invariants()
    assert ongoing.first_unstable(100) == 10
    assert ongoing.ended(8, 40) == EndedTransaction(8, 10, 40, 30)
    assert ongoing.first_unstable(40) == 10
    assert ongoing.first_unstable(41) == 30
