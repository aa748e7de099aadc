"""Makes the coordinators of groups, and the runtimes that all of them share. A coordinator of a new
type of group is made here.

Machines, coordinators and the registry need each other. So the lambdas in
:func:`group_coordinators` use names that are assigned further down: they are called only after
that. The classic coordinator makes machines for the runtimes, so it is made before them, and gets
them by ``start``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from sharegroup.broker.configs.live_configs import LiveConfigs
from sharegroup.broker.coordination.classic_group_coordinator import ClassicGroupCoordinator
from sharegroup.broker.coordination.classic_groups_machine import ClassicGroupsMachine
from sharegroup.broker.coordination.cleaning import Unused
from sharegroup.broker.coordination.consumer_group_coordinator import ConsumerGroupCoordinator
from sharegroup.broker.coordination.consumer_groups_machine import ConsumerGroupsMachine
from sharegroup.broker.coordination.group_registry import CommittingGroups, GroupRegistry, GroupType
from sharegroup.broker.coordination.group_runtimes import GroupRuntimes
from sharegroup.broker.coordination.internal_topic import InternalTopic
from sharegroup.broker.coordination.log import CoordinatorTopic
from sharegroup.broker.coordination.offset_coordinator import (
    OffsetCoordinator,
    SimpleGroups,
    expire_group,
)
from sharegroup.broker.coordination.offsets_machine import Expiry, OffsetsMachine
from sharegroup.broker.coordination.persister import Persister
from sharegroup.broker.coordination.range_commits import RangeCommits
from sharegroup.broker.coordination.runtime import Runtime, Spawn
from sharegroup.broker.coordination.share_group_coordinator import ShareGroupCoordinator
from sharegroup.broker.coordination.share_groups_machine import ShareGroupsMachine
from sharegroup.broker.internal_topics import CONSUMER_OFFSETS, INDIVIDUAL_COMMITS
from sharegroup.broker.topics import Topics
from sharegroup.groups.classic.group import Group as ClassicGroup
from sharegroup.groups.classic.records import ClassicRecord
from sharegroup.groups.classic.requests import Settings as ClassicSettings
from sharegroup.groups.consumer.groups import ConsumerGroups
from sharegroup.groups.consumer.migration import ClassicSide, MigrationPolicy
from sharegroup.groups.consumer.patterns import Matches
from sharegroup.groups.consumer.records import WrittenRecord
from sharegroup.groups.share.groups import ShareGroups
from sharegroup.groups.share.records import ShareRecord
from sharegroup.model.environment import Clock, Environment

TopicMaker: TypeAlias = Callable[[str, int], CoordinatorTopic]
"""Makes a topic of coordinators by name and number of partitions."""


class GroupCoordinators(NamedTuple):
    """The coordinators of groups: one for each type of group, one for committed offsets, one for
    ranges. All share the registry and the runtimes."""

    share: ShareGroupCoordinator
    classic: ClassicGroupCoordinator
    consumer: ConsumerGroupCoordinator
    offsets: OffsetCoordinator
    ranges: RangeCommits
    registry: GroupRegistry
    runtimes: GroupRuntimes


class _ClassicGroups:
    """The classic groups that a consumer group comes from or becomes when its protocol changes. The
    machine is looked up in each call, because a load replaces it. Implements
    ``groups.consumer.migration.ClassicSide``.
    """

    def __init__(self, runtime_of: Callable[[str], Runtime]) -> None:
        self._runtime_of = runtime_of

    def _machine(self, group_id: str) -> ClassicGroupsMachine:
        return self._runtime_of(group_id).machine(ClassicGroupsMachine)

    def group(self, group_id: str) -> ClassicGroup | None:
        return self._machine(group_id).group(group_id)

    def release(self, group_id: str) -> Sequence[ClassicRecord]:
        return self._machine(group_id).release(group_id)

    def keep(self, group_id: str) -> None:
        self._machine(group_id).keep(group_id)

    def adopt(self, group: ClassicGroup, *, rebalance: bool) -> Sequence[ClassicRecord]:
        return self._machine(group.group_id).adopt(group, rebalance=rebalance)


def group_coordinators(
    configs: LiveConfigs,
    topics: Topics,
    state: Persister,
    environment: Environment,
    spawn: Spawn,
    make_topic: TopicMaker,
) -> GroupCoordinators:
    """The coordinators of groups; nothing is loaded yet.

    Args:
        spawn: runs a coroutine in the background and reports its failure.
    """
    clock, broker = environment.clock, configs.broker

    async def after_load() -> None:
        classic.refuse_orphans()  # first: clients of the replaced machine must not wait any longer
        await share.forget_missing()
        await offsets.forget_missing(topics.id_of)

    unused = Unused(
        lambda: configs.broker.integer("offsets.retention.check.interval.ms"),
        lambda group_id: simple.exists(group_id),
    )
    settings = ClassicSettings(
        broker.integer("group.max.size"), broker.integer("group.initial.rebalance.delay.ms")
    )
    classic = ClassicGroupCoordinator(clock, environment.new_id, settings, unused, spawn)
    matches = Matches()
    offsets_topic = make_topic(CONSUMER_OFFSETS, broker.integer("offsets.topic.num.partitions"))
    runtimes = GroupRuntimes(
        offsets_topic,
        InternalTopic(INDIVIDUAL_COMMITS, offsets_topic.partition_count, topics, clock),
        [
            lambda: _new_share_groups(configs, topics, lambda records: share.count(records)),
            classic.new_machine,
            lambda: _new_consumer_groups(
                configs,
                topics,
                _ClassicGroups(lambda group_id: runtimes.of(group_id)),
                lambda records: consumer.count(records),
                unused,
                matches,
            ),
            lambda: OffsetsMachine(_expiry(configs, clock, lambda: registry)),
        ],
        clock,
        records_per_rewrite=lambda: configs.broker.integer("group.share.records.per.rewrite"),
        after_load=after_load,
    )
    share = ShareGroupCoordinator(
        runtimes, state, clock, topics, lambda g: registry.check(g, GroupType.SHARE)
    )
    consumer = ConsumerGroupCoordinator(
        runtimes,
        clock,
        environment.new_id,
        lambda: topics.image,
        lambda g: registry.check(g, GroupType.CONSUMER),
    )
    simple = SimpleGroups(runtimes)
    committing: dict[GroupType, CommittingGroups] = {  # share groups commit no offsets
        GroupType.CLASSIC: classic.groups,
        GroupType.CONSUMER: consumer.groups,
    }
    registry = GroupRegistry({GroupType.SHARE: share.groups, **committing}, simple, committing)
    offsets = OffsetCoordinator(runtimes, registry, clock)
    classic.start(runtimes, lambda group_id: registry.check(group_id, GroupType.CLASSIC), consumer)
    ranges = _range_commits(configs, runtimes, offsets, (classic, consumer))
    return GroupCoordinators(share, classic, consumer, offsets, ranges, registry, runtimes)


def _range_commits(
    configs: LiveConfigs,
    runtimes: GroupRuntimes,
    offsets: OffsetCoordinator,
    coordinators: Sequence[ClassicGroupCoordinator | ConsumerGroupCoordinator],
) -> RangeCommits:
    async def rebalance(group_id: str) -> None:
        for coordinator in coordinators:
            if coordinator.groups.exists(group_id):
                await coordinator.rebalance(group_id)

    return RangeCommits(
        runtimes,
        offsets,
        lambda: configs.broker.flag("accept.individual.commit"),
        lambda: configs.broker.integer("max.individual.commits"),
        rebalance,
    )


def _new_share_groups(
    configs: LiveConfigs, topics: Topics, count: Callable[[Sequence[ShareRecord]], None]
) -> ShareGroupsMachine:
    size_max = configs.broker.integer("group.share.max.size")
    machine = ShareGroups(configs.group, group_size_max=size_max)
    return ShareGroupsMachine(machine, lambda: topics.image, count)


def _new_consumer_groups(
    configs: LiveConfigs,
    topics: Topics,
    classic: ClassicSide,
    count: Callable[[Sequence[WrittenRecord]], None],
    unused: Unused,
    matches: Matches,
) -> ConsumerGroupsMachine:
    broker = configs.broker
    machine = ConsumerGroups(
        configs.group,
        assignors=broker.names("group.consumer.assignors"),
        group_size_max=broker.integer("group.consumer.max.size"),
        regex_refresh_ms=broker.integer("group.consumer.regex.refresh.interval.ms"),
        classic=classic,
        migration_policy=MigrationPolicy(broker.text("group.consumer.migration.policy").lower()),
        classic_size_max=broker.integer("group.max.size"),
        matches=matches,
    )
    return ConsumerGroupsMachine(machine, lambda: topics.image, count, unused)


def _expiry(configs: LiveConfigs, clock: Clock, registry: Callable[[], GroupRegistry]) -> Expiry:
    return Expiry(
        lambda: configs.broker.integer("offsets.retention.check.interval.ms"),
        lambda offsets, group_id: expire_group(
            offsets,
            group_id,
            registry(),
            clock.wall_ms(),
            configs.broker.integer("offsets.retention.minutes") * 60_000,
        ),
    )
