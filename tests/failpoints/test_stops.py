"""One stop at a write boundary, and what looks at it; ``scripts/stops.py`` has all stops."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sharegroup.fleet.terms import Owner
from sharegroup.sim.state_terms import overlaps_of
from sharegroup.upstream.owned_batches import OwnedBatch
from tests.failpoints.late_answers import late_answers
from tests.failpoints.round import compiled
from tests.failpoints.stops import STOPPOINT, Stop, StopRound


@pytest.mark.process
def test_a_broker_that_stands_still_there(tmp_path: Path) -> None:
    round_of_it = StopRound(tmp_path / "round", compiled(tmp_path, STOPPOINT))
    stopped = round_of_it.stop(Stop("before", 25, 6.5))
    assert stopped.wrong == []
    assert stopped.topic
    assert stopped.taken


def taken_at_10_s(*, polled_ms: float, since_ms: float, count: int) -> list[str]:
    """A member's acknowledgement is asked for at 5 s, and another delivery of the record."""
    place, me = ["jobs", 0, 0, 0], {"group": "g", "member": "a"}
    events = [
        {"op": "poll", "t": 4_000, "n": 1, **me},
        {"op": "polled", "t": 4_001, "n": 1, "acquired": [[*place, 2]], "since": 0},
        {"op": "ack", "t": 5_000, "n": 2, **me, "acks": [[*place, "accept"]]},
        {"op": "poll", "t": polled_ms, "n": 3, "group": "g", "member": "b"},
        {"op": "polled", "t": 9_500, "n": 3, "acquired": [[*place, count]], "since": since_ms},
        {"op": "acked", "t": 10_000, "n": 2, "results": ["ok"]},
    ]
    return [json.dumps(one) for one in events]


def test_an_answer_is_late_where_the_record_was_given_again() -> None:
    again = taken_at_10_s(polled_ms=8_000, since_ms=7_000, count=1)
    [line] = late_answers(again, 9_000)
    assert "by a was taken; b got it" in line
    assert list(late_answers(again, 4_000)) == []  # asked for after the stop
    [line] = late_answers(taken_at_10_s(polled_ms=8_000, since_ms=0, count=2), 9_000)
    earlier = taken_at_10_s(polled_ms=8_000, since_ms=0, count=1)
    assert list(late_answers(earlier, 9_000)) == []  # a delivery that is returned late


def test_a_batch_after_the_next_claim_overlaps() -> None:
    first, second = Owner(1, 7, b"a"), Owner(2, 8, b"b")
    batches = [OwnedBatch(at, at + 1, one, ()) for at, one in enumerate((first, first, second))]
    assert list(overlaps_of("state-0", batches)) == []
    other = Owner(2, 9, b"c")  # has claimed at the same time, and claims again
    assert list(overlaps_of("state-0", [*batches, OwnedBatch(3, 4, other, ())])) == []
    late = OwnedBatch(3, 4, first, ((3, b"key", b"value"),))
    [line] = overlaps_of("state-0", [*batches, late])
    assert line == "state-0: at offset 3 node 7 writes in term 1, after term 2 has begun"
