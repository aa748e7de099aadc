"""The checker of dead letters finds what is wrong: a round in which all is well, and changes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kills.journal import Line
from tests.kills.letters.jobs import GROUP, TOPIC
from tests.kills.letters.rules import Letter, Verdict, judge

NUMBERS = {(0, 0): 10, (0, 1): 11, (1, 0): 12, (1, 1): 13}
"""Record 10 is accepted, the others are rejected."""
GOOD = {
    11: Letter(TOPIC, GROUP, (0, 1), "no 11", b"job 11"),
    12: Letter(TOPIC, GROUP, (1, 0), None, b"job 12"),
    13: Letter(TOPIC, GROUP, (1, 1), "no 13", b"job 13"),
}
STORY = (
    ("ours-0", "answering", {"records": [[0, 0, 10], [0, 1, 11], [1, 1, 13]]}),
    ("ours-0", "answered", {"done": [0], "refused": {"1": "late"}}),
    ("ours-1", "answering", {"records": [[1, 1, 13]]}),
    ("ours-1", "answered", {"done": [1], "refused": {}}),
    ("confluent-0", "answering", {"records": [[1, 0, 12]]}),
    ("confluent-0", "answered", {"done": [1], "refused": {}}),
)


def judged(letters: list[Letter], story: tuple[tuple[str, str, dict[str, Any]], ...]) -> Verdict:
    lines = [Line(at, who, 0, what, more) for at, (who, what, more) in enumerate(story)]
    return judge(lines, NUMBERS, letters, keeps_reasons=True)


def test_nothing_is_wrong_when_all_is_well() -> None:
    assert judged([*GOOD.values()], STORY) == Verdict([], 3, 0, 0)


def test_letters_that_come_twice_are_counted() -> None:
    assert judged([*GOOD.values(), GOOD[11]], STORY) == Verdict([], 4, 0, 1)


@pytest.mark.parametrize(
    ("what", "number", "letter"),
    [
        ("1 rejected without a letter: 0-1", 11, None),
        ("0, 0), message=None", 10, Letter("other", GROUP, (0, 0), None, b"job 10")),
        ("1 accepted, and a dead letter: (0, 0)", 10,
         Letter(TOPIC, GROUP, (0, 0), None, b"job 10")),
        ("has another value: b'job 12'", 11, GOOD[11]._replace(value=b"job 12")),
        ("says 'no 12'", 11, GOOD[11]._replace(message="no 12")),
        ("is about no record", 14, Letter(TOPIC, GROUP, (7, 7), None, b"job 14")),
        ("1 reasons that are lost: (1, 1)", 13, GOOD[13]._replace(message=None)),
    ],
)  # fmt: skip
def test_what_is_wrong_is_found(what: str, number: int, letter: Letter | None) -> None:
    letters = {**GOOD, number: letter}
    found = judged([one for one in letters.values() if one is not None], STORY).wrong
    assert any(what in sentence for sentence in found), found
