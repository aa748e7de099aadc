"""What a share partition has said must be durable, record by record, as naive models keep it."""

from __future__ import annotations

from itertools import groupby

from sharegroup.model.share_state import DelayedRow, StateRow
from sharegroup.share.state_changes import StateChange


class Durable:
    """State after all changes so far."""

    def __init__(self) -> None:
        self.start = 0
        self.states: dict[int, tuple[int, int]] = {}
        """Offset → state and delivery count."""
        self._resting: dict[int, DelayedRow] = {}

    def write(self, change: StateChange | None) -> None:
        """Apply a change."""
        if change is None:
            return
        self.start = change.start_offset
        for first, last, state, count in change.batches:
            for at in range(first, last + 1):
                self.states[at] = (state, count)
                self._resting.pop(at, None)
        for row in change.delayed:
            for at in range(row.first, row.last + 1):
                self._resting[at] = row._replace(first=at, last=at)
        self.states = {at: row for at, row in self.states.items() if at >= self.start}

    @property
    def rows(self) -> list[StateRow]:
        """The states, as a share partition is loaded with them."""
        return [
            (run[0], run[-1], *self.states[run[0]])
            for _, same in groupby(sorted(self.states), self.states.__getitem__)
            for run in runs_of(list(same))
        ]

    @property
    def resting(self) -> dict[int, DelayedRow]:
        """Offset → its rest, of those records in :attr:`states` that rest."""
        return {at: row for at, row in self._resting.items() if at in self.states}

    @property
    def freed(self) -> set[int]:
        """Records that an operator has released before their time."""
        return {at for at, row in self.resting.items() if not row.delivery_count}


def runs_of(offsets: list[int]) -> list[list[int]]:
    """Ascending offsets, cut where one is missing."""
    runs: list[list[int]] = []
    for at in offsets:
        if runs and runs[-1][-1] == at - 1:
            runs[-1].append(at)
        else:
            runs.append([at])
    return runs
