"""The checker of order per key finds what is wrong: a round in which all is well, and changes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kills.journal import Line
from tests.kills.ordering.rules import violations
from tests.kills.ordering.states import Write

KEYS = {0: [b"x", b"y", b"x", b"x"]}
Told = tuple[str, str, dict[str, Any]]
NOTHING: Told = ("a", "x", {})
DONE = {"done": [0], "refused": {}}


def took(*offsets: int) -> dict[str, Any]:
    return {"records": [[0, offset, 1] for offset in offsets]}


def asks(*offsets: int) -> dict[str, Any]:
    return {"records": [[0, offset] for offset in offsets]}


def shows(*rows: tuple[int, int, int, str | None]) -> dict[str, Any]:
    return {"partitions": {"0": rows}}


def story() -> list[Told]:
    """(who, what, more), one thing at each nanosecond."""
    return [
        ("a", "took", took(0, 2)),
        ("driver", "states", shows((0, 0, 1, "a"), (1, 1, 0, None), (2, 2, 1, "a"))),
        ("a", "accepting", asks(0, 2)),
        ("b", "took", took(1)),
        ("b", "accepting", asks(1)),
        ("a", "answered", DONE),
        ("b", "answered", DONE),
        ("driver", "states", shows((3, 3, 1, "b"))),
        ("b", "took", took(3)),
        ("b", "accepting", asks(3)),
        ("b", "answered", DONE),
        ("a", "took", took()),
        ("b", "took", took()),
    ]


WRITES = [
    Write(0, 0, [(0, 0, 2, 1), (2, 2, 2, 1)]),
    Write(0, 3, [(1, 1, 2, 1)]),
    Write(0, 3, [(3, 3, 0, 1)]),
    Write(0, 4, [(3, 3, 2, 1)]),
]


def judged(changes: dict[int, Told], writes: list[Write] = WRITES) -> list[str]:
    told = [changes.get(at, each) for at, each in enumerate(story())]
    return violations(
        [Line(at, who, 0, *rest) for at, (who, *rest) in enumerate(told)], KEYS, writes
    )


def test_nothing_is_wrong_when_all_is_well() -> None:
    assert judged({}) == []


@pytest.mark.parametrize(
    ("what", "changes"),
    [
        ("nobody has accepted", {4: ("b", "accepting", asks())}),
        # The key's first record is asked for after a later one was confirmed.
        ("against the order of the log", {2: ("a", "accepting", asks(2)),
                                          9: ("b", "accepting", asks(0, 3)),
                                          8: ("b", "took", took(0, 3))}),
        ("0-2 is with b", {1: ("driver", "states", shows((0, 0, 1, "a"), (2, 2, 1, "b")))}),
        ("0-2 is held, and 0", {1: ("driver", "states", shows((0, 0, 0, None), (2, 2, 1, "a")))}),
        ("0-2 is acknowledged, and 0", {1: ("driver", "states",
                                            shows((0, 0, 1, "a"), (2, 2, 2, None)))}),
    ],
)  # fmt: skip
def test_what_members_were_told(what: str, changes: dict[int, Told]) -> None:
    found = judged(changes)
    assert any(what in sentence for sentence in found), found


def test_a_key_with_two_members() -> None:
    """B has a later record of the key before A has asked for an earlier one."""
    told: list[Told] = [
        ("a", "took", took(0)),
        ("b", "took", took(2)),
        ("a", "accepting", asks(0)),
        ("a", "answered", DONE),
        ("b", "accepting", asks(2)),
        ("b", "answered", DONE),
        ("a", "took", took()),
        ("b", "took", took()),
    ]
    lines = [Line(at, who, 0, *rest) for at, (who, *rest) in enumerate(told)]
    found = violations(lines, {0: [b"x", b"y", b"x"]}, [])
    assert any("two members at once" in sentence for sentence in found), found


@pytest.mark.parametrize("start_passes", [False, True])
def test_an_accept_that_is_confirmed_again(start_passes: bool) -> None:
    """Behind the partition's start an accept changes nothing, and is no error."""
    others: list[Told] = [("a", "accepting", asks(0)), ("a", "answered", DONE)]
    told: list[Told] = [
        ("a", "took", took(0)),
        ("b", "took", took(1)),
        ("b", "accepting", asks(1)),
        ("b", "answered", DONE),
        *(others if start_passes else []),
        ("b", "accepting", asks(1)),
        ("b", "answered", DONE),
        *([] if start_passes else others),
    ]
    lines = [Line(at, who, 0, *rest) for at, (who, *rest) in enumerate(told)]
    found = violations(lines, {0: [b"x", b"y"]}, [Write(0, 2, [])])
    assert any("confirmed twice" in sentence for sentence in found) is not start_passes, found


def test_a_record_that_came_twice_proves_nothing() -> None:
    told: list[Told] = [
        ("a", "took", took(0)),
        ("b", "took", took(0)),
        ("a", "took", took(0)),
        ("a", "accepting", asks(0)),
        ("a", "answered", DONE),
        ("b", "accepting", asks(0)),
        ("b", "answered", {"done": [], "refused": {"0": "late"}}),
        ("a", "took", took()),
        ("b", "took", took()),
    ]
    lines = [Line(at, who, 0, *rest) for at, (who, *rest) in enumerate(told)]
    assert violations(lines, {0: [b"x"]}, [Write(0, 1, [])]) == []


@pytest.mark.parametrize(
    ("what", "writes"),
    [
        ("0-2 is acknowledged, 0", [Write(0, 0, [(2, 2, 2, 1)]), *WRITES]),
        ("0-1 is archived", [WRITES[0], Write(0, 3, [(1, 1, 4, 1)]), *WRITES[2:]]),
        ("0-0 was finished", [WRITES[0], Write(0, 0, [(0, 0, 0, 1)]), *WRITES[1:]]),
        ("0-3 is not finished at the end", WRITES[:-1]),
    ],
)
def test_what_was_written(what: str, writes: list[Write]) -> None:
    found = judged({}, writes)
    assert any(what in sentence for sentence in found), found
