"""The admin client's calls about consumer groups, of both protocols."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TypeVar

from sharegroup.client.admin import consumer_group_requests as requests
from sharegroup.client.admin.descriptions import ConsumerGroupDescription
from sharegroup.client.admin.offset_requests import committed_offsets
from sharegroup.client.core.committed_offsets import OffsetAndMetadata
from sharegroup.client.core.rebalance import MemberIdentity
from sharegroup.client.network.cluster import Cluster
from sharegroup.model.errors import KafkaError
from sharegroup.model.ids import TopicPartition
from sharegroup.wire.messages import leave_group

T = TypeVar("T")


class ConsumerGroupCalls(ABC):
    """See the module. The admin client sets the attributes."""

    _cluster: Cluster

    @abstractmethod
    async def _trying(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Retry until success, an error that is not transient, or the time-out."""

    async def describe_consumer_groups(
        self, groups: Iterable[str]
    ) -> dict[str, ConsumerGroupDescription]:
        """Consumer groups by id, of both protocols, with their members.

        Raises:
            GroupIdNotFound: there is no such group, or it is of another type.
        """

        async def describe(group_id: str) -> ConsumerGroupDescription:
            return await self._trying(
                lambda: requests.describe_consumer_group(self._cluster, group_id)
            )

        wanted = list(dict.fromkeys(groups))
        return dict(zip(wanted, await asyncio.gather(*map(describe, wanted)), strict=True))

    async def list_consumer_group_offsets(
        self,
        group_id: str,
        partitions: Iterable[tuple[str, int]] | None = None,
        *,
        require_stable: bool = False,
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """The group's committed offsets in these partitions; by default, in all. A partition
        without a committed offset is left out; so for a group that does not exist the result is
        empty. ``ranges`` are the offsets committed after that offset, if members share partitions
        by key (KIP-X).

        Args:
            require_stable: wait for the end of transactions that have offsets of the group.
        """
        wanted = None if partitions is None else [TopicPartition(*one) for one in partitions]
        identity = MemberIdentity(group_id)
        return await self._trying(
            lambda: committed_offsets(
                self._cluster,
                identity,
                wanted,
                require_stable=require_stable,
                with_ranges=True,
            )
        )

    async def alter_consumer_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, int | OffsetAndMetadata]
    ) -> dict[TopicPartition, KafkaError | None]:
        """Commit these offsets for a group that has no members. A group that does not exist is
        created. Returns each partition's error (UnknownMemberId: the group has members); None is
        success.
        """
        wanted = {
            TopicPartition(*where): OffsetAndMetadata(one) if isinstance(one, int) else one
            for where, one in offsets.items()
        }
        if not wanted:
            return {}
        return await self._trying(lambda: requests.alter_offsets(self._cluster, group_id, wanted))

    async def delete_consumer_group_offsets(
        self, group_id: str, *partitions: tuple[str, int]
    ) -> dict[TopicPartition, KafkaError | None]:
        """Delete the group's committed offsets in these partitions. Returns each partition's error
        (GroupSubscribedToTopic: members read the topic); None is success.

        Raises:
            GroupIdNotFound: there is no such group.
            NonEmptyGroup: the group's members are no consumers.
        """
        wanted = [TopicPartition(*one) for one in partitions]
        return await self._trying(lambda: requests.delete_offsets(self._cluster, group_id, wanted))

    async def delete_consumer_groups(self, *groups: str) -> dict[str, KafkaError | None]:
        """Delete groups that have no members, and their committed offsets. Returns each group's
        error (NonEmptyGroup, GroupIdNotFound …); None is success.
        """
        return await self.delete_share_groups(*groups)

    @abstractmethod
    async def delete_share_groups(self, *groups: str) -> dict[str, KafkaError | None]:
        """Delete groups that have no members, of any type."""

    async def remove_group_members(
        self, group_id: str, *instance_ids: str, reason: str = "an administrator removed it"
    ) -> dict[str, KafkaError | None]:
        """Remove static members from a group, so that others get their partitions at once; without
        names, all members. Returns each member's error, by its instance id, or else by its member
        id; None is success. A member that still runs joins again.

        Raises:
            GroupIdNotFound: there is no such group.
        """
        identity = leave_group.MemberIdentity
        members = [identity("", name, reason) for name in instance_ids]
        if not instance_ids:
            [group] = (await self.describe_consumer_groups([group_id])).values()
            members = [
                identity("" if one.instance_id else one.member_id, one.instance_id, reason)
                for one in group.members
            ]
        if not members:
            return {}
        return await self._trying(lambda: requests.remove_members(self._cluster, group_id, members))
