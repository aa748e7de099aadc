"""Makes the parts of a broker and plugs them together. Coordinators of groups are made in
``coordination/group_coordinators.py``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sharegroup.broker.authorization.access_rules import AccessRules
from sharegroup.broker.configs.broker import BrokerConfig
from sharegroup.broker.configs.live_configs import LiveConfigs
from sharegroup.broker.coordination.group_coordinators import (
    GroupCoordinators,
    TopicMaker,
    group_coordinators,
)
from sharegroup.broker.coordination.group_runtimes import GroupRuntimes
from sharegroup.broker.coordination.internal_topic import InternalTopic, LocalTransactionLog
from sharegroup.broker.coordination.log import CoordinatorTopic
from sharegroup.broker.coordination.offset_coordinator import (
    OffsetCoordinator,
)
from sharegroup.broker.coordination.persister import Persister
from sharegroup.broker.coordination.runtime import Spawn
from sharegroup.broker.coordination.security_store import SecurityStore
from sharegroup.broker.coordination.share_state_log import ShareStateLog
from sharegroup.broker.coordination.share_state_shard import StateSettings
from sharegroup.broker.coordination.transaction_coordinator import BrokerTransactions
from sharegroup.broker.coordination.transaction_markers import TransactionMarkers
from sharegroup.broker.coordination.transaction_writes import (
    OffsetAdmission,
    TransactionWrites,
)
from sharegroup.broker.dead_letters.writer import DeadLetterWriter
from sharegroup.broker.delivery.cooperative_reading import CooperativeReading
from sharegroup.broker.delivery.group_rates import GroupRates
from sharegroup.broker.delivery.hash_index import HashIndex
from sharegroup.broker.delivery.queue_retention import QueueRetention
from sharegroup.broker.delivery.range_reading import RangeReading
from sharegroup.broker.delivery.share_partitions import SharePartitions
from sharegroup.broker.delivery.transactional_acks import TransactionalAcks
from sharegroup.broker.delivery.unpacking import Unpacking
from sharegroup.broker.event_counters import Counters
from sharegroup.broker.features import DEAD_LETTERS_VERSION
from sharegroup.broker.fetch_sessions import FetchSessions
from sharegroup.broker.hot_path_counters import Meters
from sharegroup.broker.internal_topics import (
    CONSUMER_OFFSETS,
    SECURITY,
    SHARE_GROUP_STATE,
    TRANSACTION_STATE,
)
from sharegroup.broker.leadership import Leadership, OneNode
from sharegroup.broker.network.api_table import served_apis
from sharegroup.broker.network.descriptors import DescriptorBudget
from sharegroup.broker.parts import BrokerParts
from sharegroup.broker.quotas import Quotas
from sharegroup.broker.read_model.connections import OpenConnections
from sharegroup.broker.read_model.groups import GroupViews
from sharegroup.broker.read_model.read_model import ReadModel
from sharegroup.broker.read_model.share_groups import ShareGroupViews
from sharegroup.broker.read_model.topics import TopicViews
from sharegroup.broker.topics import Topics
from sharegroup.broker.waiters import FetchWaiters
from sharegroup.model.environment import Clock, Environment
from sharegroup.model.log import OwnedLog, ProducerStates
from sharegroup.model.store import Store
from sharegroup.share.session import ShareSessions

if TYPE_CHECKING:
    from sharegroup.broker.fleet import Fleet
    from sharegroup.broker.passing.passing import Passing
from sharegroup.transactions.coordinator import TransactionCoordinator


def assemble(
    config: BrokerConfig,
    environment: Environment,
    store: Store,
    descriptors: DescriptorBudget,
    counters: Counters,
    connections: OpenConnections,
    spawn: Spawn,
    rules: AccessRules,
    passing: Passing | None,
    fleet: Fleet | None,
) -> tuple[BrokerParts, GroupRuntimes]:
    """The parts of a broker over its recovered store; nothing is loaded yet. ``spawn`` runs a
    coroutine in the background and reports its failure."""
    clock, waiters, meters, unpacking = environment.clock, FetchWaiters(), Meters(), Unpacking()
    configs = LiveConfigs(config, store)
    topics = _topics(configs, store, waiters, environment, descriptors)
    make_topic = _topic_maker(topics, environment, fleet)
    state = _share_state(config, topics, clock, make_topic, fleet)
    persister: Persister = fleet.persister(state) if fleet else state
    groups = group_coordinators(configs, topics, persister, environment, spawn, make_topic)
    leadership = _leadership(configs, fleet)
    share_partitions = _share_partitions(configs, leadership, state, waiters, meters, clock, spawn)
    topics.on_deleted.append(share_partitions.drop_topic)
    letters = DeadLetterWriter(clock, topics, configs, state, unpacking, counters, spawn)
    letters.buried, share_partitions.died = share_partitions.buried, letters.write_letters
    acks = TransactionalAcks(state, share_partitions, counters, meters, clock)
    transactions = _transactions(configs, topics, store, clock, groups.offsets, acks)
    security = _security(make_topic, clock, fleet)
    shares = ShareGroupViews(clock, topics, groups.share.groups, state, share_partitions)
    parts = BrokerParts(
        clock=clock,
        store=store,
        topics=topics,
        waiters=waiters,
        counters=counters,
        meters=meters,
        state=state,
        share_partitions=share_partitions,
        rates=GroupRates(clock, share_partitions),
        sessions=ShareSessions(config.integer("group.share.max.share.sessions")),
        configs=configs,
        groups=groups.share,
        classic_groups=groups.classic,
        consumer_groups=groups.consumer,
        transactions=transactions,
        transaction_writes=TransactionWrites(transactions, lambda: _verifies(configs)),
        transactional_acks=acks,
        security=security,
        quotas=_quotas(configs, security, clock),
        access_rules=rules,
        leadership=leadership,
        new_id=environment.new_id,
        group_registry=groups.registry,
        offsets=groups.offsets,
        ranges=groups.ranges,
        unpacking=unpacking,
        dead_letters=letters,
        queue_retention=QueueRetention(topics, configs, state, clock),
        range_reading=_range_reading(configs),
        cooperative_reading=_cooperative_reading(topics, groups, clock),
        fetch_sessions=_fetch_sessions(config, environment),
        served_apis=served_apis() if passing is None else passing.announced(served_apis()),
        passing=passing,
        other_nodes=fleet,
        share_version=config.integer("share.version"),
        connections=connections,
        views=_views(topics, store, groups, shares, transactions, security, connections),
    )
    return parts, groups.runtimes


def _leadership(configs: LiveConfigs, fleet: Fleet | None) -> Leadership:
    if fleet is not None:
        return fleet.leadership
    return OneNode(configs.broker.node_id, lambda: configs.broker.static.get("broker.rack"))


def _share_partitions(
    configs: LiveConfigs,
    leadership: Leadership,
    state: ShareStateLog,
    waiters: FetchWaiters,
    meters: Meters,
    clock: Clock,
    spawn: Spawn,
) -> SharePartitions:
    return SharePartitions(
        clock=clock,
        leadership=leadership,
        state=state,
        waiters=waiters,
        settings_of=configs.group,
        meters=meters,
        spawn=spawn,
        dead_letters=configs.broker.integer("share.version") >= DEAD_LETTERS_VERSION,
    )


def _views(
    topics: Topics,
    store: Store,
    groups: GroupCoordinators,
    share_groups: ShareGroupViews,
    transactions: BrokerTransactions,
    security: SecurityStore,
    connections: OpenConnections,
) -> ReadModel:
    return ReadModel(
        topics=TopicViews(topics, store),
        share_groups=share_groups,
        groups=GroupViews(topics, groups.registry, groups.consumer.groups, groups.classic.groups),
        transactions=transactions,
        quotas=lambda: security.state.quotas,
        connections=connections,
    )


def _topics(
    configs: LiveConfigs,
    store: Store,
    waiters: FetchWaiters,
    environment: Environment,
    descriptors: DescriptorBudget,
) -> Topics:
    return Topics(
        store,
        waiters,
        environment.new_id,
        lambda: configs.broker.integer("num.partitions"),
        descriptors.check_more,
    )


def _quotas(configs: LiveConfigs, security: SecurityStore, clock: Clock) -> Quotas:
    quotas = Quotas(lambda: configs.broker, clock)
    security.changed.append(lambda: quotas.set_quotas(security.state.quotas))
    return quotas


def _range_reading(configs: LiveConfigs) -> RangeReading:
    return RangeReading(HashIndex(lambda: configs.broker.integer("max.bytes.key.range.cache")))


def _cooperative_reading(
    topics: Topics, groups: GroupCoordinators, clock: Clock
) -> CooperativeReading:
    reading = CooperativeReading(groups.offsets, groups.consumer.groups, clock)
    topics.on_deleted.append(reading.drop_topic)
    return reading


def _fetch_sessions(config: BrokerConfig, environment: Environment) -> FetchSessions:
    return FetchSessions(
        config.integer("max.incremental.fetch.session.cache.slots"),
        lambda: int.from_bytes(environment.entropy(4), "big"),
    )


def _verifies(configs: LiveConfigs) -> bool:
    return configs.broker.flag("transaction.partition.verification.enable")


def _topic_maker(topics: Topics, environment: Environment, fleet: Fleet | None) -> TopicMaker:
    """Makes the topics of coordinators: in the cluster with the records, or in the data folder."""
    clock = environment.clock

    def make(name: str, partitions: int) -> CoordinatorTopic:
        if fleet is not None:
            return fleet.topic(name, partitions)
        return InternalTopic(name, partitions, topics, clock)

    return make


def _security(make_topic: TopicMaker, clock: Clock, fleet: Fleet | None) -> SecurityStore:
    if fleet is None:
        return SecurityStore(make_topic(SECURITY, 1), clock)
    topic = fleet.shared_topic(SECURITY)
    store = SecurityStore(topic, clock)
    topic.changed = store.read_again
    return store


def _share_state(
    config: BrokerConfig,
    topics: Topics,
    clock: Clock,
    make_topic: TopicMaker,
    fleet: Fleet | None,
) -> ShareStateLog:
    partitions = config.integer("share.coordinator.state.topic.num.partitions")
    return ShareStateLog(
        make_topic(SHARE_GROUP_STATE, partitions),
        StateSettings(
            config.integer("share.coordinator.snapshot.update.records.per.snapshot"),
            config.integer("share.coordinator.state.topic.prune.interval.ms"),
            config.integer("share.coordinator.cold.partition.snapshot.interval.ms"),
        ),
        clock,
        lambda topic_id: topics.find_id(topic_id) is not None,
        None if fleet is None else fleet.placement,
    )


def _transactions(
    configs: LiveConfigs,
    topics: Topics,
    store: Store,
    clock: Clock,
    offsets: OffsetCoordinator,
    acks: TransactionalAcks,
) -> BrokerTransactions:
    """The transaction coordinators."""

    def new_coordinator() -> TransactionCoordinator:
        return TransactionCoordinator(
            store.next_producer_id,
            lambda: configs.broker.integer("transaction.max.timeout.ms"),
            lambda: configs.broker.integer("transactional.id.expiration.ms"),
        )

    partitions = configs.broker.integer("transaction.state.log.num.partitions")
    transactions = BrokerTransactions(
        InternalTopic(TRANSACTION_STATE, partitions, topics, clock),
        new_coordinator,
        TransactionMarkers(
            lambda where: LocalTransactionLog(topics.internal_log(*where), clock), offsets, acks
        ),
        clock,
    )

    def states_of(partition: int) -> ProducerStates | None:
        if topics.find(CONSUMER_OFFSETS) is None:
            return None
        log: OwnedLog = topics.log(CONSUMER_OFFSETS, partition)
        return log.producer_states

    offsets.check_transaction = OffsetAdmission(transactions, states_of)
    return transactions
