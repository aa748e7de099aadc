"""A read-only view of all classic groups of this broker, over the machines of all partitions.

Implements ``group_registry.CommittingGroups``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from uuid import UUID

from sharegroup.groups.classic.group import State
from sharegroup.groups.classic.groups import ClassicGroups
from sharegroup.groups.classic.requests import Description
from sharegroup.groups.offsets import Committer


class ClassicGroupsView:
    """The queries of ``ClassicGroups``, over all partitions. The answers may not be durable yet.

    Args:
        of: returns the machine that holds a group id.
        machines: returns all machines.
    """

    def __init__(
        self, of: Callable[[str], ClassicGroups], machines: Callable[[], Sequence[ClassicGroups]]
    ) -> None:
        self._of = of
        self._machines = machines

    def exists(self, group_id: str) -> bool:
        """Whether there is such a group."""
        return self._of(group_id).exists(group_id)

    def group_ids(self) -> list[str]:
        """The groups that exist."""
        return [group_id for groups in self._machines() for group_id in groups.group_ids()]

    def list_groups(self) -> Iterator[tuple[str, str]]:
        """(id, state) of all groups."""
        return (line for groups in self._machines() for line in groups.list_groups())

    def describe(self, group_id: str) -> Description:
        """A snapshot of a group. Raises GroupIdNotFound."""
        return self._of(group_id).describe(group_id)

    def protocol_type(self, group_id: str) -> str:
        """ "consumer", or what else its members do; empty for an unknown group."""
        group = self._of(group_id).group(group_id)
        return "" if group is None else group.protocol_type or ""

    def check_commit(self, committer: Committer, partitions: Iterable[tuple[UUID, int]]) -> None:
        """Allow a commit of offsets. See ``CommittingGroups``."""
        group = self._of(committer.group_id).group(committer.group_id)
        if group is not None:
            group.check_commit(
                committer.member_id,
                committer.instance_id,
                committer.epoch,
                transactional=committer.transactional,
            )

    def check_fetch(self, group_id: str, member_id: str | None, member_epoch: int) -> None:
        """Nothing: whoever may read a classic group reads its offsets, as in Kafka."""

    def subscribes(self, group_id: str, topic: str) -> bool:
        """Whether a member subscribes to the topic. See ``CommittingGroups``."""
        group = self._of(group_id).group(group_id)
        return group is not None and group.subscribes(topic)

    def empty_since_ms(self, group_id: str) -> int | None:
        """Since when the group has been empty, in wall-clock milliseconds. None if it has members,
        if an old record does not say it, or if it never had members: then offsets expire by their
        own age.
        """
        group = self._of(group_id).group(group_id)
        if group is None or group.state is not State.EMPTY or group.protocol_type is None:
            return None
        return group.since_ms

    def check_invariants(self) -> None:
        """Raise AssertionError if a group's state is inconsistent."""
        for groups in self._machines():
            groups.check_invariants()
