"""One share partition's durable state in memory (Kafka class ShareGroupOffset).

Merging is deferred: a write adds its batches to a pile. The pile is merged when it outgrows the
merged batches, or when the whole state is needed. So the amortised cost of a write depends on its
own batches only. The order of merging does not matter (:mod:`sharegroup.share_state.merge`), so
nothing is lost by waiting.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from sharegroup.model.share_state import StateRow
from sharegroup.share_state.merge import merged
from sharegroup.share_state.records import ShareSnapshot, ShareUpdate

NO_EPOCH: Final = -1
"""Leader or state epoch in a request: do not check. Stored leader epoch: no leader has read the
state yet."""
UNINITIALIZED_OFFSET: Final = -1
"""Start offset: the leader chooses it by ``share.auto.offset.reset``."""
UNKNOWN_COUNT: Final = -1
_PILE_MIN: Final = 256


class DurableState:
    """The state after a snapshot and the updates since."""

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
        self.pile: list[StateRow] = []
        self.updates = 0
        self.snapshot_offset: int | None = None
        """Where in the log the latest durable snapshot is; None while there is none."""

    @property
    def cold(self) -> bool:
        """Whether the last snapshot was made because of age, not because of writes."""
        return self.create_ms != self.write_ms

    def add(self, start_offset: int, complete: int, batches: tuple[StateRow, ...]) -> None:
        """Apply a write; -1 leaves the stored start offset or count. :meth:`merge_when_due` must
        follow, after each write or after many.

        Neither offset nor count moves back (KAFKA-20694). A count belongs to the window at its
        start offset: with a start below the stored one the count is outdated and ignored, and a new
        start without a count makes the count unknown.
        """
        if start_offset > self.start_offset:
            self.start_offset = start_offset
            self.delivery_complete_count = complete
        elif start_offset in (self.start_offset, UNINITIALIZED_OFFSET):
            self.delivery_complete_count = max(self.delivery_complete_count, complete)
        self.pile += batches
        self.updates += 1

    def merge_when_due(self) -> None:
        """:meth:`merge` when the pile has outgrown the merged batches."""
        if len(self.pile) > len(self.batches) + _PILE_MIN:
            self.merge()

    def merge(self) -> None:
        """Merge the pile into the batches, and drop offsets below the start."""
        if self.pile or (self.batches and self.batches[0][0] < self.start_offset):
            self.batches = merged(self.batches + self.pile, self.start_offset)
            self.pile = []

    def forget(self, ranges: Iterable[StateRow]) -> None:
        """Drop the stored state of these offsets. A snapshot must follow: no update can do this."""
        self.merge()
        for first, last, _, _ in ranges:
            kept: list[StateRow] = []
            for at, until, state, count in self.batches:
                if at < first:
                    kept.append((at, min(until, first - 1), state, count))
                if until > last:
                    kept.append((max(at, last + 1), until, state, count))
            self.batches = kept

    def snapshot(self, now_ms: int, *, cold: bool = False) -> ShareSnapshot:
        """The whole state as the next snapshot; a cold one keeps the create time of the last."""
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

    def update(self, batches: tuple[StateRow, ...] = ()) -> ShareUpdate:
        """An amendment that carries ``batches``."""
        return ShareUpdate(
            snapshot_epoch=self.snapshot_epoch,
            leader_epoch=self.leader_epoch,
            start_offset=self.start_offset,
            delivery_complete_count=self.delivery_complete_count,
            state_batches=batches,
        )

    def check_invariants(self) -> None:
        """Assert that merged batches are sorted, disjoint ranges."""
        previous_last = -1
        for first, last, _, _ in self.batches:
            assert previous_last < first <= last, f"{first}-{last} out of order"
            previous_last = last
        assert self.start_offset >= UNINITIALIZED_OFFSET, "start below -1"
