"""The share coordinator's memory: durable state of share partitions (KIP-932, "Share coordinator").

Kafka's counterpart is class ShareCoordinatorShard. One object holds the keys of one partition of
the state topic. A request is checked, **applied at once**, and the records of its change are
returned. The caller must append them in the order of the calls, answer when they are durable, and
then call :meth:`ShareCoordinator.appended`. If an append fails, the caller must throw the object
away and replay the log into a new one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final
from uuid import UUID

from sharegroup.model.ack_type import AckType
from sharegroup.model.dead_records import DeadKey, DeadRecords
from sharegroup.model.errors import FencedLeaderEpoch, FencedStateEpoch, InvalidRequest
from sharegroup.model.ids import SharePartitionKey, TopicIdPartition
from sharegroup.model.offsets import OFFSET_MAX
from sharegroup.model.pending_acks import EndRules, PendingAck, TransactionMark
from sharegroup.model.share_state import DelayedRow, StateRow
from sharegroup.share_state.answers import CopiedState, ReadResult, StateSummary, Unfinished
from sharegroup.share_state.records import KeyedRecord, ShareSnapshot, StateRecord
from sharegroup.share_state.state import (
    ARCHIVING,
    NO_EPOCH,
    UNINITIALIZED_OFFSET,
    UNKNOWN_COUNT,
    DurableState,
    finished,
    letter,
    without_archiving,
)

DURABLE_STATES: Final = frozenset({0, 2, ARCHIVING, 4})
"""Available, acknowledged, archiving, archived. Acquired (1) is never durable; a leader could not
load it."""


class ShareCoordinator:
    """Durable state of the share partitions of one state-topic partition.

    ``updates_per_snapshot``: ``share.coordinator.snapshot.update.records.per.snapshot``. ``now_ms``
    is wall-clock time here, since it is written into records.
    """

    def __init__(self, updates_per_snapshot: int = 500) -> None:
        self.updates_per_snapshot = updates_per_snapshot
        self._states: dict[SharePartitionKey, DurableState] = {}

    def __len__(self) -> int:
        return len(self._states)

    def __iter__(self) -> Iterator[SharePartitionKey]:
        return iter(self._states)

    def __contains__(self, key: object) -> bool:
        return key in self._states

    def initialize(
        self, key: SharePartitionKey, state_epoch: int, start_offset: int, now_ms: int
    ) -> list[KeyedRecord]:
        """Initialise, or initialise again, at ``start_offset`` (-1: the leader chooses).

        A repeated request that would change nothing returns no record (KAFKA-20972): a retry must
        not throw progress away.

        Raises:
            FencedStateEpoch: the stored state epoch is higher.
            InvalidRequest: a number is out of range.
        """
        if state_epoch < 0 or start_offset < UNINITIALIZED_OFFSET:
            raise InvalidRequest(f"State epoch {state_epoch}, start offset {start_offset}.")
        state = self._states.get(key)
        if state is not None:
            self._check_state_epoch(state, state_epoch)
            if (state.state_epoch, state.start_offset) == (state_epoch, start_offset):
                state.merge()
                if not state.batches:
                    return []
        unknown = start_offset == UNINITIALIZED_OFFSET
        begins = CopiedState(start_offset, UNKNOWN_COUNT if unknown else 0)
        return [self._begun(key, state_epoch, begins, now_ms)]

    def copy(self, key: SharePartitionKey) -> CopiedState:
        """The state as another group may begin with it; of an unknown key, one that the leader
        chooses. Records in flight are available there. Dead letters that are not written yet stay
        the matter of this group alone."""
        state = self._states.get(key)
        if state is None:
            return CopiedState(UNINITIALIZED_OFFSET, UNKNOWN_COUNT)
        state.merge()
        return CopiedState(
            state.start_offset,
            state.delivery_complete_count,
            tuple(state.batches),
            tuple(state.delayed),
        )

    def fork(
        self, key: SharePartitionKey, state_epoch: int, copied: CopiedState, now_ms: int
    ) -> list[KeyedRecord]:
        """Initialise, or initialise again, with the state of another group.

        Raises:
            FencedStateEpoch: the stored state epoch is higher.
        """
        state = self._states.get(key)
        if state is not None:
            self._check_state_epoch(state, state_epoch)
        return [self._begun(key, state_epoch, copied, now_ms)]

    def _begun(
        self, key: SharePartitionKey, state_epoch: int, begins: CopiedState, now_ms: int
    ) -> KeyedRecord:
        state = self._states.get(key)
        snapshot = ShareSnapshot(
            snapshot_epoch=0 if state is None else state.snapshot_epoch + 1,
            state_epoch=state_epoch,
            leader_epoch=NO_EPOCH,
            start_offset=begins.start_offset,
            delivery_complete_count=begins.delivery_complete_count,
            create_timestamp_ms=now_ms,
            write_timestamp_ms=now_ms,
            state_batches=begins.batches,
            delayed=begins.delayed,
            # Records that have failed keep their claim to a dead letter, whatever comes next.
            dead=() if state is None else tuple(state.dead.values()),
        )
        return self._snapshotted(key, snapshot)

    def read(
        self, key: SharePartitionKey, leader_epoch: int, now_ms: int
    ) -> tuple[ReadResult, list[KeyedRecord]]:
        """The state for a leader that loads it, and the record that fences its predecessors.

        Raises:
            InvalidRequest: the key was never initialised.
            FencedLeaderEpoch: a later leader has read the state.
        """
        state = self._existing(key, "Read")
        self._check_leader_epoch(state, leader_epoch)
        state.merge()
        result = ReadResult(
            state.state_epoch,
            state.start_offset,
            tuple(state.batches),
            tuple(state.delayed),
            tuple(state.pending),
        )
        if leader_epoch <= state.leader_epoch:
            return result, []
        state.leader_epoch = leader_epoch
        state.updates += 1
        if self._is_due(state):
            return result, [self._snapshotted(key, state.snapshot(now_ms))]
        return result, [KeyedRecord(key, state.update())]

    def write(
        self,
        key: SharePartitionKey,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
        batches: tuple[StateRow, ...],
        now_ms: int,
        *,
        lowers: bool = False,
        delayed: tuple[DelayedRow, ...] = (),
        dead: tuple[DeadRecords, ...] = (),
        buried: tuple[DeadKey, ...] = (),
        pending: tuple[PendingAck, ...] = (),
        ended: tuple[TransactionMark, ...] = (),
    ) -> KeyedRecord:
        """Apply a leader's change; returns the record to append.

        ``delayed`` are those of ``batches`` that must not be delivered again before a time, in
        milliseconds since 1970. ``dead`` are records that failed for good and must become dead
        letters; ``buried`` are earlier ones whose dead letters are written. ``pending`` are
        acknowledgements that wait for their transactions; those of the ``ended`` ones do not.

        -1 as ``start_offset`` or ``delivery_complete_count`` leaves the stored value; epochs of -1
        are not checked. The stored leader epoch is not raised. With ``lowers`` the batches replace
        the stored state of their offsets. The record is a snapshot then: an update cannot lower a
        delivery count, since the higher one wins in a merge.

        Raises:
            InvalidRequest: the key was never initialised, or a batch is not a valid range in a
                durable state.
            FencedLeaderEpoch: a later leader has read the state.
            FencedStateEpoch: the state was initialised again since.
        """
        state = self._existing(key, "Write")
        self._check_leader_epoch(state, leader_epoch)
        if state_epoch != NO_EPOCH:
            self._check_state_epoch(state, state_epoch)
        archiving = False
        for first, last, delivery_state, count in batches:
            archiving = archiving or delivery_state == ARCHIVING
            if first < 0 or last < first or count < 0 or delivery_state not in DURABLE_STATES:
                raise InvalidRequest(
                    f"State batch {first}-{last} in state {delivery_state}, delivered {count} "
                    "times, is not a valid durable state."
                )
        if archiving:
            batches, kafkas = without_archiving(batches)
            dead += kafkas
        if lowers:
            state.forget(batches)
        state.add(start_offset, delivery_complete_count, batches, delayed)
        if dead or buried:
            state.bury(buried, dead)
        if pending or ended:
            state.end_pending(ended, pending)
        if lowers:
            return self._snapshotted(key, state.snapshot(now_ms))
        state.merge_when_due()
        if self._is_due(state):
            return self._snapshotted(key, state.snapshot(now_ms))
        return KeyedRecord(key, state.update(batches, delayed, dead, buried, pending, ended))

    def bury(
        self,
        key: SharePartitionKey,
        left: Mapping[DeadKey, Sequence[DeadRecords]],
        now_ms: int,
    ) -> list[KeyedRecord]:
        """Forget dead records whose dead letters are written. Whoever leads the share partition may
        write meanwhile: no epoch is checked. Unknown dead records are no error: the group or topic
        was deleted.

        Args:
            left: for each of the dead records, what of them has no dead letter yet.
        """
        state = self._states.get(key)
        buried = () if state is None else tuple(name for name in left if name in state.dead)
        if not buried:
            return []
        unchanged = (NO_EPOCH, NO_EPOCH, UNINITIALIZED_OFFSET, UNKNOWN_COUNT, ())
        dead = tuple(one for name in buried for one in left[name])
        return [self.write(key, *unchanged, now_ms, dead=dead, buried=buried)]

    def pending_of(self, transaction: TransactionMark) -> dict[SharePartitionKey, list[PendingAck]]:
        """The acknowledgements that the end of a transaction decides about."""
        found: dict[SharePartitionKey, list[PendingAck]] = {}
        for key, state in self._states.items():
            for one in state.pending:
                if transaction.ends(one.transaction):
                    found.setdefault(key, []).append(one)
        return found

    def end_transaction(
        self,
        key: SharePartitionKey,
        transaction: TransactionMark,
        now_ms: int,
        rules: EndRules,
        *,
        committed: bool,
    ) -> list[KeyedRecord]:
        """Carry out the end of a transaction for a share partition that no leader has in memory: no
        epoch is checked. Without pending acknowledgements of it there is nothing to do.

        Start offset and count stay: the leader that loads the state moves them.
        """
        state = self._states.get(key)
        if state is None:
            return []
        ended = [one for one in state.pending if transaction.ends(one.transaction)]
        if not ended:
            return []
        rows, delayed, dead = list[StateRow](), list[DelayedRow](), list[DeadRecords]()
        if not committed:
            rows, delayed, dead = state.given_back(ended, rules, now_ms)
        else:
            rows = [finished(one) for one in ended]
            if rules.dead_letters:
                dead = [letter(one, now_ms) for one in ended if one.kind == AckType.REJECT]
        unchanged = (NO_EPOCH, NO_EPOCH, UNINITIALIZED_OFFSET, UNKNOWN_COUNT, tuple(rows))
        return [
            self.write(
                key,
                *unchanged,
                now_ms,
                delayed=tuple(delayed),
                dead=tuple(dead),
                ended=(transaction,),
            )
        ]

    def delete(self, key: SharePartitionKey) -> list[KeyedRecord]:
        """Forget a share partition; an unknown key is no error."""
        return [] if self._states.pop(key, None) is None else [KeyedRecord(key, None)]

    def offsets_seen(self) -> dict[TopicIdPartition, int]:
        """For each partition, the end (exclusive) of the offsets that leaders have seen: records
        below it were delivered or passed over.
        """
        seen: dict[TopicIdPartition, int] = {}
        for key, state in self._states.items():
            if state.leader_epoch == NO_EPOCH:
                continue  # no leader has loaded it: its start offset may lie anywhere
            state.merge()
            end = state.batches[-1][1] + 1 if state.batches else 0
            where = TopicIdPartition(key.topic_id, key.partition)
            seen[where] = max(seen.get(where, 0), state.start_offset, end)
        return seen

    def all_keys(self) -> list[SharePartitionKey]:
        """All keys that have a state, sorted."""
        return sorted(self._states)

    def keys_before(self, starts: Mapping[TopicIdPartition, int]) -> list[SharePartitionKey]:
        """Keys whose start offset is below the offset that ``starts`` has for their partition."""
        return [
            key
            for key, state in self._states.items()
            if 0
            <= state.start_offset
            < starts.get(TopicIdPartition(key.topic_id, key.partition), 0)
        ]

    def unfinished(
        self, groups: Mapping[UUID, Collection[str]]
    ) -> dict[SharePartitionKey, Unfinished]:
        """What is unfinished in the share partitions of ``groups``, by topic id; share partitions
        without a state are left out."""
        return {
            key: Unfinished(
                state.start_offset,
                min((one.first for one in state.dead.values()), default=OFFSET_MAX),
            )
            for key, state in self._states.items()
            if key.group_id in groups.get(key.topic_id, ())
        }

    def keys_of_other_topics(self, exists: Callable[[UUID], bool]) -> list[SharePartitionKey]:
        """Keys whose topic does not exist (any more)."""
        known = {topic_id: exists(topic_id) for topic_id in {key.topic_id for key in self._states}}
        return [key for key in self._states if not known[key.topic_id]]

    def keys_with_dead(self) -> list[SharePartitionKey]:
        """Keys with dead records that have no dead letter yet."""
        return [key for key, state in self._states.items() if state.dead]

    def dead_counts(self) -> dict[str, int]:
        """How many dead records without a dead letter each group has."""
        counts: Counter[str] = Counter()
        for key, state in self._states.items():
            if state.dead:
                counts[key.group_id] += sum(one.size for one in state.dead.values())
        return dict(counts)

    def dead_weight(self, key: SharePartitionKey) -> int:
        """About how many bytes the dead records of a key take in a snapshot."""
        state = self._states.get(key)
        return 0 if state is None else state.dead_weight

    def dead(self, key: SharePartitionKey) -> list[DeadRecords]:
        """The dead records of a key that have no dead letter yet, in the order of their offsets."""
        state = self._states.get(key)
        return [] if state is None else sorted(state.dead.values())

    def summary(self, key: SharePartitionKey) -> StateSummary:
        """State epoch, leader epoch, start and count; of an unknown key (0, 0, -1, -1)."""
        state = self._states.get(key)
        if state is None:
            return StateSummary(0, 0, UNINITIALIZED_OFFSET, UNKNOWN_COUNT)
        return StateSummary(
            state.state_epoch,
            state.leader_epoch,
            state.start_offset,
            state.delivery_complete_count,
        )

    def replay(
        self, key: SharePartitionKey, record: StateRecord | None, record_offset: int
    ) -> None:
        """Apply a record read from the log. The records of a key must come in log order.

        An update without its snapshot is ignored: pruning removed the snapshot, so a newer one
        follows.
        """
        if record is None:
            self._states.pop(key, None)
        elif isinstance(record, ShareSnapshot):
            batches, kafkas = without_archiving(record.state_batches)
            if kafkas:
                record = replace(record, state_batches=batches, dead=record.dead + kafkas)
            self._states[key] = DurableState(record)
            self.appended(key, record, record_offset)
        else:
            state = self._states.get(key)
            if state is not None and state.snapshot_epoch == record.snapshot_epoch:
                state.leader_epoch = max(state.leader_epoch, record.leader_epoch)
                batches, kafkas = without_archiving(record.state_batches)
                state.add(
                    record.start_offset, record.delivery_complete_count, batches, record.delayed
                )
                state.bury(record.buried, record.dead + kafkas)
                if record.pending or record.ended:
                    state.end_pending(record.ended, record.pending)

    # -- snapshots for their age, and what the log may lose --------------------------------

    def appended(
        self, key: SharePartitionKey, record: StateRecord | None, record_offset: int
    ) -> None:
        """Note that ``record`` is **durable** at ``record_offset``, for :meth:`lowest_needed`."""
        state = self._states.get(key)
        if state is not None and isinstance(record, ShareSnapshot):
            state.snapshot_offset = max(record_offset, state.snapshot_offset or 0)

    def lowest_needed(self, end_offset: int) -> int | None:
        """The offset of the oldest snapshot in use: the log below it may be deleted.

        Without keys it is ``end_offset``, the end of the log. None: the first snapshot of some key
        is not durable yet, so the offset is not known.
        """
        offsets = [state.snapshot_offset for state in self._states.values()]
        known = [offset for offset in offsets if offset is not None]
        return min(known, default=end_offset) if len(known) == len(offsets) else None

    def keys_without_snapshot_since(self, offset: int) -> list[SharePartitionKey]:
        """Keys whose state depends on records at or before ``offset``, sorted."""
        return sorted(
            key for key, state in self._states.items() if (state.snapshot_offset or 0) <= offset
        )

    def cold_keys(self, now_ms: int, interval_ms: int) -> list[SharePartitionKey]:
        """Keys that had no snapshot for ``interval_ms``; empty when every key is cold already."""
        states = self._states
        if all(state.cold for state in states.values()):
            return []
        return [key for key, state in states.items() if state.write_ms + interval_ms <= now_ms]

    def cold_snapshots(self, keys: Iterable[SharePartitionKey], now_ms: int) -> list[KeyedRecord]:
        """Cold snapshots of the state of ``keys``, as it is; deleted keys are left out."""
        return [
            self._snapshotted(key, state.snapshot(now_ms, cold=True))
            for key in keys
            if (state := self._states.get(key)) is not None
        ]

    def check_invariants(self) -> None:
        """Assert what each state asserts of itself."""
        for state in self._states.values():
            state.check_invariants()

    # ---------------------------------------------------------------------------------------

    def _is_due(self, state: DurableState) -> bool:
        """Whether the next record is a snapshot: after more than ``updates_per_snapshot`` updates.
        With many dead records it waits longer, since it writes all of them again."""
        return state.updates > self.updates_per_snapshot + len(state.dead)

    def _snapshotted(self, key: SharePartitionKey, snapshot: ShareSnapshot) -> KeyedRecord:
        """Make ``snapshot`` the state of ``key``; returns its record.

        The previous snapshot is needed until :meth:`appended` is called for this one.
        """
        before = self._states.get(key)
        state = self._states[key] = DurableState(snapshot)
        if before is not None:
            state.snapshot_offset = before.snapshot_offset
        return KeyedRecord(key, snapshot)

    def _existing(self, key: SharePartitionKey, operation: str) -> DurableState:
        state = self._states.get(key)
        if state is None:
            raise InvalidRequest(f"{operation} operation on uninitialized share partition {key}.")
        return state

    @staticmethod
    def _check_state_epoch(state: DurableState, state_epoch: int) -> None:
        if state_epoch < state.state_epoch:
            raise FencedStateEpoch

    @staticmethod
    def _check_leader_epoch(state: DurableState, leader_epoch: int) -> None:
        if leader_epoch < NO_EPOCH:
            raise InvalidRequest(f"Leader epoch {leader_epoch} is negative.")
        if leader_epoch != NO_EPOCH and leader_epoch < state.leader_epoch:
            raise FencedLeaderEpoch
