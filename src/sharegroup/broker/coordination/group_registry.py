"""All groups of this broker by id and type. Types share one namespace of ids, as in Kafka."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from enum import StrEnum
from typing import NamedTuple, Protocol
from uuid import UUID

from sharegroup.groups.offsets import CommitClient
from sharegroup.model.errors import GroupIdNotFound, InconsistentGroupProtocol, NonEmptyGroup


class GroupType(StrEnum):
    """The type of a group, as ListGroups names it."""

    SHARE = "share"
    CLASSIC = "classic"
    CONSUMER = "consumer"


class RegisteredGroup(NamedTuple):
    """A group of any type."""

    group_id: str
    state: str
    type: GroupType


class GroupsOfType(Protocol):
    """The groups of one type, as their coordinator shows them."""

    def exists(self, group_id: str) -> bool:
        """Whether there is such a group."""
        ...

    def group_ids(self) -> Iterable[str]:
        """The groups that exist."""
        ...

    def list_groups(self) -> Iterable[tuple[str, str]]:
        """(id, state) of all groups."""
        ...


async def delete_if_empty(
    groups: GroupsOfType, delete: Callable[[str], Awaitable[None]], group_id: str
) -> None:
    """Delete a group if it exists and is empty, because its id is wanted for another type of group.
    Its offsets stay. ``delete`` raises NonEmptyGroup for a group that is not empty, GroupIdNotFound
    for a group that does not exist.

    Raises:
        KafkaError: as ``delete``, for other reasons.
    """
    if groups.exists(group_id):
        with suppress(GroupIdNotFound, NonEmptyGroup):
            await delete(group_id)


class CommittingGroups(GroupsOfType, Protocol):
    """Groups of one type whose members commit offsets (Kafka interface ``Group``)."""

    def check_commit(self, committer: CommitClient, partitions: Iterable[tuple[UUID, int]]) -> None:
        """Allow a commit to a group that exists, of offsets of these partitions by topic id.

        Raises:
            UnknownMemberId, IllegalGeneration, StaleMemberEpoch, FencedInstanceId,
            RebalanceInProgress, UnsupportedVersion: as their names say.
        """
        ...

    def committed(self, committer: CommitClient) -> None:
        """A member has committed offsets outside a transaction: it is alive."""
        ...

    def check_fetch(self, group_id: str, member_id: str | None, member_epoch: int) -> None:
        """Allow OffsetFetch to a group that exists.

        Raises:
            UnknownMemberId, StaleMemberEpoch: as their names say.
        """
        ...

    def check_offset_delete(self, group_id: str) -> None:
        """Allow OffsetDelete to a group that exists.

        Raises:
            NonEmptyGroup: it has members whose subscriptions are not known to the broker.
        """
        ...

    def subscribes(self, group_id: str, topic: str) -> bool:
        """Whether a member subscribes to the topic: then the topic's offsets may not be deleted and
        do not expire. True if a consumer's subscription cannot be read."""
        ...

    def keeps_offsets(self, group_id: str) -> bool:
        """Whether no offset of the group may expire now: it has members whose subscriptions are not
        known to the broker, or not yet."""
        ...

    def empty_since_ms(self, group_id: str) -> int | None:
        """Since when the group has had no members, in wall-clock milliseconds; None if it has
        members, or if the time is not known."""
        ...


class GroupRegistry:
    """The groups of all coordinators. A new coordinator adds its type.

    Args:
        types: the groups of each type.
        simple: groups that have committed offsets. A group that has only these, and no type, is
            shown as a classic group without members, as in Kafka.
        committing: the types whose members commit offsets.
    """

    def __init__(
        self,
        types: Mapping[GroupType, GroupsOfType],
        simple: GroupsOfType | None = None,
        committing: Mapping[GroupType, CommittingGroups] | None = None,
    ) -> None:
        self._types = types
        self._simple = simple
        self._committing = committing or {}

    def type_of(self, group_id: str) -> GroupType | None:
        """The type of a group; None if there is no such group."""
        for kind, groups in self._types.items():
            if groups.exists(group_id):
                return kind
        return GroupType.CLASSIC if self._simple and self._simple.exists(group_id) else None

    def is_simple(self, group_id: str) -> bool:
        """Whether the group has committed offsets and nothing else."""
        return (
            self._simple is not None
            and self._simple.exists(group_id)
            and not any(groups.exists(group_id) for groups in self._types.values())
        )

    def committing(self, group_id: str) -> CommittingGroups | None:
        """All groups of this group's type, if members of that type commit offsets. None for other
        types, and for a simple group."""
        for groups in self._committing.values():
            if groups.exists(group_id):
                return groups
        return None

    def check(self, group_id: str, kind: GroupType) -> None:
        """Refuse a group id that belongs to another type. A classic group may become a consumer
        group: the coordinator of consumer groups decides.

        Raises:
            InconsistentGroupProtocol: as Kafka answers if ``kind`` is the classic type.
            GroupIdNotFound: as Kafka answers for all other types.
        """
        found = self.type_of(group_id)
        may_change = kind is GroupType.CONSUMER and found is GroupType.CLASSIC
        if found in (None, kind) or may_change:
            return
        if kind is GroupType.CLASSIC:
            raise InconsistentGroupProtocol
        raise GroupIdNotFound(f"Group {group_id} is not a {kind} group.")

    def ids(self) -> set[str]:
        """The ids of all groups."""
        found = {group_id for groups in self._types.values() for group_id in groups.group_ids()}
        return found.union(self._simple.group_ids() if self._simple else ())

    def list_groups(self) -> list[RegisteredGroup]:
        """All groups by id."""
        found = {
            group_id: RegisteredGroup(group_id, state, kind)
            for kind, groups in self._types.items()
            for group_id, state in groups.list_groups()
        }
        for group_id, state in self._simple.list_groups() if self._simple else ():
            found.setdefault(group_id, RegisteredGroup(group_id, state, GroupType.CLASSIC))
        return sorted(found.values())
