from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharegroup.model.errors import InvalidRecordState, InvalidRequest
from sharegroup.share.acknowledge import NEAR_OFFSETS, AckBatch, AckRun, checked_runs, neighbouring
from sharegroup.share.record_state import Verb


def runs(*batches: AckBatch, start: int = 0, end: int = 100, renew: bool = True) -> list[AckRun]:
    return checked_runs(batches, start=start, end=end, renew_allowed=renew)


@pytest.mark.parametrize(
    "batch",
    [
        AckBatch(5, 4, [1]),
        AckBatch(-1, 4, [1]),
        AckBatch(0, 4, []),
        AckBatch(0, 4, [1, 1]),
        AckBatch(0, 0, [5]),
        AckBatch(0, 0, [-1]),
        AckBatch(0, 0, [256]),
        AckBatch(0, 0, b"\xff"),
    ],
)
def test_malformed_batches(batch: AckBatch) -> None:
    with pytest.raises(InvalidRequest):
        runs(batch)


@pytest.mark.parametrize("second", [AckBatch(4, 6, [1]), AckBatch(0, 0, [1])])
def test_batches_that_overlap_or_go_back(second: AckBatch) -> None:
    with pytest.raises(InvalidRequest):
        runs(AckBatch(2, 4, [1]), second)


def test_renew_only_where_the_request_allows_it() -> None:
    assert runs(AckBatch(0, 1, [1, 4])) == [AckRun(0, 0, Verb.ACCEPT), AckRun(1, 1, Verb.RENEW)]
    with pytest.raises(InvalidRequest):
        runs(AckBatch(0, 1, [1, 4]), renew=False)


def test_a_malformed_batch_is_found_before_one_outside_the_window() -> None:
    with pytest.raises(InvalidRequest):
        runs(AckBatch(200, 201, [1]), AckBatch(300, 301, [9]))


def test_offsets_below_the_start_are_ignored() -> None:
    assert runs(AckBatch(0, 4, [1]), start=5) == []
    assert runs(AckBatch(0, 5, [1]), start=5) == [AckRun(5, 5, Verb.ACCEPT)]
    assert runs(AckBatch(3, 6, [1, 2, 3, 0]), start=5) == [
        AckRun(5, 5, Verb.REJECT),
        AckRun(6, 6, Verb.GAP),
    ]


def test_past_the_window() -> None:
    with pytest.raises(InvalidRequest):
        runs(AckBatch(10, 12, [1]), end=10)
    with pytest.raises(InvalidRecordState):
        runs(AckBatch(10, 12, [1]), start=10, end=10)
    with pytest.raises(InvalidRequest):
        runs(AckBatch(9, 12, [1]), end=10)


def test_adjoining_batches_of_one_type_are_one_run() -> None:
    assert runs(AckBatch(0, 0, [1]), AckBatch(1, 3, [1]), AckBatch(5, 5, [1])) == [
        AckRun(0, 3, Verb.ACCEPT),
        AckRun(5, 5, Verb.ACCEPT),
    ]


def test_groups_have_no_holes() -> None:
    far = 4 + NEAR_OFFSETS
    one, two, three = (AckRun(0, 1, Verb.ACCEPT), AckRun(2, 2, Verb.REJECT), AckRun(4, 4, Verb.GAP))
    after, beyond = AckRun(far + 1, far + 1, Verb.ACCEPT), AckRun(far + 2, far + 2, Verb.ACCEPT)
    assert list(neighbouring([one, two, three, after])) == [
        [one, two, AckRun(3, 3, None), three, AckRun(5, far, None), after]
    ]
    assert list(neighbouring([three, beyond])) == [[three], [beyond]]
    assert list(neighbouring([])) == []


@given(st.lists(st.integers(0, 4), min_size=1, max_size=50))
def test_runs_say_what_the_types_said(types: list[int]) -> None:
    found = runs(AckBatch(7, 6 + len(types), types))
    said = [(o, r.verb) for r in found for o in range(r.first, r.last + 1)]
    expected = types * len(types) if len(types) == 1 else types
    assert said == list(enumerate(expected, start=7))
    assert all(a.verb is not b.verb for a, b in pairwise(found))
