"""The topics of the cluster, as they are now: asked for again and again, since nobody tells."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final
from uuid import UUID, uuid5

from sharegroup.client.network.cluster import Cluster
from sharegroup.model import errors
from sharegroup.model.ids import NULL_TOPIC_ID, TopicPartition
from sharegroup.model.store import TopicFacts
from sharegroup.upstream.following import Following
from sharegroup.upstream.partition_log import ClusterLog
from sharegroup.upstream.unsafe_topics import say_unsafe
from sharegroup.wire.apis import METADATA
from sharegroup.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)

logger = logging.getLogger("sharegroup.broker")

LOOK_S: Final = 0.5
"""Between two looks: a change is noticed within a second."""
LANE: Final = "topics"
IDS: Final = UUID("6f2a3c1e-8f0b-4b35-9a8e-5d1f1f6d9c11")
"""Of the ids that topics get here in a cluster without topic ids."""


class ClusterTopics:
    """See the module.

    Args:
        hidden: names of topics that are none of the broker's users'.
    """

    def __init__(self, cluster: Cluster, hidden: Callable[[str], bool]) -> None:
        self.facts: dict[str, TopicFacts] = {}
        self.changed: Callable[[str], None] = lambda _name: None
        self.cluster_id = ""
        self._cluster = cluster
        self._hidden = hidden
        self._following = Following(cluster)
        self._logs: dict[str, list[ClusterLog]] = {}
        self._looking = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Look for the first time, and begin to look again.

        Raises:
            KafkaError: the cluster cannot be asked.
        """
        await self.look()
        known = self._cluster.metadata.topics.values()
        await say_unsafe(self._cluster, [one for one in known if not self._hidden(one.name)])
        self._following.start()
        self._task = asyncio.create_task(self._look_again(), name="topics of the cluster")

    async def close(self) -> None:
        """Look no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._following.close()

    def logs_of(self, topic: str) -> Sequence[ClusterLog]:
        """The logs of a topic, by partition."""
        return self._logs.get(topic, ())

    def find(self, key: TopicPartition) -> ClusterLog | None:
        """The log of a partition."""
        logs = self._logs.get(key.topic, ())
        return logs[key.partition] if 0 <= key.partition < len(logs) else None

    async def look(self) -> None:
        """Ask for all topics, and take in what is new. One look at a time: an answer that was
        overtaken would bring back what is deleted.

        Raises:
            KafkaError: the cluster cannot be asked.
        """
        async with self._looking:
            await self._look()

    async def _look(self) -> None:
        response: MetadataResponse = await self._cluster.send_to_any(
            METADATA, MetadataRequest(topics=None, allow_auto_topic_creation=False)
        )
        if not response.brokers:
            raise errors.LeaderNotAvailable("the broker of the cluster knows no broker yet")
        self.cluster_id = response.cluster_id or self.cluster_id
        seen: Mapping[str, TopicFacts] = {
            topic.name: self._facts_of(topic)
            for topic in response.topics
            if topic.name and not topic.error_code and not self._hidden(topic.name)
        }
        self._cluster.metadata.apply(response)
        doubted = {
            name for name, known in self.facts.items() if _other(seen.get(name), known.topic_id)
        }
        gone = await self._gone(doubted) if doubted else set()
        self._cluster.metadata.forget_missing(self._cluster.metadata.topics.keys() - gone)
        for name in sorted(gone):
            self._forget(name)
        for name, facts in seen.items():
            if name not in doubted - gone and self.facts.get(name) != facts:
                self._take_in(name, facts)

    async def _look_again(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                await self.look()
            except errors.KafkaError as error:
                logger.debug("the topics of the cluster are not known now: %s", error)

    async def _gone(self, names: Collection[str]) -> set[str]:
        """Those of the topics that no broker of the cluster knows. One broker may be behind the
        others; and what groups have done with a topic is forgotten when the topic is deleted."""
        nodes = [*self._cluster.metadata.nodes]
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name=name) for name in sorted(names)],
            allow_auto_topic_creation=False,
        )
        answers = await asyncio.gather(
            *(self._cluster.send(node, METADATA, request, lane=LANE) for node in nodes),
            return_exceptions=True,
        )
        told = [one for one in answers if isinstance(one, MetadataResponse)]
        known = {
            topic.name
            for answer in told
            for topic in answer.topics
            if topic.name and self._may_be_there(topic.name, topic)
        }
        return {*names} - known if 2 * len(told) > len(nodes) else set()

    def _may_be_there(self, name: str, seen: MetadataResponseTopic) -> bool:
        if seen.error_code:  # another one: the broker cannot tell now
            return seen.error_code != errors.UnknownTopicOrPartition.code
        return not _other(self._facts_of(seen), self.facts[name].topic_id)

    def _facts_of(self, topic: MetadataResponseTopic) -> TopicFacts:
        topic_id = topic.topic_id
        if topic_id == NULL_TOPIC_ID:
            topic_id = uuid5(IDS, f"{self.cluster_id}/{topic.name}")
        return TopicFacts(topic_id=topic_id, partitions=len(topic.partitions))

    def _take_in(self, name: str, facts: TopicFacts) -> None:
        logs = self._logs.setdefault(name, [])
        for partition in range(len(logs), facts.partitions):
            where = TopicPartition(name, partition)
            logs.append(ClusterLog(self._cluster, where, facts.topic_id, self._following.follow))
        self.facts[name] = facts
        self.changed(name)

    def _forget(self, name: str) -> None:
        del self.facts[name]
        for log in self._logs.pop(name, ()):
            log.gone()
        self.changed(name)


def _other(seen: TopicFacts | None, topic_id: UUID) -> bool:
    """Whether what was seen is not this topic."""
    return seen is None or seen.topic_id != topic_id
