"""The topics of a stream: names, or a pattern that is matched again while the query runs."""

from __future__ import annotations

import logging
import re
from typing import Final
from uuid import UUID

from sharegroup.client.admin.admin import Admin
from sharegroup.client.network.cluster import Cluster
from sharegroup.model.errors import ConfigError, UnknownTopicOrPartition
from sharegroup.spark.options.stream import ShareOptions

log = logging.getLogger("sharegroup.spark")

INTERNAL: Final = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
"""The internal topics. Brokers mark them as internal; an old broker may not know the last one."""


class StreamTopics:
    """See the module.

    Attributes:
        names: the topics that the group's member subscribes to.
        topics: topic id → name, of all topics that were seen and are not known to be deleted. A
            topic created again under the same name has another id.
    """

    def __init__(self, cluster: Cluster, options: ShareOptions) -> None:
        self.names: tuple[str, ...] = options.topics
        self.topics: dict[UUID, str] = {}
        self._cluster = cluster
        self._options = options
        self._admin = Admin(cluster=cluster, request_timeout_ms=options.request_timeout_ms)
        pattern = options.topic_pattern
        self._pattern = None if pattern is None else re.compile(pattern)
        self._missing: set[UUID] = set()

    async def find(self) -> None:
        """Look the topics up for the first time.

        Raises:
            ConfigError: a topic of ``subscribe`` does not exist. A pattern may match nothing yet.
        """
        if self._pattern is not None:
            self.names = await self._matching(self._pattern)
        for name in self.names:
            try:
                topic = await self._cluster.topic(name)
            except UnknownTopicOrPartition:
                servers = self._options.bootstrap_servers
                raise ConfigError(
                    f"there is no topic {name!r} at {servers}: create it, or correct subscribe"
                ) from None
            self.topics[topic.topic_id] = name

    async def refresh(self) -> set[UUID]:
        """Look the topics up again.

        Returns:
            The deleted topics, which are forgotten here. A topic counts as deleted when it is
            missing for the second time in a row: a broker that has just started may not know all
            topics yet. A topic that may not be described (an ACL was removed) is not deleted.

        Raises:
            KafkaError: no broker could be asked.
        """
        if self._pattern is not None:
            self._subscribe(await self._matching(self._pattern))
        # Topics of a checkpoint that are no longer subscribed, too: their records may be done and
        # not confirmed.
        self._cluster.watch({*self.names, *self.topics.values()})
        await self._cluster.refresh()
        metadata = self._cluster.metadata
        for name in self.names:
            known = metadata.topics.get(name)
            if known is not None:
                self.topics[known.topic_id] = name
        missing = {
            topic_id
            for topic_id, name in self.topics.items()
            if name in metadata.absent or metadata.id_of(name) not in (None, topic_id)
        }
        gone, self._missing = missing & self._missing, missing
        for topic_id in gone:
            name = self.topics.pop(topic_id)
            log.warning("the topic %s (%s) is gone", name, topic_id)
            if name not in self.names:
                self._cluster.watch_no_more(name)
        return gone

    def _subscribe(self, names: tuple[str, ...]) -> None:
        for name in sorted(set(names) - set(self.names)):
            log.info("subscribePattern: the topic %s is there now", name)
        self.names = names

    async def _matching(self, pattern: re.Pattern[str]) -> tuple[str, ...]:
        found = await self._admin.list_topics()
        return tuple(t.name for t in found if t.name not in INTERNAL and pattern.fullmatch(t.name))
