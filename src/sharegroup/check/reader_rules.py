"""The rules of a consumer group whose members share partitions (KIP-X): by key, or in turns.

Members commit single records. What was committed stays committed, nothing else does (S13); a record
comes to one member, and is not read again by who gets the partition after it was committed (S10);
within a member's tenure a key's records come in the order of the log (S9).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf
from typing import Final, NamedTuple

from sharegroup.check.spans import Spans
from sharegroup.check.states import Found

HASH_MAX: Final = 2**63 - 1
"""Hashes of keys go from 0 to this one."""
Run = tuple[int, int]


class Reading(NamedTuple):
    """Who has read a record last, and when; "": nobody has."""

    member: str = ""
    ms: float = -inf


class Tenure(NamedTuple):
    """Since when a member has the ranges that it has.

    Attributes:
        from_ms: not earlier than that. What is committed comes to be known in between.
        by_ms: not later than that.
    """

    from_ms: float = -inf
    by_ms: float = -inf


class ReaderRules:
    """One partition of a consumer group. Each call returns what does not hold."""

    def __init__(self) -> None:
        self._read: Spans[Reading] = Spans(Reading())
        self._asked: Spans[bool] = Spans(False)
        self._sure_ms: Spans[float] = Spans(inf)
        """Since when a record is committed for certain."""
        self._end = 0
        self._tenures: dict[str, Tenure] = {}
        self._ranges: dict[str, Sequence[Run]] = {}
        self._last: dict[tuple[str, str], int] = {}
        """Member and key → the last record of the key that it has read in its tenure."""

    def owns(self, member: str, ranges: Sequence[Run], tenure: Tenure) -> None:
        """The member reads other ranges of hashes from now on; none: nothing of the partition."""
        self._drop(member)
        self._tenures[member] = tenure
        if ranges:
            self._ranges[member] = ranges

    def left(self, member: str) -> None:
        """The member has left the group, or is dead."""
        self._drop(member)
        self._tenures.pop(member, None)

    def _drop(self, member: str) -> None:
        self._ranges.pop(member, None)
        self._last = {at: last for at, last in self._last.items() if at[0] != member}

    def read(
        self, member: str, offset: int, key: str | None, now_ms: float, calm_ms: float
    ) -> list[Found]:
        """The member has got a record. Since ``calm_ms`` there are no faults.

        Args:
            key: None: it has none, or the group's members do not share the partition by key.
        """
        found = []
        tenure = self._tenures.get(member, Tenure())
        before = next(self._read.items(offset, offset))[2]
        if next(self._sure_ms.items(offset, offset))[2] < tenure.from_ms:
            text = f"read by {member}, who got the partition after it was committed"
            found.append(Found("S13", offset, offset, text))
        elif calm_ms < before.ms and tenure.by_ms < before.ms:
            text = f"read by {member} after {before.member}, and nothing has changed hands"
            found.append(Found("S10", offset, offset, text))
        if key is not None:
            last = self._last.get((member, key), -1)
            if offset < last:
                text = f"read by {member} after {last} of its key"
                found.append(Found("S9", offset, offset, text, last))
            self._last[member, key] = max(offset, last)
        self._read.change(offset, offset, lambda _: Reading(member, now_ms))
        self._end = max(self._end, offset + 1)
        return found

    def asked(self, first: int, last: int) -> None:
        """Somebody commits these records."""
        self._asked.change(first, last, lambda _: True)
        self._end = max(self._end, last + 1)

    def committed(self, first: int, last: int, now_ms: float) -> None:
        """They are committed."""
        self._sure_ms.change(first, last, lambda old: min(old, now_ms))

    def fetched(
        self, committed: Iterable[Run], since_ms: float, known: Iterable[Run]
    ) -> list[Found]:
        """What the group has committed.

        Args:
            since_ms: when that was asked for.
            known: what is committed of the records that producers know of.
        """
        there: Spans[bool] = Spans(False)
        for first, last in committed:
            if first <= last:
                there.change(first, last, lambda _: True)
        found = []
        for begin, end, sure_ms in self._sure_ms.items(0, self._end):
            if sure_ms >= since_ms:
                continue
            for first, last, yes in there.items(begin, end):
                if not yes:
                    text = "was committed, and is not committed any more"
                    found.append(Found("S13", first, last, text))
        for run in known:
            for first, last, asked in self._asked.items(*run):
                if not asked:
                    text = "is committed, and nobody has committed it"
                    found.append(Found("S13", first, last, text))
        # What is old is one run.
        self._sure_ms.change(0, self._end, lambda old: 0.0 if old < since_ms else old)
        return found

    def has_read(self, offset: int) -> bool:
        """Whether somebody has got the record."""
        return bool(next(self._read.items(offset, offset))[2].member)

    def unread(self, first: int, last: int) -> list[Found]:
        """Of a group that has read all there was: the records that nobody has got."""
        return [
            Found("S1", begin, end, "never read")
            for begin, end, reading in self._read.items(first, last)
            if not reading.member
        ]

    def shared_out(self) -> list[Found]:
        """At the end, when nothing hinders the group: each hash has one owner, if any member is
        there."""
        if not self._tenures:
            return []
        owned = sorted((*one, member) for member, all_ in self._ranges.items() for one in all_)
        reached, before = -1, ""
        for first, last, member in owned:
            if first <= reached:
                return [Found("S10", 0, 0, f"{before} and {member} both have hash {first}")]
            if first > reached + 1:
                return [Found("S10", 0, 0, f"nobody has hash {reached + 1}")]
            reached, before = last, member
        return [] if reached == HASH_MAX else [Found("S10", 0, 0, f"nobody has hash {reached + 1}")]
