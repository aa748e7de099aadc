"""Delivery to share groups at the partitions' leader: acknowledgements, windows, sessions, waits.

A share partition's own metrics live as long as its object. After a reload its counters begin at 0,
which ``rate()`` allows for.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from sharegroup.broker.hot_path_counters import ACK_TYPES
from sharegroup.broker.metrics.metric import Sample, Summed, counter, gauge, histogram, summary
from sharegroup.broker.parts import BrokerParts
from sharegroup.broker.read_model.share_groups import LedView
from sharegroup.share.archived import Reason

OTHER: Final = "other"
"""Group label, with an empty topic label, for records whose group and topic have no meter of their
own."""

_GROUPS: Final = "kafka.server:type=ShareGroupMetrics,name="
_PARTITION: Final = "kafka.server:type=SharePartitionMetrics,name={},group=…,topic=…,partition=…"
_SESSIONS: Final = "kafka.server:type=ShareSessionCache,name="
_WAITS: Final = "kafka.server:type=DelayedOperationPurgatory,delayedOperation=ShareFetch,name="
_OF_PARTITION: Final = ("group", "topic", "partition")

ACKNOWLEDGED: Final = counter(
    "sharegroup_acknowledged_records",
    "Records acknowledged, by type: accept, release, reject, renew, gap. Beyond 1,000 pairs of "
    "group and topic the rest is summed as group other, without a topic.",
    labels=("group", "topic", "type"),
    unit="records",
    kafka=_GROUPS + "RecordAcknowledgementsPerSec,ackType=… (which counts entries of a request)",
)
ARCHIVED: Final = counter(
    "sharegroup_archived_records",
    "Records given up: nobody gets them any more, and nobody has accepted them. By reason: "
    "delivery-limit (delivered share.delivery.count.limit times), rejected, damaged, deleted (by "
    "retention or DeleteRecords before they were done). Group other as above.",
    labels=("group", "topic", "reason"),
    unit="records",
    kafka="none; 4.4 has DeadLetterQueue… metrics",
)
LOAD_SECONDS: Final = histogram(
    "sharegroup_share_partition_load_seconds",
    "Loading a share partition from its durable state.",
    kafka=_GROUPS + "PartitionLoadTimeMs",
)
FETCH_PERCENT: Final = histogram(
    "sharegroup_share_fetch_lockable_percent",
    "Of the partitions that a share fetch asks for, how many it locked and got records from.",
    labels=("group",),
    unit="percent",
    kafka=_GROUPS + "RequestTopicPartitionsFetchRatio,group=…",
)
ACQUIRE_SECONDS: Final = histogram(
    "sharegroup_share_fetch_acquire_seconds",
    "From a share fetch's arrival until it has records.",
    labels=("group",),
    kafka=_GROUPS + "TopicPartitionsAcquireTimeMs,group=…",
)
IN_FLIGHT: Final = gauge(
    "sharegroup_share_partition_in_flight_records",
    "Records between start and end of the window, finished ones behind an unfinished one included.",
    labels=_OF_PARTITION,
    unit="records",
    kafka=_PARTITION.format("InFlightMessageCount"),
)
ACQUIRED: Final = gauge(
    "sharegroup_share_partition_acquired_records",
    "Records that members hold now.",
    labels=_OF_PARTITION,
    unit="records",
)
PIECES: Final = gauge(
    "sharegroup_share_partition_in_flight_batches",
    "Spans of the in-flight window.",
    labels=_OF_PARTITION,
    kafka=_PARTITION.format("InFlightBatchCount"),
)
ACQUIRED_BATCH: Final = summary(
    "sharegroup_share_partition_acquired_batch_records",
    "Batches given to members, and the records in them.",
    labels=_OF_PARTITION,
    unit="records",
    kafka=_PARTITION.format("InFlightBatchMessageCount"),
)
EXPIRED: Final = counter(
    "sharegroup_share_partition_lock_timeouts",
    "Records whose acquisition lock ran out.",
    labels=_OF_PARTITION,
    unit="records",
    kafka=_PARTITION.format("AcquisitionLockTimeoutPerSec"),
)
WAITING_RECORDS: Final = gauge(
    "sharegroup_share_ordering_waiting_records",
    "With share.ordering=key: records between start and end of the window that nobody holds; most "
    "wait behind others of their key.",
    labels=_OF_PARTITION,
    unit="records",
)
BLOCKED_KEYS: Final = gauge(
    "sharegroup_share_ordering_blocked_keys",
    "With share.ordering.on.failure=block: keys with a record that has failed at the delivery "
    "limit and waits for an operator.",
    labels=_OF_PARTITION,
    unit="keys",
)
DISORDER: Final = counter(
    "sharegroup_share_ordering_disorder",
    "With share.ordering=key, records by what went against the order: out-of-order (accepted while "
    "an earlier one of the key was unfinished, and so delivered again), taken-back (from their "
    "holder, since an earlier one was released or its lock ran out), late (answered by a member "
    "that did not hold them any more).",
    labels=(*_OF_PARTITION, "event"),
    unit="records",
)
DAMAGED: Final = counter(
    "sharegroup_share_offsets_damaged",
    "Offsets archived for a group because its log is damaged there.",
    labels=("group", "topic", "partition"),
)
FETCH_LOCK: Final = summary(
    "sharegroup_share_partition_fetch_lock_seconds",
    "How often the fetch lock was taken, and for how long in all; rate() of the sum is the share "
    "of time in which it is held.",
    labels=_OF_PARTITION,
    unit="seconds",
    kafka=_PARTITION.format("FetchLockTimeMs and FetchLockRatio"),
)
SESSIONS: Final = gauge(
    "sharegroup_share_sessions",
    "Share sessions.",
    kafka=_SESSIONS + "ShareSessionsCount",
)
SESSION_PARTITIONS: Final = gauge(
    "sharegroup_share_session_partitions",
    "Partitions in all share sessions.",
    kafka=_SESSIONS + "SharePartitionsCount",
)
SESSIONS_LOST: Final = counter(
    "sharegroup_share_sessions_disconnected",
    "Share sessions that ended with their connection; there is no eviction.",
    kafka=_SESSIONS + "ShareSessionEvictionsPerSec",
)
WAITING: Final = gauge(
    "sharegroup_waiting_fetches",
    "Fetches, of either kind, that wait for records.",
    kafka=_WAITS + "NumDelayedOperations and PurgatorySize",
)
WAITED_IN_VAIN: Final = counter(
    "sharegroup_share_fetches_expired",
    "Share fetches that timed out without records.",
    kafka="kafka.server:type=DelayedShareFetchMetrics,name=ExpiresPerSec",
)

METRICS: Final = (
    ACKNOWLEDGED,
    ARCHIVED,
    LOAD_SECONDS,
    FETCH_PERCENT,
    ACQUIRE_SECONDS,
    IN_FLIGHT,
    ACQUIRED,
    PIECES,
    ACQUIRED_BATCH,
    EXPIRED,
    WAITING_RECORDS,
    BLOCKED_KEYS,
    DISORDER,
    DAMAGED,
    FETCH_LOCK,
    SESSIONS,
    SESSION_PARTITIONS,
    SESSIONS_LOST,
    WAITING,
    WAITED_IN_VAIN,
)


def read(parts: BrokerParts) -> Iterator[Sample]:
    """The samples of this table."""
    meters = parts.meters
    yield from _records(parts)
    yield LOAD_SECONDS.of(meters.load_seconds)
    for group_id, group in meters.groups.items():
        yield FETCH_PERCENT.of(group.fetch_percent, group_id)
        yield ACQUIRE_SECONDS.of(group.acquire_seconds, group_id)
    yield SESSIONS.of(len(parts.sessions))
    yield SESSION_PARTITIONS.of(parts.sessions.partition_count())
    disconnected = parts.counters.statistics().get(("share_sessions_disconnected", ""), 0)
    yield SESSIONS_LOST.of(disconnected)
    yield WAITING.of(len(parts.waiters))
    yield WAITED_IN_VAIN.of(meters.share_fetches_expired)


def _records(parts: BrokerParts) -> Iterator[Sample]:
    """Record counts by group and topic; the rest as ``other``. A group named ``other`` stays
    distinct, because its topic label is not empty."""
    meters = {}
    for (group_id, topic_id), meter in parts.meters.records.items():
        topic = parts.topics.name_of(topic_id)
        if topic is not None:
            meters[group_id, topic] = meter
    other = parts.meters.other_records
    if any(other.acknowledged) or any(other.archived):
        meters[OTHER, ""] = other
    for labels, meter in meters.items():
        for name, count in zip(ACK_TYPES, meter.acknowledged, strict=True):
            yield ACKNOWLEDGED.of(count, *labels, name)
        for reason in Reason:
            yield ARCHIVED.of(meter.archived[reason], *labels, reason.word)


def read_partition(led: LedView) -> Iterator[Sample]:
    """The samples of one share partition."""
    labels = (led.key.group_id, led.topic, str(led.key.partition))
    window, meter = led.window, led.meter
    yield IN_FLIGHT.of(window.end_offset - window.start_offset, *labels)
    yield ACQUIRED.of(window.acquired, *labels)
    yield PIECES.of(window.spans, *labels)
    yield ACQUIRED_BATCH.of(Summed(meter.acquired_batches, meter.acquired_records), *labels)
    yield EXPIRED.of(meter.expired, *labels)
    if led.disorder is not None:
        yield WAITING_RECORDS.of(window.available, *labels)
        yield BLOCKED_KEYS.of(led.blocked_keys, *labels)
        yield DISORDER.of(led.disorder.out_of_order, *labels, "out-of-order")
        yield DISORDER.of(led.disorder.taken_back, *labels, "taken-back")
        yield DISORDER.of(led.disorder.late, *labels, "late")
    yield DAMAGED.of(meter.damaged, *labels)
    yield FETCH_LOCK.of(Summed(meter.locks, meter.lock_seconds), *labels)
