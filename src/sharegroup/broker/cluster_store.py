"""Opens the store of a broker in front of a Kafka cluster: the topics of users lie in the cluster,
what the broker keeps for itself in a local data folder."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Any, Final, NamedTuple, cast
from uuid import UUID

from sharegroup.broker.coordination.cluster_topic import ClusterTopic
from sharegroup.broker.internal_topics import IN_CLUSTER_PREFIX, INTERNAL_TOPICS
from sharegroup.broker.passing.passing import Created, Passing
from sharegroup.broker.passing.topics import OWN
from sharegroup.broker.passing.ways import WAYS
from sharegroup.client.admin.admin import Admin
from sharegroup.client.network.cluster import Cluster
from sharegroup.model import errors
from sharegroup.model.environment import Environment
from sharegroup.model.ids import TopicPartition
from sharegroup.model.log import PartitionLog
from sharegroup.model.store import Configs, Store, StoreFacts, TopicFacts
from sharegroup.upstream.epochs import Epochs
from sharegroup.upstream.settings import BROKER, CLUSTER, GROUP, TOPIC, ClusterSettings
from sharegroup.upstream.topics import ClusterTopics

SEEN_LOOKS: Final = 100
SEEN_S: Final = 0.05
"""So often, and with such a pause, a topic that was just made is looked for."""


SETTINGS: Final = "settings"
NODE_IDS_FROM: Final = 1_000
NODE_IDS: Final = 1_000_000_000
PARTS: Final = 24
"""Of the state; a node has some of them."""


def _is_ours(topic: str) -> bool:
    return topic in INTERNAL_TOPICS or topic.startswith(IN_CLUSTER_PREFIX)


class InFront(NamedTuple):
    """What a broker in front of a cluster has of it.

    Attributes:
        passing: passes requests on to it.
        epochs: those that parts of the state have had.
    """

    store: Store
    passing: Passing
    epochs: Epochs


class ClusterStore:
    """See the module. What is not here is the local store's."""

    def __init__(
        self,
        local: Store,
        cluster: Cluster,
        node_id: int,
        wall_ms: Callable[[], int],
        changed: Callable[[], None],
        *,
        refuse_unsafe: bool,
    ) -> None:
        self._local = local
        self._node = str(node_id)
        self._set_elsewhere = changed
        self._settings_topic = ClusterTopic.shared(SETTINGS, cluster, wall_ms)
        where = TopicPartition(self._settings_topic.name, 0)
        self._configs = ClusterSettings(cluster, where, wall_ms, self._set_by_another)
        self.epochs = Epochs(self._configs, wall_ms)
        self._cluster = cluster
        self._admin = Admin(cluster=cluster)
        self._topics = ClusterTopics(cluster, _is_ours, refuse=refuse_unsafe)
        self._changed: Callable[[str], None] = lambda _name: None
        self.topics: Mapping[str, TopicFacts] = {}
        """See ``TopicStore``."""

    async def open(self) -> None:
        """Learn the cluster's topics, and all settings.

        Raises:
            BootstrapError: no broker of the cluster answers.
            KafkaError: the cluster cannot be asked.
        """
        await self._cluster.start()
        await self._settings_topic.ensure()
        await self._topics.open()
        await self._configs.load()
        self._merge("")

    def _set_by_another(self, kind: str, name: str) -> None:
        if kind == TOPIC:
            self._merge("")
        else:
            self._set_elsewhere()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._local, name)

    @property
    def on_topic_changed(self) -> Callable[[str], None]:
        """See ``TopicStore``."""
        return self._changed

    @on_topic_changed.setter
    def on_topic_changed(self, call: Callable[[str], None]) -> None:
        self._changed = call
        self._local.on_topic_changed = self._topics.changed = self._merge

    def _merge(self, name: str) -> None:
        if name:
            self._merge_one(name)
        else:
            named = dict.fromkeys([*self._topics.facts, *self._local.topics])
            self.topics = {one: facts for one in named if (facts := self._find(one))}
        self._changed(name)

    def _merge_one(self, name: str) -> None:
        before, now = self.topics.get(name), self._find(name)
        if before is not None and (now is None or now.topic_id != before.topic_id):
            topic_id = str(before.topic_id)
            if topic_id in self._configs.topics:
                self._configs.put(TOPIC, topic_id, {})
        others = {one: facts for one, facts in self.topics.items() if one != name}
        self.topics = others if now is None else {**others, name: now}

    def _find(self, name: str) -> TopicFacts | None:
        theirs = self._topics.facts.get(name)
        if theirs is None or name in self._local.topics:
            return self._local.topics.get(name)
        return replace(theirs, configs=self._configs.topics.get(str(theirs.topic_id), {}))

    @property
    def facts(self) -> StoreFacts:
        """See ``TopicStore``."""
        configs = self._configs
        return replace(
            self._local.facts,
            cluster_id=self._topics.cluster_id,
            topics=self.topics,
            group_configs=configs.groups,
            broker_configs=configs.of(BROKER, self._node),
            cluster_configs=configs.of(CLUSTER),
        )

    def set_group_configs(self, group_id: str, configs: Configs) -> None:
        """See ``ConfigStore``; durable after :meth:`settled`."""
        self._configs.put(GROUP, group_id, configs)

    def set_broker_configs(self, configs: Configs) -> None:
        """See ``ConfigStore``; durable after :meth:`settled`."""
        self._configs.put(BROKER, self._node, configs)

    def set_cluster_configs(self, configs: Configs) -> None:
        """See ``ConfigStore``; durable after :meth:`settled`."""
        self._configs.put(CLUSTER, "", configs)

    async def settled(self) -> None:
        """See ``ConfigStore``."""
        await self._configs.settled()

    async def look_for(self, topic: str | None) -> None:
        """See ``TopicStore``: it may be made in the cluster, or through another node."""
        await (self._topics.look() if topic is None else self._topics.look_at(topic))

    async def gone(self, topics: Mapping[UUID, str]) -> set[UUID]:
        """See ``TopicStore``; a topic may be in the cluster or here."""
        return await self._topics.gone(topics) & await self._local.gone(topics)

    def logs_of(self, topic: str) -> Sequence[PartitionLog]:
        """See ``TopicStore``."""
        return self._topics.logs_of(topic) or self._local.logs_of(topic)

    @property
    def logs(self) -> Iterable[PartitionLog]:
        """The local ones: retention and cleaning are the cluster's work elsewhere."""
        return self._local.logs

    def log(self, topic: str, partition: int) -> PartitionLog:
        """See ``TopicStore``."""
        found = self._topics.find(TopicPartition(topic, partition))
        return self._local.log(topic, partition) if found is None else found

    def find_log(self, key: TopicPartition) -> PartitionLog | None:
        """See ``TopicStore``."""
        return self._topics.find(key) or self._local.find_log(key)

    async def create_topic(
        self, name: str, topic_id: UUID, partitions: int, configs: Configs
    ) -> None:
        """Ours are made here, those of users in the cluster, which gives them their ids.

        Raises:
            TopicAuthorizationFailed: the name is as those of what the brokers keep in the cluster.
        """
        if name.startswith(IN_CLUSTER_PREFIX):
            raise errors.TopicAuthorizationFailed(f"{name} belongs to the brokers themselves")
        if name in INTERNAL_TOPICS:
            await self._local.create_topic(name, topic_id, partitions, configs)
            return
        theirs = {key: value for key, value in configs.items() if key not in OWN}
        await self._admin.create_topics(name, partitions=partitions, configs=theirs)
        own = {key: value for key, value in configs.items() if key in OWN}
        await self.seen([Created(name, own)])
        if name not in self.topics:
            raise errors.LeaderNotAvailable(f"{name} is made, and not known everywhere yet")

    async def seen(self, created: Sequence[Created]) -> None:
        """Topics were just made, grown or deleted: learn of it before the client asks. The brokers
        of the cluster hear of it one after the other.

        Raises:
            KafkaError: the cluster cannot be asked.
        """
        for _ in range(SEEN_LOOKS):
            await self._topics.look()
            if all(one.name in self.topics for one in created):
                break
            await asyncio.sleep(SEEN_S)
        for one in created:
            if one.configs and one.name in self.topics:
                self.set_topic_config(one.name, one.configs)
        await self.settled()

    async def add_partitions(self, name: str, partitions: int) -> None:
        """See ``TopicStore``: such requests are passed on."""
        raise errors.InvalidRequest(f"let {name} grow in the cluster itself: {self._servers}")

    async def delete_topic(self, name: str) -> None:
        """See :meth:`add_partitions`."""
        raise errors.InvalidRequest(f"delete {name} in the cluster itself: {self._servers}")

    def set_topic_config(self, name: str, configs: Configs) -> None:
        """Settings that only this broker knows; durable after :meth:`settled`."""
        for key in configs.keys() - OWN:
            raise errors.InvalidRequest(f"set {key} in the cluster itself: {self._servers}")
        self._configs.put(TOPIC, str(self.topics[name].topic_id), configs)
        self._merge(name)

    async def give_up_offsets(self, given: Mapping[TopicPartition, int]) -> None:
        """The cluster keeps what it has confirmed."""

    async def close(self) -> None:
        """See ``Store``."""
        await self._configs.close()
        await self._topics.close()
        await self._cluster.close()
        await self._local.close()

    @property
    def _servers(self) -> str:
        return ", ".join(map(str, self._cluster.bootstrap))


async def in_front_of(
    cluster: Cluster,
    local: Store,
    node_id: int,
    environment: Environment,
    changed: Callable[[], None],
    *,
    refuse_unsafe: bool,
) -> InFront:
    """The store of a broker in front of ``cluster``, and what belongs to it. ``local`` is closed
    with the store, or at once if this fails.

    Args:
        changed: called when another node has changed settings.
        refuse_unsafe: share groups get no records of topics that can lose them.

    Raises:
        ConfigError: no broker of the cluster answers, or the cluster refuses what the store needs.
    """
    wall_ms = environment.clock.wall_ms
    store = ClusterStore(local, cluster, node_id, wall_ms, changed, refuse_unsafe=refuse_unsafe)
    passing = Passing(cluster, WAYS, store.seen)
    try:
        await store.open()
        await passing.learn()
    except errors.SharegroupError as error:
        await store.close()
        raise errors.ConfigError(f"the cluster cannot be used: {error}") from error
    except asyncio.CancelledError:  # told to stop before the cluster has answered
        await store.close()
        raise
    return InFront(cast(Store, store), passing, store.epochs)


def defaults_of(cluster_id: str) -> Configs:
    """Settings of the node that has a data folder, unless they are set: on several machines with
    the same line of start each is another node. (Of ten nodes two would have one id once in ten
    million fleets.)

    Args:
        cluster_id: of the data folder.
    """
    number = int.from_bytes(blake2b(cluster_id.encode(), digest_size=4).digest(), "big")
    node_id = str(NODE_IDS_FROM + number % NODE_IDS)
    return {
        "node.id": node_id,
        "broker.id": node_id,
        "share.coordinator.state.topic.num.partitions": str(PARTS),
        "offsets.topic.num.partitions": str(PARTS),
    }
