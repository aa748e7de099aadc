"""Topics as handlers see them: found by name or id, created on demand, with logs that wake waiting
fetches. Hidden topics are found by :meth:`Topics.internal` only, so no request reaches them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from uuid import UUID

from sharegroup.broker.internal_topics import CLUSTER_METADATA, HIDDEN_TOPICS, INTERNAL_TOPICS
from sharegroup.broker.waiters import FetchWaiters
from sharegroup.groups.topics import KnownTopic, TopicsImage
from sharegroup.keyed_locks import KeyedLocks
from sharegroup.model import errors
from sharegroup.model.ids import TopicIdPartition
from sharegroup.model.limits import TOPIC_PARTITIONS_MAX
from sharegroup.model.log import PartitionLog, ReadableLog, TrustedLog
from sharegroup.model.store import TopicFacts, TopicStore
from sharegroup.model.topic_name import check_topic_name


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic."""

    name: str
    topic_id: UUID
    partition_count: int
    configs: Mapping[str, str]


class Topics:
    """All topics of one broker, over its store. A request to change a topic that is being changed
    waits for the end of that change: its answer never depends on a half-done change.

    Args:
        new_id: makes topic ids.
        partitions_default: ``num.partitions``, asked at each use.
        check_more: raises PolicyViolation if the broker cannot have that many more partitions.
    """

    def __init__(
        self,
        store: TopicStore,
        waiters: FetchWaiters,
        new_id: Callable[[], UUID],
        partitions_default: Callable[[], int],
        check_more: Callable[[int], None],
    ) -> None:
        self._store = store
        self._waiters = waiters
        self._new_id = new_id
        self._partitions_default = partitions_default
        self._check_more = check_more
        self._names: dict[UUID, str] = {}
        self.on_deleted: list[Callable[[UUID], None]] = []
        """Called with the id of a topic that is deleted, before fetches that wait for it look."""
        self.refused: dict[UUID, str] = {}
        """Topics of which share groups get no records, by id; and why, in a sentence."""
        self._infos: dict[str, KnownTopic] = {}
        self._image = TopicsImage({})
        self.internal_partitions: dict[str, int] = {}
        """How many partitions each internal topic has, or will have."""
        self._changing = KeyedLocks()  # by folded name: names that collide share one lock
        for name in store.topics:
            self._take_in(name)
        self._image = TopicsImage(dict(self._infos))
        store.on_topic_changed = self._refresh

    @property
    def cluster_id(self) -> str:
        """The cluster's id."""
        return self._store.facts.cluster_id

    @property
    def image(self) -> TopicsImage:
        """The topics as group membership sees them now."""
        return self._image

    def all(self) -> list[Topic]:
        """Every topic by name, internal ones included."""
        return [
            _topic(name, facts)
            for name, facts in sorted(self._store.topics.items())
            if name not in HIDDEN_TOPICS
        ]

    def find(self, name: str) -> Topic | None:
        """The topic of that name."""
        return None if name in HIDDEN_TOPICS else self.internal(name)

    def internal(self, name: str) -> Topic | None:
        """The topic of that name, hidden ones included: for the broker's own use."""
        facts = self._store.topics.get(name)
        return None if facts is None else _topic(name, facts)

    def ids(self) -> set[UUID]:
        """The ids of all topics."""
        return set(self._names)

    def id_of(self, name: str) -> UUID | None:
        """The id of the topic of that name."""
        found = self.find(name)
        return None if found is None else found.topic_id

    def name_of(self, topic_id: UUID) -> str | None:
        """The name of the topic of that id."""
        return self._names.get(topic_id)

    def find_id(self, topic_id: UUID) -> Topic | None:
        """The topic of that id."""
        name = self._names.get(topic_id)
        return None if name is None else self.find(name)

    def log(self, name: str, partition: int) -> PartitionLog:
        """The log of a partition.

        Raises:
            UnknownTopicOrPartition: there is no such partition.
            KafkaStorageError: the log could not be opened.
        """
        if name in HIDDEN_TOPICS:
            raise errors.UnknownTopicOrPartition
        return self._store.log(name, partition)

    async def log_of_client(self, name: str, partition: int) -> PartitionLog:
        """As :meth:`log`, of a topic that another broker may just have made, and told a client of.

        Raises:
            KafkaError: as :meth:`log`; or nobody can tell now.
        """
        try:
            return self.log(name, partition)
        except errors.UnknownTopicOrPartition:
            await self._store.look_for(name)
            return self.log(name, partition)

    async def look(self) -> None:
        """Look at all topics: another broker may have made some a moment ago.

        Raises:
            KafkaError: nobody can tell now.
        """
        await self._store.look_for(None)

    async def gone(self, topics: Mapping[UUID, str]) -> set[UUID]:
        """Those of these topics (name by id) that certainly do not exist any more.

        Raises:
            KafkaError: nobody can tell now.
        """
        return await self._store.gone(topics)

    def logs(self, name: str) -> list[PartitionLog]:
        """The logs of an existing topic that are in service."""
        return [log for log in self._store.logs_of(name) if log.failure is None]

    def internal_log(self, name: str, partition: int) -> TrustedLog:
        """The log of a partition for coordinators, which write to it unchecked; raises as
        :meth:`log`."""
        return self._store.internal_log(name, partition)

    def log_by_id(self, key: TopicIdPartition) -> PartitionLog:
        """The log of a partition by its topic's id.

        Raises:
            UnknownTopicId: no topic has that id (any more).
            UnknownTopicOrPartition: the topic has no such partition.
        """
        name = self._names.get(key.topic_id)
        if name is None:
            raise errors.UnknownTopicId
        return self._store.log(name, key.partition)

    @staticmethod
    def is_internal(name: str) -> bool:
        """Whether the topic is internal: clients may read but not write or delete it."""
        return name in INTERNAL_TOPICS

    @staticmethod
    def is_hidden(name: str) -> bool:
        """Whether clients may not even read the topic: it holds secrets."""
        return name in HIDDEN_TOPICS

    @staticmethod
    def check_name(name: str) -> None:
        """Raise InvalidTopic with the reason if the name is invalid."""
        check_topic_name(name)

    async def create(
        self,
        name: str,
        partitions: int,
        configs: Mapping[str, str],
        *,
        validate_only: bool = False,
    ) -> Topic:
        """Make a topic; -1 partitions is ``num.partitions``.

        Raises:
            InvalidTopic, InvalidPartitions, TopicAlreadyExists, PolicyViolation,
            KafkaStorageError.
            InvalidRequest: the name is that of Kafka's log of controllers.
        """
        check_topic_name(name)
        if name == CLUSTER_METADATA:
            raise errors.InvalidRequest(f"Creation of internal topic {name} is prohibited.")
        if name in HIDDEN_TOPICS:
            raise errors.InvalidTopic(f"{name} is internal; the broker makes it when it needs it")
        own = self.internal_partitions.get(name)
        count = (own or self._partitions_default()) if partitions == -1 else partitions
        if own not in (None, count):
            raise errors.InvalidPartitions(
                f"{name} is internal and has {own} partition(s) by a setting."
            )
        if not 1 <= count <= TOPIC_PARTITIONS_MAX:
            raise errors.InvalidPartitions(
                f"Number of partitions was set to an invalid value: {count}; "
                f"1 to {TOPIC_PARTITIONS_MAX} is possible."
            )
        async with self._changing.holding(_folded(name)):
            if name in self._store.topics:
                raise errors.TopicAlreadyExists(f"Topic '{name}' already exists.")
            self._check_collision(name)
            self._check_more(count)
            if validate_only:
                return Topic(name, UUID(int=0), count, configs)
            await self._store.create_topic(name, self._new_id(), count, configs)
            return _topic(name, self._store.topics[name])

    async def create_internal(self, name: str, partitions: int) -> None:
        """Create an internal topic, unless another task has just created it."""
        async with self._changing.holding(_folded(name)):
            if name not in self._store.topics:
                await self._store.create_topic(name, self._new_id(), partitions, {})

    async def auto_create(self, name: str) -> Topic:
        """Create a topic that a client has asked for."""
        if name in HIDDEN_TOPICS:
            raise errors.UnknownTopicOrPartition
        found = self.find(name)
        if found is not None:
            return found
        try:
            return await self.create(name, -1, {})
        except errors.TopicAlreadyExists:
            made = self.find(name)
            if made is None:
                raise errors.UnknownTopicOrPartition from None
            return made

    async def grow(self, name: str, partitions: int, *, validate_only: bool = False) -> None:
        """Raise a topic's partition count to ``partitions``.

        Raises:
            UnknownTopicOrPartition, InvalidPartitions, PolicyViolation, KafkaStorageError.
        """
        async with self._changing.holding(_folded(name)):
            topic = self.find(name)
            if topic is None:
                raise errors.UnknownTopicOrPartition
            if partitions > TOPIC_PARTITIONS_MAX or partitions <= topic.partition_count:
                raise errors.InvalidPartitions(
                    f"The topic {name} currently has {topic.partition_count} partition(s); "
                    f"{partitions} would not be an increase, or is over {TOPIC_PARTITIONS_MAX}."
                )
            self._check_more(partitions - topic.partition_count)
            if not validate_only:
                await self._store.add_partitions(name, partitions)

    async def delete(self, topic: Topic) -> None:
        """Delete a topic and its records, and wake its waiting fetches.

        Raises:
            UnknownTopicOrPartition, KafkaStorageError.
        """
        async with self._changing.holding(_folded(topic.name)):
            now = self.find(topic.name)
            if now is None or now.topic_id != topic.topic_id:  # made anew while we waited
                raise errors.UnknownTopicOrPartition
            await self._store.delete_topic(topic.name)

    def _check_collision(self, name: str) -> None:
        """Kafka's rule: names that differ only in '.' and '_' collide in metric names."""
        for other in self._store.facts.topics:
            if _folded(other) == _folded(name):
                raise errors.InvalidTopic(f"Topic '{name}' collides with existing topic: {other}")

    def _refresh(self, name: str) -> None:
        """After a change of one topic, update names by id, the image for groups and the callbacks
        of logs. Wakes fetches that wait for a deleted topic.
        """
        old = self._infos.pop(name, None)
        refused = None
        if old is not None:
            del self._names[old.topic_id]
            refused = self.refused.pop(old.topic_id, None)
        if name in self._store.topics:
            self._take_in(name)
        self._image = TopicsImage(dict(self._infos))
        if old is None:
            return
        is_deleted = old.topic_id not in self._names
        for forget in self.on_deleted if is_deleted else ():
            forget(old.topic_id)
        if is_deleted or refused != self.refused.get(old.topic_id):
            for partition in range(old.partition_count):
                self._waiters.wake(TopicIdPartition(old.topic_id, partition))

    def _take_in(self, name: str) -> None:
        if name in HIDDEN_TOPICS:
            return
        facts = self._store.topics[name]
        self._names[facts.topic_id] = name
        self._infos[name] = KnownTopic(facts.topic_id, facts.partitions)
        if facts.refused:
            self.refused[facts.topic_id] = facts.refused
        for log in self._store.logs_of(name):
            log.on_advance = self._advanced

    def _advanced(self, log: ReadableLog) -> None:
        self._waiters.offer(TopicIdPartition(log.topic_id, log.topic_partition.partition))


def _topic(name: str, facts: TopicFacts) -> Topic:
    return Topic(name, facts.topic_id, facts.partitions, facts.configs)


def _folded(name: str) -> str:
    return name.replace(".", "_")
