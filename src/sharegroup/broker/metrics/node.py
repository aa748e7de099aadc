"""The process and its disk: flushes, the event loop, logs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Final

from sharegroup.broker.metrics.table import Labels, Scrape, Table
from sharegroup.model.histogram import Histogram
from sharegroup.model.log import PartitionLog
from sharegroup.model.store import CleaningFacts

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


def _cleaner(scrape: Scrape) -> Iterator[tuple[CleaningFacts, Labels]]:
    yield scrape.parts.store.cleaning(scrape.parts.clock.wall_ms()), ()


def _logs(scrape: Scrape) -> Iterator[tuple[PartitionLog, Labels]]:
    for log in scrape.parts.store.logs:
        topic, partition = log.topic_partition
        yield log, (topic, str(partition))


NODE: Final = Table()
STORE: Final = NODE.whole()
CLEANER: Final = NODE.source((), _cleaner)
BY_LOG: Final = NODE.source(("topic", "partition"), _logs)

STORE.histogram(
    "sharegroup_flush_seconds",
    "Syncs of a log: what appends and acknowledgements wait for under flush.policy=durable.",
    lambda scrape: scrape.parts.store.flush_seconds,
    kafka="kafka.log:type=LogFlushStats,name=LogFlushRateAndTimeMs",
)
STORE.histogram(
    "sharegroup_event_loop_lag_seconds",
    "By how much a timer of the event loop is late: what every request waits on top of its work.",
    lambda scrape: scrape.loop_lag,
    kafka="share-coordinator-metrics thread-idle-ratio, RequestHandlerAvgIdlePercent",
)
STORE.gauge(
    "sharegroup_event_loop_tasks",
    "Tasks of the event loop: connections, requests that wait, work in the background.",
    lambda _: len(asyncio.all_tasks()),
)
STORE.gauge(
    "sharegroup_partitions",
    "Partitions, internal ones included.",
    lambda scrape: len(list(scrape.parts.store.logs)),
    kafka="kafka.server:type=ReplicaManager,name=PartitionCount",
)
STORE.gauge(
    "sharegroup_partitions_failed",
    "Partitions out of service: their disk failed, or they could not be opened at the start.",
    lambda scrape: len(scrape.parts.store.out_of_service()),
    kafka="kafka.log:type=LogManager,name=OfflineLogDirectoryCount",
)
BY_LOG.gauge(
    "sharegroup_log_end_offset",
    "The offset of the next record of each partition.",
    lambda log: log.log_end_offset,
    kafka="kafka.log:type=Log,name=LogEndOffset,topic=…,partition=…",
)
LOG_DAMAGED: Final = BY_LOG.gauge(
    "sharegroup_log_damaged_offsets",
    "Offsets of each partition that are damaged or missing on disk, as far as they are known.",
    lambda log: sum(damage.last - damage.first + 1 for damage in log.damages()),
)
STORE.counter(
    "sharegroup_disk_refusals",
    "What the disk was asked for and could not do for now, by what there was too little of: room, "
    "descriptors, memory. Each was answered with a retriable error, or tried again.",
    lambda scrape: scrape.parts.store.refusals(),
    labels=("lack",),
)
CLEANER.counter(
    "sharegroup_cleaner_runs",
    "Runs of the log cleaner, each over one compacted partition.",
    lambda facts: facts.runs,
)
CLEANER.counter(
    "sharegroup_cleaner_read_bytes",
    "Bytes of log that the cleaner has gone through.",
    lambda facts: facts.read_bytes,
    unit="bytes",
)
CLEANER.counter(
    "sharegroup_cleaner_written_bytes",
    "Bytes of log that the cleaner has written anew; the others of what it read are gone.",
    lambda facts: facts.written_bytes,
    unit="bytes",
    kafka="kafka.log:type=LogCleaner,name=cleaner-recopy-percent",
)
CLEANER.gauge(
    "sharegroup_cleaner_last_run_seconds",
    "How long the last run of the log cleaner took.",
    lambda facts: facts.last_run_seconds,
    unit="seconds",
    kafka="kafka.log:type=LogCleaner,name=max-clean-time-secs",
)
CLEANER.gauge(
    "sharegroup_cleaner_last_run_timestamp_seconds",
    "When the last run of the log cleaner ended, in seconds since 1970; 0: none since the start.",
    lambda facts: facts.last_run_wall_ms / 1000,
    unit="seconds",
    kafka="kafka.log:type=LogCleanerManager,name=time-since-last-run-ms",
)
CLEANER.gauge(
    "sharegroup_cleaner_max_dirty_ratio",
    "The largest share of a compacted partition's sealed bytes that is not cleaned yet, 0 to 1.",
    lambda facts: facts.dirty_ratio,
    kafka="kafka.log:type=LogCleanerManager,name=max-dirty-percent",
)
CLEANER.gauge(
    "sharegroup_cleaner_uncleanable_partitions",
    "Compacted partitions that are out of service, or keep a damaged segment as it is.",
    lambda facts: facts.uncleanable,
    kafka="kafka.log:type=LogCleanerManager,name=uncleanable-partitions-count",
)
