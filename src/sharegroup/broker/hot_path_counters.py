"""The counters of the hot path: plain numbers next to the work, read by ``broker.metrics``.

Counting costs one addition. Nothing here knows a metric's name: the tables of ``broker.metrics``
declare it, with the function that reads the number. Rare events are counted by name in
``event_counters``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Final
from uuid import UUID

from sharegroup.model.ack_type import AckType
from sharegroup.model.histogram import Histogram
from sharegroup.model.limits import GROUP_LABELS_MAX
from sharegroup.share.acknowledge import AckBatch
from sharegroup.share.archived import Reason
from sharegroup.share.ranges import AcquiredRange

PERCENT: Final = (0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100)
ACK_TYPES: Final = tuple(kind.name.lower() for kind in AckType)
"""Names by the acknowledgement type's number in the protocol."""


@dataclass(slots=True, eq=False)
class RequestMeter:
    """One API's requests."""

    seconds: Histogram = field(default_factory=Histogram)
    """Time from the request frame to the ready answer, including the wait of a fetch."""
    request_bytes: int = 0
    response_bytes: int = 0


@dataclass(slots=True, eq=False)
class TopicMeter:
    """One topic's traffic; a request counts once for each topic that it names."""

    produce_bytes: int = 0
    produce_requests: int = 0
    repeated_records: int = 0
    """Records that were not appended because their message id had been there."""
    message_ids_forgotten: int = 0
    """Message ids that were forgotten within the window, for lack of room."""
    fetch_bytes: int = 0
    fetch_requests: int = 0
    share_fetch_bytes: int = 0
    share_fetch_requests: int = 0
    share_fetch_failures: int = 0
    share_acknowledge_requests: int = 0
    share_acknowledge_failures: int = 0


@dataclass(slots=True, eq=False)
class GroupMeter:
    """One share group's fetches."""

    fetch_percent: Histogram = field(default_factory=lambda: Histogram(PERCENT))
    """Percentage of a fetch's partitions in which it acquired records."""
    acquire_seconds: Histogram = field(default_factory=Histogram)
    """Time from a fetch's arrival until it has records."""


class RecordMeter:
    """One group's acknowledged and archived records of one topic."""

    __slots__ = ("acknowledged", "archived")

    def __init__(self) -> None:
        self.acknowledged = [0] * len(ACK_TYPES)
        """Records by type of acknowledgement."""
        self.archived = [0] * (max(Reason) + 1)
        """Archived records by reason."""

    def acknowledge(self, batches: Sequence[AckBatch]) -> None:
        """Count the records of a valid acknowledgement, which is not empty, by type."""
        firsts, lasts, types = zip(*batches, strict=True)
        if firsts == lasts:  # some clients send a batch for each record
            self._count(bytes(chain.from_iterable(types)))
            return
        kind = types[0]
        if len(kind) == 1 and types.count(kind) == len(types):
            self.acknowledged[kind[0]] += sum(lasts) - sum(firsts) + len(types)
            return
        for first, last, kinds in batches:
            if len(kinds) == 1:
                self.acknowledged[kinds[0]] += last - first + 1
            else:
                self._count(bytes(kinds))

    def _count(self, kinds: bytes) -> None:
        for kind in range(len(ACK_TYPES)):
            self.acknowledged[kind] += kinds.count(kind)


@dataclass(slots=True, eq=False)
class SharePartitionMeter:
    """One share partition's deliveries since it was loaded; discarded with it."""

    acquired_batches: int = 0
    acquired_records: int = 0
    redelivered_records: int = 0
    """Of these, records that had been delivered before."""
    damaged: int = 0
    """Offsets archived because the log cannot be read there."""
    expired: int = 0
    """Records whose acquisition lock expired."""
    locks: int = 0
    """How often the fetch lock was taken; ``lock_seconds`` is the total time."""
    lock_seconds: float = 0.0

    def count_acquired(self, ranges: Sequence[AcquiredRange]) -> None:
        """A member has got these records."""
        self.acquired_batches += len(ranges)
        for one in ranges:
            records = one.last - one.first + 1
            self.acquired_records += records
            if one.delivery_count > 1:
                self.redelivered_records += records


class Meters:
    """All meters of one broker. :meth:`forget` drops the meters of deleted topics and groups."""

    def __init__(self) -> None:
        self.requests: dict[str, RequestMeter] = {}
        self.topics: dict[UUID, TopicMeter] = {}
        self.groups: dict[str, GroupMeter] = {}
        self.records: dict[tuple[str, UUID], RecordMeter] = {}
        """Meters by group and topic, at most GROUP_LABELS_MAX."""
        self.other_records = RecordMeter()
        """The shared meter of all groups and topics without their own."""
        self.load_seconds = Histogram()
        """Time to load a share partition from durable state."""
        self.share_fetches_expired = 0
        """Share fetches that timed out with nothing to return."""

    def request(self, api: str) -> RequestMeter:
        """The meter of an API."""
        meter = self.requests.get(api)
        if meter is None:
            meter = self.requests[api] = RequestMeter()
        return meter

    @property
    def request_count(self) -> int:
        """Requests of all APIs since the start."""
        return sum(meter.seconds.count for meter in self.requests.values())

    def topic(self, topic_id: UUID) -> TopicMeter:
        """The meter of a topic."""
        meter = self.topics.get(topic_id)
        if meter is None:
            meter = self.topics[topic_id] = TopicMeter()
        return meter

    def group(self, group_id: str) -> GroupMeter:
        """The meter of a share group."""
        meter = self.groups.get(group_id)
        if meter is None:
            meter = self.groups[group_id] = GroupMeter()
        return meter

    def records_of(self, group_id: str, topic_id: UUID) -> RecordMeter:
        """The meter of a group's records of a topic; the shared meter when there are too many."""
        meter = self.records.get((group_id, topic_id))
        if meter is None:
            if len(self.records) >= GROUP_LABELS_MAX:
                return self.other_records
            meter = self.records[group_id, topic_id] = RecordMeter()
        return meter

    def forget(self, *, topics_but: set[UUID], groups_but: set[str]) -> None:
        """Drop all meters except those of the given, existing topics and groups."""
        for topic_id in self.topics.keys() - topics_but:
            del self.topics[topic_id]
        for group_id in self.groups.keys() - groups_but:
            del self.groups[group_id]
        for group_id, topic_id in list(self.records):
            if group_id not in groups_but or topic_id not in topics_but:
                del self.records[group_id, topic_id]
