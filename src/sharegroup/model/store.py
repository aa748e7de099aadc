"""The store's interface for the broker: topics with their logs, durable configs, and the rest.

:class:`Store` is implemented by ``storage`` (a local data folder) and, later, by ``upstream`` (a
Kafka cluster). Nothing above knows which one it has. ``tests/storage/test_store_contract.py`` holds
what every implementation must do.

"Durable" means: the store has it after a crash of this process or of its machine. A change that
raises KafkaStorageError has changed nothing, except where it says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias
from uuid import UUID

from sharegroup.model.histogram import Histogram
from sharegroup.model.ids import TopicPartition
from sharegroup.model.log import PartitionLog, TrustedLog
from sharegroup.model.retention import Needed

Configs: TypeAlias = Mapping[str, str]
"""Settings by name, as they were given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFacts:
    """One topic."""

    topic_id: UUID
    partitions: int
    configs: Configs = field(default_factory=dict)
    refused: str = ""
    """Why share groups get no records of it, in a sentence; not durable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreFacts:
    """The durable facts of a store at one moment; records are not among them."""

    cluster_id: str
    topics: Mapping[str, TopicFacts] = field(default_factory=dict)
    """All topics by name, including topics that are being made."""
    group_configs: Mapping[str, Configs] = field(default_factory=dict)
    """Group id → its own configs; a group without any is not in it."""
    broker_configs: Configs = field(default_factory=dict)
    """The dynamic configs of the broker itself."""
    cluster_configs: Configs = field(default_factory=dict)
    """The dynamic defaults of every broker of the cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFolder:
    """Where a store keeps its logs. Sizes are in bytes; -1: not known."""

    path: str
    total_bytes: int
    usable_bytes: int
    sizes: Mapping[TopicPartition, int]
    """The size of each partition that is in service."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningFacts:
    """What the log cleaner of a store has done since the start, and what there is to do."""

    runs: int = 0
    """How often a log was cleaned, over all logs."""
    read_bytes: int = 0
    written_bytes: int = 0
    last_run_seconds: float = 0.0
    last_run_wall_ms: int = 0
    """When the last run ended; 0: there was none."""
    dirty_ratio: float = 0.0
    """The largest share of a log's bytes that were written since it was cleaned, 0 to 1."""
    uncleanable: int = 0
    """Compacted logs that are out of service, or keep a damaged segment as it is."""


class TopicStore(Protocol):
    """Topics, and the logs of their partitions."""

    on_topic_changed: Callable[[str], None]
    """Called on the loop's thread with a topic's name, when everybody can see that the topic is
    there, has grown, has other configs, or is gone."""

    @property
    def facts(self) -> StoreFacts:
        """All durable facts as they are now."""
        ...

    @property
    def topics(self) -> Mapping[str, TopicFacts]:
        """The topics that can be used, by name. A topic that is being made is not in it yet, and a
        deleted one not any more."""
        ...

    @property
    def partition_count(self) -> int:
        """The number of all partitions, including partitions that are being made."""
        ...

    @property
    def logs(self) -> Iterable[PartitionLog]:
        """The logs of all partitions that could be opened."""
        ...

    def logs_of(self, topic: str) -> Sequence[PartitionLog]:
        """The logs of one of :attr:`topics`, in the order of their partitions; logs that could not
        be opened are left out."""
        ...

    def log(self, topic: str, partition: int) -> PartitionLog:
        """The log of one partition.

        Raises:
            UnknownTopicOrPartition: there is no such partition.
            KafkaStorageError: the log is there, but could not be opened.
        """
        ...

    def internal_log(self, topic: str, partition: int) -> TrustedLog:
        """The log of a partition of a topic that only this broker writes; raises as :meth:`log`."""
        ...

    async def look_for(self, topic: str | None) -> None:
        """Look whether a topic was made, or has grown, that :attr:`topics` does not show yet; None:
        whether any was.

        Raises:
            KafkaError: nobody can tell now.
        """
        ...

    async def gone(self, topics: Mapping[UUID, str]) -> set[UUID]:
        """Those of these topics (name by id) that certainly do not exist any more: what groups have
        done with them may be forgotten. A topic that :attr:`topics` does not show may be there.

        Raises:
            KafkaError: nobody can tell now.
        """
        ...

    def find_log(self, key: TopicPartition) -> PartitionLog | None:
        """The log of one partition; None if there is no such log, or it could not be opened."""
        ...

    async def create_topic(
        self, name: str, topic_id: UUID, partitions: int, configs: Configs
    ) -> None:
        """Make a topic with empty logs. It is durable and in :attr:`topics` afterwards.

        Raises:
            InvalidTopic, InvalidPartitions, TopicAlreadyExists: as their names say.
            KafkaStorageError: the topic could not be made; nothing is left of it.
        """
        ...

    async def add_partitions(self, name: str, partitions: int) -> None:
        """Let a topic have ``partitions`` in all, durably. New partitions are empty, old ones stay
        as they are.

        Raises:
            UnknownTopicOrPartition: there is no such topic.
            InvalidPartitions: the topic has as many already.
            KafkaStorageError: it could not be done; the topic is as it was.
        """
        ...

    async def delete_topic(self, name: str) -> None:
        """Remove a topic and its records, durably. Its logs answer UnknownTopicOrPartition from
        then on. A topic that is made later under that name begins empty.

        Raises:
            UnknownTopicOrPartition: there is no such topic.
            KafkaStorageError: it could not be done; the topic is as it was.
        """
        ...

    def set_topic_config(self, name: str, configs: Configs) -> None:
        """Replace a topic's configs durably, and apply them to its logs.

        Raises:
            UnknownTopicOrPartition: there is no such topic.
            KafkaStorageError: they could not be written.
        """
        ...

    async def give_up_offsets(self, given: Mapping[TopicPartition, int]) -> None:
        """Let each log that ends below its offset in ``given`` continue at that offset, durably:
        lost offsets must not name other records. Call it before anything is appended. Unknown
        partitions are passed over.

        Raises:
            KafkaStorageError: it could not be written; then nothing may be appended.
        """
        ...


class ConfigStore(Protocol):
    """The durable configs of topics, groups and the broker."""

    @property
    def facts(self) -> StoreFacts:
        """All durable facts as they are now."""
        ...

    @property
    def topics(self) -> Mapping[str, TopicFacts]:
        """As ``TopicStore.topics``."""
        ...

    def set_topic_config(self, name: str, configs: Configs) -> None:
        """As ``TopicStore.set_topic_config``."""
        ...

    def set_group_configs(self, group_id: str, configs: Configs) -> None:
        """Replace a group's configs durably; without configs the group is forgotten.

        Raises:
            KafkaStorageError: they could not be written.
        """
        ...

    def set_broker_configs(self, configs: Configs) -> None:
        """Replace the broker's dynamic configs durably, and apply what they change in the logs.

        Raises:
            KafkaStorageError: they could not be written.
        """
        ...

    def set_cluster_configs(self, configs: Configs) -> None:
        """As :meth:`set_broker_configs`, for the defaults of every broker."""
        ...

    async def settled(self) -> None:
        """Return when all changes of configs until now are durable, whatever the store needs for
        it.

        Raises:
            KafkaStorageError: a change was lost; the facts are without it.
        """
        ...


class Store(TopicStore, ConfigStore, Protocol):
    """All that a broker keeps, and the work on it that the broker must call for."""

    @property
    def flush_seconds(self) -> Histogram:
        """How long each flush took, in seconds."""
        ...

    def log_folder(self) -> LogFolder:
        """Where the logs are, and how large they are now."""
        ...

    def refusals(self) -> Mapping[str, int]:
        """How often something could not be done for want of a resource, and may be tried again; by
        resource. Resources that never lacked are included."""
        ...

    def out_of_service(self) -> list[TopicPartition]:
        """The partitions that cannot be used until the next start, sorted."""
        ...

    def next_producer_id(self) -> int:
        """A producer id that was never given out before, not even before a crash.

        Raises:
            KafkaStorageError: it could not be written.
        """
        ...

    def enforce_retention(
        self, now_wall_ms: int, needed: Mapping[TopicPartition, Needed] | None = None
    ) -> int:
        """Remove segments that are past retention; returns how many were removed. ``now_wall_ms``:
        milliseconds since 1970. ``needed``: what share groups need of the logs whose topics name
        groups. If such a log is not in it, the groups need everything.

        Call it every ``log.retention.check.interval.ms``. A segment that cannot be removed is
        logged, and tried again at the next call.
        """
        ...

    def expire_producers(self, now_wall_ms: int) -> None:
        """Forget the idempotent producers that have written nothing for
        ``producer.id.expiration.ms``, in each partition. Call it every
        ``producer.id.expiration.check.interval.ms``."""
        ...

    def cleaning(self, now_wall_ms: int) -> CleaningFacts:
        """What the log cleaner has done, and what there is to do."""
        ...

    async def clean(self, now_wall_ms: int, key_bytes_max: int) -> bool:
        """Clean the compacted log that needs it most: only the last record of each key stays.
        Returns whether a log was cleaned; False if no log needs it now. It runs in slices, so that
        the loop can do other work. ``key_bytes_max``: memory for the keys."""
        ...

    async def remove_leftovers(self) -> None:
        """Finish earlier changes that could not be finished. Call it as often as
        :meth:`enforce_retention`."""
        ...

    def checkpoint(self) -> bool:
        """Write how far each log is durable. By this checkpoint the next start knows whether the
        end of a log is missing. Returns False if it could not be written."""
        ...

    async def stop_appending(self) -> None:
        """Refuse appends from now on; returns when all earlier appends are durable."""
        ...

    async def close(self) -> None:
        """Make everything durable and give the store back. Its logs answer NotLeaderOrFollower from
        then on."""
        ...
