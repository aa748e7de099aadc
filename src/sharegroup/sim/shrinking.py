"""Makes a plan that fails smaller: fewer faults, then fewer of everything, as long as it fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final

from sharegroup.sim.plan import Fault, Plan

LEAST: Final[dict[str, float]] = {
    "groups": 1,
    "producers": 1,
    "members": 1,
    "partitions": 1,
    "records": 1,
    "keys": 0,
    "ordered": 0,
    "letters": 0,
    "transactional": 0,
    "turns": 0,
    "priorities": 0,
    "locks": 0,
    "backoff_ms": 0,
    "release": 0,
    "reject": 0,
    "slow": 0,
    "renew": 0,
    "latency_ms": 0.1,
    "readers": 0,
    "in_turns": 0,
    "workers": 0,
    "compacted": 0,
}
"""Field → the calmest value."""


def shrunk(plan: Plan, fails: Callable[[Plan], bool], tries_max: int = 200) -> Plan:
    """The smallest plan that was found to fail as ``plan`` does.

    Args:
        fails: plays a plan, and says whether it fails in the same way.
        tries_max: how many plans are played, at most.
    """
    tries = 0
    while True:
        for smaller in _smaller(plan):
            if tries >= tries_max:
                return plan
            tries += 1
            if fails(smaller):
                plan = smaller
                break
        else:
            return plan


def _smaller(plan: Plan) -> Iterator[Plan]:
    """Plans with less of one thing, the boldest first."""
    for faults in _fewer(plan.faults):
        yield replace(plan, faults=faults)
    for name, least in LEAST.items():
        now = getattr(plan, name)
        for value in dict.fromkeys((least, max(least, now // 2))):
            if value < now:
                given: dict[str, Any] = {name: type(now)(value)}
                if name == "keys" and not value:
                    given |= {"ordered": 0, "turns": 0, "compacted": 0}
                yield replace(plan, **given)


def _fewer(faults: tuple[Fault, ...]) -> Iterator[tuple[Fault, ...]]:
    """Without all, a half, a quarter … and each one of the faults."""
    size = len(faults)
    while size:
        for at in range(0, len(faults), size):
            yield faults[:at] + faults[at + size :]
        size //= 2
