"""The identity that a consumer has for the coordinator of its group."""

from __future__ import annotations

from sharegroup.client.core.rebalance import MemberIdentity
from sharegroup.client.errors import IllegalState
from sharegroup.client.group.member import GroupMember
from sharegroup.model.errors import RebalanceInProgress


class GroupIdentity:
    """See the module.

    Args:
        group_id: None: there is no group.
    """

    def __init__(self, group_id: str | None, member: GroupMember) -> None:
        self._group_id = group_id
        self._member = member

    def known(self) -> MemberIdentity:
        """The member's identity; or only the group's, while partitions come from ``assign``.

        Raises:
            IllegalState: there is no group.
        """
        if self._group_id is None:
            raise IllegalState("without group_id nothing is committed")
        return self._member.identity if self._member.runs else MemberIdentity(self._group_id)

    def committing(self) -> MemberIdentity:
        """The identity to commit with.

        Raises:
            IllegalState: there is no group.
            RebalanceInProgress: this consumer is no member now; others may have its partitions.
        """
        identity = self.known()
        if self._member.runs and identity.generation_id < 0:
            raise RebalanceInProgress(
                "this consumer is no member of its group now, and others may have its partitions:"
                " poll() joins again"
            )
        return identity
