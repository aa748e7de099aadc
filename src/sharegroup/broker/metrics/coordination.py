"""The group coordinator and the share coordinator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from sharegroup.broker.coordination.share_state_shard import StateShard
from sharegroup.broker.leadership import OtherNodes
from sharegroup.broker.metrics.table import Labels, Scrape, Table
from sharegroup.broker.read_model.share_groups import ShareGroupLine
from sharegroup.groups.classic.group import State
from sharegroup.groups.consumer.member import ConsumerGroupState

_GROUPS: Final = "kafka.server:type=group-coordinator-metrics "
_STATE: Final = "kafka.server:type=share-coordinator-metrics "
_SHARE_GROUP_STATES: Final = ("Empty", "Stable", "Dead")


def _share_groups(scrape: Scrape) -> Iterator[tuple[list[ShareGroupLine], Labels]]:
    yield scrape.parts.views.share_groups.groups(), ()


def _members(groups: list[ShareGroupLine]) -> Mapping[str, int]:
    return {group.group_id: group.members for group in groups}


def _in_states(states: Iterable[str], counts: Counter[str]) -> Mapping[str, int]:
    return {state: counts[state] for state in states}


def _shards(scrape: Scrape) -> Iterator[tuple[StateShard, Labels]]:
    for shard in scrape.parts.state.shards:
        yield shard, (str(shard.partition),)


def _shard_states(scrape: Scrape) -> Mapping[str, int]:
    shards = scrape.parts.state.shards
    active = sum(shard.loaded for shard in shards)
    return {"active": active, "loading": len(shards) - active}


def _pruned(scrape: Scrape) -> Mapping[Labels, int]:
    return {
        ("__share_group_state", str(shard.partition)): offset
        for shard in scrape.parts.state.shards
        if (offset := shard.last_pruned_offset) is not None
    }


def _fleet(scrape: Scrape) -> Iterator[tuple[OtherNodes, Labels]]:
    if scrape.parts.other_nodes is not None:
        yield scrape.parts.other_nodes, ()


COORDINATION: Final = Table()
SHARE_GROUPS: Final = COORDINATION.source((), _share_groups)
COORDINATORS: Final = COORDINATION.whole()
BY_SHARD: Final = COORDINATION.source(("partition",), _shards)
FLEET: Final = COORDINATION.source((), _fleet)

SHARE_GROUPS.gauge(
    "sharegroup_groups",
    "Share groups by state: Empty, Stable, Dead.",
    lambda groups: _in_states(_SHARE_GROUP_STATES, Counter(str(group.state) for group in groups)),
    labels=("state",),
    kafka=_GROUPS + "share-group-count{state}, group-count{protocol=share}",
)
SHARE_GROUPS.gauge(
    "sharegroup_group_members", "Members of each share group.", _members, labels=("group",)
)
COORDINATORS.counter(
    "sharegroup_group_rebalances",
    "Group epochs given out: a member came, went or subscribed anew, or a topic changed.",
    lambda scrape: scrape.parts.groups.rebalances,
    kafka=_GROUPS + "share-group-rebalance-count, share-group-rebalance-rate",
)
COORDINATORS.gauge(
    "sharegroup_classic_groups",
    "Classic consumer groups by state: Empty, PreparingRebalance, CompletingRebalance, Stable.",
    lambda scrape: _in_states(State, scrape.parts.views.groups.classic_group_states()),
    labels=("state",),
    kafka=_GROUPS + "group-count{protocol=classic}; "
    "kafka.server:type=GroupMetadataManager,name=NumGroups and NumGroupsStable and others",
)
COORDINATORS.counter(
    "sharegroup_classic_group_rebalances",
    "Generations of classic groups whose assignments were handed out.",
    lambda scrape: scrape.parts.classic_groups.rebalances,
    kafka=_GROUPS + "group-completed-rebalance-count, group-completed-rebalance-rate",
)
COORDINATORS.gauge(
    "sharegroup_consumer_groups",
    "Consumer groups (KIP-848) by state: Empty, Assigning, Reconciling, Stable.",
    lambda scrape: _in_states(
        ConsumerGroupState, scrape.parts.views.groups.consumer_group_states()
    ),
    labels=("state",),
    kafka=_GROUPS + "consumer-group-count{state}, group-count{protocol=consumer}",
)
COORDINATORS.counter(
    "sharegroup_consumer_group_rebalances",
    "Epochs of consumer groups given out: a member came, went or subscribed anew, or a topic "
    "changed.",
    lambda scrape: scrape.parts.consumer_groups.rebalances,
    kafka=_GROUPS + "consumer-group-rebalance-count, consumer-group-rebalance-rate",
)
COORDINATORS.gauge(
    "sharegroup_classic_group_waiting_requests",
    "Joins and syncs that wait for other members of their groups.",
    lambda scrape: scrape.parts.classic_groups.waiting,
    kafka="kafka.server:type=DelayedOperationPurgatory,delayedOperation=Rebalance, before Kafka 4",
)
COORDINATORS.gauge(
    "sharegroup_committed_offsets",
    "Committed offsets of all groups.",
    lambda scrape: scrape.parts.offsets.count(),
    kafka="kafka.server:type=GroupMetadataManager,name=NumOffsets",
)
COORDINATORS.counter(
    "sharegroup_offset_commits",
    "Offsets committed, in transactions or not.",
    lambda scrape: scrape.parts.offsets.commits,
    kafka=_GROUPS + "offset-commit-count, offset-commit-rate",
)
COORDINATORS.counter(
    "sharegroup_offset_expirations",
    "Committed offsets deleted after offsets.retention.minutes without a member.",
    lambda scrape: scrape.parts.offsets.expired(),
    kafka=_GROUPS + "offset-expiration-count, offset-expiration-rate",
)
COORDINATORS.gauge(
    "sharegroup_individual_commits",
    "Ranges of offsets that groups have committed behind their committed offsets.",
    lambda scrape: scrape.parts.ranges.count(),
)
COORDINATORS.counter(
    "sharegroup_individual_commit_duplicates",
    "Offsets in ranges that were committed before.",
    lambda scrape: scrape.parts.ranges.duplicates(),
)
COORDINATORS.counter(
    "sharegroup_individual_commits_refused",
    "Commits of ranges refused because the group had max.individual.commits.",
    lambda scrape: scrape.parts.ranges.full,
)
COORDINATORS.gauge(
    "sharegroup_individual_commits_waiting",
    "Transactional commits of ranges that wait for the offsets before them.",
    lambda scrape: scrape.parts.ranges.waiting,
)
BY_SHARD.histogram(
    "sharegroup_share_state_write_seconds",
    "Writes of share state, until they are durable. Its count is the number of writes.",
    lambda shard: shard.write_seconds,
    kafka=_STATE + "write-total, write-rate, write-latency-avg, write-latency-max",
)
BY_SHARD.histogram(
    "sharegroup_share_state_load_seconds",
    "Loading a partition of the state topic.",
    lambda shard: shard.load_seconds,
    kafka=_STATE + "partition-load-time-avg, partition-load-time-max",
)
COORDINATORS.gauge(
    "sharegroup_share_state_partitions",
    "Partitions of the state topic by state: active, loading.",
    _shard_states,
    labels=("state",),
    kafka=_STATE + "num-partitions{state}",
)
COORDINATION.whole().gauge(
    "sharegroup_share_state_last_pruned_offset",
    "Where the state topic's partition was last pruned to.",
    _pruned,
    labels=("topic", "partition"),
    kafka=_STATE + "last-pruned-offset{topic,partition}",
)
FLEET.gauge(
    "sharegroup_fleet_nodes",
    "Brokers that share the work in front of a cluster, with this one.",
    lambda fleet: fleet.node_count,
)
FLEET.gauge(
    "sharegroup_fleet_parts",
    "Parts of the state of share groups that this broker has; it leads the partitions in them.",
    lambda fleet: len(fleet.owned),
)
FLEET.gauge(
    "sharegroup_fleet_lease",
    "1 while the cluster confirms that this broker may hand out records, else 0.",
    lambda fleet: int(fleet.may_deliver),
)
