from __future__ import annotations

import pytest

from sharegroup.share.order.throttle import Portion, portion, threshold
from sharegroup.share.record_state import RecordState
from sharegroup.share.spans import Span


def available(*counts: tuple[int, int]) -> list[Span]:
    """Available spans from offset 0 on: (how many records, delivery count)."""
    spans, first = [], 0
    for size, count in counts:
        spans.append(Span(first, first + size - 1, RecordState.AVAILABLE, count, None))
        first += size
    return spans


@pytest.mark.parametrize(
    ("limit", "first_throttled"), [(1, 2), (2, 2), (3, 2), (4, 2), (5, 3), (6, 3), (10, 5)]
)
def test_throttling_begins_at_half_the_limit(limit: int, first_throttled: int) -> None:
    assert threshold(limit) == first_throttled


@pytest.mark.parametrize(
    ("limit", "counts", "size"),
    [
        (10, [(500, 5)], 250),
        (10, [(250, 6), (250, 5)], 125),
        (10, [(125, 7), (375, 5)], 62),
        (10, [(62, 8), (438, 5)], 31),
        (10, [(31, 9), (469, 5)], 1),
        (6, [(500, 3)], 250),
        (6, [(500, 4)], 125),
        (5, [(500, 3)], 250),
        (5, [(500, 4)], 1),
        (3, [(500, 2)], 1),
        # the size of the delivery batch counts, not what is left of it
        (10, [(40, 5)], 40),
        (10, [(300, 5)], 250),
        (10, [(300, 8)], 31),
        # less often delivered ones go ahead in the portion, those at their last delivery wait
        (10, [(100, 1), (400, 5)], 250),
        (10, [(300, 1), (200, 5)], 300),
        (10, [(100, 1), (400, 9)], 100),
        (10, [(10, 5), (490, 9)], 10),
        # limit 2: nothing is a last delivery alone
        (2, [(500, 2)], 250),
        # counts at or above a lowered limit
        (3, [(500, 3)], 125),
        (3, [(500, 9)], 1),
        (3, [(500, 30_000)], 1),
        (1, [(500, 2)], 250),
    ],
)
def test_portions_of_a_delivery_batch_of_500(
    limit: int, counts: list[tuple[int, int]], size: int
) -> None:
    taken = portion(available(*counts), batch_size=500, limit=limit, records_max=500)
    assert taken == Portion(size - 1, size)


def test_one_record_is_the_smallest_portion() -> None:
    assert portion(available((1, 5)), batch_size=1, limit=10, records_max=500) == Portion(0, 1)


def test_a_portion_keeps_within_the_records_asked_for() -> None:
    assert portion(available((9, 5)), batch_size=500, limit=10, records_max=4) == Portion(3, 4)
    assert portion(available((9, 1), (9, 5)), batch_size=99, limit=10, records_max=4).size == 4


def test_a_portion_may_have_holes() -> None:
    spans = available((2, 5), (3, 1), (4, 5))
    assert portion([spans[0], spans[2]], batch_size=10, limit=10, records_max=9) == Portion(7, 5)
