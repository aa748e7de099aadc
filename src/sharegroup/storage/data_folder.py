"""One data folder: its lock, its catalog, and the logs of all its partitions (Kafka class
LogManager).

Layout, Kafka's own where Kafka has one::

    .lock  meta.properties  catalog.json  .kafka_cleanshutdown
    recovery-point-offset-checkpoint  log-start-offset-checkpoint  cleaner-…-checkpoint
    TOPIC-PARTITION/   partition.metadata  leader-epoch-checkpoint
                       00000000000000000000.{log,index,timeindex,txnindex,snapshot,ids}
    ….ID-delete/       a deleted partition that is being removed
    ….ID-stray/        a partition that belongs to no topic in the catalog; kept, never read
    .reserve           room for operations that free room on a full disk

The catalog is written before folders are created and before they are removed. A crash in between
leaves a missing or a superfluous folder. A missing folder is created by the next start. A
superfluous folder is removed if the catalog lists its topic as deleted, else set aside as stray.
No topic ever gets another topic's records.

Folders are created and removed off the loop's thread, in slices. A topic is visible from the moment
when all of its partitions are open until its deletion is durable. Changes of one topic run one
after the other; changes of different topics run at the same time.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from uuid import UUID

from sharegroup.model.environment import Disk, DiskFile, Environment
from sharegroup.model.errors import ConfigError, NotLeaderOrFollower
from sharegroup.model.histogram import Histogram
from sharegroup.model.ids import TopicPartition, topic_id_text
from sharegroup.model.log_settings import LogSettings
from sharegroup.model.retention import Needed
from sharegroup.model.store import CleaningFacts, Configs, LogFolder, StoreFacts, TopicFacts
from sharegroup.model.topic_name import check_topic_name
from sharegroup.storage import checkpoints, lost_offsets, stray_folders
from sharegroup.storage.catalog import Catalog, Facts
from sharegroup.storage.cleaner.log_cleaner import Cleaner
from sharegroup.storage.failures import Lack, lack_of
from sharegroup.storage.missing_catalog import check_catalog
from sharegroup.storage.offset_checkpoints import OffsetCheckpoints
from sharegroup.storage.partition_folders import PartitionFolders, slices
from sharegroup.storage.partition_log import LocalPartitionLog
from sharegroup.storage.partitions import Partitions
from sharegroup.storage.recovery import LastKnown
from sharegroup.storage.reserve import Reserve
from sharegroup.storage.topic_changes import TopicChanges
from sharegroup.transactions.producer_ids import ProducerIdAllocator

logger = logging.getLogger(__name__)


class DataFolderBusy(ConfigError):
    """Another process holds the data folder."""


def _kafka_defaults(_topic: str, _configs: Configs) -> LogSettings:
    return LogSettings()


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFolderSettings:
    """The settings that the composition root decides."""

    log_settings: Callable[[str, Configs], LogSettings] = _kafka_defaults
    """(topic, its configs) → the effective settings of its logs."""
    cluster_id: str = ""
    """The cluster id of a new folder; empty: a random one."""
    node_id: int = 1
    known: Callable[[StoreFacts], None] = lambda _facts: None
    """Called with what the catalog says, before any log is opened."""
    check_partitions: Callable[[int], None] = lambda _count: None
    """Raises ConfigError when there are more partitions in the folder than can be opened."""


class DataFolder:
    """See the module. Made by :meth:`open`; :meth:`close` ends it."""

    def __init__(
        self, environment: Environment, path: str, settings: DataFolderSettings, catalog: Catalog
    ) -> None:
        self.path = path
        self._environment = environment
        self._disk: Disk = environment.disk
        self._settings = settings
        self._catalog = catalog
        self._folders = PartitionFolders(environment.disk, path, environment.clock.wall_ms)
        self._reserve = Reserve(environment.disk, path)
        self._partitions = Partitions(
            environment, catalog, self._folders, settings.log_settings, self._write_log_starts
        )
        self._checkpoints = OffsetCheckpoints(
            environment.disk, path, self._reserve, self._partitions.logs, self._partitions.offline
        )
        self.failures = self._partitions.failures
        self.flusher = self._partitions.flusher
        self.recovered = self._partitions.recovered
        self._logs = self._partitions.logs
        self._offline = self._partitions.offline
        self._changes = TopicChanges(
            catalog, self._partitions, self._reserve, environment.new_id, self._checkpoints.forget
        )
        self._cleaner = Cleaner(
            environment,
            self._folders,
            self.failures,
            self._logs.values(),
            lambda: self._reserve.spend(self._checkpoints.write_cleaned),
        )
        self._producer_ids = ProducerIdAllocator(catalog.facts.producer_ids_end)

    @classmethod
    async def open(
        cls, environment: Environment, path: str, settings: DataFolderSettings
    ) -> DataFolder:
        """Take the lock and recover all partitions.

        Raises:
            DataFolderBusy: another process holds the folder.
            ConfigError: the catalog cannot be read.
            OSError: the folder itself cannot be used.
        """
        disk = environment.disk
        disk.make_folder(path)
        try:
            disk.lock(f"{path}/.lock")
        except BlockingIOError as error:
            raise DataFolderBusy(
                f"data folder {path} is in use by another process: "
                "stop that process, or choose another folder"
            ) from error
        try:
            check_catalog(disk, path)
            cluster_id = settings.cluster_id or topic_id_text(environment.new_id())
            folder = cls(environment, path, settings, Catalog.open(disk, path, cluster_id))
            settings.known(folder.facts)
            settings.check_partitions(folder.partition_count)
            await folder._recover()
        except BaseException:
            disk.unlock(f"{path}/.lock")
            raise
        return folder

    # Facts -----------------------------------------------------------------------------------

    @property
    def facts(self) -> Facts:
        """Cluster id, topics, configs: all that the catalog holds."""
        return self._catalog.facts

    @property
    def topics(self) -> Mapping[str, TopicFacts]:
        """All visible topics by name; a topic that is still being created is not among them."""
        return self._changes.topics

    @property
    def on_topic_changed(self) -> Callable[[str], None]:
        """Called with the name of each topic that was created, grown or deleted, once visible."""
        return self._changes.on_change

    @on_topic_changed.setter
    def on_topic_changed(self, call: Callable[[str], None]) -> None:
        self._changes.on_change = call

    @property
    def partition_count(self) -> int:
        """All partitions, including those that are being created."""
        return self._catalog.partition_count

    @property
    def logs(self) -> Iterable[LocalPartitionLog]:
        """The logs of all open partitions."""
        return self._logs.values()

    @property
    def flush_seconds(self) -> Histogram:
        """How long each sync of a log took, in seconds."""
        return self.flusher.seconds

    def refusals(self) -> dict[str, int]:
        """How many operations the disk refused for now, by the resource that was lacking."""
        return {lack.value: self.failures.refused[lack] for lack in Lack}

    def log_folder(self) -> LogFolder:
        """Where the logs are, and how large they are. See ``model.store``."""
        total_bytes, usable_bytes = self._disk.space(self.path)
        sizes = {
            key: log.statistics().size_bytes
            for key, log in self._logs.items()
            if log.failure is None
        }
        return LogFolder(
            path=self._disk.full_path(self.path),
            total_bytes=total_bytes,
            usable_bytes=usable_bytes,
            sizes=sizes,
        )

    def out_of_service(self) -> list[TopicPartition]:
        """Partitions out of service until the next start: their disk failed, or they could not be
        opened."""
        failed = [key for key, log in self._logs.items() if log.failure is not None]
        return sorted([*failed, *self._offline])

    async def look_for(self, topic: str | None) -> None:
        """See ``TopicStore``: nobody else makes topics here."""

    async def gone(self, topics: Mapping[UUID, str]) -> set[UUID]:
        """See ``TopicStore``: all topics are here."""
        return {*topics} - {facts.topic_id for facts in self.topics.values()}

    def logs_of(self, topic: str) -> list[LocalPartitionLog]:
        """The logs of a topic's open partitions."""
        numbers = range(self.topics[topic].partitions)
        logs = [self._logs.get(TopicPartition(topic, number)) for number in numbers]
        return [log for log in logs if log is not None]

    def log(self, topic: str, partition: int) -> LocalPartitionLog:
        """The log of one partition.

        Raises:
            UnknownTopicOrPartition: the partition does not exist.
            KafkaStorageError: the partition exists, but could not be opened.
        """
        return self._partitions.find(TopicPartition(topic, partition))

    def internal_log(self, topic: str, partition: int) -> LocalPartitionLog:
        """The log of a partition of a topic that only this broker writes. See ``model.store``."""
        return self.log(topic, partition)

    def find_log(self, key: TopicPartition) -> LocalPartitionLog | None:
        """The log of one partition if it exists and is open, else None."""
        return self._logs.get(key)

    def set_group_configs(self, group_id: str, configs: Configs) -> None:
        """Replace a group's configs durably; empty configs remove its entry. Raises
        KafkaStorageError.
        """
        with self.failures.answered("configs of a group"):
            self._catalog.put_group_configs(group_id, configs)

    def set_broker_configs(self, configs: Configs) -> None:
        """Replace the broker's dynamic configs durably, and apply them to the settings of all logs.
        Raises KafkaStorageError.
        """
        with self.failures.answered("configs of the broker"):
            self._catalog.put_broker_configs(configs)
        self._partitions.configure()

    def set_cluster_configs(self, configs: Configs) -> None:
        """As :meth:`set_broker_configs`, for the defaults of every broker."""
        with self.failures.answered("configs of every broker"):
            self._catalog.put_cluster_configs(configs)
        self._partitions.configure()

    async def settled(self) -> None:
        """See ``ConfigStore``: a change is durable when its call returns."""

    def next_producer_id(self) -> int:
        """A producer id that was never returned before, not even before a crash. Raises
        KafkaStorageError.
        """
        end = self._producer_ids.needs_block()
        if end is not None:
            with self.failures.answered("a producer id"):
                self._catalog.put_producer_ids_end(end)
            self._producer_ids.claimed(end)
        return self._producer_ids.take()

    # Topics ----------------------------------------------------------------------------------

    async def create_topic(
        self, name: str, topic_id: UUID, partitions: int, configs: Configs
    ) -> None:
        """Create a topic, durably.

        Raises:
            InvalidTopic, InvalidPartitions, TopicAlreadyExists: as their names say.
            KafkaStorageError: the disk failed; the topic was not created.
        """
        check_topic_name(name)
        await self._changes.create(name, topic_id, partitions, configs)
        self._fill_reserve()

    async def add_partitions(self, name: str, partitions: int) -> None:
        """Raise a topic's number of partitions to ``partitions``, durably.

        Raises:
            UnknownTopicOrPartition: there is no such topic.
            InvalidPartitions: it has as many already.
            KafkaStorageError: the disk failed; the topic is unchanged.
        """
        await self._changes.grow(name, partitions)
        self._fill_reserve()

    async def delete_topic(self, name: str) -> None:
        """Delete a topic and all its records, also on a full disk. Later calls on its logs get
        UnknownTopicOrPartition.

        Raises:
            UnknownTopicOrPartition: there is no such topic.
            KafkaStorageError: the disk failed; the topic is unchanged.
        """
        await self._changes.delete(name)
        self._fill_reserve()

    def set_topic_config(self, name: str, configs: Configs) -> None:
        """Replace a topic's configs durably, and apply them to its logs.

        Raises:
            UnknownTopicOrPartition: there is no such topic.
            KafkaStorageError: the disk failed.
        """
        self._changes.configure(name, configs)

    # Opening ---------------------------------------------------------------------------------

    async def _recover(self) -> None:
        marker = f"{self.path}/{checkpoints.CLEAN_MARKER}"
        names = self._disk.list(self.path)
        has_partitions = any(topic.partitions for topic in self.topics.values())
        clean = self._disk.exists(marker) or not has_partitions
        self.recovered.clean = clean
        self._disk.remove(marker)
        # Durable: this write syncs the folder, and with it the marker's removal.
        properties = checkpoints.meta_properties(self.facts.cluster_id, self._settings.node_id)
        path = f"{self.path}/{checkpoints.META_PROPERTIES}"
        self._reserve.spend(lambda: self._disk.write_file(path, properties))
        stray_folders.clear(
            self._disk,
            self.path,
            names,
            self.facts,
            self._folders,
            self.recovered,
            self._environment.new_id,
        )
        for topic_id in self.facts.deleted:
            self._catalog.forget_deleted(topic_id)
        keys = [
            TopicPartition(topic, number)
            for topic, facts in self.topics.items()
            for number in range(facts.partitions)
        ]
        await self._open_partitions(self._checkpoints.load(keys, self.recovered, clean=clean))
        self.checkpoint()
        self._fill_reserve()

    async def _open_partitions(self, partitions: Mapping[TopicPartition, LastKnown]) -> None:
        for some in slices(list(partitions)):
            for opened in await self._partitions.open(some, partitions):
                key, error = opened.wanted.key, opened.error
                if error is None:
                    self._logs[key] = self._partitions.log_of(opened)
                elif lack_of(error) in (None, Lack.ROOM):  # other partitions may free room
                    self._offline[key] = f"{key}: {error}"
                    self.recovered.report(logging.ERROR, f"{key} is out of service: {error}")
                else:  # the process lacks a resource: nothing is wrong with the partition
                    raise error
        self.recovered.partitions = len(self._logs)

    async def give_up_offsets(self, given: Mapping[TopicPartition, int]) -> None:
        """Never use the offsets below ``given`` (by partition) for new records: they are known to
        have named others. Must be called before the first append.

        Raises:
            KafkaStorageError: the disk failed.
        """
        files: list[DiskFile] = []
        with self.failures.answered("offsets that share groups have seen"):
            for key, offset in given.items():
                log = self._logs.get(key)
                if log is not None and log.failure is None and log.log_end_offset < offset:
                    lost_offsets.report(
                        self.recovered, key, log.log_end_offset, lost_offsets.SEEN, offset
                    )
                    files += log.skip_to(offset)
            if files:
                await self._disk.sync(files)
        if files:
            self.checkpoint()

    # Housekeeping ----------------------------------------------------------------------------

    def enforce_retention(
        self, now_wall_ms: int, needed: Mapping[TopicPartition, Needed] | None = None
    ) -> int:
        """Delete expired segments of all logs and write the checkpoints. Returns the number of
        deleted segments. ``needed``: see ``model.store``.

        Must be called every ``log.retention.check.interval.ms``.
        """
        needed = needed or {}
        for key in needed.keys() & self._logs.keys():
            self._logs[key].cleaning.needed = needed[key]
        expired = [
            log
            for key, log in self._logs.items()
            if log.expire(now_wall_ms, needed.get(key), self._reserve.spend)
        ]
        if expired:
            try:  # before deleting: a first segment beyond the log start on disk counts as damage
                self._reserve.spend(self._checkpoints.write)
            except OSError as error:
                self._trouble("retention", error)
                return 0
        removed = sum(log.remove_expired() for log in self._logs.values())
        self.checkpoint()
        return removed

    def expire_producers(self, now_wall_ms: int) -> None:
        """Let all logs forget producers that have been silent for long. See ``model.store``."""
        for log in self._logs.values():
            log.producer_states.expire(now_wall_ms - log.settings.producer_expiration_ms)

    def cleaning(self, now_wall_ms: int) -> CleaningFacts:
        """What the log cleaner has done, and what there is to do."""
        return self._cleaner.facts(now_wall_ms)

    async def clean(self, now_wall_ms: int, key_bytes_max: int) -> bool:
        """Clean one compacted log. See ``model.store``."""
        return await self._cleaner.clean(now_wall_ms, key_bytes_max)

    async def remove_leftovers(self) -> None:
        """Remove folders that earlier deletions could not remove, and write the catalog if a change
        was undone only in memory. Must be called as often as :meth:`enforce_retention`.
        """
        await self._folders.remove_leftovers()
        try:
            self._catalog.write_if_stale()
        except OSError as error:
            self._trouble("the catalog", error)
        self._fill_reserve()

    def checkpoint(self) -> bool:
        """Write recovery points and log starts that have moved, so that the next start scans less.
        Returns False if they could not be written; the old ones remain valid.
        """
        try:
            self._checkpoints.write()
        except OSError as error:
            self._trouble("a checkpoint", error)
            return False
        return True

    def _trouble(self, what: str, error: OSError) -> None:
        if self.failures.refusal(what, error) is None:
            logger.error("%s: %s", what, error)

    def _fill_reserve(self) -> None:
        producers = [len(log.producer_states) for log in self._logs.values()]
        self._reserve.fill(self._catalog.size, producers)

    def _write_log_starts(self, _log: LocalPartitionLog) -> None:
        self._checkpoints.write_log_starts()

    async def stop_appending(self) -> None:
        """Refuse appends from now on; returns when what was appended before is durable."""
        self.failures.stopping = True
        for log in self._logs.values():
            if log.failure is None:
                self.flusher.request(log)
        await self.flusher.idle()

    async def close(self) -> None:
        """Sync everything, write indexes, snapshots, checkpoints and the clean marker, and release
        the lock.

        After a disk error the marker is not written, so that the next start scans the logs.
        """
        await self._cleaner.close()
        await self._changes.close()
        await self.stop_appending()
        try:
            await self._write_final_files()
        except OSError as error:
            logger.error("%s: the shutdown was not clean: %s", self.path, error)
        for log in self._logs.values():
            log.fail(NotLeaderOrFollower("the broker has shut down"))
            log.close()
        self._disk.unlock(f"{self.path}/.lock")

    async def _write_final_files(self) -> None:
        unclean = self._offline or any(log.failure is not None for log in self._logs.values())
        for some in slices(list(self._logs.values())):
            files = [file for log in some for file in log.write_final_files()]
            await self._disk.sync(files)
            for file in files:
                file.close()
        self._checkpoints.write()
        self._catalog.write_if_stale()
        unsynced = [log for log in self._logs.values() if log.recovery_point < log.log_end_offset]
        if not unclean and not unsynced:
            path = f"{self.path}/{checkpoints.CLEAN_MARKER}"
            self._disk.write_file(path, checkpoints.CLEAN_MARKER_CONTENT)
