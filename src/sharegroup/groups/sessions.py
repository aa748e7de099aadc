"""Deadlines of member sessions: a heartbeat restarts its member's session, and the shell's timer
reads the first deadline.

Each member has one entry in a heap. A later deadline does not move the entry until it reaches the
top, so a heartbeat costs only a dictionary write.
"""

from __future__ import annotations

import heapq
from typing import NamedTuple


class MemberKey(NamedTuple):
    """One member of one group."""

    group_id: str
    member_id: str


class Sessions:
    """Session deadlines of members, in milliseconds of the caller's clock."""

    def __init__(self) -> None:
        self._deadlines: dict[MemberKey, int] = {}
        self._entries: dict[MemberKey, int] = {}
        self._heap: list[tuple[int, MemberKey]] = []

    def __contains__(self, key: object) -> bool:
        return key in self._deadlines

    def __len__(self) -> int:
        return len(self._deadlines)

    def restart(self, key: MemberKey, deadline_ms: int) -> None:
        """The session of ``key`` ends at ``deadline_ms`` unless it is restarted before."""
        self._deadlines[key] = deadline_ms
        entry = self._entries.get(key)
        if entry is None or deadline_ms < entry:
            self._entries[key] = deadline_ms
            heapq.heappush(self._heap, (deadline_ms, key))

    def end(self, key: MemberKey) -> None:
        """Forget the session; nothing happens when there is none."""
        self._deadlines.pop(key, None)

    def deadline_ms(self, key: MemberKey) -> int:
        """When the session ends. Raises KeyError if there is none."""
        return self._deadlines[key]

    def next_deadline_ms(self) -> int | None:
        """When the first session ends, or None without sessions."""
        while self._heap:
            entry_ms, key = self._heap[0]
            deadline_ms = self._deadlines.get(key)
            if self._entries.get(key) != entry_ms:
                heapq.heappop(self._heap)
            elif deadline_ms is None:
                heapq.heappop(self._heap)
                del self._entries[key]
            elif deadline_ms > entry_ms:
                self._entries[key] = deadline_ms
                heapq.heapreplace(self._heap, (deadline_ms, key))
            else:
                return deadline_ms
        return None

    def expired(self, now_ms: int) -> list[MemberKey]:
        """End and return the sessions whose deadline has come, first deadline first."""
        ended: list[MemberKey] = []
        while (deadline_ms := self.next_deadline_ms()) is not None and deadline_ms <= now_ms:
            key = self._heap[0][1]
            self.end(key)
            ended.append(key)
        return ended
