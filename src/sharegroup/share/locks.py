"""Acquisition locks: which member holds which records, and until when.

One :class:`Lock` covers everything that a member acquired or renewed and that expires in the same
millisecond. Spans point to their lock. The lock remembers the ranges it was given, so that expiry
and the end of a session visit only those ranges, not the whole window. The ranges are hints: parts
of them may have changed state since. A lock holds exactly the spans that still point to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from typing import Final

NOBODY: Final = ""
"""The member of a pause: the records under such a lock are delayed, and nobody holds them."""
NEVER: Final = 2**63 - 1
"""The deadline of a transaction's lock: it ends with the transaction, and with nothing else."""
_STALE_MIN = 64


class Lock:
    """Records held by one member until one moment."""

    __slots__ = ("deadline_ms", "held", "member_id", "ranges")

    def __init__(self, member_id: str, deadline_ms: int) -> None:
        self.member_id = member_id
        self.deadline_ms = deadline_ms
        self.held = 0
        self.ranges: list[tuple[int, int]] = []

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction holds the records (:mod:`sharegroup.share.pending`)."""
        return self.deadline_ms == NEVER

    def add_range(self, first: int, last: int) -> None:
        """Remember that ``first`` … ``last`` was given to this lock."""
        if self.ranges and self.ranges[-1][1] + 1 == first:
            self.ranges[-1] = (self.ranges[-1][0], last)
        else:
            self.ranges.append((first, last))


class LockTable:
    """All live locks of one share partition, by member and by deadline."""

    def __init__(self) -> None:
        self._by_member: dict[str, dict[int, Lock]] = {}
        self._live = 0
        # (deadline, member). Entries of dropped locks stay until they reach the top.
        self._heap: list[tuple[int, str]] = []

    def __iter__(self) -> Iterator[Lock]:
        return (lock for locks in self._by_member.values() for lock in locks.values())

    @property
    def count(self) -> int:
        """How many locks there are."""
        return self._live

    def take(self, member_id: str, deadline_ms: int) -> Lock:
        """The lock of ``member_id`` that ends at ``deadline_ms``, created if there is none.

        The caller must point a span to it.
        """
        locks = self._by_member.setdefault(member_id, {})
        lock = locks.get(deadline_ms)
        if lock is None:
            lock = locks[deadline_ms] = Lock(member_id, deadline_ms)
            self._live += 1
            if deadline_ms != NEVER:
                heappush(self._heap, (deadline_ms, member_id))
                self._forget_stale()
        return lock

    def drop(self, lock: Lock) -> None:
        """Forget a lock that holds nothing any more."""
        locks = self._by_member[lock.member_id]
        del locks[lock.deadline_ms]
        if not locks:
            del self._by_member[lock.member_id]
        self._live -= 1

    def end_at(self, lock: Lock, deadline_ms: int) -> None:
        """Move the deadline of a live lock to ``deadline_ms``, or slightly before it if the member
        has a lock with that deadline.

        :meth:`expired` returns the lock again, even if it has returned it before.
        """
        locks = self._by_member[lock.member_id]
        del locks[lock.deadline_ms]
        while deadline_ms in locks:
            deadline_ms -= 1
        lock.deadline_ms = deadline_ms
        locks[deadline_ms] = lock
        heappush(self._heap, (deadline_ms, lock.member_id))

    def of_member(self, member_id: str) -> list[Lock]:
        """Every lock of one member."""
        return list(self._by_member.get(member_id, {}).values())

    def expired(self, now_ms: int) -> list[Lock]:
        """Locks that ended at or before ``now_ms``. The caller must release what they hold."""
        found: list[Lock] = []
        while (deadline_ms := self.next_deadline_ms()) is not None and deadline_ms <= now_ms:
            _, member_id = heappop(self._heap)
            lock = self._by_member[member_id][deadline_ms]
            if lock not in found[-1:]:
                found.append(lock)
        return found

    def next_deadline_ms(self) -> int | None:
        """When the next lock ends, or None when nothing is held."""
        heap = self._heap
        while heap:
            deadline_ms, member_id = heap[0]
            if deadline_ms in self._by_member.get(member_id, ()):
                return deadline_ms
            heappop(heap)
        return None

    def members(self) -> int:
        """How many members hold something."""
        return sum(NEVER not in own for name, own in self._by_member.items() if name != NOBODY)

    def _forget_stale(self) -> None:
        # While the lock with the earliest deadline lives, entries of dropped locks never reach the
        # top of the heap.
        if len(self._heap) > 2 * self._live + _STALE_MIN:
            self._heap = [
                (lock.deadline_ms, lock.member_id) for lock in self if not lock.in_transaction
            ]
            heapify(self._heap)
