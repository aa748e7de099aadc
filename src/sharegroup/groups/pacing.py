"""When a group's target assignment may be computed, and when there is nothing to compute.

The first member of a group is assigned at once. After that, all changes within the assignment
interval share one computation at its end (KIP-1263). Once a group has nothing left to do, this is
remembered for its revision and the topics, so that a heartbeat without changes costs the same for
any size of group.

After a change, members of a consumer group are told to come back soon: they have partitions to give
back, or wait for other members' partitions. The longer the last change is ago, the longer they stay
away, up to the group's setting. Kafka always answers with the setting (KIP-848 leaves it to the
server).
"""

from __future__ import annotations

from typing import Any, Final

from sharegroup.groups.modern_group import ModernGroup
from sharegroup.groups.topics import TopicsImage

HEARTBEAT_INTERVAL_MS_MIN: Final = 50
"""The shortest interval that a member is told while it waits for its assignment."""

CHANGING_INTERVAL_MS_MIN: Final = 250
"""The shortest interval that a member is told after a change of its group."""

MS_PER_MEMBER: Final = 5
"""The members of a group that changes send one heartbeat in this time at most, all together."""


class Pacing:
    """The pacing of all groups of a coordinator; it is not durable."""

    def __init__(self) -> None:
        self._assigned_at_ms: dict[str, int] = {}
        self._settled: dict[str, tuple[int, TopicsImage]] = {}
        self._changed: dict[str, tuple[tuple[int, int], int | None]] = {}
        """The last epochs of a group, and when they were seen first; None: after a replay."""

    def turn(self, group: ModernGroup[Any], interval_ms: int, now_ms: int) -> int | None:
        """How long the computation of a group's target assignment must wait. 0: the caller computes
        it now, and the assignment interval begins anew. None: none is pending.
        """
        if not group.is_pending:
            return None
        last_ms = self._assigned_at_ms.get(group.group_id)
        wait_ms = 0 if last_ms is None else max(0, last_ms + interval_ms - now_ms)
        if not wait_ms:
            self._assigned_at_ms[group.group_id] = now_ms
        return wait_ms

    def is_settled(self, group_id: str, revision: int, topics: TopicsImage) -> bool:
        """Whether a heartbeat without changes would have nothing to do."""
        found = self._settled.get(group_id)
        return found is not None and found[0] == revision and found[1] is topics

    def settle(self, group_id: str, revision: int, topics: TopicsImage) -> None:
        """There is nothing left to do for this revision and these topics."""
        self._settled[group_id] = (revision, topics)

    def at_rest(self, group_id: str, epochs: tuple[int, int]) -> None:
        """A group was replayed with these epochs, which is no change of the group."""
        self._changed[group_id] = epochs, None

    def interval_ms(
        self, group_id: str, epochs: tuple[int, int], members: int, setting_ms: int, now_ms: int
    ) -> int:
        """The heartbeat interval for a member of a group that has these epochs now: the group's and
        its assignment's. ``setting_ms`` is the longest interval."""
        seen, since_ms = self._changed.get(group_id, (None, None))
        if seen != epochs:
            since_ms = now_ms
            self._changed[group_id] = epochs, now_ms
        if since_ms is None:
            return setting_ms
        shortest_ms = max(CHANGING_INTERVAL_MS_MIN, members * MS_PER_MEMBER)
        return min(setting_ms, max(shortest_ms, now_ms - since_ms))

    def forget(self, group_id: str) -> None:
        """The group is empty or gone: its next member is a first one."""
        self._assigned_at_ms.pop(group_id, None)
        self._settled.pop(group_id, None)
        self._changed.pop(group_id, None)


def sooner(interval_ms: int, wait_ms: int) -> int:
    """The heartbeat interval for a member that should come back in ``wait_ms``."""
    return min(interval_ms, max(wait_ms, HEARTBEAT_INTERVAL_MS_MIN))
