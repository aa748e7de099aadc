"""Creates, opens and removes folders of many partitions, off the loop's thread, in slices.

Each slice costs one sync of the data folder, whatever its number of partitions. Between two slices
the loop answers other requests.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, Final, NamedTuple, TypeVar
from uuid import UUID

from sharegroup.model.environment import Disk, DiskFile
from sharegroup.model.ids import TopicPartition
from sharegroup.model.log_settings import LogSettings
from sharegroup.storage import checkpoints, lost_offsets, rewrite
from sharegroup.storage.disk import SyncFailed
from sharegroup.storage.files import write_unsynced
from sharegroup.storage.log_contents import LogContents
from sharegroup.storage.recovery import LastKnown, Recovered, open_partition

logger = logging.getLogger(__name__)

_SET_ASIDE_NAME_LENGTH: Final = 200
"""Characters of the old name that a folder keeps when it is set aside. With id and suffix the new
name stays below the file system's limit of 255.
"""
SLICE: Final = 64
"""Partitions opened or removed in one slice: some ten milliseconds of a thread."""

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


class WantedPartition(NamedTuple):
    """A partition to open; a missing folder is created."""

    key: TopicPartition
    folder: str
    topic_id: UUID
    settings: LogSettings
    known: LastKnown


class OpenedPartition(NamedTuple):
    """The result for one partition: its contents, or the error."""

    wanted: WantedPartition
    contents: LogContents | None
    error: OSError | None


def slices(items: Sequence[_Item], size: int = SLICE) -> list[list[_Item]]:
    """``items`` in their order, ``size`` at a time."""
    rest = iter(items)
    return list(iter(lambda: list(islice(rest, size)), []))


class PartitionFolders:
    """The partition folders of one data folder, and the running work on them.

    Args:
        wall_ms: milliseconds since 1970.
    """

    def __init__(self, disk: Disk, path: str, wall_ms: Callable[[], int]) -> None:
        self._disk = disk
        self._wall_ms = wall_ms
        self._path = path
        self._working: set[asyncio.Future[Any]] = set()
        self._leftovers: dict[str, None] = {}

    def path_of(self, key: TopicPartition) -> str:
        """The folder of a partition."""
        return f"{self._path}/{key}"

    def aside(self, key: TopicPartition, topic_id: UUID, suffix: str) -> tuple[str, str]:
        """(the folder of a partition, its new path when it is set aside)."""
        name = f"{key.topic[:_SET_ASIDE_NAME_LENGTH]}-{key.partition}.{topic_id.hex}-{suffix}"
        return self.path_of(key), f"{self._path}/{name}"

    async def run(self, work: Callable[[], _Result]) -> _Result:
        """Run ``work`` off the loop's thread and return its result. The work runs to its end even
        if the caller is cancelled.
        """
        task = asyncio.ensure_future(self._disk.run(work))
        self._working.add(task)
        task.add_done_callback(self._working.discard)
        return await asyncio.shield(task)

    async def idle(self) -> None:
        """Return when no work is running."""
        while self._working:
            await asyncio.wait(set(self._working))

    async def open(
        self, wanted: Sequence[WantedPartition], recovered: Recovered
    ) -> list[OpenedPartition]:
        """Open a slice of partitions; everything written for it is durable on return."""
        failures = await self._write_anew(wanted)
        opened = await self.run(lambda: self._open_all(wanted, failures, recovered))
        failures = {}
        unsynced = [file for one in opened if one.contents for file in one.contents.unsynced]
        try:
            if unsynced:
                await self._disk.sync(unsynced)
        except SyncFailed as error:
            failures = error.failures
        return [self._synced(one, failures) for one in opened]

    async def _write_anew(self, wanted: Sequence[WantedPartition]) -> dict[str, OSError]:
        """Write the logs anew whose sync has failed. Returns the folders where this fails."""
        failures: dict[str, OSError] = {}
        for folder, offset in (await self.run(lambda: self._marked(wanted, failures))).items():
            try:
                copies = await self.run(partial(rewrite.copied, self._disk, folder, offset))
                try:
                    await self._disk.sync([copy for copy, _ in copies])
                finally:
                    rewrite.close(copies)
                paths = [path for _, path in copies]
                await self.run(partial(rewrite.exchange, self._disk, paths))
            except OSError as error:
                failures[folder] = error
        return failures

    def _marked(
        self, wanted: Sequence[WantedPartition], failures: dict[str, OSError]
    ) -> dict[str, int]:
        """The folders with a failed sync: from which offset on they are written anew."""
        marked = {}
        for each in wanted:
            try:
                offset = rewrite.pending(self._disk, each.folder)
            except OSError as error:
                failures[each.folder] = error
            else:
                if offset is not None:
                    marked[each.folder] = offset
        return marked

    def _open_all(
        self,
        wanted: Sequence[WantedPartition],
        failures: Mapping[str, OSError],
        recovered: Recovered,
    ) -> list[OpenedPartition]:
        opened = []
        try:
            self._disk.make_folders([each.folder for each in wanted])
        except OSError as error:
            return [OpenedPartition(each, None, error) for each in wanted]
        for each in wanted:
            if each.folder in failures:
                opened.append(OpenedPartition(each, None, failures[each.folder]))
                continue
            try:
                opened.append(OpenedPartition(each, self._open(each, recovered), None))
            except OSError as error:
                opened.append(OpenedPartition(each, None, error))
        return opened

    def _open(self, wanted: WantedPartition, recovered: Recovered) -> LogContents:
        disk, folder = self._disk, wanted.folder
        contents = open_partition(
            disk, folder, wanted.settings, wanted.known, recovered, self._wall_ms()
        )
        try:
            self._skip_lost(wanted, contents, recovered)
            if checkpoints.read_topic_id(disk, folder) != wanted.topic_id:
                sides = contents.side_files
                first = len(sides)
                metadata = checkpoints.partition_metadata(wanted.topic_id)
                write_unsynced(disk, f"{folder}/{checkpoints.PARTITION_METADATA}", metadata, sides)
                epochs = checkpoints.LEADER_EPOCHS_CONTENT
                write_unsynced(disk, f"{folder}/{checkpoints.LEADER_EPOCHS}", epochs, sides)
                contents.unsynced += sides[first:]
        except OSError:
            close(contents)
            raise
        return contents

    def _skip_lost(
        self, wanted: WantedPartition, contents: LogContents, recovered: Recovered
    ) -> None:
        """If records that were durable are missing, never use their offsets again."""
        end = contents.segments[-1].next_offset
        durable = max(wanted.known.recovery_point, contents.reached)
        if end >= durable:
            return
        lost_offsets.report(recovered, wanted.key, end, lost_offsets.DURABLE, durable)
        sides: list[DiskFile] = []
        file = lost_offsets.skip(self._disk, contents.segments, durable, sides)
        contents.side_files += sides
        contents.unsynced += [*sides, file]
        contents.recovery_point = durable

    def _synced(self, opened: OpenedPartition, failures: dict[str, OSError]) -> OpenedPartition:
        contents = opened.contents
        if contents is None:
            return opened
        for file in contents.side_files:
            file.close()
        paths = [file.path for file in contents.unsynced]
        failure = next((failures[path] for path in paths if path in failures), None)
        wanted = opened.wanted
        if failure is None:
            rewrite.done(self._disk, wanted.folder)
            return opened
        # Never cut: clients may have been told of records behind this recovery point, which is as
        # old as the last checkpoint.
        rewrite.mark(self._disk, wanted.folder, wanted.known.recovery_point)
        close(contents)
        return OpenedPartition(wanted, None, failure)

    async def clear(self, keys: Sequence[TopicPartition], new_id: UUID) -> None:
        """Set aside folders that a failed deletion has left under the names of new partitions."""
        pairs = [self.aside(key, new_id, "stray") for key in keys]
        await self._rename(pairs)
        for old, _ in pairs:  # what is there from now on is in use
            self._leftovers.pop(old, None)

    async def remove_partitions(self, keys: Sequence[TopicPartition], topic_id: UUID) -> bool:
        """Remove the folders of partitions that belong to no topic any more. Returns False if some
        could not be removed; :meth:`remove_leftovers` tries again.
        """
        pairs = [self.aside(key, topic_id, "delete") for key in keys]
        paths = [new for _, new in pairs]
        try:
            await self._rename(pairs)
        except OSError as error:  # no room for longer names: remove them under their old ones
            logger.warning("folders of %s cannot be renamed: %s", keys[0].topic, error)
            paths += [old for old, _ in pairs]
        left = await self._remove(paths)
        if left:
            self._leftovers.update(dict.fromkeys(left))
            path, reason = next(iter(left.items()))
            logger.warning(
                "%d folders will be removed later. The first is %s: %s", len(left), path, reason
            )
        return not left

    async def remove_leftovers(self) -> None:
        """Remove the folders that could not be removed before."""
        tried = list(self._leftovers)
        left = await self._remove(tried)
        for path in tried:
            if path not in left:
                self._leftovers.pop(path, None)

    async def _rename(self, pairs: Sequence[tuple[str, str]]) -> None:
        for some in slices(pairs, 8 * SLICE):
            await self.run(partial(self._rename_all, some))

    async def _remove(self, paths: Sequence[str]) -> dict[str, OSError]:
        """Remove folders. Returns the paths that remain, at least in part, each with its error."""
        left: dict[str, OSError] = {}
        for some in slices(paths):
            left |= await self.run(partial(self._remove_all, some))
        return left

    def _rename_all(self, pairs: Sequence[tuple[str, str]]) -> None:
        self._disk.rename_all([pair for pair in pairs if self._disk.exists(pair[0])])

    def _remove_all(self, paths: Sequence[str]) -> dict[str, OSError]:
        left = {}
        for path in paths:
            try:
                self._disk.remove(path)
            except OSError as error:
                left[path] = error
        return left


def close(contents: LogContents) -> None:
    """Close the files of a partition whose opening has failed."""
    for file in (*contents.side_files, *(segment.file for segment in contents.segments)):
        file.close()
