"""The share coordinator's memory: durable state of share partitions (KIP-932, "Share coordinator").

Kafka's counterpart is class ShareCoordinatorShard. One object holds the keys of one partition of
the state topic. A request is checked, **applied at once**, and the records that stand for it are
returned; the caller must append them, in the order of the calls, and answer when they are durable.
When an append fails the caller must throw the object away and replay the log into a new one.

Merging is deferred: a write adds its batches to a pile, which is merged when it has outgrown what
it is added to, or when the whole is wanted. So a write costs its own batches, amortised. Merging
is order-free (:mod:`sharegroup.share_state.merge`), so nothing is lost by waiting.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from sharegroup.model.errors import FencedLeaderEpoch, FencedStateEpoch, InvalidRequest
from sharegroup.model.ids import SharePartitionKey
from sharegroup.model.share_state import StateBatch
from sharegroup.share_state.merge import merged
from sharegroup.share_state.records import KeyedRecord, ShareSnapshot, ShareUpdate, StateRecord

NO_EPOCH: Final = -1
"""Leader epoch in a request: do not check; stored: no leader has read the state yet."""
UNINITIALIZED_OFFSET: Final = -1
"""Start offset: the leader is to choose it by ``share.auto.offset.reset``."""
UNKNOWN_COUNT: Final = -1
_PILE_MIN: Final = 256


class ReadResult(NamedTuple):
    """What a share-partition leader loads."""

    state_epoch: int
    start_offset: int
    batches: tuple[StateBatch, ...]


class StateSummary(NamedTuple):
    """What administration wants to know of a share partition."""

    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int


class _State:
    """One share partition's state in memory."""

    __slots__ = (
        "batches",
        "create_ms",
        "delivery_complete_count",
        "leader_epoch",
        "pile",
        "snapshot_epoch",
        "snapshot_offset",
        "start_offset",
        "state_epoch",
        "updates",
        "write_ms",
    )

    def __init__(self, snapshot: ShareSnapshot) -> None:
        self.snapshot_epoch = snapshot.snapshot_epoch
        self.state_epoch = snapshot.state_epoch
        self.leader_epoch = snapshot.leader_epoch
        self.start_offset = snapshot.start_offset
        self.delivery_complete_count = snapshot.delivery_complete_count
        self.create_ms = snapshot.create_timestamp_ms
        self.write_ms = snapshot.write_timestamp_ms
        self.batches = list(snapshot.state_batches)
        self.pile: list[StateBatch] = []
        self.updates = 0
        self.snapshot_offset: int | None = None

    def add(self, start_offset: int, complete: int, batches: Iterable[StateBatch]) -> None:
        """Take in a write. A start offset behind the stored one is late news and moves nothing."""
        if start_offset == UNINITIALIZED_OFFSET or start_offset >= self.start_offset:
            self.start_offset = max(self.start_offset, start_offset)
            if complete != UNKNOWN_COUNT:
                self.delivery_complete_count = complete
        self.pile += batches
        self.updates += 1
        if len(self.pile) > len(self.batches) + _PILE_MIN:
            self.merge()

    def merge(self) -> None:
        """Work the pile in, and drop what lies below the start."""
        self.batches = merged(self.batches + self.pile, self.start_offset)
        self.pile = []

    def snapshot(self, now_ms: int, *, cold: bool = False) -> ShareSnapshot:
        """The whole state as the next snapshot."""
        self.merge()
        return ShareSnapshot(
            snapshot_epoch=self.snapshot_epoch + 1,
            state_epoch=self.state_epoch,
            leader_epoch=self.leader_epoch,
            start_offset=self.start_offset,
            delivery_complete_count=self.delivery_complete_count,
            create_timestamp_ms=self.create_ms if cold else now_ms,
            write_timestamp_ms=now_ms,
            state_batches=tuple(self.batches),
        )

    def update(self, batches: tuple[StateBatch, ...] = ()) -> ShareUpdate:
        """An amendment that carries ``batches``."""
        return ShareUpdate(
            snapshot_epoch=self.snapshot_epoch,
            leader_epoch=self.leader_epoch,
            start_offset=self.start_offset,
            delivery_complete_count=self.delivery_complete_count,
            state_batches=batches,
        )


class ShareCoordinator:
    """Durable state of the share partitions of one state-topic partition.

    ``updates_per_snapshot``: ``share.coordinator.snapshot.update.records.per.snapshot``. ``now_ms``
    is wall-clock time here, since it is written into records.
    """

    def __init__(self, updates_per_snapshot: int = 500) -> None:
        self.updates_per_snapshot = updates_per_snapshot
        self._states: dict[SharePartitionKey, _State] = {}

    def __len__(self) -> int:
        return len(self._states)

    def __contains__(self, key: SharePartitionKey) -> bool:
        return key in self._states

    def initialize(
        self, key: SharePartitionKey, state_epoch: int, start_offset: int, now_ms: int
    ) -> list[KeyedRecord]:
        """Begin, or begin anew, at ``start_offset`` (-1: the leader chooses).

        Saying again what is so already returns no record (KAFKA-20972): a retry must not throw
        progress away.

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
        snapshot = ShareSnapshot(
            snapshot_epoch=0 if state is None else state.snapshot_epoch + 1,
            state_epoch=state_epoch,
            leader_epoch=NO_EPOCH,
            start_offset=start_offset,
            delivery_complete_count=UNKNOWN_COUNT if unknown else 0,
            create_timestamp_ms=now_ms,
            write_timestamp_ms=now_ms,
            state_batches=(),
        )
        return [self._snapshotted(key, snapshot)]

    def read(
        self, key: SharePartitionKey, leader_epoch: int
    ) -> tuple[ReadResult, list[KeyedRecord]]:
        """The state for a leader that loads it, and the record that fences its predecessors.

        Raises:
            InvalidRequest: the key was never initialised.
            FencedLeaderEpoch: a later leader has read the state.
        """
        state = self._existing(key)
        self._check_leader_epoch(state, leader_epoch)
        records = []
        if leader_epoch > state.leader_epoch:
            state.leader_epoch = leader_epoch
            state.updates += 1
            records.append(KeyedRecord(key, state.update()))
        state.merge()
        result = ReadResult(state.state_epoch, state.start_offset, tuple(state.batches))
        return result, records

    def write(
        self,
        key: SharePartitionKey,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
        batches: tuple[StateBatch, ...],
        now_ms: int,
    ) -> KeyedRecord:
        """Take in what a leader changed; the record to append.

        ``start_offset`` and ``delivery_complete_count`` -1 leave the stored ones. The stored
        leader epoch is not raised.

        Raises:
            InvalidRequest: the key was never initialised, or a batch is no range.
            FencedStateEpoch: the state was initialised anew since.
            FencedLeaderEpoch: a later leader has read the state.
        """
        state = self._existing(key)
        self._check_state_epoch(state, state_epoch)
        self._check_leader_epoch(state, leader_epoch)
        for first, last, _, _ in batches:
            if first < 0 or last < first:
                raise InvalidRequest(f"State batch {first}-{last} is no range.")
        state.add(start_offset, delivery_complete_count, batches)
        if state.updates > self.updates_per_snapshot:
            return self._snapshotted(key, state.snapshot(now_ms))
        return KeyedRecord(key, state.update(batches))

    def delete(self, key: SharePartitionKey) -> list[KeyedRecord]:
        """Forget a share partition; a key that is not known is no error."""
        self._states.pop(key, None)
        return [KeyedRecord(key, None)]

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
        self, key: SharePartitionKey, record: StateRecord | None, record_offset: int | None = None
    ) -> None:
        """Take in a record read from the log, in log order.

        An update without its snapshot is left out: pruning took the snapshot, so a newer one
        follows.
        """
        if record is None:
            self._states.pop(key, None)
        elif isinstance(record, ShareSnapshot):
            self._states[key] = _State(record)
            self.appended(key, record, record_offset)
        else:
            state = self._states.get(key)
            if state is not None and state.snapshot_epoch == record.snapshot_epoch:
                state.leader_epoch = record.leader_epoch
                state.add(record.start_offset, record.delivery_complete_count, record.state_batches)

    def appended(
        self, key: SharePartitionKey, record: StateRecord | None, record_offset: int | None
    ) -> None:
        """Say that ``record`` is durable at ``record_offset``, for :meth:`lowest_needed`."""
        state = self._states.get(key)
        if state is not None and isinstance(record, ShareSnapshot):
            state.snapshot_offset = record_offset

    def lowest_needed(self) -> int | None:
        """The offset of the oldest snapshot in use: what lies below it in the log may go.

        None when that is not known: no key, or one whose snapshot is not durable yet.
        """
        offsets: list[int] = []
        for state in self._states.values():
            if state.snapshot_offset is None:
                return None
            offsets.append(state.snapshot_offset)
        return min(offsets, default=None)

    def snapshots_due(self, now_ms: int, interval_ms: int) -> list[KeyedRecord]:
        """New snapshots of keys that had none for ``interval_ms``, so that old segments can go.

        A round in which every key is cold already gives none.
        """
        states = self._states
        if all(state.create_ms != state.write_ms for state in states.values()):
            return []
        due = [key for key, state in states.items() if state.write_ms + interval_ms <= now_ms]
        return [self._snapshotted(key, states[key].snapshot(now_ms, cold=True)) for key in due]

    def check_invariants(self) -> None:
        """Assert that merged batches are sorted, disjoint ranges, and that piles are bounded."""
        for key, state in self._states.items():
            previous_last = -1
            for batch in state.batches:
                assert previous_last < batch.first <= batch.last, f"{key}: {batch} out of order"
                previous_last = batch.last
            assert state.start_offset >= UNINITIALIZED_OFFSET, f"{key}: start below -1"
            assert len(state.pile) <= len(state.batches) + _PILE_MIN, f"{key}: pile not merged"

    def _snapshotted(self, key: SharePartitionKey, snapshot: ShareSnapshot) -> KeyedRecord:
        """Let ``snapshot`` be the state of ``key``; its record.

        The former snapshot stays the one that is needed until :meth:`appended` is told of this.
        """
        before = self._states.get(key)
        state = self._states[key] = _State(snapshot)
        if before is not None:
            state.snapshot_offset = before.snapshot_offset
        return KeyedRecord(key, snapshot)

    def _existing(self, key: SharePartitionKey) -> _State:
        state = self._states.get(key)
        if state is None:
            raise InvalidRequest(f"Share partition {key} was never initialised.")
        return state

    @staticmethod
    def _check_state_epoch(state: _State, state_epoch: int) -> None:
        if state_epoch < state.state_epoch:
            raise FencedStateEpoch

    @staticmethod
    def _check_leader_epoch(state: _State, leader_epoch: int) -> None:
        if leader_epoch < NO_EPOCH:
            raise InvalidRequest(f"Leader epoch {leader_epoch} is negative.")
        if leader_epoch != NO_EPOCH and leader_epoch < state.leader_epoch:
            raise FencedLeaderEpoch
