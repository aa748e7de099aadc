"""One data folder: its lock, its catalog, and the logs of all its partitions (Kafka class
LogManager).

Layout, Kafka's own where Kafka has one::

    .lock  meta.properties  catalog.json  .kafka_cleanshutdown
    recovery-point-offset-checkpoint  log-start-offset-checkpoint
    TOPIC-PARTITION/   partition.metadata  leader-epoch-checkpoint
                       00000000000000000000.{log,index,timeindex,txnindex,snapshot}
    ….ID-delete/       a deleted partition on its way out
    ….ID-stray/        a partition that no topic in the catalog owns; kept, never read

The catalog is written before folders are made and before they are removed: a crash in between
leaves a folder too few (made again, empty) or too many (set aside as stray), never a topic with
another topic's records.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from sharegroup.model.environment import Disk, DiskFile, Environment
from sharegroup.model.errors import (
    ConfigError,
    InvalidPartitions,
    InvalidTopic,
    KafkaStorageError,
    NotLeaderOrFollower,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)
from sharegroup.model.ids import TopicPartition, topic_id_text
from sharegroup.model.limits import CLIENT_TEXT_LENGTH_MAX
from sharegroup.storage import checkpoints, rewrite
from sharegroup.storage.catalog import Catalog, Configs, Facts, TopicFacts
from sharegroup.storage.disk import SyncFailed
from sharegroup.storage.files import write_unsynced
from sharegroup.storage.flush import Flusher
from sharegroup.storage.missing_catalog import check_catalog
from sharegroup.storage.partition_log import LocalPartitionLog
from sharegroup.storage.recovery import LastKnown, Recovered, open_partition
from sharegroup.storage.settings import LogSettings
from sharegroup.transactions.producer_ids import ProducerIdAllocator

logger = logging.getLogger(__name__)

_TOPIC_NAME: Final = re.compile(r"[a-zA-Z0-9._-]+")
_PARTITION_FOLDER: Final = re.compile(r"(.+)-(\d+)")
_SET_ASIDE_NAME_LENGTH: Final = 200
"""Characters of the old name in a folder on its way out: with id and suffix it stays under the file
system's 255.
"""


class DataFolderBusy(ConfigError):
    """Another process holds the data folder."""


def _kafka_defaults(_topic: str, _configs: Configs) -> LogSettings:
    return LogSettings()


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFolderSettings:
    """What the composition root decides."""

    log_settings: Callable[[str, Configs], LogSettings] = _kafka_defaults
    """(topic, its configs) → the effective settings of its logs."""
    cluster_id: str = ""
    """For a new folder; empty: a random one."""
    node_id: int = 1


class DataFolder:
    """See the module. Made by :meth:`open`; :meth:`close` ends it."""

    def __init__(
        self, environment: Environment, path: str, settings: DataFolderSettings, catalog: Catalog
    ) -> None:
        self.path = path
        self.recovered = Recovered()
        self.flusher = Flusher(environment.disk)
        self._environment = environment
        self._disk: Disk = environment.disk
        self._settings = settings
        self._catalog = catalog
        self._logs: dict[TopicPartition, LocalPartitionLog] = {}
        self._offline: dict[TopicPartition, str] = {}
        self._changing = asyncio.Lock()
        self._producer_ids = ProducerIdAllocator(catalog.facts.producer_ids_end)
        self._checkpointed: dict[str, dict[TopicPartition, int]] = {}

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
                "stop that one, or choose another folder"
            ) from error
        try:
            check_catalog(disk, path)
            cluster_id = settings.cluster_id or topic_id_text(environment.new_id())
            folder = cls(environment, path, settings, Catalog.open(disk, path, cluster_id))
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
        """All topics by name."""
        return self._catalog.facts.topics

    @property
    def logs(self) -> Iterable[LocalPartitionLog]:
        """The logs of all partitions that are there."""
        return self._logs.values()

    def log(self, topic: str, partition: int) -> LocalPartitionLog:
        """The log of one partition.

        Raises:
            UnknownTopicOrPartition: there is none.
            KafkaStorageError: it is there, but could not be opened.
        """
        key = TopicPartition(topic, partition)
        log = self._logs.get(key)
        if log is None:
            if key in self._offline:
                raise KafkaStorageError(self._offline[key])
            raise UnknownTopicOrPartition
        return log

    def find_log(self, key: TopicPartition) -> LocalPartitionLog | None:
        """The log of one partition, if it is there and was opened."""
        return self._logs.get(key)

    def set_group_configs(self, group_id: str, configs: Configs) -> None:
        """Replace a group's configs durably; empty ones forget the group."""
        self._catalog.put_group_configs(group_id, configs)

    def set_broker_configs(self, configs: Configs) -> None:
        """Replace the broker's dynamic configs durably, and apply what they change in the logs'
        settings.
        """
        self._catalog.put_broker_configs(configs)
        for log in self._logs.values():
            topic = log.topic_partition.topic
            log.configure(self._settings.log_settings(topic, self.topics[topic].configs))

    def next_producer_id(self) -> int:
        """A producer id that was never given out before, crashes included."""
        end = self._producer_ids.needs_block()
        if end is not None:
            self._catalog.put_producer_ids_end(end)
            self._producer_ids.claimed(end)
        return self._producer_ids.take()

    # Topics ----------------------------------------------------------------------------------

    async def create_topic(
        self, name: str, topic_id: UUID, partitions: int, configs: Configs
    ) -> None:
        """Make a topic, durably.

        Raises:
            InvalidTopic, InvalidPartitions, TopicAlreadyExists: as their names say.
            KafkaStorageError: the disk failed.
        """
        check_topic_name(name)
        async with self._changing:
            if name in self.topics:
                raise TopicAlreadyExists(f"Topic '{name}' already exists.")
            if partitions < 1:
                raise InvalidPartitions
            facts = TopicFacts(topic_id=topic_id, partitions=partitions, configs=dict(configs))
            await self._grow(name, facts, 0)

    async def add_partitions(self, name: str, partitions: int) -> None:
        """Let a topic have ``partitions`` in all, durably.

        Raises:
            UnknownTopicOrPartition: there is no such topic.
            InvalidPartitions: it has as many already.
            KafkaStorageError: the disk failed.
        """
        async with self._changing:
            old = self._topic(name)
            if partitions <= old.partitions:
                raise InvalidPartitions(
                    f"The topic {name} currently has {old.partitions} partition(s); "
                    f"{partitions} would not be an increase."
                )
            facts = TopicFacts(topic_id=old.topic_id, partitions=partitions, configs=old.configs)
            await self._grow(name, facts, old.partitions)

    async def delete_topic(self, name: str) -> None:
        """Remove a topic and all its records. Calls on its logs get UnknownTopicOrPartition from
        now on.

        Raises:
            UnknownTopicOrPartition: there is no such topic.
            KafkaStorageError: the disk failed.
        """
        async with self._changing:
            facts = self._topic(name)
            try:
                self._catalog.remove_topic(name)
                keys = [TopicPartition(name, number) for number in range(facts.partitions)]
                logs = {key: self._logs.pop(key) for key in keys if key in self._logs}
                for key in keys:
                    self._offline.pop(key, None)
                for log in logs.values():
                    log.fail(UnknownTopicOrPartition())
                asides = [self._set_aside(key, facts.topic_id, "delete") for key in logs]
                await self.flusher.round_over()
                for log, aside in zip(logs.values(), asides, strict=True):
                    log.close()
                    self._disk.remove(aside)
            except OSError as error:
                raise KafkaStorageError(f"deleting {name}: {error}") from error

    def set_topic_config(self, name: str, configs: Configs) -> None:
        """Replace a topic's configs durably, and apply them to its logs.

        Raises:
            UnknownTopicOrPartition: there is no such topic.
        """
        facts = self._topic(name)
        settings = self._settings.log_settings(name, configs)
        self._catalog.put_topic(
            name,
            TopicFacts(topic_id=facts.topic_id, partitions=facts.partitions, configs=dict(configs)),
        )
        for key, log in self._logs.items():
            if key.topic == name:
                log.configure(settings)

    def _topic(self, name: str) -> TopicFacts:
        try:
            return self.topics[name]
        except KeyError:
            raise UnknownTopicOrPartition from None

    async def _grow(self, name: str, facts: TopicFacts, first: int) -> None:
        """Write a topic down and open its partitions from ``first`` on."""
        keys = [TopicPartition(name, number) for number in range(first, facts.partitions)]
        try:
            if any(key in known for known in self._checkpointed.values() for key in keys):
                self.checkpoint()  # an earlier topic's start would hide this one's records
            self._catalog.put_topic(name, facts)
            for key in keys:
                self._forget_leftovers(key)
            await self._open_partitions(dict.fromkeys(keys, LastKnown()))
        except OSError as error:
            raise KafkaStorageError(f"creating {name}: {error}") from error

    def _forget_leftovers(self, key: TopicPartition) -> None:
        """A folder of that name from a deletion that failed half-way is not this topic's."""
        if self._disk.exists(self._folder(key)):
            self._set_aside(key, self._environment.new_id(), "stray")

    # Opening ---------------------------------------------------------------------------------

    async def _recover(self) -> None:
        marker = f"{self.path}/{checkpoints.CLEAN_MARKER}"
        names = self._disk.list(self.path)
        has_partitions = any(topic.partitions for topic in self.topics.values())
        clean = self._disk.exists(marker) or not has_partitions
        self.recovered.clean = clean
        self._disk.remove(marker)
        # Durable: this write syncs the folder, and with it the marker's removal.
        self._disk.write_file(
            f"{self.path}/{checkpoints.META_PROPERTIES}",
            checkpoints.meta_properties(self.facts.cluster_id, self._settings.node_id),
        )
        self._clear_folder(names)
        points = checkpoints.read_offsets(self._disk, f"{self.path}/{checkpoints.RECOVERY_POINTS}")
        starts = checkpoints.read_offsets(self._disk, f"{self.path}/{checkpoints.LOG_STARTS}")
        cleaned = checkpoints.read_offsets(self._disk, f"{self.path}/{checkpoints.CLEANED}")
        self._checkpointed = {checkpoints.RECOVERY_POINTS: points, checkpoints.LOG_STARTS: starts}
        await self._open_partitions(
            {
                key: LastKnown(
                    clean=clean,
                    recovery_point=points.get(key, 0),
                    log_start_offset=starts.get(key),
                    cleaned_offset=cleaned.get(key, 0),
                )
                for topic, facts in self.topics.items()
                for key in (TopicPartition(topic, number) for number in range(facts.partitions))
            }
        )
        self.checkpoint()

    def _clear_folder(self, names: list[str]) -> None:
        """Remove what a deletion has left, and set aside what no topic owns."""
        for name in names:
            if name.endswith("-delete"):
                self._disk.remove(f"{self.path}/{name}")
            match = _PARTITION_FOLDER.fullmatch(name)
            if match is None:
                continue
            key = TopicPartition(match[1], int(match[2]))
            topic = self.topics.get(key.topic)
            found = checkpoints.read_topic_id(self._disk, self._folder(key))
            if (
                topic is None
                or key.partition >= topic.partitions
                or found
                not in (
                    None,
                    topic.topic_id,
                )
            ):
                aside = self._set_aside(key, found or self._environment.new_id(), "stray")
                self.recovered.report(
                    logging.WARNING, f"{name} belongs to no topic and is set aside as {aside}"
                )

    async def _open_partitions(self, partitions: Mapping[TopicPartition, LastKnown]) -> None:
        unsynced: list[DiskFile] = []
        side_files: list[DiskFile] = []
        opened = []
        for key, known in partitions.items():
            try:
                log, files, sides = self._open_partition(key, known)
            except OSError as error:
                self._out_of_service(key, error)
                continue
            unsynced += files
            side_files += sides
            opened.append(log)
        failures: Mapping[str, OSError] = {}
        if unsynced:
            try:
                await self._disk.sync(unsynced)
            except SyncFailed as error:
                failures = error.failures
        for file in side_files:
            file.close()
        for log in opened:
            failed = [each for path, each in failures.items() if path.startswith(f"{log.folder}/")]
            if failed:
                key = log.topic_partition
                log.flush_failed(failed[0], partitions[key].recovery_point)
                log.close()
                self._out_of_service(key, failed[0])
                continue
            rewrite.done(self._disk, log.folder)
            self._logs[log.topic_partition] = log
        self.recovered.partitions = len(self._logs)

    def _out_of_service(self, key: TopicPartition, error: OSError) -> None:
        self._offline[key] = f"{key}: {error}"
        self.recovered.report(logging.ERROR, f"{key} is out of service: {error}")

    def _open_partition(
        self, key: TopicPartition, known: LastKnown
    ) -> tuple[LocalPartitionLog, list[DiskFile], list[DiskFile]]:
        facts = self.topics[key.topic]
        settings = self._settings.log_settings(key.topic, facts.configs)
        folder = self._folder(key)
        contents = open_partition(self._disk, folder, settings, known, self.recovered)
        unsynced, side_files = contents.unsynced, contents.side_files
        if checkpoints.read_topic_id(self._disk, folder) is None:
            metadata: list[DiskFile] = []
            content = checkpoints.partition_metadata(facts.topic_id)
            write_unsynced(
                self._disk, f"{folder}/{checkpoints.PARTITION_METADATA}", content, metadata
            )
            write_unsynced(
                self._disk,
                f"{folder}/{checkpoints.LEADER_EPOCHS}",
                checkpoints.LEADER_EPOCHS_CONTENT,
                metadata,
            )
            unsynced += metadata
            side_files += metadata
        log = LocalPartitionLog(
            key, facts.topic_id, self._environment, self.flusher, settings, contents
        )
        log.on_start_moved = self._write_log_starts
        if log.log_end_offset < known.recovery_point:
            unsynced += self._skip(log, known.recovery_point, "was durable up to")
        return log, unsynced, side_files

    async def give_up_offsets(self, given: Mapping[TopicPartition, int]) -> None:
        """See to it that no offset is given to a record twice: ``given`` says up to where offsets
        of partitions are known to have named records. To be called before anybody appends.

        Raises:
            OSError: the disk failed.
        """
        files: list[DiskFile] = []
        for key, offset in given.items():
            log = self._logs.get(key)
            if log is not None and log.failure is None and log.log_end_offset < offset:
                files += self._skip(log, offset, "a share group has seen offsets up to")
        if files:
            await self._disk.sync(files)
            self.checkpoint()

    def _skip(self, log: LocalPartitionLog, offset: int, reason: str) -> list[DiskFile]:
        end = log.log_end_offset
        self.recovered.damaged_batches += 1
        self.recovered.report(
            logging.ERROR,
            f"{log.topic_partition} ends at offset {end}, but {reason} {offset}: data is missing. "
            f"Offsets {end} to {offset - 1} are given up; the next record gets offset {offset}",
        )
        return log.skip_to(offset)

    def _folder(self, key: TopicPartition) -> str:
        return f"{self.path}/{key}"

    def _set_aside(self, key: TopicPartition, topic_id: UUID, suffix: str) -> str:
        name = f"{key.topic[:_SET_ASIDE_NAME_LENGTH]}-{key.partition}.{topic_id.hex}-{suffix}"
        self._disk.rename(self._folder(key), f"{self.path}/{name}")
        return f"{self.path}/{name}"

    # Housekeeping ----------------------------------------------------------------------------

    def enforce_retention(self, now_wall_ms: int) -> int:
        """Delete what is past retention in all logs, write the checkpoints; how many segments went.

        To be called every ``log.retention.check.interval.ms``.
        """
        expired = [log for log in self._logs.values() if log.expire(now_wall_ms)]
        if expired:  # a first file behind the log start means that one was lost
            self._write_log_starts()
        removed = sum(log.remove_expired() for log in self._logs.values())
        self.checkpoint()
        return removed

    def checkpoint(self) -> None:
        """Write recovery points and log starts where they have moved: what the next start need not
        scan.
        """
        points = {key: log.recovery_point for key, log in self._logs.items()}
        self._write_checkpoint(checkpoints.RECOVERY_POINTS, points)
        self._write_log_starts()

    def _write_log_starts(self, _: LocalPartitionLog | None = None) -> None:
        starts = {key: log.log_start_offset for key, log in self._logs.items()}
        self._write_checkpoint(checkpoints.LOG_STARTS, starts)

    def _write_checkpoint(self, name: str, offsets: dict[TopicPartition, int]) -> None:
        """Of partitions that could not be opened the file goes on saying what it said."""
        old = self._checkpointed.get(name, {})
        new = offsets | {key: old[key] for key in self._offline if key in old}
        if new != old:
            checkpoints.write_offsets(self._disk, f"{self.path}/{name}", new)
            self._checkpointed[name] = new

    async def close(self) -> None:
        """Sync everything, write indexes, snapshots, checkpoints and the clean marker, give the
        lock back.

        After a disk error the marker is left out, so that the next start scans.
        """
        async with self._changing:
            for log in self._logs.values():
                if log.failure is None:
                    self.flusher.request(log)
            await self.flusher.idle()
            try:
                await self._write_final_files()
            except OSError as error:
                logger.error("%s: no clean end: %s", self.path, error)
            for log in self._logs.values():
                log.fail(NotLeaderOrFollower("the broker has shut down"))
                log.close()
            self._disk.unlock(f"{self.path}/.lock")

    async def _write_final_files(self) -> None:
        failed = [log for log in self._logs.values() if log.failure is not None]
        files = [file for log in self._logs.values() for file in log.write_final_files()]
        await self._disk.sync(files)
        for file in files:
            file.close()
        self.checkpoint()
        if not failed and not self._offline:
            path = f"{self.path}/{checkpoints.CLEAN_MARKER}"
            self._disk.write_file(path, checkpoints.CLEAN_MARKER_CONTENT)


def check_topic_name(name: str) -> None:
    """Kafka's rule for topic names (class Topic): also what keeps a name from leaving the data
    folder.
    """
    if name in (".", "..") or len(name) > CLIENT_TEXT_LENGTH_MAX or not _TOPIC_NAME.fullmatch(name):
        raise InvalidTopic(
            f"Topic name {name!r} is illegal: up to {CLIENT_TEXT_LENGTH_MAX} ASCII letters, "
            "digits, '.', '_' and '-', and not '.' or '..'"
        )
