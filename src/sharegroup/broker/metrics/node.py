"""The process and its disk: flushes, the event loop, logs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Final

from sharegroup.broker.metrics.metric import Sample, counter, gauge, histogram
from sharegroup.broker.parts import BrokerParts
from sharegroup.model.histogram import Histogram

FLUSH_SECONDS: Final = histogram(
    "sharegroup_flush_seconds",
    "Syncs of a log: what appends and acknowledgements wait for under flush.policy=durable.",
    kafka="kafka.log:type=LogFlushStats,name=LogFlushRateAndTimeMs",
)
LOOP_LAG: Final = histogram(
    "sharegroup_event_loop_lag_seconds",
    "By how much a timer of the event loop is late: what every request waits on top of its work.",
    kafka="share-coordinator-metrics thread-idle-ratio, RequestHandlerAvgIdlePercent",
)
LOGS: Final = gauge(
    "sharegroup_partitions",
    "Partitions, internal ones included.",
    kafka="kafka.server:type=ReplicaManager,name=PartitionCount",
)
FAILED_LOGS: Final = gauge(
    "sharegroup_partitions_failed",
    "Partitions out of service: their disk failed, or they could not be opened at the start.",
    kafka="kafka.log:type=LogManager,name=OfflineLogDirectoryCount",
)
LOG_END: Final = gauge(
    "sharegroup_log_end_offset",
    "The offset of the next record of each partition.",
    labels=("topic", "partition"),
    kafka="kafka.log:type=Log,name=LogEndOffset,topic=…,partition=…",
)

LOG_DAMAGED: Final = gauge(
    "sharegroup_log_damaged_offsets",
    "Offsets of each partition that are damaged or missing on disk, as far as they are known.",
    labels=("topic", "partition"),
)
DISK_REFUSALS: Final = counter(
    "sharegroup_disk_refusals",
    "What the disk was asked for and could not do for now, by what there was too little of: room, "
    "descriptors, memory. Each was answered with a retriable error, or tried again.",
    labels=("lack",),
)

CLEANER_RUNS: Final = counter(
    "sharegroup_cleaner_runs",
    "Runs of the log cleaner, each over one compacted partition.",
)
CLEANER_READ: Final = counter(
    "sharegroup_cleaner_read_bytes",
    "Bytes of log that the cleaner has gone through.",
    unit="bytes",
)
CLEANER_WRITTEN: Final = counter(
    "sharegroup_cleaner_written_bytes",
    "Bytes of log that the cleaner has written anew; the others of what it read are gone.",
    unit="bytes",
    kafka="kafka.log:type=LogCleaner,name=cleaner-recopy-percent",
)
CLEANER_SECONDS: Final = gauge(
    "sharegroup_cleaner_last_run_seconds",
    "How long the last run of the log cleaner took.",
    unit="seconds",
    kafka="kafka.log:type=LogCleaner,name=max-clean-time-secs",
)
CLEANER_ENDED: Final = gauge(
    "sharegroup_cleaner_last_run_timestamp_seconds",
    "When the last run of the log cleaner ended, in seconds since 1970; 0: none since the start.",
    unit="seconds",
    kafka="kafka.log:type=LogCleanerManager,name=time-since-last-run-ms",
)
CLEANER_DIRTY: Final = gauge(
    "sharegroup_cleaner_max_dirty_ratio",
    "The largest share of a compacted partition's sealed bytes that is not cleaned yet, 0 to 1.",
    kafka="kafka.log:type=LogCleanerManager,name=max-dirty-percent",
)
UNCLEANABLE: Final = gauge(
    "sharegroup_cleaner_uncleanable_partitions",
    "Compacted partitions that are out of service, or keep a damaged segment as it is.",
    kafka="kafka.log:type=LogCleanerManager,name=uncleanable-partitions-count",
)

METRICS: Final = (
    FLUSH_SECONDS,
    LOOP_LAG,
    LOGS,
    FAILED_LOGS,
    LOG_END,
    LOG_DAMAGED,
    DISK_REFUSALS,
    CLEANER_RUNS,
    CLEANER_READ,
    CLEANER_WRITTEN,
    CLEANER_SECONDS,
    CLEANER_ENDED,
    CLEANER_DIRTY,
    UNCLEANABLE,
)

SAMPLE_EVERY_S: Final = 0.1


class LoopLag:
    """Measures, ten times a second, how late a timer is."""

    def __init__(self) -> None:
        self.seconds = Histogram()
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Measure from now on."""
        loop = asyncio.get_running_loop()
        self._wait(loop)

    def stop(self) -> None:
        """Stop measuring."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wait(self, loop: asyncio.AbstractEventLoop) -> None:
        due = loop.time() + SAMPLE_EVERY_S
        self._timer = loop.call_at(due, self._due, loop, due)

    def _due(self, loop: asyncio.AbstractEventLoop, due: float) -> None:
        self.seconds.observe(max(0.0, loop.time() - due))
        self._wait(loop)


def read(parts: BrokerParts, lag: LoopLag) -> Iterator[Sample]:
    """The samples of this table."""
    yield FLUSH_SECONDS.of(parts.store.flush_seconds)
    yield LOOP_LAG.of(lag.seconds)
    logs = list(parts.store.logs)
    yield LOGS.of(len(logs))
    yield FAILED_LOGS.of(len(parts.store.out_of_service()))
    for lack, count in parts.store.refusals().items():
        yield DISK_REFUSALS.of(count, lack)
    yield from _read_cleaner(parts)
    for log in logs:
        topic, partition = log.topic_partition
        yield LOG_END.of(log.log_end_offset, topic, str(partition))
        damaged = sum(damage.last - damage.first + 1 for damage in log.damages())
        yield LOG_DAMAGED.of(damaged, topic, str(partition))


def _read_cleaner(parts: BrokerParts) -> Iterator[Sample]:
    facts = parts.store.cleaning(parts.clock.wall_ms())
    yield CLEANER_RUNS.of(facts.runs)
    yield CLEANER_READ.of(facts.read_bytes)
    yield CLEANER_WRITTEN.of(facts.written_bytes)
    yield CLEANER_SECONDS.of(facts.last_run_seconds)
    yield CLEANER_ENDED.of(facts.last_run_wall_ms / 1000)
    yield CLEANER_DIRTY.of(facts.dirty_ratio)
    yield UNCLEANABLE.of(facts.uncleanable)
