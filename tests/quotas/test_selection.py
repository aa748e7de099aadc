"""Which entities a filter matches."""

from __future__ import annotations

import pytest

from sharegroup.quotas.alteration import entity_of
from sharegroup.quotas.selection import ANY, DEFAULT, EXACT, Component, Selection

ENTITIES = [
    entity_of(parts)
    for parts in (
        [("user", "u")],
        [("user", None)],
        [("client-id", "c")],
        [("user", "u"), ("client-id", "c")],
        [("user", None), ("client-id", None)],
        [("ip", "10.0.0.1")],
        [("ip", None)],
    )
]


@pytest.mark.parametrize(
    ("components", "strict", "found"),
    [
        ([], False, [0, 1, 2, 3, 4, 5, 6]),
        ([], True, []),
        ([("user", EXACT, "u")], False, [0, 3]),
        ([("user", EXACT, "u")], True, [0]),
        ([("user", DEFAULT, None)], True, [1]),
        ([("user", DEFAULT, None)], False, [1, 4]),
        ([("user", ANY, None)], True, [0, 1]),
        ([("user", ANY, None), ("client-id", ANY, None)], True, [3, 4]),
        ([("client-id", EXACT, "c")], False, [2, 3]),
        ([("ip", ANY, None)], True, [5, 6]),
        ([("ip", EXACT, "10.0.0.2")], False, []),
    ],
)
def test_a_filter(
    components: list[tuple[str, int, str | None]], strict: bool, found: list[int]
) -> None:
    quotas = {(entity, "some_rate"): 1.0 for entity in ENTITIES}
    selected = Selection([Component(*one) for one in components], strict=strict).select(quotas)
    assert selected == {ENTITIES[at]: [("some_rate", 1.0)] for at in found}
