"""Makes a plan that fails smaller, as long as it fails: fewer faults, fewer of everything, and then
fewer messages that take longer than the shortest time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final, TypeVar

from sharegroup.sim.plan import Plan

T = TypeVar("T")

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
    "nodes": 2,
}
"""Field → the calmest value."""
MESSAGES: Final = 1 << 14
"""Of so many messages, at the beginning, some may have to be late for a plan to fail."""


def shrunk(plan: Plan, fails: Callable[[Plan], bool], tries_max: int = 200) -> Plan:
    """The smallest plan that was found to fail as ``plan`` does.

    Args:
        fails: plays a plan, and says whether it fails in the same way.
        tries_max: how many plans are played, at most, and how many for the messages.
    """
    plan = _least(plan, _smaller, fails, tries_max)
    if plan.late is None:
        late = (replace(plan, late=one) for one in ((), tuple(range(MESSAGES))))
        plan = next((one for one in late if fails(one)), plan)
    return _least(plan, _calmer, fails, tries_max)


def _least(
    plan: Plan,
    smaller: Callable[[Plan], Iterator[Plan]],
    fails: Callable[[Plan], bool],
    tries_max: int,
) -> Plan:
    tries = 0
    while True:
        for one in smaller(plan):
            if tries >= tries_max:
                return plan
            tries += 1
            if fails(one):
                plan = one
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


def _calmer(plan: Plan) -> Iterator[Plan]:
    """Plans with fewer messages that are late."""
    for late in _fewer(plan.late or ()):
        yield replace(plan, late=late)


def _fewer(several: tuple[T, ...]) -> Iterator[tuple[T, ...]]:
    """Without all, a half, a quarter … and each one of them."""
    size = len(several)
    while size:
        for at in range(0, len(several), size):
            yield several[:at] + several[at + size :]
        size //= 2
