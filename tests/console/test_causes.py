"""Why a queue stands still, in sentences."""

from __future__ import annotations

from typing import Any

import pytest

from sharegroup.console.causes import OLD_MS, QueueState, likely_causes

MOVING = QueueState(
    members=2,
    paused=False,
    lag=10,
    in_flight=2,
    delayed=0,
    dead=0,
    blocked=0,
    oldest_age_ms=1_000,
    finished_per_s=5.0,
    unassigned=0,
    damaged=0,
)
OLD: dict[str, Any] = {"oldest_age_ms": OLD_MS + 1, "finished_per_s": 0.0}


def test_a_queue_that_moves_needs_no_word() -> None:
    assert likely_causes(MOVING) == []
    assert likely_causes(MOVING._replace(oldest_age_ms=OLD_MS + 1)) == []
    assert likely_causes(MOVING._replace(lag=0, members=0, oldest_age_ms=None)) == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"paused": True}, "The group is paused"),
        ({"members": 0}, "No member consumes"),
        ({"unassigned": 1}, "1 partition with records belong to no member"),
        ({"blocked": 2}, "2 records failed and hold their keys"),
        ({"dead": 1_000}, "1,000 dead letters cannot be written"),
        ({"damaged": 3}, "3 records are lost to damage"),
        ({**OLD, "in_flight": 10}, "Members hold all records that are due"),
        ({**OLD, "in_flight": 7, "delayed": 3}, "Members hold all records that are due"),
        ({**OLD, "in_flight": 0, "delayed": 10}, "All records rest"),
        (OLD, "Members hold records and finish none"),
        ({**OLD, "in_flight": 0}, "Members ask for no records"),
        ({**OLD, "in_flight": None, "delayed": None, "dead": None}, "Members ask for no records"),
    ],
)
def test_what_is_said(changes: dict[str, Any], said: str) -> None:
    found = likely_causes(MOVING._replace(**changes))
    assert found[0].startswith(said), found
    assert len(found) == 1
