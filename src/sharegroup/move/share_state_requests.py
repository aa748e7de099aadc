"""Requests about durable delivery state, to the nodes that have it (APIs 85 and 87). They need the
right CLUSTER_ACTION where there is an authorizer."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple
from uuid import UUID

from sharegroup.client.admin.record_requests import share_coordinators
from sharegroup.client.network.cluster import Cluster
from sharegroup.client.network.retrying import retrying
from sharegroup.model.errors import UnknownTopicOrPartition, error_from_code
from sharegroup.model.ids import SharePartitionKey
from sharegroup.move.progress import Progress, Row
from sharegroup.wire import apis
from sharegroup.wire.apis import Api
from sharegroup.wire.messages import read_share_group_state_summary as summary
from sharegroup.wire.messages import write_share_group_state as writing
from sharegroup.wire.schema import Message

ROWS_AT_ONCE: Final = 20_000
"""Rows in one request: half a megabyte."""
UNCHANGED: Final = -1
NO_LEADER: Final = -1


class Epochs(NamedTuple):
    """Of the state of a share partition; ``leader`` is NO_LEADER until it is loaded for members."""

    state: int
    leader: int


async def epochs_of(
    cluster: Cluster, keys: Collection[SharePartitionKey]
) -> dict[SharePartitionKey, Epochs]:
    """The epochs of share partitions; (0, 0) of one without a state."""

    return await retrying(cluster, lambda: _epochs(cluster, keys), cluster.request_timeout_ms)


async def _epochs(
    cluster: Cluster, keys: Collection[SharePartitionKey]
) -> dict[SharePartitionKey, Epochs]:
    found = {}
    for key, node in (await share_coordinators(cluster, [*keys])).items():
        data = summary.ReadStateSummaryData(key.topic_id, [summary.PartitionData(key.partition, 0)])
        request = summary.ReadShareGroupStateSummaryRequest(key.group_id, [data])
        one = await _ask(cluster, node, apis.READ_SHARE_GROUP_STATE_SUMMARY, request)
        found[key] = Epochs(one.state_epoch, NO_LEADER if one.unread else one.leader_epoch)
    return found


async def check_right(cluster: Cluster) -> None:
    """Ask for the state of a topic that there is not.

    Raises:
        ClusterAuthorizationFailed: we may not ask for any.
    """
    nowhere = SharePartitionKey("sharegroup-move", UUID(int=1), 0)

    async def attempt() -> None:
        with suppress(UnknownTopicOrPartition):
            await _epochs(cluster, [nowhere])

    await retrying(cluster, attempt, cluster.request_timeout_ms)


async def write_progress(
    cluster: Cluster, key: SharePartitionKey, state_epoch: int, progress: Progress
) -> None:
    """Write what a group has done behind its start offset, which is there already.

    Raises:
        FencedStateEpoch, FencedLeaderEpoch: somebody else has begun the state anew, or uses it.
    """
    for rows, last in _portions(progress.rows):
        count = progress.finished if last else UNCHANGED
        part = writing.PartitionData(
            partition=key.partition,
            state_epoch=state_epoch,
            leader_epoch=0,
            start_offset=progress.start,
            delivery_complete_count=count,
            state_batches=[writing.StateBatch(*row) for row in rows],
        )
        await _write(cluster, key, part)


async def _write(cluster: Cluster, key: SharePartitionKey, part: writing.PartitionData) -> None:
    request = writing.WriteShareGroupStateRequest(
        key.group_id, [writing.WriteStateData(key.topic_id, [part])]
    )

    async def attempt() -> None:
        node = (await share_coordinators(cluster, [key]))[key]
        await _ask(cluster, node, apis.WRITE_SHARE_GROUP_STATE, request)

    await retrying(cluster, attempt, cluster.request_timeout_ms)


def _portions(rows: Sequence[Row]) -> Iterable[tuple[Sequence[Row], bool]]:
    for at in range(0, len(rows), ROWS_AT_ONCE):
        yield rows[at : at + ROWS_AT_ONCE], at + ROWS_AT_ONCE >= len(rows)


async def _ask(cluster: Cluster, node: int, api: Api, request: Message) -> Any:
    """The answer for the one partition of a request."""
    answer = await cluster.send(node, api, request)
    one = answer.results[0].partitions[0]
    if one.error_code:
        raise error_from_code(one.error_code, one.error_message or None)
    return one
