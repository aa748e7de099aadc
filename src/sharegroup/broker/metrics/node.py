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
    "Rounds of fsync: what appends and acknowledgements wait for under flush.policy=durable.",
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

METRICS: Final = (
    FLUSH_SECONDS,
    LOOP_LAG,
    LOGS,
    FAILED_LOGS,
    LOG_END,
    LOG_DAMAGED,
    DISK_REFUSALS,
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
    for log in logs:
        topic, partition = log.topic_partition
        yield LOG_END.of(log.log_end_offset, topic, str(partition))
        damaged = sum(damage.last - damage.first + 1 for damage in log.damages())
        yield LOG_DAMAGED.of(damaged, topic, str(partition))
