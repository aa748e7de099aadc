"""Delivery to share groups at the partitions' leader: acknowledgements, windows, sessions, waits.

A share partition's own metrics live as long as its object. After a reload its counters begin at 0,
which ``rate()`` allows for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from sharegroup.broker.delivery.class_loading import UNREADABLE as PRIORITY_UNREADABLE
from sharegroup.broker.delivery.expiring import UNREADABLE
from sharegroup.broker.delivery.scheduling import FULL
from sharegroup.broker.delivery.scheduling import UNREADABLE as SCHEDULE_UNREADABLE
from sharegroup.broker.hot_path_counters import ACK_TYPES, GroupMeter, RecordMeter
from sharegroup.broker.metrics.metric import Sample, Summed
from sharegroup.broker.metrics.table import Labels, Scrape, Source, Table
from sharegroup.broker.read_model.share_groups import LedView
from sharegroup.share.archived import Reason

OTHER: Final = "other"
"""Group label, with an empty topic label, for records whose group and topic have no meter of their
own."""

_GROUPS: Final = "kafka.server:type=ShareGroupMetrics,name="
_PARTITION: Final = "kafka.server:type=SharePartitionMetrics,name={},group=…,topic=…,partition=…"
_SESSIONS: Final = "kafka.server:type=ShareSessionCache,name="
_WAITS: Final = "kafka.server:type=DelayedOperationPurgatory,delayedOperation=ShareFetch,name="


def _records(scrape: Scrape) -> Iterator[tuple[RecordMeter, Labels]]:
    """The records by group and topic; the rest as ``other``. A group named ``other`` stays
    distinct, because its topic label is not empty."""
    meters = scrape.parts.meters
    for (group_id, topic_id), meter in meters.records.items():
        topic = scrape.parts.topics.name_of(topic_id)
        if topic is not None:
            yield meter, (group_id, topic)
    other = meters.other_records
    if any(other.acknowledged) or any(other.archived):
        yield other, (OTHER, "")


def _acknowledged(meter: RecordMeter) -> Mapping[str, int]:
    return dict(zip(ACK_TYPES, meter.acknowledged, strict=True))


def _archived(meter: RecordMeter) -> Mapping[str, int]:
    return {reason.word: meter.archived[reason] for reason in Reason}


def _groups(scrape: Scrape) -> Iterator[tuple[GroupMeter, Labels]]:
    for group_id, meter in scrape.parts.meters.groups.items():
        yield meter, (group_id,)


def _disorder(led: LedView) -> Mapping[str, int] | None:
    disorder = led.disorder
    if disorder is None:
        return None
    return {
        "out-of-order": disorder.out_of_order,
        "taken-back": disorder.taken_back,
        "late": disorder.late,
    }


DELIVERY: Final = Table()
BY_GROUP_AND_TOPIC: Final = DELIVERY.source(("group", "topic"), _records)
LOADS: Final = DELIVERY.whole()
BY_GROUP: Final = DELIVERY.source(("group",), _groups)
LETTERS: Final = DELIVERY.whole()
FETCHES: Final = DELIVERY.whole()
BY_PARTITION: Final[Source[LedView]] = Source(DELIVERY.metrics, ("group", "topic", "partition"))
"""Read in steps, after all tables: there may be very many share partitions."""

BY_GROUP_AND_TOPIC.counter(
    "sharegroup_acknowledged_records",
    "Records acknowledged, by type: accept, release, reject, renew, gap. Beyond 1,000 pairs of "
    "group and topic the rest is summed as group other, without a topic.",
    _acknowledged,
    labels=("type",),
    unit="records",
    kafka=_GROUPS + "RecordAcknowledgementsPerSec,ackType=… (which counts entries of a request)",
)
BY_GROUP_AND_TOPIC.counter(
    "sharegroup_archived_records",
    "Records given up: nobody gets them any more, and nobody has accepted them. By reason: "
    "delivery-limit (delivered share.delivery.count.limit times), rejected, damaged, deleted (by "
    "retention or DeleteRecords before they were done), retention-cap (the same, though the topic "
    "names the group in share.retention.groups), purged (by an operator), expired "
    "(share.record.expiry.…). Group other as above.",
    _archived,
    labels=("reason",),
    unit="records",
    kafka="none",
)
LOADS.histogram(
    "sharegroup_share_partition_load_seconds",
    "Loading a share partition from its durable state.",
    lambda scrape: scrape.parts.meters.load_seconds,
    kafka=_GROUPS + "PartitionLoadTimeMs",
)
BY_GROUP.histogram(
    "sharegroup_share_fetch_lockable_percent",
    "Of the partitions that a share fetch asks for, how many it locked and got records from.",
    lambda meter: meter.fetch_percent,
    unit="percent",
    kafka=_GROUPS + "RequestTopicPartitionsFetchRatio,group=…",
)
BY_GROUP.histogram(
    "sharegroup_share_fetch_acquire_seconds",
    "From a share fetch's arrival until it has records.",
    lambda meter: meter.acquire_seconds,
    kafka=_GROUPS + "TopicPartitionsAcquireTimeMs,group=…",
)
LETTERS.counter(
    "sharegroup_records_decided_by_hand",
    "Records about which operators have decided, by type: accept, release, reject, renew, gap "
    "(purged).",
    lambda scrape: scrape.by_label("decisions_by_hand"),
    labels=("type",),
    unit="records",
)
LETTERS.counter(
    "sharegroup_expiry_headers_unreadable",
    "Records about to be delivered whose header sharegroup.expires.at says no time, by group; "
    "again each time.",
    lambda scrape: scrape.by_label(UNREADABLE),
    labels=("group",),
    unit="records",
    kafka="none",
)
LETTERS.counter(
    "sharegroup_schedule_headers_unreadable",
    "Records about to be delivered whose header sharegroup.deliver.at says no time within ten "
    "years, by group; they are delivered at once.",
    lambda scrape: scrape.by_label(SCHEDULE_UNREADABLE),
    labels=("group",),
    unit="records",
    kafka="none",
)
LETTERS.counter(
    "sharegroup_priority_headers_unreadable",
    "Records of a group with share.priority.header whose header says no priority, by group; again "
    "when the group's records are loaded again.",
    lambda scrape: scrape.by_label(PRIORITY_UNREADABLE),
    labels=("group",),
    unit="records",
    kafka="none",
)
LETTERS.counter(
    "sharegroup_schedule_full",
    "Share fetches that found so many records at rest that the group gets no new ones, by group.",
    lambda scrape: scrape.by_label(FULL),
    labels=("group",),
    kafka="none",
)
LETTERS.counter(
    "sharegroup_dead_letters",
    "Dead letters written, by group.",
    lambda scrape: scrape.by_label("dead_letters"),
    labels=("group",),
    unit="records",
    kafka=_GROUPS + "DeadLetterQueueRecordCount,group=…",
)
LETTERS.counter(
    "sharegroup_dead_letter_writes",
    "Batches of dead letters written, by group.",
    lambda scrape: scrape.by_label("dead_letter_writes"),
    labels=("group",),
    kafka=_GROUPS + "DeadLetterQueueTotalProduceRequestsPerSec,group=…",
)
LETTERS.counter(
    "sharegroup_dead_letter_failures",
    "Times that dead letters could not be written, by group; they are tried again.",
    lambda scrape: scrape.by_label("dead_letter_failures"),
    labels=("group",),
    kafka=_GROUPS + "DeadLetterQueueFailedProduceRequestsPerSec,group=…",
)
LETTERS.gauge(
    "sharegroup_dead_letters_waiting",
    "Records that failed for good and whose dead letter is not written yet, by group.",
    lambda scrape: scrape.parts.state.dead_counts(),
    labels=("group",),
    unit="records",
)
BY_PARTITION.gauge(
    "sharegroup_share_partition_in_flight_records",
    "Records between start and end of the window, finished ones behind an unfinished one included.",
    lambda led: led.window.end_offset - led.window.start_offset,
    unit="records",
    kafka=_PARTITION.format("InFlightMessageCount"),
)
BY_PARTITION.gauge(
    "sharegroup_share_partition_acquired_records",
    "Records that members hold now.",
    lambda led: led.window.acquired,
    unit="records",
)
BY_PARTITION.gauge(
    "sharegroup_share_partition_in_flight_batches",
    "Spans of the in-flight window.",
    lambda led: led.window.spans,
    kafka=_PARTITION.format("InFlightBatchCount"),
)
BY_PARTITION.summary(
    "sharegroup_share_partition_acquired_batch_records",
    "Batches given to members, and the records in them.",
    lambda led: Summed(led.meter.acquired_batches, led.meter.acquired_records),
    unit="records",
    kafka=_PARTITION.format("InFlightBatchMessageCount"),
)
BY_PARTITION.counter(
    "sharegroup_share_partition_redelivered_records",
    "Records given to members that had been delivered before.",
    lambda led: led.meter.redelivered_records,
    unit="records",
    kafka="none",
)
BY_PARTITION.counter(
    "sharegroup_share_partition_lock_timeouts",
    "Records whose acquisition lock ran out.",
    lambda led: led.meter.expired,
    unit="records",
    kafka=_PARTITION.format("AcquisitionLockTimeoutPerSec"),
)
BY_PARTITION.gauge(
    "sharegroup_share_ordering_waiting_records",
    "With share.ordering=key: records between start and end of the window that nobody holds; most "
    "wait behind others of their key.",
    lambda led: None if led.disorder is None else led.window.available,
    unit="records",
)
BY_PARTITION.gauge(
    "sharegroup_share_ordering_blocked_keys",
    "With share.ordering.on.failure=block: keys with a record that has failed at the delivery "
    "limit and waits for an operator.",
    lambda led: None if led.disorder is None else led.blocked_keys,
    unit="keys",
)
BY_PARTITION.counter(
    "sharegroup_share_ordering_disorder",
    "With share.ordering=key, records by what went against the order: out-of-order (accepted while "
    "an earlier one of the key was unfinished, and so delivered again), taken-back (from their "
    "holder, since an earlier one was released or its lock ran out), late (answered by a member "
    "that did not hold them any more).",
    _disorder,
    labels=("event",),
    unit="records",
)
BY_PARTITION.counter(
    "sharegroup_share_late_answers",
    "Records that a member answered after an operator had decided about them: without effect.",
    lambda led: led.late,
    unit="records",
)
BY_PARTITION.counter(
    "sharegroup_share_offsets_damaged",
    "Offsets archived for a group because its log is damaged there.",
    lambda led: led.meter.damaged,
)
BY_PARTITION.summary(
    "sharegroup_share_partition_fetch_lock_seconds",
    "How often the fetch lock was taken, and for how long in all; rate() of the sum is the share "
    "of time in which it is held.",
    lambda led: Summed(led.meter.locks, led.meter.lock_seconds),
    unit="seconds",
    kafka=_PARTITION.format("FetchLockTimeMs and FetchLockRatio"),
)
FETCHES.gauge(
    "sharegroup_share_sessions",
    "Share sessions.",
    lambda scrape: len(scrape.parts.sessions),
    kafka=_SESSIONS + "ShareSessionsCount",
)
FETCHES.gauge(
    "sharegroup_share_session_partitions",
    "Partitions in all share sessions.",
    lambda scrape: scrape.parts.sessions.partition_count(),
    kafka=_SESSIONS + "SharePartitionsCount",
)
FETCHES.counter(
    "sharegroup_share_sessions_disconnected",
    "Share sessions that ended with their connection; there is no eviction.",
    lambda scrape: scrape.count("share_sessions_disconnected"),
    kafka=_SESSIONS + "ShareSessionEvictionsPerSec",
)
FETCHES.gauge(
    "sharegroup_waiting_fetches",
    "Fetches, of either kind, that wait for records.",
    lambda scrape: len(scrape.parts.waiters),
    kafka=_WAITS + "NumDelayedOperations and PurgatorySize",
)
FETCHES.counter(
    "sharegroup_share_fetches_expired",
    "Share fetches that timed out without records.",
    lambda scrape: scrape.parts.meters.share_fetches_expired,
    kafka="kafka.server:type=DelayedShareFetchMetrics,name=ExpiresPerSec",
)


def read_partition(led: LedView) -> Iterator[Sample]:
    """The samples of one share partition."""
    return BY_PARTITION.samples(led, led.key.group_id, led.topic, str(led.key.partition))
