"""The share state as the coordinator of a group sees it: it begins, deletes and summarizes state
that several nodes may have (Kafka interface Persister; APIs 83, 86 and 87 between nodes).

:class:`~sharegroup.broker.coordination.share_state_log.ShareStateLog` is the persister of a broker
that is alone.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol
from uuid import UUID

from sharegroup.broker.coordination.share_state_log import ShareStateLog
from sharegroup.broker.leadership import OtherNodes
from sharegroup.model import errors
from sharegroup.model.ids import SharePartitionKey
from sharegroup.share_state.answers import StateSummary
from sharegroup.share_state.state import NO_EPOCH, UNINITIALIZED_OFFSET
from sharegroup.wire import apis
from sharegroup.wire.messages import (
    delete_share_group_state,
    initialize_share_group_state,
    read_share_group_state_summary,
)

ANY_LEADER = -1
Keys = Sequence[SharePartitionKey]


class Persister(Protocol):
    """See the module; the methods are those of ``ShareStateLog``."""

    async def initialize(
        self, keys: Sequence[tuple[SharePartitionKey, int]], state_epoch: int
    ) -> None: ...

    async def read_summaries(
        self, keys: Sequence[SharePartitionKey]
    ) -> Mapping[SharePartitionKey, StateSummary]: ...

    async def delete(self, keys: Sequence[SharePartitionKey]) -> None: ...

    async def fork(
        self, source_id: str, keys: Sequence[SharePartitionKey], state_epoch: int
    ) -> None: ...


class FleetState:
    """Implements ``Persister`` over the state here and that of other nodes.

    Args:
    """

    def __init__(
        self,
        here: ShareStateLog,
        node_id: int,
        others: OtherNodes,
    ) -> None:
        self._here = here
        self._node_id = node_id
        self._owner_of = others.owner_of
        self._ask = others.ask

    async def initialize(
        self, keys: Sequence[tuple[SharePartitionKey, int]], state_epoch: int
    ) -> None:
        """See ``Persister``. If one key is refused, the others are durable."""
        starts = dict(keys)

        async def there(node_id: int, group_id: str, own: Keys) -> None:
            data = initialize_share_group_state.InitializeStateData
            one = initialize_share_group_state.PartitionData
            request = initialize_share_group_state.InitializeShareGroupStateRequest(
                group_id,
                [
                    data(topic, [one(key.partition, state_epoch, starts[key]) for key in same])
                    for topic, same in _by_topic(own)
                ],
            )
            _check(await self._ask(node_id, apis.INITIALIZE_SHARE_GROUP_STATE, 0, request))

        async def here(own: Keys) -> None:
            await self._here.initialize([(key, starts[key]) for key in own], state_epoch)

        await self._each([*starts], here, there)

    async def delete(self, keys: Sequence[SharePartitionKey]) -> None:
        """See ``Persister``."""

        async def there(node_id: int, group_id: str, own: Keys) -> None:
            data = delete_share_group_state.DeleteStateData
            one = delete_share_group_state.PartitionData
            request = delete_share_group_state.DeleteShareGroupStateRequest(
                group_id,
                [
                    data(topic, [one(key.partition) for key in same])
                    for topic, same in _by_topic(own)
                ],
            )
            answer = await self._ask(node_id, apis.DELETE_SHARE_GROUP_STATE, 0, request)
            # It forgets the topic by itself.
            _check(answer, passed_over=errors.UnknownTopicOrPartition.code)

        await self._each(keys, self._here.delete, there)

    async def read_summaries(self, keys: Keys) -> Mapping[SharePartitionKey, StateSummary]:
        """See ``Persister``. A group's state is never begun with its epoch 0 and no offset."""
        found: dict[SharePartitionKey, StateSummary] = {}

        async def there(node_id: int, group_id: str, own: Keys) -> None:
            data = read_share_group_state_summary.ReadStateSummaryData
            one = read_share_group_state_summary.PartitionData
            request = read_share_group_state_summary.ReadShareGroupStateSummaryRequest(
                group_id,
                [
                    data(topic, [one(key.partition, ANY_LEADER) for key in same])
                    for topic, same in _by_topic(own)
                ],
            )
            answer = await self._ask(node_id, apis.READ_SHARE_GROUP_STATE_SUMMARY, 1, request)
            _check(answer)
            for topic in answer.results:
                for each in topic.partitions:
                    key = SharePartitionKey(group_id, topic.topic_id, each.partition)
                    if each.state_epoch > 0 or each.start_offset != UNINITIALIZED_OFFSET:
                        found[key] = StateSummary(
                            each.state_epoch,
                            NO_EPOCH if each.unread else each.leader_epoch,
                            each.start_offset,
                            each.delivery_complete_count,
                        )

        async def here(own: Keys) -> None:
            found.update(await self._here.read_summaries(own))

        await self._each(keys, here, there)
        return found

    async def fork(self, source_id: str, keys: Keys, state_epoch: int) -> None:
        """See ``Persister``: the state of all groups of a partition is at one node."""

        async def there(node_id: int, group_id: str, own: Keys) -> None:
            data = initialize_share_group_state.InitializeStateData
            one = initialize_share_group_state.PartitionData
            request = initialize_share_group_state.InitializeShareGroupStateRequest(
                group_id,
                [
                    data(topic, [one(k.partition, state_epoch, UNINITIALIZED_OFFSET) for k in same])
                    for topic, same in _by_topic(own)
                ],
                fork_of=source_id,
            )
            _check(await self._ask(node_id, apis.INITIALIZE_SHARE_GROUP_STATE, 0, request))

        async def here(own: Keys) -> None:
            await self._here.fork(source_id, own, state_epoch)

        await self._each(keys, here, there)

    def _owner(self, key: SharePartitionKey) -> int:
        owner = self._owner_of(key)
        if owner < 0:
            raise errors.CoordinatorNotAvailable(f"no broker has the state of {key} now")
        return owner

    async def _each(
        self,
        keys: Sequence[SharePartitionKey],
        here: Callable[[Keys], Awaitable[None]],
        there: Callable[[int, str, Keys], Awaitable[None]],
    ) -> None:
        """Act on all keys, those of each node and group together; the first error is raised."""
        by_owner: defaultdict[tuple[int, str], list[SharePartitionKey]] = defaultdict(list)
        for key in keys:
            by_owner[self._owner(key), key.group_id].append(key)
        outcomes = await asyncio.gather(
            *(
                here(own) if node_id == self._node_id else there(node_id, group_id, own)
                for (node_id, group_id), own in by_owner.items()
            ),
            return_exceptions=True,
        )
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome


def _by_topic(
    keys: Iterable[SharePartitionKey],
) -> Iterable[tuple[UUID, Sequence[SharePartitionKey]]]:
    found: defaultdict[UUID, list[SharePartitionKey]] = defaultdict(list)
    for key in keys:
        found[key.topic_id].append(key)
    return found.items()


def _check(answer: Any, passed_over: int = 0) -> None:
    """Raise the first error of an answer that is not ``passed_over``."""
    for topic in answer.results:
        for one in topic.partitions:
            if one.error_code not in (0, passed_over):
                raise errors.error_from_code(one.error_code, one.error_message or "")
