"""Why a queue stands still, in sentences."""

from __future__ import annotations

from typing import Any

import pytest

from sharegroup.console.causes import OLD_MS, QueueState, likely_causes, status_of

MOVING = QueueState(
    members=2,
    paused=False,
    lag=10,
    in_flight=2,
    delayed=0,
    dead=0,
    oldest_age_ms=1_000,
    finished_per_s=5.0,
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
        ({"silent": 1, "silences": ("Member m was last heard of",)}, "Member m was last heard of"),
        ({**OLD, "silent": 1, "silences": ("Member m was",)}, "Member m was"),
        ({"forgotten": 2}, "2 records given up lately"),
        ({"unassigned": ("jobs:1",)}, "No member has jobs:1: records wait there."),
        ({"left": 1}, "1 record held by a member that has left"),
        ({"blocked": 2}, "2 records failed and hold their keys"),
        ({"dead": 1_000}, "1,000 dead letters cannot be written yet."),
        ({"dead": 1, "letters_lack": "why"}, "1 dead letter cannot be written yet: why."),
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


def test_the_first_look_accuses_nobody() -> None:
    """What is finished a second is known from the second look on."""
    first = MOVING._replace(oldest_age_ms=180_000, finished_per_s=None)
    assert status_of(first).text == "oldest 3 min"
    assert likely_causes(first) == []


def test_the_status_says_the_worst() -> None:
    worse: list[tuple[dict[str, Any], str]] = [
        ({}, ""),
        ({"oldest_age_ms": 180_000}, "oldest 3 min"),
        ({"paused": True, "members": 0}, "paused"),
        ({**OLD, "in_flight": 0}, "members ask for none, oldest 1 min"),
        (OLD, "2 held, none finishes, oldest 1 min"),
        ({"silent": 1}, "1 of 2 members silent"),
        ({**OLD, "blocked": 2}, "2 blocked"),
        ({**OLD, "dead": 1}, "1 dead letter waiting"),
        ({**OLD, "dead": 1, "members": 0}, "no member"),
        ({**OLD, "members": 0, "damaged": 3}, "3 lost to damage"),
    ]
    found = [status_of(MOVING._replace(**changes)) for changes, _ in worse]
    assert [one.text for one in found] == [text for _, text in worse]
    assert [one.rank for one in found] == [*range(len(worse))]
    all_silent = status_of(MOVING._replace(silent=2, dead=1))
    assert (all_silent.rank, all_silent.text) == (8, "2 of 2 members silent")
    assert status_of(MOVING._replace(**OLD, delayed=10, in_flight=0)).text == ""
