"""The group coordinator and the share coordinator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from sharegroup.broker.metrics.metric import Metric, Sample, counter, gauge, histogram
from sharegroup.broker.parts import BrokerParts
from sharegroup.groups.classic.group import State
from sharegroup.groups.consumer.member import ConsumerGroupState

_GROUPS: Final = "kafka.server:type=group-coordinator-metrics "
_STATE: Final = "kafka.server:type=share-coordinator-metrics "

GROUPS: Final = gauge(
    "sharegroup_groups",
    "Share groups by state: Empty, Stable, Dead.",
    labels=("state",),
    kafka=_GROUPS + "share-group-count{state}, group-count{protocol=share}",
)
MEMBERS: Final = gauge(
    "sharegroup_group_members", "Members of each share group.", labels=("group",)
)
REBALANCES: Final = counter(
    "sharegroup_group_rebalances",
    "Group epochs given out: a member came, went or subscribed anew, or a topic changed.",
    kafka=_GROUPS + "share-group-rebalance-count, share-group-rebalance-rate",
)
CLASSIC_GROUPS: Final = gauge(
    "sharegroup_classic_groups",
    "Classic consumer groups by state: Empty, PreparingRebalance, CompletingRebalance, Stable.",
    labels=("state",),
    kafka=_GROUPS + "group-count{protocol=classic}; "
    "kafka.server:type=GroupMetadataManager,name=NumGroups and NumGroupsStable and others",
)
CLASSIC_REBALANCES: Final = counter(
    "sharegroup_classic_group_rebalances",
    "Generations of classic groups whose assignments were handed out.",
    kafka=_GROUPS + "group-completed-rebalance-count, group-completed-rebalance-rate",
)
CONSUMER_GROUPS: Final = gauge(
    "sharegroup_consumer_groups",
    "Consumer groups (KIP-848) by state: Empty, Assigning, Reconciling, Stable.",
    labels=("state",),
    kafka=_GROUPS + "consumer-group-count{state}, group-count{protocol=consumer}",
)
CONSUMER_REBALANCES: Final = counter(
    "sharegroup_consumer_group_rebalances",
    "Epochs of consumer groups given out: a member came, went or subscribed anew, or a topic "
    "changed.",
    kafka=_GROUPS + "consumer-group-rebalance-count, consumer-group-rebalance-rate",
)
CLASSIC_WAITING: Final = gauge(
    "sharegroup_classic_group_waiting_requests",
    "Joins and syncs that wait for other members of their groups.",
    kafka="kafka.server:type=DelayedOperationPurgatory,delayedOperation=Rebalance, before Kafka 4",
)
OFFSETS: Final = gauge(
    "sharegroup_committed_offsets",
    "Committed offsets of all groups.",
    kafka="kafka.server:type=GroupMetadataManager,name=NumOffsets",
)
COMMITS: Final = counter(
    "sharegroup_offset_commits",
    "Offsets committed, in transactions or not.",
    kafka=_GROUPS + "offset-commit-count, offset-commit-rate",
)
EXPIRATIONS: Final = counter(
    "sharegroup_offset_expirations",
    "Committed offsets deleted after offsets.retention.minutes without a member.",
    kafka=_GROUPS + "offset-expiration-count, offset-expiration-rate",
)
RANGES: Final = gauge(
    "sharegroup_individual_commits",
    "Ranges of offsets that groups have committed behind their committed offsets.",
)
DUPLICATES: Final = counter(
    "sharegroup_individual_commit_duplicates",
    "Offsets in ranges that were committed before.",
)
REFUSED_RANGES: Final = counter(
    "sharegroup_individual_commits_refused",
    "Commits of ranges refused because the group had max.individual.commits.",
)
WAITING_RANGES: Final = gauge(
    "sharegroup_individual_commits_waiting",
    "Transactional commits of ranges that wait for the offsets before them.",
)
WRITE_SECONDS: Final = histogram(
    "sharegroup_share_state_write_seconds",
    "Writes of share state, until they are durable. Its count is the number of writes.",
    labels=("partition",),
    kafka=_STATE + "write-total, write-rate, write-latency-avg, write-latency-max",
)
LOAD_SECONDS: Final = histogram(
    "sharegroup_share_state_load_seconds",
    "Loading a partition of the state topic.",
    labels=("partition",),
    kafka=_STATE + "partition-load-time-avg, partition-load-time-max",
)
SHARDS: Final = gauge(
    "sharegroup_share_state_partitions",
    "Partitions of the state topic by state: active, loading.",
    labels=("state",),
    kafka=_STATE + "num-partitions{state}",
)
PRUNED: Final = gauge(
    "sharegroup_share_state_last_pruned_offset",
    "Where the state topic's partition was last pruned to.",
    labels=("topic", "partition"),
    kafka=_STATE + "last-pruned-offset{topic,partition}",
)

METRICS: Final = (
    GROUPS,
    MEMBERS,
    REBALANCES,
    CLASSIC_GROUPS,
    CLASSIC_REBALANCES,
    CONSUMER_GROUPS,
    CONSUMER_REBALANCES,
    CLASSIC_WAITING,
    OFFSETS,
    COMMITS,
    EXPIRATIONS,
    RANGES,
    DUPLICATES,
    REFUSED_RANGES,
    WAITING_RANGES,
    WRITE_SECONDS,
    LOAD_SECONDS,
    SHARDS,
    PRUNED,
)

_STATES: Final = ("Empty", "Stable", "Dead")


def read(parts: BrokerParts) -> Iterator[Sample]:
    """The samples of this table."""
    groups = parts.views.share_groups.groups()
    states = Counter(str(group.state) for group in groups)
    for state in _STATES:
        yield GROUPS.of(states[state], state)
    for group in groups:
        yield MEMBERS.of(group.members, group.group_id)
    yield REBALANCES.of(parts.groups.rebalances)
    yield from _by_state(CLASSIC_GROUPS, State, parts.views.groups.classic_group_states())
    yield CLASSIC_REBALANCES.of(parts.classic_groups.rebalances)
    yield from _by_state(
        CONSUMER_GROUPS, ConsumerGroupState, parts.views.groups.consumer_group_states()
    )
    yield CONSUMER_REBALANCES.of(parts.consumer_groups.rebalances)
    yield CLASSIC_WAITING.of(parts.classic_groups.waiting)
    yield OFFSETS.of(parts.offsets.count())
    yield COMMITS.of(parts.offsets.commits)
    yield EXPIRATIONS.of(parts.offsets.expired())
    yield RANGES.of(parts.ranges.count())
    yield DUPLICATES.of(parts.ranges.duplicates())
    yield REFUSED_RANGES.of(parts.ranges.full)
    yield WAITING_RANGES.of(parts.ranges.waiting)
    yield from _shards(parts)


def _by_state(metric: Metric, states: Iterable[str], counts: Counter[str]) -> Iterator[Sample]:
    for state in states:
        yield metric.of(counts[state], state)


def _shards(parts: BrokerParts) -> Iterator[Sample]:
    shards = parts.state.shards
    active = sum(shard.loaded for shard in shards)
    yield SHARDS.of(active, "active")
    yield SHARDS.of(len(shards) - active, "loading")
    for shard in shards:
        yield WRITE_SECONDS.of(shard.write_seconds, str(shard.partition))
        yield LOAD_SECONDS.of(shard.load_seconds, str(shard.partition))
        if shard.last_pruned_offset is not None:
            partition = str(shard.partition)
            yield PRUNED.of(shard.last_pruned_offset, "__share_group_state", partition)
