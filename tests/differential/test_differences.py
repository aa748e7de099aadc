"""What counts as a declared difference, and what does not."""

from __future__ import annotations

import random

import pytest

from tests.differential import acknowledgements
from tests.differential.acknowledgements import ACCEPT, RENEW, Choice
from tests.differential.differences import Seen, compare, declared
from tests.differential.script import random_script

OFFSETS = "describe_offsets(0) -> p0 start {} lag {} ok"
POLL = "poll(1, {}, 7, {}) -> {}"


@pytest.mark.parametrize(
    ("kafka", "ours", "seen"),
    [
        (OFFSETS.format(3, 5), OFFSETS.format(3, 5), Seen.SAME),
        (OFFSETS.format(3, 5), OFFSETS.format(4, 5), Seen.DECLARED),
        (OFFSETS.format(-1, -1), OFFSETS.format(0, 5), Seen.DIFFERENT),
        (OFFSETS.format(3, 5), OFFSETS.format(3, 4), Seen.DIFFERENT),
        (OFFSETS.format(0, 5), OFFSETS.format(-1, -1), Seen.DIFFERENT),
        (POLL.format(5, 0, "p0 1-9x2"), POLL.format(5, 0, "p0 1-4x2"), Seen.PARTED),
        (POLL.format(5, 0, "p0 1-9x2, p0 12-12x2"), POLL.format(5, 0, "p0 1-9x2"), Seen.PARTED),
        (POLL.format(5, 0, "p0 1-9x2"), POLL.format(5, 0, "p0 1-9x3"), Seen.DIFFERENT),
        (POLL.format(5, 0, "p0 1-9x2"), POLL.format(5, 0, "nothing"), Seen.DIFFERENT),
        (POLL.format(5, 0, "p0 1-4x2"), POLL.format(5, 0, "p0 1-4x2, p0 5-9x2"), Seen.PARTED),
        (POLL.format(5, 1, "p0 1-5x2"), POLL.format(5, 1, "p0 1-4x2"), Seen.DIFFERENT),
        (POLL.format(10_000, 0, "p0 1-5x2"), POLL.format(10_000, 0, "p0 1-4x2"), Seen.DIFFERENT),
    ],
)
def test_only_declared_differences_pass(kafka: str, ours: str, seen: Seen) -> None:
    assert compare(kafka, ours, declared()) is seen


def test_every_difference_has_its_reason() -> None:
    rows = declared()
    assert len(rows) > 3
    assert [row.name for row in rows if not row.why.endswith(".")] == []


def test_a_seed_always_gives_the_same_script() -> None:
    assert random_script(7) == random_script(7)
    assert random_script(7).steps != random_script(8).steps


def test_answers_are_consistent() -> None:
    for seed in range(300):
        held = {0: dict.fromkeys([*range(10), 12, 13, 20], 1), 1: {}}
        choice = acknowledgements.chosen(held, random.Random(seed))
        end = -1
        for first, last, types in choice.batches.get(0, []):
            assert end < first <= last
            assert set(range(first, last + 1)) <= held[0].keys()
            assert len(types) in (1, last - first + 1)
            assert choice.renew or RENEW not in types
            end = last


def test_answered_records_are_no_longer_held() -> None:
    held = {0: dict.fromkeys(range(4), 1)}
    Choice({0: [(0, 1, [ACCEPT]), (2, 3, [RENEW, ACCEPT])]}, renew=True).settle(held, 0)
    assert held == {0: {2: 1}}
