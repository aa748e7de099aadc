"""Individual commits: ranges of offsets that groups have committed after their committed offset
(KIP-X, "Individual Commit").

The *stable offset* of a partition is the group's committed offset, in ``__consumer_offsets`` as
ever. The ranges after it are records of ``__individual_commit_offsets``, one for each range.

**Order on disk.** A commit may write to both logs, and a crash may keep one of the two writes:

* The null record of a range that is merged into another one is in one batch with the new range.
* A range that the stable offset has taken in is *superseded*. Its null record is written only when
  the stable offset is durable (:meth:`IndividualCommits.take_due`).
* A commit of a plain offset drops the ranges, because it may move the group back. The null records
  must be durable before the offset is written: a range that stayed would hide records. In a
  transaction this is done at its end, before the marker (:meth:`IndividualCommits.drop_ahead`):
  until then nobody knows whether the offset will count.
* Ranges of a partition without a committed offset count for nothing: the group's first commit was
  never confirmed, or the offset was deleted.

Invariants (:meth:`IndividualCommits.check_invariants`):

* each partition with ranges has a committed offset, which lies before the first range and does not
  touch it;
* the number of ranges of each group is right.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple, TypeAlias

from sharegroup.cooperative.committed import CommittedRanges as Ranges
from sharegroup.cooperative.intervals import Interval, Intervals, minus
from sharegroup.groups.offsets import NONE, Commit, CommittedOffset, CommittedOffsets, OffsetRecord
from sharegroup.model import errors
from sharegroup.model.ids import TopicPartition

Where: TypeAlias = tuple[str, str, int]
"""Group, topic and partition."""


class RangeRecord(NamedTuple):
    """A change of a committed range of offsets; both ends are included."""

    group_id: str
    topic: str
    partition: int
    first: int
    last: int
    written: bool
    """Whether the range has a record; else a null record deletes it."""
    commit_ms: int = 0


AnyRecord: TypeAlias = OffsetRecord | RangeRecord


class RangeCommit(NamedTuple):
    """What a member commits for one partition."""

    commit: Commit
    """Its offset is where the group begins, if it has no committed offset in the partition."""
    ranges: Intervals
    """Empty: only that offset is committed."""


class RangesCommitted(NamedTuple):
    """The answer for one partition."""

    stable: int
    """The stable offset afterwards; -1: there is no stable offset."""
    error: errors.KafkaError | None
    """None, INDIVIDUAL_COMMIT_TOO_OLD or MAX_INDIVIDUAL_COMMIT_REACHED."""


class IndividualCommits:
    """The ranges of all groups of one partition of ``__individual_commit_offsets``.

    Methods that return records have applied them already.
    """

    def __init__(self, offsets: CommittedOffsets) -> None:
        self._offsets = offsets
        self._ranges: dict[str, dict[TopicPartition, Ranges]] = {}
        """Group → partition → its ranges, at least one."""
        self._counts: dict[str, int] = {}
        """Group → how many ranges it has."""
        self._taken_in: dict[Where, set[Interval]] = {}
        """Ranges before a stable offset that is not known to be durable."""
        self._due: list[AnyRecord] = []
        self._replayed: dict[Where, set[Interval]] = {}
        self.duplicates = 0
        """Offsets that were committed twice."""

    # -- queries ------------------------------------------------------------------------------

    def __len__(self) -> int:
        """The number of ranges."""
        return sum(self._counts.values())

    @property
    def has_some(self) -> bool:
        """Whether there are ranges, or records of earlier ranges."""
        return bool(self._ranges or self._taken_in)

    @property
    def has_due(self) -> bool:
        """Whether :meth:`take_due` may have records."""
        return bool(self._due)

    @property
    def is_waiting(self) -> bool:
        """Whether :meth:`durable` wants to know of records."""
        return bool(self._taken_in)

    def of(self, group_id: str, topic: str, partition: int) -> Intervals:
        """The ranges of a partition, ascending."""
        known = self._ranges.get(group_id, {}).get(TopicPartition(topic, partition))
        return known.ranges if known is not None else ()

    def blocks(self, group_id: str, one: RangeCommit, pending: int) -> bool:
        """Whether an offset between the stable offset and the last of the ranges is neither in the
        ranges nor committed. If so, a transaction with these ranges has to wait.

        Args:
            one: it has ranges. As in :meth:`commit`, the group begins at its offset if it has no
                committed offset in the partition.
            pending: the offset that the transaction itself commits already; or NONE.
        """
        where = (group_id, *one.commit.where)
        stable = self._offsets.get(*where) or one.commit.committed
        begin, last = max(stable.offset, pending, 0), one.ranges[-1][1]
        wanted = ((begin, last),) if begin <= last else ()
        return bool(minus(minus(wanted, one.ranges), self.of(*where)))

    def going_back(self, producer_id: int) -> list[tuple[str, TopicPartition]]:
        """Group and partition of the ranges that do not outlive a commit of the producer's
        transaction: it moves the group back."""
        found = []
        for group_id, where in self._offsets.pending_of(producer_id) if self.has_some else ():
            committed = self._offsets.get(group_id, *where)
            pending = self._offsets.pending(producer_id, group_id, *where)
            back = committed and pending and pending.offset < committed.offset
            if back and self.has_any(group_id, [where]):
                found.append((group_id, where))
        return found

    # -- changes ------------------------------------------------------------------------------

    def commit(
        self, group_id: str, commits: Iterable[RangeCommit], ranges_max: int
    ) -> tuple[list[RangesCommitted], list[AnyRecord]]:
        """Commit ranges; each partition has its own answer.

        Args:
            ranges_max: how many ranges the group may have.
        """
        answers: list[RangesCommitted] = []
        records = self.take_due()
        for one in commits:
            where = (group_id, one.commit.topic, one.commit.partition)
            error = None
            try:
                records += self._commit(where, one, ranges_max)
            except (errors.IndividualCommitTooOld, errors.MaxIndividualCommitReached) as refused:
                error = refused
            committed = self._offsets.get(*where)
            answers.append(RangesCommitted(NONE if committed is None else committed.offset, error))
        return answers, records

    def drop(self, group_id: str, partitions: Iterable[TopicPartition]) -> list[RangeRecord]:
        """Forget the ranges of some partitions."""
        records: list[RangeRecord] = []
        for partition in partitions:
            where: Where = (group_id, partition.topic, partition.partition)
            gone: set[Interval] = {*self._taken_in.pop(where, ()), *self.of(*where)}
            self._put(where, None)
            records += [RangeRecord(*where, *each, False) for each in sorted(gone)]
        return records

    def drop_ahead(self, producer_id: int) -> list[RangeRecord]:
        """Forget the ranges that do not outlive a commit of the producer's transaction, which is
        about to be written."""
        going = self.going_back(producer_id)
        return [record for group_id, where in going for record in self.drop(group_id, [where])]

    def has_any(self, group_id: str, partitions: Iterable[TopicPartition]) -> bool:
        """Whether :meth:`drop` has something to do."""
        own = self._ranges.get(group_id, {})
        if not own and not self._taken_in:
            return False
        return any(where in own or (group_id, *where) in self._taken_in for where in partitions)

    def durable(self, record: OffsetRecord) -> None:
        """A committed offset is durable: ranges before it need no records any more."""
        where = record[:3]
        waiting = self._taken_in.get(where)
        if waiting is None or record.committed is None:
            return
        done = {each for each in waiting if each[1] < record.committed.offset}
        self._due += [RangeRecord(*where, *each, False) for each in sorted(done)]
        waiting -= done
        if not waiting:
            del self._taken_in[where]

    def moved(self, group_id: str, partitions: Iterable[TopicPartition]) -> None:
        """Committed offsets were moved by the end of a transaction."""
        for partition in partitions:
            where = (group_id, partition.topic, partition.partition)
            own = self._ranges.get(group_id, {}).get(partition)
            committed = self._offsets.get(*where)
            if own is None or committed is None:
                continue
            if committed.offset < own.stable:  # a plain offset, which moves the group back
                self._due += self.drop(group_id, [partition])
                continue
            self._take_in(where, own.advance(committed.offset))
            self._put(where, own)
            self._due += self._move(where, committed, own.stable)

    def take_due(self) -> list[AnyRecord]:
        """The records that are due to be written. If the write fails, the machine is loaded
        again."""
        found, self._due = self._due, []
        return [each for each in found if self._is_true(each)]

    # -- replay -------------------------------------------------------------------------------

    def replay(self, record: RangeRecord) -> None:
        """Note a record of the log; :meth:`replayed` applies all noted records."""
        noted = self._replayed.setdefault(record[:3], set())
        if record.written:
            noted.add((record.first, record.last))
        else:
            noted.discard((record.first, record.last))

    def replayed(self) -> None:
        """Both logs were read to their ends."""
        for where, noted in self._replayed.items():
            committed = self._offsets.get(*where)
            live: Intervals = ()
            if noted and committed is not None:
                own = Ranges(committed.offset)
                own.commit(noted)
                live = own.ranges
                self._put(where, own)
                self._take_in(where, [each for each in noted if each[1] < own.stable])
                self._due += self._move(where, committed, own.stable)
            self._due += [RangeRecord(*where, *each, True) for each in live if each not in noted]
            waiting = self._taken_in.get(where, ())
            self._due += [
                RangeRecord(*where, *each, False)
                for each in sorted(noted)
                if each not in live and each not in waiting
            ]
        self._replayed = {}

    def check_invariants(self) -> None:
        """Assert what the module's docstring lists."""
        for group_id, own in self._ranges.items():
            assert own
            assert self._counts[group_id] == sum(map(len, own.values()))
            for partition, ranges in own.items():
                committed = self._offsets.get(group_id, *partition)
                assert len(ranges)
                assert committed is not None
                assert ranges.stable == committed.offset
                ranges.check_invariants()
        assert self._counts.keys() == self._ranges.keys()

    # -- the rest -----------------------------------------------------------------------------

    def _commit(self, where: Where, one: RangeCommit, ranges_max: int) -> list[AnyRecord]:
        group_id, *_ = where
        partition = TopicPartition(*where[1:])
        committed = self._offsets.get(*where)
        own = self._ranges.get(group_id, {}).get(partition)
        if committed is None:
            own = Ranges(max(one.commit.committed.offset, 0))
        elif one.ranges and one.ranges[-1][1] < committed.offset:
            self.duplicates += sum(last - first + 1 for first, last in one.ranges)
            raise errors.IndividualCommitTooOld
        elif own is None:
            own = Ranges(committed.offset)
        room = ranges_max - self._counts.get(group_id, 0)
        if len(one.ranges) > room and own.growth(one.ranges) > room:
            raise errors.MaxIndividualCommitReached(f"the group has {ranges_max} ranges of offsets")
        done = own.commit(one.ranges)
        self.duplicates += done.duplicates
        self._put(where, own)
        records: list[AnyRecord] = []
        if committed is None or done.stable is not None:
            moved = one.commit.committed._replace(offset=own.stable)
            records += self._offsets.commit(group_id, [Commit(*partition, moved)])
        taken = {each for each in done.deleted if each[1] < own.stable}
        self._take_in(where, taken)
        records += [RangeRecord(*where, *each, False) for each in done.deleted if each not in taken]
        commit_ms = one.commit.committed.commit_ms
        records += [RangeRecord(*where, *each, True, commit_ms) for each in done.written]
        return records

    def _move(self, where: Where, committed: CommittedOffset, stable: int) -> list[OffsetRecord]:
        """The record of a committed offset, if ranges have moved the offset."""
        if stable == committed.offset:
            return []
        moved = committed._replace(offset=stable)
        return self._offsets.commit(where[0], [Commit(where[1], where[2], moved)])

    def _take_in(self, where: Where, ranges: Collection[Interval]) -> None:
        if ranges:
            self._taken_in.setdefault(where, set()).update(ranges)

    def _put(self, where: Where, ranges: Ranges | None) -> None:
        """Keep the ranges of a partition, if there are any."""
        group_id, partition = where[0], TopicPartition(*where[1:])
        own = self._ranges.setdefault(group_id, {})
        if ranges:
            own[partition] = ranges
        else:
            own.pop(partition, None)
        if own:
            self._counts[group_id] = sum(map(len, own.values()))
        else:
            del self._ranges[group_id]
            self._counts.pop(group_id, None)

    def _is_true(self, record: AnyRecord) -> bool:
        """Whether a record still agrees with the state."""
        if isinstance(record, OffsetRecord):
            return self._offsets.get(*record[:3]) == record.committed
        is_live = (record.first, record.last) in self.of(*record[:3])
        return is_live == record.written
