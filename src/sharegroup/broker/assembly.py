"""Makes the parts of a broker and plugs them together. A new coordinator is made here."""

from __future__ import annotations

from sharegroup.broker.configs.broker import BrokerConfig
from sharegroup.broker.configs.live_configs import LiveConfigs
from sharegroup.broker.coordination.group_registry import GroupRegistry, GroupType
from sharegroup.broker.coordination.group_runtimes import GroupRuntimes
from sharegroup.broker.coordination.internal_topic import InternalTopic
from sharegroup.broker.coordination.runtime import Spawn
from sharegroup.broker.coordination.share_group_coordinator import ShareGroupCoordinator
from sharegroup.broker.coordination.share_groups_machine import ShareGroupsMachine
from sharegroup.broker.coordination.share_state_log import ShareStateLog
from sharegroup.broker.coordination.share_state_shard import StateSettings
from sharegroup.broker.counters import Counters
from sharegroup.broker.delivery.share_partitions import SharePartitions
from sharegroup.broker.delivery.unpacking import Unpacking
from sharegroup.broker.fetch_sessions import FetchSessions
from sharegroup.broker.internal_topics import CONSUMER_OFFSETS, SHARE_GROUP_STATE
from sharegroup.broker.meters import Meters
from sharegroup.broker.network.api_table import served_apis
from sharegroup.broker.network.descriptors import DescriptorBudget
from sharegroup.broker.parts import BrokerParts
from sharegroup.broker.read_model import OpenConnections, ReadModel
from sharegroup.broker.topics import Topics
from sharegroup.broker.waiters import Waiters
from sharegroup.groups.share import ShareGroups
from sharegroup.model.environment import Clock, Environment
from sharegroup.model.store import Store
from sharegroup.share.session import ShareSessions


def assemble(
    config: BrokerConfig,
    environment: Environment,
    store: Store,
    descriptors: DescriptorBudget,
    counters: Counters,
    connections: OpenConnections,
    spawn: Spawn,
) -> tuple[BrokerParts, GroupRuntimes]:
    """The parts of a broker over its recovered store; nothing is loaded yet.

    Args:
        spawn: runs a coroutine in the background and reports its failure.
    """
    clock, waiters, meters = environment.clock, Waiters(), Meters()
    configs = LiveConfigs(config, store)
    topics = Topics(
        store,
        waiters,
        environment.new_id,
        lambda: configs.broker.integer("num.partitions"),
        descriptors.check_more,
    )
    state = _share_state(config, topics, clock)
    groups, runtimes = _groups(configs, topics, state, clock)
    share_partitions = SharePartitions(
        clock=clock,
        state=state,
        waiters=waiters,
        settings_of=configs.group,
        meters=meters,
        spawn=spawn,
    )
    parts = BrokerParts(
        clock=clock,
        store=store,
        topics=topics,
        waiters=waiters,
        counters=counters,
        meters=meters,
        state=state,
        share_partitions=share_partitions,
        sessions=ShareSessions(config.integer("group.share.max.share.sessions")),
        configs=configs,
        groups=groups,
        group_registry=GroupRegistry({GroupType.SHARE: groups.groups}),
        unpacking=Unpacking(),
        fetch_sessions=FetchSessions(
            config.integer("max.incremental.fetch.session.cache.slots"),
            lambda: int.from_bytes(environment.entropy(4), "big"),
        ),
        served_apis=served_apis(),
        share_version=config.integer("share.version"),
        connections=connections,
        views=ReadModel(
            clock=clock,
            topics=topics,
            groups=groups.groups,
            state=state,
            share_partitions=share_partitions,
            connections=connections,
        ),
    )
    return parts, runtimes


def _share_state(config: BrokerConfig, topics: Topics, clock: Clock) -> ShareStateLog:
    partitions = config.integer("share.coordinator.state.topic.num.partitions")
    return ShareStateLog(
        InternalTopic(SHARE_GROUP_STATE, partitions, topics, clock),
        StateSettings(
            config.integer("share.coordinator.snapshot.update.records.per.snapshot"),
            config.integer("share.coordinator.state.topic.prune.interval.ms"),
            config.integer("share.coordinator.cold.partition.snapshot.interval.ms"),
        ),
        clock,
        lambda topic_id: topics.find_id(topic_id) is not None,
    )


def _groups(
    configs: LiveConfigs, topics: Topics, state: ShareStateLog, clock: Clock
) -> tuple[ShareGroupCoordinator, GroupRuntimes]:
    """The coordinators of groups, and the runtimes that all of them share."""
    size_max = configs.broker.integer("group.share.max.size")

    def new_share_groups() -> ShareGroupsMachine:
        machine = ShareGroups(configs.group, group_size_max=size_max)
        return ShareGroupsMachine(machine, lambda: topics.image, lambda r: share_groups.count(r))

    partitions = configs.broker.integer("offsets.topic.num.partitions")
    runtimes = GroupRuntimes(
        InternalTopic(CONSUMER_OFFSETS, partitions, topics, clock),
        [new_share_groups],
        clock,
        records_per_rewrite=lambda: configs.broker.integer("group.share.records.per.rewrite"),
        after_load=lambda: share_groups.forget_missing(),
    )
    share_groups = ShareGroupCoordinator(runtimes, state, clock, lambda: topics.image)
    return share_groups, runtimes
