"""States of offsets, one for each run of offsets that have the same."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

S = TypeVar("S")


class Spans(Generic[S]):
    """Every offset from 0 on has a state; at first all have ``state``."""

    def __init__(self, state: S) -> None:
        self._starts = [0]
        self._states = [state]

    def __len__(self) -> int:
        return len(self._starts)

    def items(self, first: int, last: int) -> Iterator[tuple[int, int, S]]:
        """The runs among ``first`` … ``last``: (first, last, state)."""
        at = bisect_right(self._starts, first) - 1
        while at < len(self._starts) and self._starts[at] <= last:
            end = self._starts[at + 1] - 1 if at + 1 < len(self._starts) else last
            yield max(first, self._starts[at]), min(last, end), self._states[at]
            at += 1

    def change(self, first: int, last: int, change: Callable[[S], S]) -> None:
        """Give the offsets ``first`` … ``last`` the states that ``change`` returns for theirs."""
        begin, end = self._cut(first), self._cut(last + 1)
        changed_starts: list[int] = []
        changed: list[S] = []
        for start, state in zip(self._starts[begin:end], self._states[begin:end], strict=True):
            new = change(state)
            if not changed or changed[-1] != new:
                changed_starts.append(start)
                changed.append(new)
        if end < len(self._starts) and self._states[end] == changed[-1]:
            end += 1  # its run goes on
        if begin and self._states[begin - 1] == changed[0]:
            del changed_starts[0], changed[0]
        self._starts[begin:end] = changed_starts
        self._states[begin:end] = changed

    def _cut(self, offset: int) -> int:
        """Let a run begin at ``offset``. Returns its number."""
        at = bisect_right(self._starts, offset) - 1
        if self._starts[at] != offset:
            at += 1
            self._starts.insert(at, offset)
            self._states.insert(at, self._states[at - 1])
        return at
