"""The checker of operators' acts finds what is wrong: a round in which all is well, and changes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kills.hands.rules import DRIVER, Place, violations
from tests.kills.journal import Line

ENDS = {0: 6}
FORKS = {"fork": {(0, 1), (0, 2), (0, 3), (0, 4), (0, 5)}}
Told = tuple[str, str, dict[str, Any]]
DONE = {"done": [0], "refused": {}}


def story() -> list[Told]:
    """(who, what, more), one thing at each nanosecond."""
    return [
        ("a", "begins", {}),
        ("a", "took", {"records": [[0, 0, 1], [0, 1, 1]]}),
        ("a", "accepting", {"records": [[0, 0]]}),
        ("a", "answered", DONE),
        (DRIVER, "paused", {"acquired": [(0, 1)]}),
        (DRIVER, "resuming", {"acquired": []}),
        (DRIVER, "forked", {"fork": "fork", "begun_ns": 5}),
        (DRIVER, "purged", {"begun_ns": 6, "before": {"0": 4}, "ends": {"0": 4}}),
        ("b", "begins", {}),
        ("b", "took", {"records": [[0, 4, 1], [0, 5, 1]]}),
        ("b", "accepting", {"records": [[0, 4], [0, 5]]}),
        ("b", "answered", DONE),
    ]


def judged(changes: dict[int, Told], given: set[Place] = FORKS["fork"]) -> list[str]:
    told = [changes.get(at, each) for at, each in enumerate(story())]
    lines = [Line(at, who, 0, what, more) for at, (who, what, more) in enumerate(told)]
    return violations(lines, ENDS, {"fork": given})


def test_nothing_is_wrong_when_all_is_well() -> None:
    assert judged({}) == []


def test_what_nobody_can_say_is_not_wrong() -> None:
    """Record 1 is being accepted while the group is forked."""
    accepts = ("a", "accepting", {"records": [[0, 1]]})
    assert judged({4: accepts, 5: accepts}) == []
    assert judged({4: accepts, 5: accepts}, FORKS["fork"] - {(0, 1)}) == []


@pytest.mark.parametrize(
    ("what", "changes"),
    [
        ("acquired during a pause: 0-2", {5: (DRIVER, "resuming", {"acquired": [(0, 2)]})}),
        ("('b', 0) was given 0-3", {9: ("b", "took", {"records": [[0, 3, 2]]})}),
        ("('b', 0) has accepted 0-3", {10: ("b", "accepting", {"records": [[0, 3], [0, 4],
                                                                          [0, 5]]})}),
        ("nobody has finished: 0-5", {10: ("b", "accepting", {"records": [[0, 4]]})}),
    ],
)  # fmt: skip
def test_what_is_wrong_is_found(what: str, changes: dict[int, Told]) -> None:
    found = judged(changes)
    assert any(what in sentence for sentence in found), found


@pytest.mark.parametrize(
    ("what", "given"),
    [
        ("fork has (0, 0), which was accepted", FORKS["fork"] | {(0, 0)}),
        ("fork lacks (0, 5)", FORKS["fork"] - {(0, 5)}),
    ],
)
def test_what_a_fork_has_is_checked(what: str, given: set[Place]) -> None:
    found = judged({}, given)
    assert any(what in sentence for sentence in found), found
