"""The offsets that a data folder's checkpoint files hold: recovery points, log starts, and how
far the cleaner has gone.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from sharegroup.model.environment import Disk
from sharegroup.model.ids import TopicPartition
from sharegroup.storage import checkpoints, gaps
from sharegroup.storage.partition_log import LocalPartitionLog
from sharegroup.storage.recovery import LastKnown, Recovered
from sharegroup.storage.reserve import Reserve


class OffsetCheckpoints:
    """Reads and writes the checkpoint files of one data folder.

    A partition whose log could not be opened keeps its line in each file.

    Args:
        logs: the logs of the open partitions.
        offline: the partitions whose log could not be opened. Each write looks at both anew.
    """

    def __init__(
        self,
        disk: Disk,
        folder: str,
        reserve: Reserve,
        logs: Mapping[TopicPartition, LocalPartitionLog],
        offline: Mapping[TopicPartition, str],
    ) -> None:
        self._disk = disk
        self._folder = folder
        self._reserve = reserve
        self._logs = logs
        self._offline = offline
        self._written: dict[str, dict[TopicPartition, int]] = {}

    def load(
        self, partitions: Iterable[TopicPartition], recovered: Recovered, *, clean: bool
    ) -> dict[TopicPartition, LastKnown]:
        """What the files say about each partition. ``clean``: the last shutdown was clean."""
        points = self._read(checkpoints.RECOVERY_POINTS, recovered)
        starts = self._read(checkpoints.LOG_STARTS, recovered)
        cleaned = self._read(checkpoints.CLEANED, recovered)
        sparse = self._read(checkpoints.SPARSE, recovered)
        self._written = {
            checkpoints.RECOVERY_POINTS: points,
            checkpoints.LOG_STARTS: starts,
            checkpoints.CLEANED: cleaned,
            checkpoints.SPARSE: sparse,
        }
        return {
            key: LastKnown(
                clean=clean,
                recovery_point=points.get(key, 0),
                log_start_offset=starts.get(key),
                cleaned_offset=max(cleaned.get(key, 0), sparse.get(key, 0)),
                first_dirty_offset=cleaned.get(key, 0),
                gaps_below=gaps.foreign_until(cleaned.get(key, 0), sparse.get(key, 0)),
            )
            for key in partitions
        }

    def write(self) -> None:
        """Write the files whose offsets have changed. Raises OSError."""
        points = {key: log.recovery_point for key, log in self._logs.items()}
        self._write(checkpoints.RECOVERY_POINTS, points)
        self.write_log_starts()
        self.write_cleaned()

    def write_cleaned(self) -> None:
        """Write how far the cleaner has gone, if that has changed. Raises OSError."""
        logs = self._logs.items()
        sparse = {key: log.cleaning.sparse_below for key, log in logs}
        cleaned = {key: log.cleaning.first_dirty for key, log in logs}
        for name, offsets in ((checkpoints.SPARSE, sparse), (checkpoints.CLEANED, cleaned)):
            self._write(name, {key: offset for key, offset in offsets.items() if offset})

    def write_log_starts(self) -> None:
        """Write the log starts if one has changed. Raises OSError."""
        starts = {key: log.log_start_offset for key, log in self._logs.items()}
        self._write(checkpoints.LOG_STARTS, starts)

    def forget(self, keys: Iterable[TopicPartition]) -> None:
        """Remove partitions that have no log from the files, before new ones get their names.
        Raises OSError.
        """
        if any(key in offsets for offsets in self._written.values() for key in keys):
            self.write()

    def _read(self, name: str, recovered: Recovered) -> dict[TopicPartition, int]:
        """The offsets in a file; empty if the file is damaged, so that recovery scans all logs."""
        try:
            return checkpoints.read_offsets(self._disk, f"{self._folder}/{name}")
        except checkpoints.DamagedCheckpoint as error:
            recovered.report(logging.ERROR, f"{error}. It is not used; the logs are scanned")
            return {}

    def _write(self, name: str, offsets: dict[TopicPartition, int]) -> None:
        old = self._written.get(name, {})
        new = offsets | {key: old[key] for key in self._offline if key in old}
        if new != old:
            path = f"{self._folder}/{name}"
            self._reserve.spend(lambda: checkpoints.write_offsets(self._disk, path, new))
            self._written[name] = new
