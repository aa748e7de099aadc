"""The checker finds what is wrong: a round in which all is well, and what is changed in it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kills.journal import Line
from tests.kills.rules import READY_MS, Final, violations

GROUP = "new"
ELSEWHERE = {"partition": 0, "number": 0, "offset": 7}
AGAIN = {"partition": 0, "offsets": [0, 1]}
TWICE = [(0, "producer.0.0"), (1, "producer.0.0")]


def story() -> list[tuple[str, int, str, dict[str, Any]]]:
    """(who, life, what, more), one thing at each microsecond."""
    return [
        ("producer", 0, "begins", {"idempotent": True}),
        ("producer", 0, "sending", {"partition": 0, "number": 0}),
        ("producer", 0, "acked", {"partition": 0, "number": 0, "offset": 0}),
        ("producer", 0, "sending", {"partition": 0, "number": 3}),
        ("reader", 0, "begins", {"group": GROUP}),
        ("reader", 0, "assigned", {"partitions": [0]}),
        ("reader", 0, "read", {"partition": 0, "offsets": [0, 0]}),
        ("reader", 0, "committing", {"offsets": {"0": 1}}),
        ("reader", 0, "committed", {"offsets": {"0": 1}}),
        ("reader", 0, "revoked", {"partitions": [0]}),
        ("other", 0, "begins", {"group": GROUP}),
        ("other", 0, "assigned", {"partitions": [0]}),
        ("other", 0, "read", {"partition": 0, "offsets": [1, 1]}),
        ("other", 0, "committing", {"offsets": {"0": 2}}),
        ("other", 0, "committed", {"offsets": {"0": 2}}),
        ("transfer", 0, "begins", {"group": "transfers"}),
        ("transfer", 0, "begun", {"transaction": "t.1", "first": {"0": 0}, "behind": {"0": 1}}),
        ("transfer", 0, "ending", {"transaction": "t.1", "reason": "commit"}),
        ("transfer", 0, "commit", {"transaction": "t.1"}),
        ("transfer", 0, "begun", {"transaction": "t.2", "first": {"0": 1}, "behind": {"0": 2}}),
        ("transfer", 0, "ending", {"transaction": "t.2", "reason": "abort"}),
        ("transfer", 0, "abort", {"transaction": "t.2"}),
        ("transfer", 0, "begun", {"transaction": "t.3", "first": {"0": 1}, "behind": {"0": 2}}),
        ("transfer", 0, "ending", {"transaction": "t.3", "reason": "commit"}),
        ("rival", 0, "taking", {"taking": "a"}),
        ("rival", 0, "took", {"taking": "a"}),
        ("rival", 0, "begun", {"transaction": "a.1", "taking": "a"}),
        ("rival", 0, "ending", {"transaction": "a.1", "reason": "commit"}),
        ("rival", 0, "commit", {"transaction": "a.1"}),
        ("rival", 1, "taking", {"taking": "b"}),
        ("rival", 1, "took", {"taking": "b"}),
        ("driver", 0, "ready", {"ms": 1000}),
    ]


def final() -> Final:
    return Final(
        input={0: [(0, "producer.0.0"), (1, "producer.0.3")], 1: [], 2: []},
        output={0: [(0, "t.1|0|0|0"), (3, "t.3|0|1|0")], 1: [(0, "t.1|0|0|1"), (3, "t.3|0|1|1")]},
        rivals={partition: [(0, "a.1")] for partition in range(3)},
        undecided=[],
        committed={GROUP: {0: 2}},
    )


def judged(changes: dict[int, tuple[str, int, str, dict[str, Any]]], end: Final) -> list[str]:
    told = [changes.get(at, each) for at, each in enumerate(story())]
    return violations([Line(at, *each) for at, each in enumerate(told)], end)


def test_nothing_is_wrong_when_all_is_well() -> None:
    assert judged({}, final()) == []


@pytest.mark.parametrize(
    ("what", "at", "instead"),
    [
        ("acknowledged records", 2, ("producer", 0, "acked", ELSEWHERE)),
        ("records nobody sent", 3, ("producer", 0, "sending", {"partition": 1, "number": 3})),
        ("two members at once", 9, ("reader", 0, "x", {})),
        ("committed offsets that move back", 13, ("other", 0, "committing", {"offsets": {"0": 0}})),
        ("do not begin at the committed", 12, ("other", 0, "read", AGAIN)),
        ("a group never read", 12, ("other", 0, "x", {})),
        ("transfers against their outcome", 17, ("transfer", 0, "x", {})),
        ("transfers against their outcome", 21, ("transfer", 0, "abort", {"transaction": "t.1"})),
        ("transfers against their outcome", 19, ("transfer", 0, "x", {})),
        ("rivals against their outcome", 28, ("rival", 0, "abort", {"transaction": "a.1"})),
        ("slow starts", 31, ("driver", 0, "ready", {"ms": READY_MS + 1})),
    ],
)  # fmt: skip
def test_what_clients_were_told(
    what: str, at: int, instead: tuple[str, int, str, dict[str, Any]]
) -> None:
    changes = {at: instead}
    if at == 13:
        changes[14] = ("other", 0, "committed", {"offsets": {"0": 0}})
    if at == 19:
        changes = {20: ("transfer", 0, "x", {}), 21: ("transfer", 0, "x", {})}
        torn = final()._replace(output={0: [(0, "t.1|0|0|0"), (1, "t.2|0|1|0")]})
        assert any(what in sentence and "torn" in sentence for sentence in judged(changes, torn))
        return
    assert any(what in sentence for sentence in judged(changes, final()))


@pytest.mark.parametrize(
    ("what", "end"),
    [
        ("acknowledged records", {"input": {0: [], 1: [], 2: []}}),
        ("out of order or twice", {"input": {0: TWICE, 1: [], 2: []}}),
        ("move back", {"committed": {GROUP: {0: 1}}}),
        ("not processed exactly once", {"output": {0: [(0, "t.1|0|0|0")], 1: [(0, "t.1|0|0|1")]}}),
        ("output out of order", {"output": {0: [(0, "t.3|0|1|0"), (3, "t.1|0|0|0")]}}),
        ("is torn", {"rivals": {0: [(0, "a.1")], 1: [], 2: []}}),
        ("are lost", {"rivals": {0: [], 1: [], 2: []}}),
        ("never begun", {"rivals": {0: [(0, "a.1"), (1, "z")], 1: [(0, "a.1")], 2: [(0, "a.1")]}}),
        ("undecided", {"undecided": ["output-0"]}),
    ],
)  # fmt: skip
def test_what_is_left(what: str, end: dict[str, Any]) -> None:
    assert any(what in sentence for sentence in judged({}, final()._replace(**end)))


def test_a_commit_after_another_one_took_the_id() -> None:
    changes = {
        27: ("rival", 0, "x", {}),
        28: ("rival", 1, "taking", {"taking": "b"}),
        29: ("rival", 1, "took", {"taking": "b"}),
        30: ("rival", 0, "ending", {"transaction": "a.1", "reason": "commit"}),
        31: ("rival", 0, "commit", {"transaction": "a.1"}),
    }
    assert any("commits of a fenced producer" in each for each in judged(changes, final()))
