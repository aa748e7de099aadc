"""The log cleaner: keeps the last record of each key in logs with ``cleanup.policy`` compact (Kafka
class LogCleaner).

The cleaner reads and writes off the loop's thread, a slice at a time. It exchanges segments on the
loop's thread, in one step: a reader sees the old segments or the new one. Damage that the cleaner
finds is quarantined as everywhere; the damaged segment stays as it is, and so do the tombstones of
the log. After a crash nothing is lost, and the next run begins again at the old first dirty offset.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from functools import partial

from sharegroup.model.environment import Disk, Environment
from sharegroup.model.errors import KafkaStorageError
from sharegroup.model.store import CleaningFacts
from sharegroup.records.keys import SECRET_BYTES, key_table
from sharegroup.storage import swapping
from sharegroup.storage.cleaner.clean_run import BrokenSegment, CleanedGroup, CleanRun
from sharegroup.storage.cleaner.next_log import (
    Candidate,
    CleanableLog,
    dirty_ratio,
    filthiest,
    is_uncleanable,
)
from sharegroup.storage.failures import DiskFailures
from sharegroup.storage.partition_folders import PartitionFolders
from sharegroup.storage.segment import Segment

logger = logging.getLogger(__name__)


class Gone(Exception):
    """The log, or a segment of it, was deleted while it was cleaned, or the store closes."""


class Cleaner:
    """Cleans the logs of one data folder, one at a time.

    Args:
        logs: all open logs; each run iterates over them anew.
        checkpoint: writes how far the logs are cleaned, durably; raises OSError.
    """

    def __init__(
        self,
        environment: Environment,
        folders: PartitionFolders,
        failures: DiskFailures,
        logs: Collection[CleanableLog],
        checkpoint: Callable[[], None],
    ) -> None:
        self._disk: Disk = environment.disk
        self._entropy = environment.entropy
        self._folders = folders
        self._failures = failures
        self._logs = logs
        self._checkpoint = checkpoint
        self._running: asyncio.Task[bool] | None = None
        self._closing = False
        self._clock = environment.clock
        self._done = CleaningFacts()

    def facts(self, now_ms: int) -> CleaningFacts:
        """What the cleaner has done since the start, and what is dirty. ``now_ms``: wall clock."""
        ratios = (dirty_ratio(log, now_ms) for log in self._logs)
        return replace(
            self._done,
            dirty_ratio=max(ratios, default=0.0),
            uncleanable=sum(map(is_uncleanable, self._logs)),
        )

    async def clean(self, now_ms: int, key_bytes_max: int) -> bool:
        """Clean the log that needs it most. Returns whether a log was cleaned; False if no log
        needs it, or if cleaning failed for now. ``now_ms``: wall clock.

        ``key_bytes_max``: memory for the keys (Kafka's ``log.cleaner.dedupe.buffer.size``).
        """
        if self._running is not None or self._closing:
            return False
        wanted = filthiest(self._logs, now_ms)
        if wanted is None:
            return False
        task = asyncio.ensure_future(self._clean(wanted, now_ms, key_bytes_max))
        task.add_done_callback(self._ended)
        self._running = task
        return await asyncio.shield(task)

    async def close(self) -> None:
        """End a run after its current slice, and clean nothing any more."""
        self._closing = True
        if self._running is not None:
            await asyncio.wait([self._running])

    def _ended(self, _task: asyncio.Task[bool]) -> None:
        self._running = None

    async def _clean(self, wanted: Candidate, now_ms: int, key_bytes_max: int) -> bool:
        log = wanted.log
        keys = key_table(self._entropy(SECRET_BYTES), key_bytes_max)
        run = CleanRun(self._disk, wanted, keys, now_ms)
        began_ms, written = self._clock.monotonic_ms(), 0
        try:
            await self._slices(log, run.read_keys())
            for group in run.groups():
                await self._replace(log, group)
                written += group.size
            log.cleaning.cleaned(run.end_offset)
            self._checkpoint()
        except Gone:
            return False
        except BrokenSegment as broken:
            segment = broken.segment
            if log.failure is None and _all_present(log, [segment]):
                segment.take_in(broken.before, broken.broken)
            return False
        except OSError as error:
            if log.failure is None and _all_present(log, wanted.segments):
                self._failures.of_log(log, error)
            return False
        self._note(wanted, written, (self._clock.monotonic_ms() - began_ms) / 1000)
        logger.info("%s is clean up to offset %d", log.topic_partition, run.end_offset)
        return True

    def _note(self, wanted: Candidate, written: int, seconds: float) -> None:
        done = self._done
        self._done = replace(
            done,
            runs=done.runs + 1,
            read_bytes=done.read_bytes + sum(segment.size for segment in wanted.segments),
            written_bytes=done.written_bytes + written,
            last_run_seconds=seconds,
            last_run_wall_ms=self._clock.wall_ms(),
        )

    async def _slices(self, log: CleanableLog, slices: Iterator[None]) -> None:
        more = True
        while more:
            more = await self._folders.run(partial(_step, slices))
            self._check(log, ())

    async def _replace(self, log: CleanableLog, group: CleanedGroup) -> None:
        """Write a group anew and put it in the place of the old segments."""
        if not await self._written(log, group):
            return
        await self._folders.run(partial(swapping.commit, self._disk, group.path))
        if log.failure is not None:
            raise Gone
        if not _all_present(log, group.segments):
            swapping.discard(self._disk, group.path)
            raise Gone
        self._exchange(log, group)

    async def _written(self, log: CleanableLog, group: CleanedGroup) -> bool:
        """Write a group anew, durably. Returns False if the old segments stay. Then, and after an
        error, what was written is removed: the disk may be full of it."""
        done = False
        try:
            await self._slices(log, group.write())
            if group.changed and group.fits:
                await self._disk.sync(group.files)
                self._check(log, group.segments)
                log.cleaning.sparse_below = max(log.cleaning.sparse_below, group.end_offset)
                self._checkpoint()
                done = True
        finally:
            group.close()
            if not done and log.failure is None:
                await self._discard(group)
        return done

    async def _discard(self, group: CleanedGroup) -> None:
        try:
            await self._folders.run(partial(swapping.discard, self._disk, group.path))
        except OSError as error:  # the next run, or the next start, removes it
            logger.warning("what was cleaned of %s.log cannot be removed: %s", group.path, error)

    def _exchange(self, log: CleanableLog, group: CleanedGroup) -> None:
        """Let the log use the new segment. If this fails, the next start finishes the exchange."""
        old = group.segments
        try:
            swapping.finish(self._disk, group.path, [segment.path for segment in old[1:]])
            log.cleaning.replace(old, self._opened(log, group))
        except OSError as error:
            log.fail(KafkaStorageError(f"{log.topic_partition}: cleaning failed: {error}"))
            raise Gone from error
        for segment in old:
            segment.close()

    def _opened(self, log: CleanableLog, group: CleanedGroup) -> Segment:
        interval = group.segments[0].indexes.interval_bytes
        sparse_below = log.cleaning.sparse_below
        segment = Segment(self._disk, log.folder, group.base_offset, interval, sparse_below)
        segment.next_offset = group.end_offset
        segment.transactions = group.transactions
        return segment

    def _check(self, log: CleanableLog, segments: Collection[Segment]) -> None:
        """Raise Gone if the log is out of service, or no longer has all of ``segments``."""
        if self._closing or log.failure is not None or not _all_present(log, segments):
            raise Gone


def _all_present(log: CleanableLog, segments: Collection[Segment]) -> bool:
    present = log.cleaning.segments
    return all(segment in present for segment in segments)


def _step(slices: Iterator[None]) -> bool:
    """Do one slice. Returns whether there may be more."""
    return next(slices, True) is None
