"""What the coordinator of a share group takes from the answers of other nodes about its state."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any, cast
from uuid import UUID

import pytest

from sharegroup.broker.coordination.persister import FleetState
from sharegroup.broker.coordination.share_state_log import ShareStateLog
from sharegroup.model import errors
from sharegroup.model.ids import SharePartitionKey
from sharegroup.wire.apis import Api
from sharegroup.wire.messages.delete_share_group_state import (
    DeleteShareGroupStateRequest,
    DeleteShareGroupStateResponse,
    DeleteStateResult,
    PartitionResult,
)

HERE, THERE = 1, 2
GONE, FAILED = errors.UnknownTopicOrPartition, errors.CoordinatorNotAvailable
TOPIC = UUID(int=1)


class OtherNode:
    """It has all state, and answers a deletion with these codes, one for each partition."""

    node_count = 2
    owned: Collection[int] = ()
    may_deliver = True

    def __init__(self, codes: list[int]) -> None:
        self._codes = codes

    def owner_of(self, _key: SharePartitionKey) -> int:
        return THERE

    async def ask(
        self, node_id: int, _api: Api, _version: int, request: DeleteShareGroupStateRequest
    ) -> Any:
        assert node_id == THERE
        (topic,) = request.topics
        partitions = [one.partition for one in topic.partitions]
        results = [PartitionResult(*one) for one in zip(partitions, self._codes, strict=True)]
        return DeleteShareGroupStateResponse([DeleteStateResult(topic.topic_id, results)])


class NothingHere:
    """The state of this node, which nobody asks."""

    async def delete(self, _keys: object) -> None:
        raise AssertionError


def delete(codes: list[int]) -> None:
    state = FleetState(cast(ShareStateLog, NothingHere()), HERE, OtherNode(codes))
    keys = [SharePartitionKey("g", TOPIC, partition) for partition in range(len(codes))]
    asyncio.run(state.delete(keys))


@pytest.mark.parametrize("codes", [[GONE.code, FAILED.code], [0, FAILED.code, GONE.code]])
def test_a_state_that_is_not_deleted_is_an_error(codes: list[int]) -> None:
    with pytest.raises(FAILED):
        delete(codes)


def test_the_state_of_a_topic_that_is_gone_need_not_be_deleted() -> None:
    delete([GONE.code, 0, GONE.code])
