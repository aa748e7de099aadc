"""One partition's log in local segment files (``model.log.TrustedLog``; Kafka class UnifiedLog).

Invariants (:meth:`LocalPartitionLog.check_invariants`):

* log start ≤ high watermark ≤ log end, and these three never move back;
* segments are contiguous: each begins where the one before it ends; appends go to the last one;
* under the durable policy the high watermark never passes the end of the last sync.

Everything runs on the event loop's thread, except for the flusher's syncs. After a failure, or the
deletion of its topic, a log answers every call with the same error.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from uuid import UUID

from sharegroup.model.environment import DiskFile, Environment
from sharegroup.model.errors import KafkaError, KafkaStorageError, OffsetOutOfRange
from sharegroup.model.ids import TopicPartition
from sharegroup.model.log import (
    AbortedTransaction,
    Appended,
    DamagedOffsets,
    LogOffsets,
    ReadableLog,
    ReadBatches,
    Recompression,
)
from sharegroup.model.log_settings import FlushPolicy, LogSettings, TimestampType
from sharegroup.model.offsets import OFFSET_MAX
from sharegroup.model.retention import Needed
from sharegroup.storage import (
    id_recovery,
    lost_offsets,
    producers,
    retention,
    rewrite,
    rolling,
    segments,
    timestamp_lookup,
)
from sharegroup.storage.cleaner.next_log import LogCleaning
from sharegroup.storage.failures import DiskFailures, lack_of
from sharegroup.storage.flush import Flusher
from sharegroup.storage.log_contents import LogContents, LogStatistics
from sharegroup.storage.reserve import Spend
from sharegroup.storage.segment import Segment
from sharegroup.storage.segments import Mark
from sharegroup.storage.stamping import stamped
from sharegroup.storage.unsynced_files import UnsyncedFiles
from sharegroup.storage.validation import check_batches
from sharegroup.storage.waiters import DurableWaiters
from sharegroup.transactions.producers import ProducerTable
from sharegroup.wire.batch import BatchHeader, parse_headers

logger = logging.getLogger(__name__)


class LocalPartitionLog:
    """See the module. Made by ``data_folder``."""

    leader_epoch, is_followed = 0, True

    def __init__(
        self,
        topic_partition: TopicPartition,
        topic_id: UUID,
        environment: Environment,
        flusher: Flusher,
        settings: LogSettings,
        contents: LogContents,
        failures: DiskFailures,
    ) -> None:
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.settings = settings
        self.folder = contents.folder
        self.on_advance: Callable[[ReadableLog], None] | None = None
        self.on_start_moved: Callable[[LocalPartitionLog], None] | None = None
        """Called by :meth:`delete_records` to make the new log start durable; raises OSError."""
        self._environment = environment
        self._flusher = flusher
        self._segments = contents.segments
        self._producers = contents.producers
        self.ids = contents.ids
        self.cleaning = LogCleaning(contents)
        self._log_start = contents.log_start_offset
        self._recovery_point = contents.recovery_point
        self._end = self._segments[-1].next_offset
        self._visible = self._end_mark()
        self._flushing = self._visible
        self._flush_later = False
        self._unsynced = UnsyncedFiles()
        self._waiters = DurableWaiters()
        self._visible_by_system = 0
        self._failures = failures
        self._failure: KafkaError | None = None

    # Offsets ---------------------------------------------------------------------------------

    @property
    def log_start_offset(self) -> int:
        """The first offset that may be read."""
        return self._log_start

    @property
    def high_watermark(self) -> int:
        """The end of the readable records."""
        return self._visible.offset

    @property
    def last_stable_offset(self) -> int:
        """The end of the records that a read_committed reader may see."""
        end = self._visible.offset
        unstable = self._producers.transactions.first_unstable(end)
        return end if unstable is None else min(end, max(unstable, self._log_start))

    @property
    def log_end_offset(self) -> int:
        """The offset of the next record."""
        return self._end

    async def offsets(self) -> LogOffsets:
        """All of them. See ``ReadableLog``."""
        return LogOffsets(self._log_start, self.last_stable_offset, self._visible.offset, self._end)

    def follow(self, is_awaited: Callable[[], bool]) -> None:
        """It knows what comes."""

    @property
    def recovery_point(self) -> int:
        """The end of the records that are known to be durable."""
        return self._recovery_point

    @property
    def producer_states(self) -> ProducerTable:
        """What this partition knows of its producers."""
        return self._producers

    @property
    def failure(self) -> KafkaError | None:
        """Why the log is out of service; None while it is in service."""
        return self._failure

    @property
    def record_bytes_max(self) -> int:
        """The largest record of a compressed batch, unpacked."""
        return self.settings.record_bytes_max

    @property
    def recompression(self) -> Recompression | None:
        """How batches must be compressed. See ``AppendableLog``."""
        own = self.settings
        how = (own.codec_level, own.max_message_bytes)
        return None if own.codec is None else Recompression(own.codec, *how)

    def configure(self, settings: LogSettings) -> None:
        """Use these settings from now on."""
        self.settings = settings
        where = self._environment, self.folder, self._end
        self.ids = id_recovery.configured(self.ids, settings, where, self._unsynced)
        if self._recovery_point < self._end and settings.flush_policy is FlushPolicy.DURABLE:
            self._flusher.request(self)

    # Appending -------------------------------------------------------------------------------

    async def append(self, batches: bytes) -> Appended:
        """Check and append a producer's batches. See ``AppendableLog.append``."""
        self._check_in_service()
        now_ms = self._environment.clock.wall_ms()
        headers = check_batches(batches, self.settings, now_ms)
        duplicate = producers.duplicate_of(self._producers, headers[0])
        if self.ids is None:
            return duplicate or self._append(batches, headers, now_ms)
        self.ids.keep(self.last_stable_offset, self._unsynced)
        append = partial(self._append, now_ms=now_ms)
        return self.ids.append(batches, headers, duplicate or self._end, append)

    def append_trusted(self, batches: bytes, *, flush: bool = True) -> Appended:
        """Append batches of the broker itself without checks. See ``TrustedLog``."""
        self._check_in_service()
        now_ms = self._environment.clock.wall_ms()
        return self._append(batches, parse_headers(batches), now_ms, flush=flush)

    def _append(
        self, batches: bytes, headers: Sequence[BatchHeader], now_ms: int, *, flush: bool = True
    ) -> Appended:
        self._failures.check_appends()
        by_log = self.settings.timestamp_type is TimestampType.LOG_APPEND_TIME
        append_time = now_ms if by_log else -1
        try:
            segment = self._segment_for(len(batches), headers, now_ms)
            epoch = self.leader_epoch
            segment.file.append(stamped(batches, headers, self._end, epoch, append_time))
        except OSError as error:
            raise self._disk_failed(error) from error
        base_offset, known = self._end, self._producers
        for header in headers:
            max_timestamp = header.max_timestamp if append_time < 0 else append_time
            segment.note(header, self._end, segment.size, max_timestamp)
            last_offset = self._end + header.last_offset_delta
            if header.producer_id >= 0:  # its batch is the only one
                aborted = producers.note(known, header, self._end, lambda: batches, now_ms)
                if aborted is not None:
                    segment.transactions.append(aborted)
                if self.ids is not None:
                    self.ids.ended(header, batches)
            segment.size += header.length
            self._end = segment.next_offset = last_offset + 1
        if self.settings.flush_policy is FlushPolicy.SYSTEM:
            self._visible_by_system = self._end
            self._advance(self._end_mark())
        elif flush:
            self._flusher.request(self)
        else:
            self._flush_later = True
        return Appended(base_offset, self._end - 1, append_time)

    def _segment_for(self, size: int, headers: Sequence[BatchHeader], now_ms: int) -> Segment:
        segment = self._segments[-1]
        if rolling.is_full(segment, size, headers, self._end, self.settings, now_ms):
            segment = self._roll()
        segment.begun_ms = segment.begun_ms or now_ms
        return segment

    def _roll(self, *, indexed: bool = True) -> Segment:
        """Seal the active segment and begin the next one; both are durable after the next round."""
        sealed = self._segments[-1]
        side_files: list[DiskFile] = []
        disk, interval = self._environment.disk, self.settings.index_interval_bytes
        where = disk, self.folder, sealed, self._end
        segment = rolling.roll(*where, self._producers, interval, side_files, indexed=indexed)
        if self._recovery_point < self._end:
            self._unsynced.add_sealed(sealed.file)
        self._unsynced.add_side_files(side_files)
        self._segments.append(segment)
        self._flusher.request(self)
        return segment

    # Durability (called by the flusher) ------------------------------------------------------

    async def wait_durable(self, end_offset: int) -> None:
        """Return once all records below ``end_offset`` are durable. See ``AppendableLog``."""
        if end_offset <= self._visible.offset:
            return
        self._check_in_service()
        if self._flush_later:
            self._flusher.request(self)
        await self._waiters.add(end_offset)

    def begin_flush(self) -> Sequence[DiskFile]:
        """The files to sync so that all records appended so far become durable."""
        if self._failure is not None or (self._recovery_point == self._end and not self._unsynced):
            return ()
        self._flush_later = False
        self._flushing = self._end_mark()
        return [*self._unsynced.take(), self._flushing.segment.file]

    def end_flush(self) -> None:
        """The records that :meth:`begin_flush` covered are durable."""
        if self._failure is not None:
            return
        self._unsynced.close_synced()
        self._recovery_point = max(self._recovery_point, self._flushing.offset)
        segments.note_durable(self._segments, self._flushing.segment)
        if self._flushing.offset > self._visible.offset:
            self._advance(self._flushing)

    def flush_failed(self, error: OSError, durable_offset: int = OFFSET_MAX) -> None:
        """A sync has failed: take the log out of service until the next start, which writes the
        records from ``durable_offset`` on anew, or from the recovery point if that is lower."""
        durable = min(self._recovery_point, durable_offset)
        if not rewrite.mark(self._environment.disk, self.folder, durable):
            rewrite.cut(self._segments, durable)
        self.fail(KafkaStorageError(f"{self.topic_partition}: sync failed: {error}"))

    def flush_postponed(self, files: Sequence[DiskFile]) -> None:
        """The sync has not begun: the next round syncs these files again."""
        self._unsynced.put_back(files[:-1])

    def _end_mark(self) -> Mark:
        segment = self._segments[-1]
        return Mark(self._end, segment, segment.size)

    def _advance(self, mark: Mark) -> None:
        self._visible = mark
        self._waiters.reached(mark.offset)
        if self.on_advance is None:
            return
        try:
            self.on_advance(self)
        except Exception:  # a bug in the callback must not stop the flush of other logs
            logger.exception("%s: the high watermark callback failed", self.topic_partition)

    # Reading ---------------------------------------------------------------------------------

    async def read(
        self, offset: int, max_bytes: int, *, end_offset: int | None = None, stored: bool = False
    ) -> ReadBatches:
        """Whole batches from the one that holds ``offset`` on. See ``ReadableLog.read``."""
        self._check_in_service()
        if not self._log_start <= offset <= self._end:
            raise OffsetOutOfRange(
                f"Received request for offset {offset} for partition {self.topic_partition}, "
                f"but we only have log segments from offset {self._log_start} up to {self._end}."
            )
        visible = self._visible.offset
        end = visible if end_offset is None else min(end_offset, visible)
        data, found = b"", None
        if offset < end:
            span = self._segments, offset, max_bytes, end, self._visible
            try:  # each fetch comes by here, so no context manager
                found = segments.stored(*span) if stored else None
                data = b"" if found is not None else segments.read(*span)
            except OSError as error:
                raise self._disk_failed(error) from error
        return ReadBatches(data, visible, self._log_start, found)

    def after_damage(self, offset: int) -> int:
        """``offset``, or the first offset after the damaged range that contains it."""
        return self._segments[segments.index_of(self._segments, offset)].after_damage(offset)

    def damages(self) -> list[DamagedOffsets]:
        """The known damaged ranges. See ``OwnedLog``."""
        return segments.damaged(self._segments, self._log_start)

    async def aborted_transactions(
        self, start_offset: int, end_offset: int
    ) -> list[AbortedTransaction]:
        """The aborted transactions with batches in the range. See ``ReadableLog``."""
        return segments.aborted(self._segments, start_offset, end_offset)

    async def offset_for_timestamp(self, timestamp_ms: int) -> tuple[int, int] | None:
        """(offset, timestamp) of the first visible record at or after ``timestamp_ms``, or None."""
        self._check_in_service()
        with self._disk_answers():
            return timestamp_lookup.first_at_or_after(
                self._segments, timestamp_ms, self._log_start, self._visible.offset
            )

    async def offset_of_max_timestamp(self) -> tuple[int, int] | None:
        """As :meth:`offset_for_timestamp`, of the largest timestamp (ListOffsets -3)."""
        self._check_in_service()
        with self._disk_answers():
            return timestamp_lookup.latest(self._segments, self._log_start, self._visible.offset)

    # Removing --------------------------------------------------------------------------------

    async def delete_records(self, before_offset: int) -> int:
        """See ``AppendableLog``; durably.

        Raises:
            OffsetOutOfRange: past the high watermark.
        """
        self._check_in_service()
        offset = self._visible.offset if before_offset == -1 else before_offset
        if not 0 <= offset <= self._visible.offset:
            raise OffsetOutOfRange(f"records up to {offset} cannot be deleted, {self}")
        if offset > self._log_start:
            with self._disk_answers():
                self._move_start(offset)
                self._remove_segments()
        return self._log_start

    def _move_start(self, offset: int) -> None:
        old, self._log_start = self._log_start, offset
        try:
            if self.on_start_moved is not None:
                self.on_start_moved(self)
        except OSError:
            self._log_start = old
            raise

    def expire(self, now_ms: int, needed: Needed | None, spend: Spend) -> bool:
        """Move the log start past the segments that may go (:mod:`sharegroup.storage.retention`).
        Returns whether :meth:`remove_expired` has segments to delete. ``now_ms``: wall clock.
        """
        if self._failure is not None:
            return False
        try:
            count = retention.expired(self._segments, self.settings, now_ms, needed)
            if count == len(self._segments):
                count = self._roll_expired(spend)
        except OSError as error:
            self._disk_failed(error)
            return False
        count = retention.removable(self._segments, count, self._durable())
        if count:
            self._log_start = max(self._log_start, self._segments[count].base_offset)
        return count > 0

    def _roll_expired(self, spend: Spend) -> int:
        """Roll, so that the next call can delete the last segment, too. Returns how many may go."""
        count = len(self._segments)
        try:
            self._roll()
        except OSError as error:
            if lack_of(error) is None:
                raise
            if count > 1:  # the next call finds the room that the others leave
                self._disk_failed(error)
                return count - 1
            spend(lambda: self._roll(indexed=False))
        return count

    def remove_expired(self) -> int:
        """Delete the segments below the durable log start. Returns how many were deleted."""
        try:
            return 0 if self._failure is not None else self._remove_segments()
        except OSError as error:
            self._disk_failed(error)
            return 0

    def _remove_segments(self) -> int:
        return retention.remove_below(self._segments, self._log_start, self._durable())

    def _durable(self) -> int:
        return min(self._recovery_point, self._visible.offset)

    def skip_to(self, next_offset: int) -> list[DiskFile]:
        """Give up the offsets up to ``next_offset`` (:mod:`sharegroup.storage.lost_offsets`). The
        caller must sync the returned files before the next append.
        """
        sides: list[DiskFile] = []
        file = lost_offsets.skip(self._environment.disk, self._segments, next_offset, sides)
        self._unsynced.close_after_sync(sides)
        self._end = self._recovery_point = next_offset
        self._visible = self._flushing = self._end_mark()
        return [*sides, file]

    # Ending ----------------------------------------------------------------------------------

    def fail(self, error: KafkaError) -> None:
        """Take the log out of service: all waiters and later calls get ``error``."""
        if self._failure is not None:
            return
        self._failure = error
        self._flusher.forget(self)
        self._waiters.fail(error)
        if isinstance(error, KafkaStorageError):
            logger.error("out of service until the next start: %s", error)

    def write_final_files(self) -> list[DiskFile]:
        """Write indexes and producer snapshot for a clean shutdown. The caller syncs and closes the
        returned files.
        """
        if self._failure is not None:
            return []
        files: list[DiskFile] = []
        self._segments[-1].write_indexes(files)
        disk, producers = self._environment.disk, self._producers
        rolling.write_snapshot(disk, self.folder, self._end, producers, files)
        if self.ids is not None:
            files += self.ids.write(self.last_stable_offset)
        return files

    def close(self) -> None:
        """Close all files. The flusher must not have a running round with this log."""
        self._unsynced.close()
        for segment in self._segments:
            segment.file.close()

    def statistics(self) -> LogStatistics:
        """The current offsets and sizes."""
        return LogStatistics(
            log_start_offset=self._log_start,
            high_watermark=self._visible.offset,
            log_end_offset=self._end,
            size_bytes=sum(segment.size for segment in self._segments),
            segments=len(self._segments),
            producers=len(self._producers),
        )

    def check_invariants(self) -> None:
        """Assert what the module's docstring lists."""
        assert self._log_start <= self._visible.offset <= self._end
        assert self._visible.offset <= max(self._recovery_point, self._visible_by_system)
        segments.check_joined(self._segments, self._end)
        self._producers.check_invariants()

    def __repr__(self) -> str:
        return f"<log {self.topic_partition}: {self._log_start}≤{self._visible.offset}≤{self._end}>"

    def _check_in_service(self) -> None:
        if self._failure is not None:
            raise type(self._failure)(self._failure.message)

    @contextmanager
    def _disk_answers(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise self._disk_failed(error) from error

    def _disk_failed(self, error: OSError) -> KafkaStorageError:
        return self._failures.of_log(self, error)
