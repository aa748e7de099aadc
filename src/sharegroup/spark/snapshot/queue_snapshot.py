"""The records of a share group and their states. The broker is asked once, when a batch read is
planned. Nothing is acquired.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from sharegroup.client.admin.admin import Admin
from sharegroup.client.admin.descriptions import OffsetSpec, PartitionRecords, TopicDescription
from sharegroup.client.network.addresses import Address
from sharegroup.client.network.cluster import Cluster
from sharegroup.groups.offset_reset import OffsetResetKind, parse_offset_reset
from sharegroup.model.errors import ConfigError, GroupIdNotFound, UnknownTopicOrPartition
from sharegroup.model.ids import TopicIdPartition, TopicPartition
from sharegroup.share.record_state import RecordState
from sharegroup.spark.options.snapshot import PeekOptions, Positions
from sharegroup.spark.slices import Acquired
from sharegroup.spark.source.offsets import BatchOffset

ACKNOWLEDGED = RecordState.ACKNOWLEDGED.name.lower()
AVAILABLE = RecordState.AVAILABLE.name.lower()

Offsets = dict[TopicPartition, int]


class Seen(NamedTuple):
    """Records ``first`` … ``last``, both inclusive, and their state in the group."""

    first: int
    last: int
    delivery_count: int
    state: str
    member_id: str | None = None
    lock_ms: int | None = None


@dataclass(frozen=True, slots=True)
class SnapshotRuns:
    """The result: ascending runs of records, for each partition that has any."""

    topics: Mapping[TopicIdPartition, str]
    seen: Mapping[TopicIdPartition, tuple[Seen, ...]]
    leaders: Mapping[TopicIdPartition, Address]

    def as_batch(self) -> BatchOffset:
        """The records as a batch, to plan its tasks."""
        return BatchOffset(
            sequence=1,
            topics={key.topic_id: name for key, name in self.topics.items()},
            ranges={
                key: tuple(Acquired(*one[:3]) for one in runs) for key, runs in self.seen.items()
            },
        )


async def look(options: PeekOptions) -> SnapshotRuns:
    """Ask the cluster.

    Raises:
        ConfigError: there is no such topic or group.
        KafkaError: the broker refuses.
        BootstrapError: no broker can be reached.
    """
    cluster = Cluster(
        options.bootstrap_servers,
        client_id=options.client_id,
        request_timeout_ms=options.request_timeout_ms,
        allow_auto_create_topics=False,
        security=options.security,
    )
    async with cluster:
        admin = Admin(cluster=cluster, request_timeout_ms=options.request_timeout_ms)
        topics = await _topics(admin, options)
        await _check_group(admin, options)
        places = {
            TopicPartition(topic.name, one.partition): TopicIdPartition(
                topic.topic_id, one.partition
            )
            for topic in topics
            for one in topic.partitions
        }
        records = await admin.describe_record_states(options.group_id, list(places))
        bounds = await _bounds(admin, options, list(places), records)
        seen = {places[at]: tuple(_shown(records[at], *bounds[at], options)) for at in places}
        nodes = {node.node_id: node.address for node in (await admin.describe_cluster()).nodes}
        leaders = {
            TopicIdPartition(topic.topic_id, one.partition): nodes[one.leader]
            for topic in topics
            for one in topic.partitions
            if one.leader in nodes
        }
    return SnapshotRuns({key: at.topic for at, key in places.items()}, seen, leaders)


async def _topics(admin: Admin, options: PeekOptions) -> list[TopicDescription]:
    names = options.topics
    if options.topic_pattern is not None:
        pattern = re.compile(options.topic_pattern)
        names = tuple(one.name for one in await admin.list_topics() if pattern.fullmatch(one.name))
        if not names:
            raise ConfigError(f"no topic matches subscribePattern {options.topic_pattern!r}")
    try:
        return list((await admin.describe_topics(*names)).values())
    except UnknownTopicOrPartition as error:
        raise ConfigError(
            f"{options.bootstrap_servers} does not have all topics of subscribe, "
            f"{', '.join(names)}: {error}"
        ) from None


async def _check_group(admin: Admin, options: PeekOptions) -> None:
    try:
        await admin.describe_share_groups([options.group_id])
    except GroupIdNotFound:
        raise ConfigError(
            f"there is no share group {options.group_id!r} at {options.bootstrap_servers}: correct "
            "kafka.group.id (`sharegroup groups list` shows those there are)"
        ) from None


async def _bounds(
    admin: Admin,
    options: PeekOptions,
    places: list[TopicPartition],
    records: Mapping[TopicPartition, PartitionRecords],
) -> dict[TopicPartition, tuple[int, int]]:
    """The first offset and the end offset (exclusive) of the look in each partition, both within
    the partition's log."""
    first = await _log_offsets(admin, places, OffsetSpec.EARLIEST)
    end = await _log_offsets(admin, places, OffsetSpec.LATEST)
    begins = await _beginnings(admin, options, first, end, records)
    start_at = _asked(options.starting_offsets, {"earliest": first}, begins)
    end_at = _asked(options.ending_offsets, {"latest": end}, end)
    return {
        at: (
            first[at] if start_at[at] < 0 else max(first[at], start_at[at]),
            end[at] if end_at[at] < 0 else min(end[at], end_at[at]),
        )
        for at in places
    }


async def _log_offsets(admin: Admin, places: list[TopicPartition], at: OffsetSpec | int) -> Offsets:
    return {where: one.offset for where, one in (await admin.list_offsets(places, at)).items()}


async def _beginnings(
    admin: Admin,
    options: PeekOptions,
    first: Offsets,
    end: Offsets,
    records: Mapping[TopicPartition, PartitionRecords],
) -> Offsets:
    """The group's start offsets; for a partition without one, the offset that the group will
    choose."""
    starts = {at: one.start_offset for at, one in records.items()}
    unbegun = [at for at, start in starts.items() if start is None]
    chosen: Offsets = {}
    if unbegun:
        configs = await admin.describe_configs("group", options.group_id)
        reset = parse_offset_reset(configs["share.auto.offset.reset"].value or "latest")
        if reset.kind is OffsetResetKind.BY_DURATION:
            since_ms = int(time.time() * 1000) - reset.duration_ms
            found = await _log_offsets(admin, unbegun, since_ms)
            chosen = {at: end[at] if offset < 0 else offset for at, offset in found.items()}
        else:
            chosen = first if reset.kind is OffsetResetKind.EARLIEST else end
    return {at: chosen[at] if start is None else start for at, start in starts.items()}


def _asked(
    positions: str | Positions | None, words: Mapping[str, Offsets], default: Offsets
) -> Offsets:
    if positions is None:
        return default
    if isinstance(positions, str):
        return words[positions]
    return {at: positions.get(at.topic, {}).get(at.partition, default[at]) for at in default}


# --- one partition --------------------------------------------------------------------------------


def _shown(records: PartitionRecords, first: int, end: int, options: PeekOptions) -> Iterator[Seen]:
    """The runs between ``first`` and ``end`` that are in a wanted state, up to the wanted number of
    records."""
    if records.error is not None:
        raise records.error
    room = options.records_per_topic_partition
    for one in _clipped(_runs(records, end), first, end):
        if one.state not in options.states:
            continue
        if room is not None:
            if room <= 0:
                return
            one = one._replace(last=min(one.last, one.first + room - 1))
            room -= one.last - one.first + 1
        yield one


def _runs(records: PartitionRecords, end: int) -> Iterator[Seen]:
    """Runs of all offsets from 0 on: finished records before the window, records that were never
    delivered after it."""
    start = records.start_offset or 0
    if start > 0:
        yield Seen(0, start - 1, 0, ACKNOWLEDGED)
    for one in records.ranges:
        yield Seen(
            one.first,
            one.last,
            one.delivery_count,
            one.state.name.lower(),
            one.member_id,
            one.lock_ms,
        )
    yield Seen(max(start, records.end_offset or 0), end - 1, 0, AVAILABLE)


def _clipped(runs: Iterable[Seen], first: int, end: int) -> Iterator[Seen]:
    for one in runs:
        low, high = max(one.first, first), min(one.last, end - 1)
        if low <= high:
            yield one._replace(first=low, last=high)
