"""The partitions of one data folder: the open logs, and the partitions that could not be opened."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Protocol

from sharegroup.model.environment import DiskFile, Environment
from sharegroup.model.errors import KafkaStorageError, UnknownTopicOrPartition
from sharegroup.model.ids import TopicPartition
from sharegroup.model.log_settings import LogSettings
from sharegroup.model.store import Configs
from sharegroup.storage import id_recovery
from sharegroup.storage.catalog import Catalog
from sharegroup.storage.failures import DiskFailures
from sharegroup.storage.flush import Flusher
from sharegroup.storage.partition_folders import (
    OpenedPartition,
    PartitionFolders,
    WantedPartition,
    close,
)
from sharegroup.storage.partition_log import LocalPartitionLog
from sharegroup.storage.recovery import LastKnown, Recovered

SettingsOf = Callable[[str, Configs], LogSettings]
"""(topic, its configs) → the effective settings of its logs."""


class StartMoved(Protocol):
    """Makes the moved log start of one partition durable; raises OSError."""

    def __call__(self, log: LocalPartitionLog, /) -> None: ...


class Partitions:
    """Opens logs. The caller adds an opened log to :attr:`logs` to make it visible."""

    def __init__(
        self,
        environment: Environment,
        catalog: Catalog,
        folders: PartitionFolders,
        settings_of: SettingsOf,
        start_moved: StartMoved,
    ) -> None:
        self.logs: dict[TopicPartition, LocalPartitionLog] = {}
        self.offline: dict[TopicPartition, str] = {}
        """The partitions whose log could not be opened, each with the reason."""
        self.failures = DiskFailures(environment.clock)
        self.flusher = Flusher(environment.disk, self.failures)
        self.recovered = Recovered()
        self.folders = folders
        self._environment = environment
        self._catalog = catalog
        self._settings_of = settings_of
        self._start_moved = start_moved

    def find(self, key: TopicPartition) -> LocalPartitionLog:
        """The log of one partition; raises as ``DataFolder.log``."""
        log = self.logs.get(key)
        if log is None:
            if key in self.offline:
                raise KafkaStorageError(self.offline[key])
            raise UnknownTopicOrPartition
        return log

    def settings(self, topic: str) -> LogSettings:
        """The effective settings of the logs of a topic in the catalog."""
        return self._settings_of(topic, self._catalog.facts.topics[topic].configs)

    def configure(self, topic: str | None = None) -> None:
        """Apply the current settings to the logs of one topic, or of all topics."""
        settings: dict[str, LogSettings] = {}
        for key, log in self.logs.items():
            if topic is None or key.topic == topic:
                if key.topic not in settings:
                    settings[key.topic] = self.settings(key.topic)
                log.configure(settings[key.topic])

    async def open(
        self, keys: Sequence[TopicPartition], known: Mapping[TopicPartition, LastKnown]
    ) -> list[OpenedPartition]:
        """Open a slice of the catalog's partitions; see ``PartitionFolders.open``."""
        settings = {topic: self.settings(topic) for topic in {key.topic for key in keys}}
        opened = await self.folders.open(
            [
                WantedPartition(
                    key,
                    self.folders.path_of(key),
                    self._catalog.facts.topics[key.topic].topic_id,
                    settings[key.topic],
                    known.get(key, LastKnown()),
                )
                for key in keys
            ],
            self.recovered,
        )
        return [await self._with_ids(one) for one in opened]

    async def _with_ids(self, opened: OpenedPartition) -> OpenedPartition:
        """The partition with its message ids, if its topic has a window for them."""
        contents, settings = opened.contents, opened.wanted.settings
        if contents is None or not settings.deduplication_window_ms:
            return opened
        window_ms, clock = settings.deduplication_window_ms, self._environment.clock
        now = id_recovery.Now(clock.monotonic_ms(), clock.wall_ms())
        where = self._environment, contents.folder, contents.segments
        load = partial(id_recovery.load, *where, window_ms, now)
        files: list[DiskFile] = []
        try:
            contents.ids, files = await self.folders.run(load)
            if files:
                await self._environment.disk.sync(files)
        except OSError as error:
            close(contents)
            return OpenedPartition(opened.wanted, None, error)
        finally:
            for file in files:
                file.close()
        return opened

    def log_of(self, opened: OpenedPartition) -> LocalPartitionLog:
        """The log of an opened partition."""
        wanted = opened.wanted
        assert opened.contents is not None, "it could not be opened"
        log = LocalPartitionLog(
            wanted.key,
            wanted.topic_id,
            self._environment,
            self.flusher,
            wanted.settings,
            opened.contents,
            self.failures,
        )
        log.on_start_moved = self._start_moved
        return log

    async def open_new(self, keys: Sequence[TopicPartition]) -> list[LocalPartitionLog]:
        """Open a slice of new partitions. If one cannot be opened, no partition of the slice is.

        Raises:
            OSError: a partition cannot be opened.
        """
        opened = await self.open(keys, {})
        logs = [self.log_of(one) for one in opened if one.error is None]
        for one in opened:
            if one.error is not None:
                for log in logs:
                    log.close()
                raise one.error
        return logs
