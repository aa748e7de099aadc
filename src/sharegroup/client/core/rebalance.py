"""What both protocols of consumer groups have in common for a member: the changes of its
assignment, and who it is in the group.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final, NamedTuple

from sharegroup.client.core.key_ranges import KeyRanges
from sharegroup.model.errors import KafkaError
from sharegroup.model.ids import TopicPartition

Partitions = frozenset[TopicPartition]
NO_PARTITIONS: Final[Partitions] = frozenset()
Parts = Mapping[TopicPartition, KeyRanges]
NO_PARTS: Final[Parts] = MappingProxyType({})


class AssignmentChange(NamedTuple):
    """A change of a member's partitions. The application is told in this order."""

    revoked: Partitions = NO_PARTITIONS
    """To be given up: positions can still be committed."""
    lost: Partitions = NO_PARTITIONS
    """Lost without being asked: other members may have them by now, no position can be
    committed."""
    assigned: Partitions = NO_PARTITIONS
    """New. A partition of which the member gets other key ranges is revoked and assigned."""
    parts: Parts = NO_PARTS
    """The key ranges of the assigned partitions that are shared with other members (KIP-X)."""


class MemberIdentity(NamedTuple):
    """Who a member is, as OffsetCommit and transactions name it."""

    group_id: str
    generation_id: int = -1
    """The generation of the classic protocol, or the member epoch of KIP-848; -1: no member."""
    member_id: str = ""
    group_instance_id: str | None = None


class GroupState(Enum):
    """Where a member is.

    ``JOINING``: a request to join is due or under way. ``LEADING`` (classic): this member shares
    out the partitions. ``SYNCING`` (classic): it waits for its assignment. ``CHANGING``: a change
    waits for the application. ``STABLE``: nothing to do but heartbeats. ``STALE``: it left because
    the application does not poll. ``FAILED``: an error that no retry helps.
    """

    UNSUBSCRIBED = "unsubscribed"
    JOINING = "joining"
    LEADING = "leading"
    SYNCING = "syncing"
    CHANGING = "changing"
    STABLE = "stable"
    STALE = "stale"
    LEAVING = "leaving"
    FAILED = "failed"


class GroupMembership:
    """What the two machines share: the partitions that the member has, the change that waits for
    the application, and when it polled last. Time is an argument, in milliseconds.

    Attributes:
        owned: the partitions that the application has.
        parts: the key ranges of owned partitions that it shares with other members.
        topics: the subscription.
        change: what the application must be told next; None: nothing. See :meth:`tell`.
        error: why the state is FAILED.
    """

    def __init__(self, group_id: str, instance_id: str | None, poll_interval_max_ms: int) -> None:
        self.group_id = group_id
        self.instance_id = instance_id
        self.state = GroupState.UNSUBSCRIBED
        self.owned: Partitions = NO_PARTITIONS
        self.parts: Parts = NO_PARTS
        self.change: AssignmentChange | None = None
        self._telling: AssignmentChange | None = None
        self.error: KafkaError | None = None
        self.topics: tuple[str, ...] = ()
        self._poll_interval_max_ms = poll_interval_max_ms
        self._polled_ms = 0
        self._due_ms = 0

    def tell(self) -> AssignmentChange | None:
        """The change to tell the application now. ``told`` must follow before the next one."""
        self._telling = self.change
        return self.change

    def _apply(self) -> None:
        """The application has been told: change the partitions that it has. If the member lost all
        partitions meanwhile, that is the next change.
        """
        told = self._telling
        assert told is not None, "nothing was told"
        kept = self.owned - told.revoked - told.lost
        self.owned = kept | told.assigned
        self.parts = {w: own for w, own in self.parts.items() if w in kept} | dict(told.parts)
        self._telling = None
        if self.change is told:
            self.change = None
        elif self.change is not None:
            self._lose_all()

    def _lose_all(self) -> None:
        """All partitions are lost, because other members may have them by now. This includes the
        partitions that the application is just being told that it gets."""
        nothing = not self.owned and self._telling is None
        self.change = None if nothing else AssignmentChange(lost=self.owned)

    def _is_stale(self, now_ms: int) -> bool:
        return now_ms >= self._polled_ms + self._poll_interval_max_ms

    def check_invariants(self) -> None:
        """Raises AssertionError: the state contradicts itself."""
        change = self.change
        if change is not None:
            assert change.revoked | change.lost <= self.owned, "a change takes what is not owned"
            assert not change.revoked & change.lost, "a partition is revoked and lost"
            kept = self.owned - change.revoked - change.lost
            assert not change.assigned & kept, "a change gives what is owned already"
            assert change.parts.keys() <= change.assigned, "key ranges of what is not new"
        assert self.parts.keys() <= self.owned, "key ranges of what is not owned"
        assert (self.error is not None) == (self.state is GroupState.FAILED)
        if self.state in (GroupState.UNSUBSCRIBED, GroupState.LEAVING):
            assert change is None, "a member that left has a change"
            assert not self.owned, "a member that left has partitions"
