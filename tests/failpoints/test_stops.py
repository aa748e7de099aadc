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


def given(*, asked_ms: float) -> list[str]:
    """One member's acknowledgement is taken at 10,000 ms, another got the record at 7,100 ms."""
    place = ["jobs", 0, 0, 0]
    events = [
        {"op": "ack", "t": 5, "n": 1, "group": "g", "member": "a", "acks": [[*place, "accept"]]},
        {"op": "poll", "t": asked_ms, "n": 2, "group": "g", "member": "b"},
        {"op": "polled", "t": 7_100, "n": 2, "acquired": [[*place, 1]], "records": []},
        {"op": "acked", "t": 10_000, "n": 1, "results": ["ok"]},
    ]
    return [json.dumps(one) for one in events]


def test_an_answer_is_late_after_another_broker_has_given_the_record() -> None:
    [line] = late_answers(given(asked_ms=7_000), 4, 9_000)
    assert "by a was taken after b had got it" in line
    assert list(late_answers(given(asked_ms=1), 4, 9_000)) == []  # it may be an earlier delivery
    assert list(late_answers(given(asked_ms=7_000), 4, 10_001)) == []  # within the stop


def test_a_batch_after_the_next_claim_overlaps() -> None:
    first, second = Owner(1, 7, b"a"), Owner(2, 8, b"b")
    batches = [OwnedBatch(at, at + 1, one, ()) for at, one in enumerate((first, first, second))]
    assert list(overlaps_of("state-0", batches)) == []
    late = OwnedBatch(3, 4, first, ())
    [line] = overlaps_of("state-0", [*batches, late])
    assert line == "state-0: at offset 3 node 7 writes in term 1, after term 2 has begun"
