"""Makes the parts of a broker and plugs them together. A new coordinator is made here."""

from __future__ import annotations

from collections.abc import Callable

from sharegroup.broker.configs.broker import BrokerConfig
from sharegroup.broker.configs.live_configs import LiveConfigs
from sharegroup.broker.coordination.classic_group_coordinator import ClassicGroupCoordinator
from sharegroup.broker.coordination.classic_groups_machine import Unused
from sharegroup.broker.coordination.consumer_group_coordinator import ConsumerGroupCoordinator
from sharegroup.broker.coordination.consumer_groups_machine import ConsumerGroupsMachine
from sharegroup.broker.coordination.group_registry import CommittingGroups, GroupRegistry, GroupType
from sharegroup.broker.coordination.group_runtimes import GroupRuntimes
from sharegroup.broker.coordination.internal_topic import InternalTopic
from sharegroup.broker.coordination.offset_coordinator import (
    OffsetCoordinator,
    SimpleGroups,
    expire_group,
)
from sharegroup.broker.coordination.offsets_machine import Expiry, OffsetsMachine
from sharegroup.broker.coordination.runtime import Spawn
from sharegroup.broker.coordination.share_group_coordinator import ShareGroupCoordinator
from sharegroup.broker.coordination.share_groups_machine import ShareGroupsMachine
from sharegroup.broker.coordination.share_state_log import ShareStateLog
from sharegroup.broker.coordination.share_state_shard import StateSettings
from sharegroup.broker.coordination.transaction_coordinator import Transactions
from sharegroup.broker.coordination.transaction_markers import TransactionMarkers
from sharegroup.broker.coordination.transaction_writes import (
    OffsetAdmission,
    TransactionWrites,
)
from sharegroup.broker.counters import Counters
from sharegroup.broker.delivery.share_partitions import SharePartitions
from sharegroup.broker.delivery.unpacking import Unpacking
from sharegroup.broker.fetch_sessions import FetchSessions
from sharegroup.broker.internal_topics import (
    CONSUMER_OFFSETS,
    SHARE_GROUP_STATE,
    TRANSACTION_STATE,
)
from sharegroup.broker.meters import Meters
from sharegroup.broker.network.api_table import served_apis
from sharegroup.broker.network.descriptors import DescriptorBudget
from sharegroup.broker.parts import BrokerParts
from sharegroup.broker.read_model import OpenConnections, ReadModel
from sharegroup.broker.topics import Topics
from sharegroup.broker.waiters import Waiters
from sharegroup.groups.classic.requests import Settings as ClassicSettings
from sharegroup.groups.consumer.membership import ConsumerGroups
from sharegroup.groups.share import ShareGroups
from sharegroup.model.environment import Clock, Environment
from sharegroup.model.store import Store
from sharegroup.share.session import ShareSessions
from sharegroup.transactions.coordinator import TransactionCoordinator


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
    groups, classic, consumer_groups, offsets, registry, runtimes = _groups(
        configs, topics, state, environment, spawn
    )
    share_partitions = SharePartitions(
        clock=clock,
        state=state,
        waiters=waiters,
        settings_of=configs.group,
        meters=meters,
        spawn=spawn,
    )
    transactions = _transactions(configs, topics, store, clock, offsets)
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
        classic_groups=classic,
        consumer_groups=consumer_groups,
        transactions=transactions,
        transaction_writes=TransactionWrites(
            transactions,
            lambda: configs.broker.flag("transaction.partition.verification.enable"),
        ),
        group_registry=registry,
        offsets=offsets,
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
    configs: LiveConfigs,
    topics: Topics,
    state: ShareStateLog,
    environment: Environment,
    spawn: Spawn,
) -> tuple[
    ShareGroupCoordinator,
    ClassicGroupCoordinator,
    ConsumerGroupCoordinator,
    OffsetCoordinator,
    GroupRegistry,
    GroupRuntimes,
]:
    """The coordinators of groups, and the runtimes that all of them share."""
    clock = environment.clock
    broker = configs.broker
    size_max = broker.integer("group.share.max.size")
    classic_settings = ClassicSettings(
        broker.integer("group.max.size"), broker.integer("group.initial.rebalance.delay.ms")
    )

    def new_share_groups() -> ShareGroupsMachine:
        machine = ShareGroups(configs.group, group_size_max=size_max)
        return ShareGroupsMachine(machine, lambda: topics.image, lambda r: share_groups.count(r))

    async def after_load() -> None:
        classic.refuse_orphans()
        await share_groups.forget_missing()
        await offsets.forget_missing(topics.id_of)

    unused = Unused(
        lambda: broker.integer("offsets.retention.check.interval.ms"),
        lambda group_id: simple.exists(group_id),
    )
    classic = ClassicGroupCoordinator(clock, environment.new_id, classic_settings, unused, spawn)
    runtimes = GroupRuntimes(
        InternalTopic(
            CONSUMER_OFFSETS, broker.integer("offsets.topic.num.partitions"), topics, clock
        ),
        [
            new_share_groups,
            classic.new_machine,
            lambda: _new_consumer_groups(configs, topics, lambda: consumer_groups),
            lambda: OffsetsMachine(_expiry(configs, clock, lambda: registry)),
        ],
        clock,
        records_per_rewrite=lambda: configs.broker.integer("group.share.records.per.rewrite"),
        after_load=after_load,
    )
    share_groups = ShareGroupCoordinator(
        runtimes, state, clock, lambda: topics.image, lambda g: registry.check(g, GroupType.SHARE)
    )
    consumer_groups = ConsumerGroupCoordinator(
        runtimes,
        clock,
        environment.new_id,
        lambda: topics.image,
        lambda g: registry.check(g, GroupType.CONSUMER),
        classic.vacate,
    )
    simple = SimpleGroups(runtimes)
    registry = _registry(share_groups, classic, consumer_groups, simple)
    offsets = OffsetCoordinator(runtimes, registry, clock)
    classic.start(runtimes, lambda group_id: registry.check(group_id, GroupType.CLASSIC))
    return share_groups, classic, consumer_groups, offsets, registry, runtimes


def _registry(
    share_groups: ShareGroupCoordinator,
    classic: ClassicGroupCoordinator,
    consumer_groups: ConsumerGroupCoordinator,
    simple: SimpleGroups,
) -> GroupRegistry:
    committing: dict[GroupType, CommittingGroups] = {
        GroupType.CONSUMER: consumer_groups.groups,
        GroupType.CLASSIC: classic.groups,
    }
    return GroupRegistry({GroupType.SHARE: share_groups.groups, **committing}, simple, committing)


def _new_consumer_groups(
    configs: LiveConfigs, topics: Topics, coordinator: Callable[[], ConsumerGroupCoordinator]
) -> ConsumerGroupsMachine:
    broker = configs.broker
    machine = ConsumerGroups(
        configs.group,
        assignors=broker.names("group.consumer.assignors"),
        group_size_max=broker.integer("group.consumer.max.size"),
        regex_refresh_ms=broker.integer("group.consumer.regex.refresh.interval.ms"),
    )
    return ConsumerGroupsMachine(machine, lambda: topics.image, lambda r: coordinator().count(r))


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


def _transactions(
    configs: LiveConfigs, topics: Topics, store: Store, clock: Clock, offsets: OffsetCoordinator
) -> Transactions:
    """The transaction coordinators."""

    def new_coordinator() -> TransactionCoordinator:
        return TransactionCoordinator(
            store.next_producer_id,
            lambda: configs.broker.integer("transaction.max.timeout.ms"),
            lambda: configs.broker.integer("transactional.id.expiration.ms"),
        )

    partitions = configs.broker.integer("transaction.state.log.num.partitions")
    transactions = Transactions(
        InternalTopic(TRANSACTION_STATE, partitions, topics, clock),
        new_coordinator,
        TransactionMarkers(topics, clock, offsets),
        clock,
    )
    offsets.check_transaction = OffsetAdmission(transactions)
    return transactions
