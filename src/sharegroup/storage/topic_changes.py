"""Creates, grows and deletes topics; each change succeeds as a whole or not at all (Kafka classes
LogManager, ReplicationControlManager).

The catalog is written before folders are created and before they are removed. A change that fails
for lack of room or descriptors is undone in memory and in the catalog. If the catalog cannot be
written either, the next change writes it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from uuid import UUID

from sharegroup.keyed_locks import KeyedLocks
from sharegroup.model import errors
from sharegroup.model.ids import TopicPartition
from sharegroup.model.store import Configs, TopicFacts
from sharegroup.storage.catalog import Catalog
from sharegroup.storage.partition_folders import slices
from sharegroup.storage.partition_log import LocalPartitionLog
from sharegroup.storage.partitions import Partitions
from sharegroup.storage.reserve import Reserve

logger = logging.getLogger(__name__)


class TopicChanges:
    """Changes of the topics of one data folder. Changes of one topic run one after the other;
    changes of different topics run at the same time.

    Args:
        forget_offsets: removes the offsets of partitions that are about to be created from the
            checkpoints: the log start of a deleted topic would hide records of the new one.
    """

    def __init__(
        self,
        catalog: Catalog,
        partitions: Partitions,
        reserve: Reserve,
        new_id: Callable[[], UUID],
        forget_offsets: Callable[[Sequence[TopicPartition]], None],
    ) -> None:
        self._catalog = catalog
        self._partitions = partitions
        self._folders = partitions.folders
        self._failures = partitions.failures
        self._reserve = reserve
        self._new_id = new_id
        self._forget_offsets = forget_offsets
        self._changing = KeyedLocks()  # by topic: held while it is made, grown or deleted
        self._unfinished: dict[str, int] = {}
        self._closing = False
        self.topics: Mapping[str, TopicFacts] = catalog.facts.topics
        """The visible topics: all their partitions are open, or are being opened by the start."""
        self.on_change: Callable[[str], None] = lambda _name: None

    def find(self, name: str) -> TopicFacts:
        """The topic of that name; raises UnknownTopicOrPartition."""
        try:
            return self.topics[name]
        except KeyError:
            raise errors.UnknownTopicOrPartition from None

    async def create(self, name: str, topic_id: UUID, partitions: int, configs: Configs) -> None:
        """Make a topic, durably."""
        async with self._changing.holding(name):
            if name in self.topics:
                raise errors.TopicAlreadyExists(f"Topic '{name}' already exists.")
            if partitions < 1:
                raise errors.InvalidPartitions
            await self._grow(
                name, TopicFacts(topic_id=topic_id, partitions=partitions, configs=dict(configs)), 0
            )

    async def grow(self, name: str, partitions: int) -> None:
        """Let a topic have ``partitions`` in all, durably."""
        async with self._changing.holding(name):
            old = self.find(name)
            if partitions <= old.partitions:
                raise errors.InvalidPartitions(
                    f"The topic {name} currently has {old.partitions} partition(s); "
                    f"{partitions} would not be an increase."
                )
            await self._grow(name, replace(old, partitions=partitions), old.partitions)

    async def delete(self, name: str) -> None:
        """Remove a topic and all its records."""
        async with self._changing.holding(name):
            facts = self.find(name)
            self._check_open()
            with self._failures.answered(f"deleting {name}"):
                try:
                    self._reserve.spend(lambda: self._catalog.remove_topic(name))
                except OSError:  # the topic stays, and so must the records that come from now on
                    self._write_back(name)
                    raise
            self._show(name)
            keys = [TopicPartition(name, number) for number in range(facts.partitions)]
            logs = [self._partitions.logs.pop(key, None) for key in keys]
            gone = [log for log in logs if log is not None]
            for key in keys:
                self._partitions.offline.pop(key, None)
            for log in gone:
                log.fail(errors.UnknownTopicOrPartition())
            await self._partitions.flusher.running_over()
            for log in gone:
                log.close()
            await self._remove_folders(keys, facts.topic_id)

    def configure(self, name: str, configs: Configs) -> None:
        """Replace a topic's configs durably, and apply them to its logs."""
        self.find(name)
        facts = replace(self._catalog.facts.topics[name], configs=dict(configs))
        with self._failures.answered(f"configs of {name}"):
            self._catalog.put_topic(name, facts)
        self._show(name)
        self._partitions.configure(name)

    async def close(self) -> None:
        """Refuse further changes, and return when no work on folders is running. The next start
        finishes incomplete changes, as after a crash.
        """
        self._closing = True
        await self._folders.idle()

    def _check_open(self) -> None:
        if self._closing:
            raise errors.NotLeaderOrFollower("the broker is shutting down")

    def _show(self, changed: str) -> None:
        """Publish the catalog's topics. A topic with an unfinished change is shown as it was before
        the change."""
        topics = dict(self._catalog.facts.topics)
        for name, partitions in self._unfinished.items():
            if partitions:
                topics[name] = replace(topics[name], partitions=partitions)
            else:
                topics.pop(name, None)
        self.topics = topics
        self.on_change(changed)

    async def _grow(self, name: str, facts: TopicFacts, first: int) -> None:
        """Add a topic to the catalog and open its partitions from ``first`` on. If one cannot be
        opened, the topic stays as it was."""
        self._check_open()
        keys = [TopicPartition(name, number) for number in range(first, facts.partitions)]
        self._unfinished[name] = first
        try:
            with self._failures.answered(f"creating {name}"):
                self._forget_offsets(keys)
                self._catalog.put_topic(name, facts)
                logs = await self._open(keys, facts.topic_id)
            settings = self._partitions.settings(name)
            for log in logs:
                log.settings = settings  # the configs may have changed meanwhile
                self._partitions.logs[log.topic_partition] = log
        finally:
            if not self._closing:  # if closing, the next start finishes the change
                del self._unfinished[name]
                self._show(name)

    async def _open(
        self, keys: Sequence[TopicPartition], topic_id: UUID
    ) -> list[LocalPartitionLog]:
        opened: list[LocalPartitionLog] = []
        done = False
        try:
            await self._folders.clear(keys, self._new_id())
            for some in slices(keys):
                self._check_open()
                opened += await self._partitions.open_new(some)
            self._check_open()
            done = True
        except OSError:
            await self._take_back(keys, topic_id)
            raise
        finally:
            if not done:
                for log in opened:
                    log.close()
        return opened

    async def _take_back(self, keys: Sequence[TopicPartition], topic_id: UUID) -> None:
        """Undo a failed creation: restore the catalog and remove the folders."""
        name, first = keys[0]
        self._catalog.take_back(name, first)
        self._write_back(name)
        await self._remove_folders(keys, topic_id)

    def _write_back(self, name: str) -> None:
        """Write the catalog without a change that is undone."""
        try:
            self._reserve.spend(self._catalog.write_if_stale)
        except OSError as error:
            logger.warning(
                "the change of %s is undone; the catalog is written later: %s", name, error
            )

    async def _remove_folders(self, keys: Sequence[TopicPartition], topic_id: UUID) -> None:
        if await self._folders.remove_partitions(keys, topic_id):
            self._catalog.forget_deleted(topic_id)
