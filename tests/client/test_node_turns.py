"""A strict fetch asks the nodes in turn, and does not wait where there is nothing."""

from __future__ import annotations

from sharegroup.client.core.share_session import FetchLimits
from sharegroup.client.share.node_turns import WAIT_MS_MIN, NodeTurns

LIMITS = FetchLimits(max_records=1, max_bytes=1000, max_wait_ms=600, strict=True)


def asked(turns: NodeTurns, nodes: list[int], *brought: bool) -> list[tuple[int, int]]:
    """Node and wait in milliseconds of one request after the other."""
    found = []
    for records in brought:
        node, limits = turns.next(nodes, LIMITS)
        found.append((node, limits.max_wait_ms))
        turns.brought(records)
    return found


def test_the_only_node_may_wait() -> None:
    assert asked(NodeTurns(), [7], False, True) == [(7, 600), (7, 600)]


def test_no_request_waits_while_a_node_has_records() -> None:
    turns = NodeTurns()
    had = [True, False, False] * 2
    assert asked(turns, [1, 2, 3], *had) == [(1, 0), (2, 0), (3, 0), (1, 0), (2, 0), (3, 0)]


def test_where_no_node_has_records_each_one_waits_for_its_share() -> None:
    turns = NodeTurns()
    nothing = [False] * 5
    assert asked(turns, [1, 2, 3], *nothing) == [(1, 0), (2, 0), (3, 0), (1, 200), (2, 200)]
    assert asked(turns, [1, 2, 3], True, False) == [(3, 200), (1, 0)]


def test_a_share_is_not_too_short() -> None:
    turns = NodeTurns()
    nodes = [*range(100)]
    asked(turns, nodes, *[False] * 100)
    assert asked(turns, nodes, False) == [(0, WAIT_MS_MIN)]


def test_a_node_that_is_gone_is_passed_over() -> None:
    turns = NodeTurns()
    asked(turns, [1, 2, 3], True)
    assert asked(turns, [1, 3], True, True) == [(3, 0), (1, 0)]
