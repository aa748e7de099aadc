"""Committed offsets and ranges as a machine of the runtime: wraps the core's machine and encodes
its records."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from sharegroup.broker.coordination.cleaning import Rounds
from sharegroup.broker.coordination.log import KeyValue, ProducerEpoch
from sharegroup.groups.offsets import NONE, Commit, CommittedOffsets, OffsetRecord
from sharegroup.groups.range_commits import AnyRecord, IndividualCommits, RangeRecord
from sharegroup.model.ids import TopicPartition
from sharegroup.wire.internal import range_commits
from sharegroup.wire.internal.offsets import KEY_PREFIXES, decode_record, encode_record

GROUPS_PER_TICK: Final = 200
"""Groups looked at for expired offsets between two turns of the event loop."""


class Expiry(NamedTuple):
    """When offsets of groups expire. Both functions are called at each use.

    Source: Kafka classes OffsetExpirationCondition and Group.
    """

    interval_ms: Callable[[], int]
    """``offsets.retention.check.interval.ms``."""
    expire: Callable[[CommittedOffsets, str], Sequence[OffsetRecord]]
    """Deletes the expired offsets of one group."""


class OffsetsMachine:
    """Implements ``machine.TransactionalMachine``."""

    def __init__(self, expiry: Expiry) -> None:
        self.offsets = CommittedOffsets()
        self.individual = IndividualCommits(self.offsets)
        self._expiry = expiry
        self._rounds = Rounds(expiry.interval_ms)
        self._to_check: list[str] = []
        self.expired = 0
        """How many offsets were deleted because they had expired."""

    def replay(self, offset: int, key: bytes, value: bytes | None) -> bool:
        """Apply a record of a committed offset or range; False for other records."""
        if key[:2] == range_commits.KEY_PREFIX:
            self.individual.replay(range_commits.decode_record(key, value))
            return True
        if key[:2] not in KEY_PREFIXES:
            return False
        self.offsets.replay(decode_record(key, value))
        return True

    def replay_pending(
        self, offset: int, key: bytes, value: bytes | None, producer: ProducerEpoch
    ) -> bool:
        """Apply a record of a transaction; False for other records."""
        if key[:2] not in KEY_PREFIXES:
            return False
        self.offsets.replay(decode_record(key, value, *producer))
        return True

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        """Commit the producer's pending offsets, or drop them."""
        moved = self.offsets.pending_of(producer_id) if len(self.individual) else ()
        self.offsets.end_transaction(producer_id, committed=committed)
        for group_id, partition in moved:
            self.individual.moved(group_id, [partition])

    # -- decisions ----------------------------------------------------------------------------

    def commit(self, group_id: str, commits: Sequence[Commit]) -> Sequence[AnyRecord]:
        """Commit plain offsets outside a transaction. The partitions' ranges are forgotten."""
        gone = self.individual.drop(group_id, [one.where for one in commits])
        return [*gone, *self.offsets.commit(group_id, commits)]

    def deleted(self, records: Sequence[OffsetRecord]) -> Sequence[AnyRecord]:
        """Offsets were deleted by ``records``: forget the ranges of the same partitions. Returns
        all records to write."""
        gone: list[RangeRecord] = []
        if self.individual.has_some:
            for record in records:
                where = TopicPartition(record.topic, record.partition)
                gone += self.individual.drop(record.group_id, [where])
        return [*gone, *records]

    # -- the runtime --------------------------------------------------------------------------

    def producer_of(self, record: AnyRecord) -> ProducerEpoch | None:
        """The producer whose transaction the record belongs to; None outside transactions."""
        if isinstance(record, RangeRecord) or record.producer_id == NONE:
            return None
        return ProducerEpoch(record.producer_id, record.producer_epoch)

    def replayed(self, now_ms: int) -> None:
        """Look for expired offsets an interval later, as Kafka does."""
        self._rounds.done(now_ms)
        self.individual.replayed()

    def next_deadline_ms(self) -> int | None:
        """When to look for expired offsets; None while no offsets are committed. At once if records
        of ranges are due."""
        if self.individual.has_due:
            return 0
        return self._rounds.next_ms if len(self.offsets) else None

    def tick(self, now_ms: int) -> Sequence[AnyRecord]:
        """Delete expired offsets, of a few groups at a time; write due records of ranges."""
        if self.individual.has_due:
            return self.individual.take_due()
        if not self._rounds.are_due(now_ms):
            return ()
        if not self._to_check:
            self._to_check = list(self.offsets.group_ids())
        some = self._to_check[-GROUPS_PER_TICK:]
        del self._to_check[-GROUPS_PER_TICK:]
        if not self._to_check:
            self._rounds.done(now_ms)
        expire = self._expiry.expire
        records = [record for group_id in some for record in expire(self.offsets, group_id)]
        self.expired += len(records)
        return self.deleted(records)

    def encode(self, record: AnyRecord) -> KeyValue:
        """The bytes of a record."""
        if isinstance(record, RangeRecord):
            return range_commits.encode_record(record)
        return encode_record(record)

    def durable(self, records: Sequence[AnyRecord], first_offset: int) -> None:
        """Ranges before a durable offset need no records any more."""
        if self.individual.is_waiting:
            for record in records:
                if isinstance(record, OffsetRecord):
                    self.individual.durable(record)

    def lowest_needed(self, end_offset: int) -> int | None:
        """None while there are offsets: it is not remembered where their records are."""
        return None if self.offsets.size() else end_offset

    def size(self) -> int:
        """The number of offsets."""
        return self.offsets.size()

    def live_records(self) -> Iterator[Sequence[OffsetRecord]]:
        """All records of the offsets."""
        return self.offsets.live_records()

    def check_invariants(self) -> None:
        """Raise AssertionError if the state is inconsistent."""
        self.offsets.check_invariants()
        self.individual.check_invariants()
