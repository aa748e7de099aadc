"""Polls of which nobody knows what they have delivered: each may have used up a record's limit."""

from __future__ import annotations

from collections import Counter

from sharegroup.check.history import UNKNOWN, Event
from sharegroup.check.states import Settings


class LostPolls:
    """Takes the calls and answers of all groups."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._open: dict[int, Event] = {}
        self._gone: set[tuple[str, str]] = set()
        """Group and member: those that have left or died."""

    def asked(self, poll: Event) -> None:
        """A member polls."""
        self._counts[poll["group"]] += 1
        self._open[poll["n"]] = poll

    def answered(self, event: Event) -> None:
        """A poll has ended, maybe without an answer."""
        asked = self._open.pop(event["n"])
        if event.get("result") != UNKNOWN:
            self._counts[asked["group"]] -= 1

    def left(self, group: str, member: str) -> None:
        """A member has left or died: what its open poll has delivered is never known."""
        self._gone.add((group, member))

    def of(self, group: str) -> int:
        """How many there are."""
        return self._counts[group]

    def finished(self, settings: Settings, group: str, calm_ms: float, now_ms: float) -> None:
        """The group has done everything, so that what its members wait for is not lost: had a poll
        delivered a record, it would be locked.

        Args:
            calm_ms: no fault has been since then, which would have ended the lock.
        """
        since_ms = max(calm_ms, now_ms - settings.longest_ms)
        for poll in self._open.values():
            waits = (group, poll["member"]) not in self._gone
            if poll["group"] == group and waits and poll["t"] > since_ms:
                self._counts[group] -= 1
