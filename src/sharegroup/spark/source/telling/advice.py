"""Advice for the user of a running query: each is logged once, as one sentence, by the driver."""

from __future__ import annotations

import logging

from sharegroup.cooperative.intervals import size
from sharegroup.spark.options.stream import CLAIM, KEY, ShareOptions
from sharegroup.spark.source.offsets import BatchOffset

log = logging.getLogger("sharegroup.spark")


class Advice:
    """Each method checks one thing, and logs at most once."""

    def __init__(self, options: ShareOptions) -> None:
        self._options = options
        self._said: set[str] = set()
        self._uncommitted: int | None = None

    def batch_time(self, seconds: float, lock_ms: int | None) -> None:
        """A batch took ``seconds``, and its locks were not renewed."""
        if lock_ms is not None and seconds * 1000 > lock_ms:
            self._say(
                "batch_time",
                "a batch took %.0f s, but its locks last %.0f s and are not renewed: others may "
                "have got its records as well; take smaller batches (maxOffsetsPerTrigger), raise "
                "the group's share.record.lock.duration.ms, or allow lockRenew",
                seconds,
                lock_ms / 1000,
            )

    def locks(
        self,
        batch: BatchOffset,
        limit: int | None,
        locks_per_partition: int | None,
        locks_config: str,
    ) -> None:
        """A batch was made of at most ``limit`` records (None: without a limit); the group may hold
        at most ``locks_per_partition`` records of one partition, as its ``locks_config`` says."""
        if locks_per_partition is None or self._options.ack_mode == CLAIM:
            return
        if limit is not None and batch.records >= limit:
            return
        if any(size(ranges) >= locks_per_partition for ranges in batch.ranges.values()):
            self._say(
                "locks",
                "a batch has %d records and not %s because the group %s may hold %d records of a "
                "partition at once, so a partition gives no more than %d records in the time of a "
                "batch: raise the group's %s "
                "(recordLocksPerPartition for a new group), add partitions, or use ackMode claim, "
                "see docs/spark.md#how-fast-it-can-be",
                batch.records,
                "all that wait" if limit is None else f"the {limit} of maxOffsetsPerTrigger",
                self._options.group_id,
                locks_per_partition,
                locks_per_partition,
                locks_config,
            )

    def order(self, *, ordered_by_key: bool) -> None:
        """The group has ``share.ordering=key`` or not."""
        if ordered_by_key and self._options.split_by != KEY:
            self._say(
                "order",
                "the group %s has share.ordering=key, which is the order in which its records come "
                "to this query, but with splitBy offset the tasks of a batch may share a key: "
                "write splitBy key for each key in one task, see docs/keys.md#spark-by-key",
                self._options.group_id,
            )

    def committed(self, sequence: int) -> None:
        """Spark called ``commit`` for this offset."""
        if self._uncommitted is not None and sequence >= self._uncommitted:
            self._uncommitted = None

    def superseded(self, sequence: int) -> None:
        """The batch after the one with this offset was made. Spark commits an offset before the
        next batch runs, except with asyncProgressTrackingEnabled."""
        if self._uncommitted is not None:
            self._say(
                "progress",
                "Spark starts batches without having committed the ones before: switch "
                "asyncProgressTrackingEnabled off, because a batch is repeated with the same "
                "records only if every one is in the checkpoint",
            )
        self._uncommitted = sequence

    def _say(self, what: str, text: str, *values: object) -> None:
        if what not in self._said:
            self._said.add(what)
            log.warning(text, *values)
