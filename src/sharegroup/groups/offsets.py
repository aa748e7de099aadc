"""Committed offsets of groups: where each group goes on in each partition (Kafka class
OffsetMetadataManager).

An offset committed outside a transaction counts at once. An offset committed in a transaction is
*pending*: it counts when the transaction commits, and never if the transaction aborts. If one
partition has commits of both kinds, the later commit counts, whenever the transaction ends.

Order: every commit has a number, and later commits have higher numbers. A rewrite of the log
repeats records in the order of their numbers. A repeated record keeps its number, so that an
interrupted rewrite does not change the order.

Invariants (:meth:`CommittedOffsets.check_invariants`):

* no table is empty, and the number of offsets is right;
* a group's open transactions are the transactions with pending offsets of the group;
* no two commits have the same number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias
from uuid import UUID

from sharegroup.model.ids import NULL_TOPIC_ID, TopicPartition

NONE: Final = -1
"""No leader epoch, no expiry, no producer."""

CHUNK: Final = 16
"""Partitions in one item of :meth:`CommittedOffsets.live_records`."""


class CommittedOffset(NamedTuple):
    """A committed offset. Times are wall-clock milliseconds."""

    offset: int
    leader_epoch: int = NONE
    metadata: str = ""
    commit_ms: int = 0
    expire_ms: int = NONE
    """When the offset expires, which OffsetCommit before version 5 could set; -1: the broker's
    retention counts."""
    topic_id: UUID = NULL_TOPIC_ID
    """The id of the topic at the commit; the null id if no id was noted."""


class OffsetRecord(NamedTuple):
    """A change of one committed offset; None deletes it, and pending offsets of the partition."""

    group_id: str
    topic: str
    partition: int
    committed: CommittedOffset | None
    producer_id: int = NONE
    """The producer of the transaction; -1 outside transactions."""
    producer_epoch: int = NONE


class CommitClient(NamedTuple):
    """The client that commits offsets, as its request describes it."""

    group_id: str
    member_id: str
    """Empty for a client outside the group protocol."""

    instance_id: str | None
    epoch: int
    """Generation of a classic group or member epoch; negative outside the group protocol."""

    transactional: bool
    """TxnOffsetCommit, which may lack a member and an epoch."""

    version: int
    """The version of the request."""


class Commit(NamedTuple):
    """The offset that a member commits for one partition."""

    topic: str
    partition: int
    committed: CommittedOffset

    @property
    def where(self) -> TopicPartition:
        """The partition."""
        return TopicPartition(self.topic, self.partition)


_Entry: TypeAlias = tuple[int, CommittedOffset]
"""Number and offset."""
_Topics: TypeAlias = dict[str, dict[int, _Entry]]


class _Table:
    """Entries by group, topic and partition, without empty tables."""

    def __init__(self) -> None:
        self.groups: dict[str, _Topics] = {}

    def get(self, group_id: str, topic: str, partition: int) -> _Entry | None:
        topics = self.groups.get(group_id)
        partitions = topics.get(topic) if topics else None
        return partitions.get(partition) if partitions else None

    def put(self, group_id: str, topic: str, partition: int, entry: _Entry) -> None:
        self.groups.setdefault(group_id, {}).setdefault(topic, {})[partition] = entry

    def remove(self, group_id: str, topic: str, partition: int) -> bool:
        topics = self.groups.get(group_id)
        partitions = topics.get(topic) if topics else None
        if not topics or not partitions or partitions.pop(partition, None) is None:
            return False
        if not partitions:
            del topics[topic]
        if not topics:
            del self.groups[group_id]
        return True

    def entries(self) -> Iterator[tuple[str, str, int, _Entry]]:
        for group_id, topics in self.groups.items():
            for topic, partitions in topics.items():
                for partition, entry in partitions.items():
                    yield group_id, topic, partition, entry


class _Transaction(_Table):
    """The pending offsets of one producer."""

    def __init__(self) -> None:
        super().__init__()
        self.epoch = NONE


class CommittedOffsets:
    """The committed offsets of all groups of one partition of ``__consumer_offsets``.

    Methods that return records have applied them already.
    """

    def __init__(self) -> None:
        self._live = _Table()
        self._count = 0
        self._transactions: dict[int, _Transaction] = {}
        self._open: dict[str, set[int]] = {}
        """Group → producers with pending offsets of the group."""
        self._number = 0

    # -- queries ------------------------------------------------------------------------------

    def __len__(self) -> int:
        return self._count

    def get(self, group_id: str, topic: str, partition: int) -> CommittedOffset | None:
        """The committed offset of a partition."""
        entry = self._live.get(group_id, topic, partition)
        return entry[1] if entry else None

    def of_group(self, group_id: str) -> Mapping[str, Mapping[int, CommittedOffset]]:
        """All committed offsets of a group by topic and partition; a copy."""
        return {
            topic: {partition: entry[1] for partition, entry in partitions.items()}
            for topic, partitions in self._live.groups.get(group_id, {}).items()
        }

    def is_pending(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether an open transaction has committed an offset of the partition."""
        return any(
            self._transactions[producer_id].get(group_id, topic, partition)
            for producer_id in self._open.get(group_id, ())
        )

    def has_group(self, group_id: str) -> bool:
        """Whether the group has committed or pending offsets."""
        return group_id in self._live.groups or group_id in self._open

    def group_ids(self) -> set[str]:
        """The groups that have committed or pending offsets."""
        return {*self._live.groups, *self._open}

    def pending_producers(self) -> set[int]:
        """The producers of open transactions with pending offsets."""
        return set(self._transactions)

    def pending_of(self, producer_id: int) -> list[tuple[str, TopicPartition]]:
        """Group and partition of each pending offset of a producer."""
        transaction = self._transactions.get(producer_id)
        if transaction is None:
            return []
        return [
            (group_id, TopicPartition(topic, partition))
            for group_id, topic, partition, _ in transaction.entries()
        ]

    def pending(
        self, producer_id: int, group_id: str, topic: str, partition: int
    ) -> CommittedOffset | None:
        """The offset that the producer's open transaction is about to commit. None: it commits
        nothing there, or a later commit counts instead."""
        transaction = self._transactions.get(producer_id)
        entry = transaction.get(group_id, topic, partition) if transaction else None
        known = self._live.get(group_id, topic, partition)
        if entry is None or (known is not None and known[0] > entry[0]):
            return None
        return entry[1]

    # -- changes ------------------------------------------------------------------------------

    def commit(
        self,
        group_id: str,
        commits: Iterable[Commit],
        producer_id: int = NONE,
        producer_epoch: int = NONE,
    ) -> list[OffsetRecord]:
        """Commit offsets; with a producer, as a part of its transaction."""
        records = [OffsetRecord(group_id, *one, producer_id, producer_epoch) for one in commits]
        for record in records:
            self.replay(record)
        return records

    def delete(self, group_id: str, partitions: Iterable[TopicPartition]) -> list[OffsetRecord]:
        """Delete a group's offsets of some partitions, pending offsets included."""
        records = [
            OffsetRecord(group_id, topic, partition, None)
            for topic, partition in dict.fromkeys(partitions)
            if self._live.get(group_id, topic, partition)
            or self.is_pending(group_id, topic, partition)
        ]
        for record in records:
            self.replay(record)
        return records

    def delete_group(self, group_id: str) -> list[OffsetRecord]:
        """Delete all offsets of a group."""
        return self.delete(group_id, self._partitions_of(group_id))

    def delete_topic(self, name: str, topic_id: UUID) -> list[OffsetRecord]:
        """Delete the offsets of all groups in a deleted topic. Offsets noted with another id belong
        to a later topic of that name, and stay."""
        return self._delete_where(
            lambda topic, noted: topic == name and noted in (NULL_TOPIC_ID, topic_id)
        )

    def delete_missing(self, id_of: Callable[[str], UUID | None]) -> list[OffsetRecord]:
        """Delete the offsets of all groups in topics that are gone: ``id_of`` returns the id of
        the topic that has a name now."""

        def gone(topic: str, noted: UUID) -> bool:
            now = id_of(topic)
            return now is None or (noted != NULL_TOPIC_ID and noted != now)

        return self._delete_where(gone)

    def expire(
        self,
        group_id: str,
        now_ms: int,
        retention_ms: int,
        empty_since_ms: int | None,
        subscribes: Callable[[str], bool],
    ) -> list[OffsetRecord]:
        """Delete a group's offsets that have expired (Kafka class OffsetExpirationConditionImpl).

        An offset expires ``retention_ms`` after ``empty_since_ms``; if that is None, after its
        commit. It stays while its topic is subscribed, or the partition has a pending offset. Times
        are wall-clock milliseconds.
        """
        expired = [
            TopicPartition(topic, partition)
            for topic, partitions in self._live.groups.get(group_id, {}).items()
            if not subscribes(topic)
            for partition, (_, committed) in partitions.items()
            if _is_expired(committed, now_ms, retention_ms, empty_since_ms)
            and not self.is_pending(group_id, topic, partition)
        ]
        return self.delete(group_id, expired)

    def replay(self, record: OffsetRecord) -> None:
        """Apply a record of the log."""
        group_id, topic, partition, committed, producer_id, epoch = record
        if committed is None:
            self._remove(group_id, topic, partition)
            return
        if producer_id == NONE:
            known = self._live.get(group_id, topic, partition)
            self._live.put(group_id, topic, partition, self._entry(committed, known))
            self._count += known is None
            return
        transaction = self._transactions.get(producer_id)
        if transaction is None:
            transaction = self._transactions[producer_id] = _Transaction()
        transaction.epoch = epoch
        known = transaction.get(group_id, topic, partition)
        transaction.put(group_id, topic, partition, self._entry(committed, known))
        self._open.setdefault(group_id, set()).add(producer_id)

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        """The producer's pending offsets count now, or never."""
        transaction = self._transactions.pop(producer_id, None)
        if transaction is None:
            return
        for group_id in transaction.groups:
            self._closed(group_id, producer_id)
        if not committed:
            return
        for group_id, topic, partition, entry in transaction.entries():
            known = self._live.get(group_id, topic, partition)
            if known is None or known[0] < entry[0]:
                self._live.put(group_id, topic, partition, entry)
                self._count += known is None

    # -- rewriting ----------------------------------------------------------------------------

    def size(self) -> int:
        """The number of records that :meth:`live_records` yields, about."""
        return self._count + sum(
            len(partitions)
            for transaction in self._transactions.values()
            for topics in transaction.groups.values()
            for partitions in topics.values()
        )

    def live_records(self) -> Iterator[Sequence[OffsetRecord]]:
        """All records, some partitions of a group at a time. Each item is current when it is
        yielded; the offsets may change during the iteration."""
        for group_id in self.group_ids():
            partitions = self._partitions_of(group_id)
            for start in range(0, len(partitions), CHUNK):
                yield self._records(group_id, partitions[start : start + CHUNK])

    def _records(
        self, group_id: str, partitions: Iterable[TopicPartition]
    ) -> Sequence[OffsetRecord]:
        """The offsets that count, then the pending offsets in the order of their commits. A pending
        offset that a later commit has overtaken never counts, and is left out."""
        live: list[OffsetRecord] = []
        pending: list[tuple[int, OffsetRecord]] = []
        for topic, partition in partitions:
            known = self._live.get(group_id, topic, partition)
            if known:
                live.append(OffsetRecord(group_id, topic, partition, known[1]))
            for producer_id in self._open.get(group_id, ()):
                transaction = self._transactions[producer_id]
                entry = transaction.get(group_id, topic, partition)
                if entry and (known is None or known[0] < entry[0]):
                    at = OffsetRecord(
                        group_id, topic, partition, entry[1], producer_id, transaction.epoch
                    )
                    pending.append((entry[0], at))
        return live + [record for _, record in sorted(pending)]

    # -- the rest -----------------------------------------------------------------------------

    def _entry(self, committed: CommittedOffset, known: _Entry | None) -> _Entry:
        if known is not None and known[1] == committed:
            return known  # a rewrite has repeated the record: it keeps its number
        self._number += 1
        return self._number, committed

    def _partitions_of(self, group_id: str) -> list[TopicPartition]:
        tables = [self._live, *(self._transactions[p] for p in self._open.get(group_id, ()))]
        return list(
            dict.fromkeys(
                TopicPartition(topic, partition)
                for table in tables
                for topic, partitions in table.groups.get(group_id, {}).items()
                for partition in partitions
            )
        )

    def _delete_where(self, gone: Callable[[str, UUID], bool]) -> list[OffsetRecord]:
        found: dict[str, list[TopicPartition]] = {}
        for table in (self._live, *self._transactions.values()):
            for group_id, topic, partition, (_, committed) in table.entries():
                if gone(topic, committed.topic_id):
                    found.setdefault(group_id, []).append(TopicPartition(topic, partition))
        return [
            record
            for group_id, partitions in found.items()
            for record in self.delete(group_id, partitions)
        ]

    def _remove(self, group_id: str, topic: str, partition: int) -> None:
        self._count -= self._live.remove(group_id, topic, partition)
        for producer_id in tuple(self._open.get(group_id, ())):
            transaction = self._transactions[producer_id]
            transaction.remove(group_id, topic, partition)
            if group_id not in transaction.groups:
                self._closed(group_id, producer_id)
            if not transaction.groups:
                del self._transactions[producer_id]

    def _closed(self, group_id: str, producer_id: int) -> None:
        producers = self._open[group_id]
        producers.discard(producer_id)
        if not producers:
            del self._open[group_id]

    def check_invariants(self) -> None:
        """Assert what the module's docstring lists."""
        numbers: list[int] = []
        for table in (self._live, *self._transactions.values()):
            assert all(topics and all(topics.values()) for topics in table.groups.values())
            numbers += [entry[0] for _, _, _, entry in table.entries()]
        assert len(numbers) == len(set(numbers)) == self.size()
        assert all(number <= self._number for number in numbers)
        assert self._count == sum(1 for _ in self._live.entries())
        assert all(transaction.groups for transaction in self._transactions.values())
        opened: dict[str, set[int]] = {}
        for producer_id, transaction in self._transactions.items():
            for group_id in transaction.groups:
                opened.setdefault(group_id, set()).add(producer_id)
        assert opened == self._open


def _is_expired(
    committed: CommittedOffset, now_ms: int, retention_ms: int, empty_since_ms: int | None
) -> bool:
    if committed.expire_ms != NONE:
        return now_ms >= committed.expire_ms
    since_ms = committed.commit_ms if empty_since_ms is None else empty_since_ms
    return now_ms - since_ms >= retention_ms
