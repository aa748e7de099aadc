"""The topics of the cluster, as they are now: asked for again and again, since nobody tells."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final
from uuid import UUID, uuid5

from sharegroup.client.core.known_answer import KnownAnswer
from sharegroup.client.network.cluster import Cluster
from sharegroup.model import errors
from sharegroup.model.ids import NULL_TOPIC_ID, TopicPartition
from sharegroup.model.store import TopicFacts
from sharegroup.upstream.following import Following
from sharegroup.upstream.pace import LOOK_S, Pace
from sharegroup.upstream.partition_log import ClusterLog
from sharegroup.upstream.refused_topics import RefusedTopics
from sharegroup.upstream.unsafe_topics import say_unsafe
from sharegroup.wire.apis import METADATA
from sharegroup.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)

logger = logging.getLogger("sharegroup.broker")

LANE: Final = "topics"
IDS: Final = UUID("6f2a3c1e-8f0b-4b35-9a8e-5d1f1f6d9c11")
"""Of the ids that topics get here in a cluster without topic ids."""


class ClusterTopics:
    """See the module.

    Args:
        hidden: names of topics that are none of the broker's users'.
        refuse: share groups get no records of topics that can lose them; else such topics are named
            at the start.
        pace: of the looks at all topics.
    """

    def __init__(
        self,
        cluster: Cluster,
        hidden: Callable[[str], bool],
        *,
        refuse: bool = False,
        pace: Pace | None = None,
    ) -> None:
        self.facts: dict[str, TopicFacts] = {}
        self.changed: Callable[[str], None] = lambda _name: None
        self.cluster_id = ""
        self._cluster = cluster
        self._hidden = hidden
        self._following = Following(cluster)
        self._refused = RefusedTopics(cluster) if refuse else None
        self._logs: dict[str, list[ClusterLog]] = {}
        self._looking = asyncio.Lock()
        self._pace, self._pace_in_use = pace or Pace(), Pace()
        self._all_known, self._in_use_known = KnownAnswer(), KnownAnswer()
        self._task: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Look for the first time, and begin to look again.

        Raises:
            KafkaError: the cluster cannot be asked.
        """
        await self.look()
        if self._refused is None:
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
        await self._look(None, self._all_known)

    async def look_at(self, topic: str) -> None:
        """As :meth:`look`, at one topic."""
        await self._look([topic], KnownAnswer())

    async def gone(self, topics: Mapping[UUID, str]) -> set[UUID]:
        """Those of the topics (name by id) that no broker of the cluster knows, where more than
        half of them have answered. One broker may be behind the others; and what groups have done
        with a topic is forgotten when the topic is deleted."""
        if not topics:
            return set()
        nodes = [*self._cluster.metadata.nodes]
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name=name) for name in sorted({*topics.values()})],
            allow_auto_topic_creation=False,
        )
        answers = await asyncio.gather(
            *(self._cluster.send(node, METADATA, request, lane=LANE) for node in nodes),
            return_exceptions=True,
        )
        told = [one for one in answers if isinstance(one, MetadataResponse)]
        if 2 * len(told) <= len(nodes):
            return set()
        seen: defaultdict[str, list[MetadataResponseTopic]] = defaultdict(list)
        for answer in told:
            for topic in answer.topics:
                seen[topic.name or ""].append(topic)
        return {
            topic_id
            for topic_id, name in topics.items()
            if not any(self._may_be(topic_id, one) for one in seen[name])
        }

    async def _look(self, names: Collection[str] | None, known: KnownAnswer) -> None:
        """As :meth:`look`, at these topics; None: at all."""
        topics = None
        if names is not None:
            topics = [MetadataRequestTopic(name=one) for one in sorted(names)]
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
        async with self._looking:
            response = await self._cluster.send_to_any(METADATA, request, known)
            if response is not None and await self._take(response, names):
                known.keep()
            elif response is None and self._refused is not None and self._refused.are_due:
                await self._judge(
                    {name: replace(one, refused="") for name, one in self.facts.items()}
                )

    async def _take(self, response: MetadataResponse, names: Collection[str] | None) -> bool:
        """Take in an answer. Returns whether nothing of it is doubted."""
        self._all_known.forget()
        self._in_use_known.forget()
        if not response.brokers:
            raise errors.LeaderNotAvailable("the broker of the cluster knows no broker yet")
        self.cluster_id = response.cluster_id or self.cluster_id
        self._cluster.metadata.apply(response)
        seen = {
            topic.name: self._facts_of(topic)
            for topic in response.topics
            if topic.name and not topic.error_code and not self._hidden(topic.name)
        }
        doubted = {
            known.topic_id: name
            for name, known in self.facts.items()
            if (names is None or name in names) and _other(seen.get(name), known.topic_id)
        }
        gone = {doubted[topic_id] for topic_id in await self.gone(doubted)}
        missing = gone - seen.keys()  # what was made anew is there
        self._cluster.metadata.forget_missing(self._cluster.metadata.topics.keys() - missing)
        for name in sorted(gone):
            self._forget(name)
        there = {*doubted.values()} - gone
        await self._judge({name: one for name, one in seen.items() if name not in there})
        return not there

    async def _judge(self, seen: Mapping[str, TopicFacts]) -> None:
        """Take in what is new of these topics, with whether share groups get records of them."""
        why: Mapping[str, str] = {}
        if self._refused is not None:
            known, every = self._cluster.metadata.topics, {**self.facts, **seen}
            why = await self._refused.look(
                {facts.topic_id: known[name] for name, facts in every.items() if name in known}
            )
        for name, facts in seen.items():
            now = replace(facts, refused=why[name]) if name in why else facts
            if self.facts.get(name) != now:
                self._take_in(name, now)

    async def _look_again(self) -> None:
        """At all topics, as often as their number allows, and at those in use in between."""
        while True:
            await asyncio.sleep(LOOK_S)
            in_use = self._following.topics & self.facts.keys()
            if self._pace.is_due(_now_s()):
                await self._paced(self._pace, None, self._all_known)
            elif in_use and self._pace_in_use.is_due(_now_s()):
                await self._paced(self._pace_in_use, in_use, self._in_use_known)

    async def _paced(self, pace: Pace, names: Collection[str] | None, known: KnownAnswer) -> None:
        began_s = _now_s()
        try:
            await self._look(names, known)
        except errors.KafkaError as error:
            logger.debug("the topics of the cluster are not known now: %s", error)
        pace.asked(began_s, _now_s())

    def _may_be(self, topic_id: UUID, seen: MetadataResponseTopic) -> bool:
        if seen.error_code:  # another one: the broker cannot tell now
            return seen.error_code != errors.UnknownTopicOrPartition.code
        return not _other(self._facts_of(seen), topic_id)

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
        self._cluster.watch_no_more(name)
        for log in self._logs.pop(name, ()):
            log.gone()
        self.changed(name)


def _other(seen: TopicFacts | None, topic_id: UUID) -> bool:
    """Whether what was seen is not this topic."""
    return seen is None or seen.topic_id != topic_id


def _now_s() -> float:
    return asyncio.get_running_loop().time()
