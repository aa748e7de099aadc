"""A read-only view of all consumer groups of this broker, over the machines of all partitions.

Implements ``group_registry.CommittingGroups``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from uuid import UUID

from sharegroup.groups.consumer.member import GroupDescription
from sharegroup.groups.consumer.membership import ConsumerGroups
from sharegroup.groups.consumer.records import ConsumerRecord
from sharegroup.groups.offsets import Committer


class ConsumerGroupsView:
    """The queries of ``ConsumerGroups``, over all partitions. The answers may not be durable yet.

    Args:
        of: returns the machine that holds a group id.
        machines: returns all machines.
    """

    def __init__(
        self, of: Callable[[str], ConsumerGroups], machines: Callable[[], Sequence[ConsumerGroups]]
    ) -> None:
        self._of = of
        self._machines = machines

    def describe(self, group_id: str) -> GroupDescription:
        """A snapshot of one group. Raises GroupIdNotFound."""
        return self._of(group_id).describe(group_id)

    def exists(self, group_id: str) -> bool:
        """Whether there is such a group."""
        return self._of(group_id).exists(group_id)

    def group_ids(self) -> list[str]:
        """The groups that exist."""
        return [group_id for groups in self._machines() for group_id in groups.group_ids()]

    def list_groups(self) -> Iterator[tuple[str, str]]:
        """(id, state) of all groups."""
        return (line for groups in self._machines() for line in groups.list_groups())

    def records(self, group_id: str) -> Iterator[ConsumerRecord]:
        """All records of a group; none for an unknown group."""
        return self._of(group_id).records(group_id)

    def check_commit(self, committer: Committer, partitions: Iterable[tuple[UUID, int]]) -> None:
        """Allow a commit of offsets. See ``CommittingGroups``."""
        self._of(committer.group_id).check_commit(committer, partitions)

    def check_fetch(self, group_id: str, member_id: str | None, member_epoch: int) -> None:
        """Allow OffsetFetch. See ``CommittingGroups``."""
        self._of(group_id).check_fetch(group_id, member_id, member_epoch)

    def subscribes(self, group_id: str, topic: str) -> bool:
        """Whether a member subscribes to the topic, by name or by regular expression."""
        return self._of(group_id).subscribes(group_id, topic)

    def empty_since_ms(self, group_id: str) -> int | None:
        """None: no record says it. As in Kafka, offsets expire by the time of their commit."""
        return None

    def check_invariants(self) -> None:
        """Raise AssertionError if a group's state is inconsistent."""
        for groups in self._machines():
            groups.check_invariants()
