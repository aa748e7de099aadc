"""What a client knows of a cluster: nodes, topics by name and id, leaders. Sans-IO: responses go
in, look-ups come out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from sharegroup.client.core.access_errors import error_on
from sharegroup.client.network.addresses import Address
from sharegroup.model.errors import KafkaError, UnknownTopicOrPartition
from sharegroup.model.ids import NULL_TOPIC_ID, TopicIdPartition, TopicPartition
from sharegroup.wire.messages.metadata import MetadataResponse, MetadataResponseTopic

NO_LEADER = -1


class Node(NamedTuple):
    """One broker."""

    node_id: int
    host: str
    port: int
    rack: str | None = None

    @property
    def address(self) -> Address:
        """Where the broker listens."""
        return Address(self.host, self.port)


class PartitionInfo(NamedTuple):
    """One partition: its leader's node id (-1: it has none now), its replicas, and which of these
    are in sync."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicMetadata:
    """One topic, its partitions in order."""

    name: str
    topic_id: UUID
    is_internal: bool
    partitions: tuple[PartitionInfo, ...]


class PartitionNames:
    """Names of partitions that were fetched from, and of partitions in the metadata."""

    def __init__(self, metadata: MetadataImage) -> None:
        self._metadata = metadata
        self.known: dict[TopicIdPartition, TopicPartition] = {}

    def of(self, partition: TopicIdPartition) -> TopicPartition:
        """The partition with its topic's name, or with the topic's id if the name is unknown."""
        known = self.known.get(partition)
        if known is not None:
            return known
        name = self._metadata.name_of(partition.topic_id) or str(partition.topic_id)
        return TopicPartition(name, partition.partition)


class MetadataImage:
    """The newest known state; each response replaces the topics and nodes in it."""

    def __init__(self) -> None:
        self.cluster_id: str | None = None
        self.controller_id = NO_LEADER
        self.nodes: dict[int, Node] = {}
        self.topics: dict[str, TopicMetadata] = {}
        self._names: dict[UUID, str] = {}
        self.applied = 0
        """How many responses were applied."""
        self.absent: set[str] = set()
        """The names for which the newest response about them says that there is no such topic."""

    def apply(self, response: MetadataResponse) -> dict[str, KafkaError]:
        """Apply a response. Returns the errors of topics that it does not describe, by name."""
        self.applied += 1
        self.cluster_id = response.cluster_id
        self.controller_id = response.controller_id
        if response.brokers:
            self.nodes = {
                b.node_id: Node(b.node_id, b.host, b.port, b.rack) for b in response.brokers
            }
        errors: dict[str, KafkaError] = {}
        for topic in response.topics:
            name = topic.name or ""
            self._forget(name)
            self.absent.discard(name)
            if topic.error_code:
                if topic.error_code == UnknownTopicOrPartition.code:
                    self.absent.add(name)
                errors[name] = error_on(topic.error_code, None, "DESCRIBE", f"topic {name!r}")
            else:
                self.topics[name] = _topic_info(name, topic)
                self._names[topic.topic_id] = name
        return errors

    def name_of(self, topic_id: UUID) -> str | None:
        """The name of the topic with this id."""
        return self._names.get(topic_id)

    def id_of(self, name: str) -> UUID | None:
        """The id of the topic with this name; None: it is not known, or the cluster has no ids."""
        topic = self.topics.get(name)
        return None if topic is None or topic.topic_id == NULL_TOPIC_ID else topic.topic_id

    def by_id(self, topic_id: UUID) -> TopicMetadata | None:
        """The topic with this id."""
        name = self._names.get(topic_id)
        return None if name is None else self.topics[name]

    def leader(self, partition: TopicIdPartition) -> int | None:
        """The node that leads the partition; None when it is not known or there is none."""
        topic = self.by_id(partition.topic_id)
        if topic is None or partition.partition >= len(topic.partitions):
            return None
        leader = topic.partitions[partition.partition].leader
        return leader if leader in self.nodes else None

    def _forget(self, name: str) -> None:
        old = self.topics.pop(name, None)
        if old is not None:
            self._names.pop(old.topic_id, None)

    def forget_missing(self, asked: Iterable[str]) -> None:
        """Drop the topics that are not in ``asked``: nobody asks for them any more."""
        wanted = set(asked)
        for name in self.topics.keys() - wanted:
            self._forget(name)
        self.absent &= wanted


def _topic_info(name: str, topic: MetadataResponseTopic) -> TopicMetadata:
    partitions = sorted(topic.partitions, key=lambda p: p.partition_index)
    return TopicMetadata(
        name=name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=tuple(
            PartitionInfo(
                p.partition_index,
                p.leader_id,
                p.leader_epoch,
                tuple(p.replica_nodes),
                tuple(p.isr_nodes),
            )
            for p in partitions
        ),
    )
