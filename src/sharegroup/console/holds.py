"""How long members hold records. The broker tells how much of a lock is left; since when a record
is held, and how often its lock was renewed, is what the console has seen from look to look."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from sharegroup.client.admin.descriptions import PartitionRecords, RecordRange
from sharegroup.model.ids import TopicPartition
from sharegroup.share.record_state import RecordState

PARTITIONS_MAX: Final = 10_000
"""Partitions of groups that are remembered, those that were looked at last."""
RENEWED_MS: Final = 1_000
"""A lock whose end has moved by more was renewed."""


class Hold(NamedTuple):
    """Records that one member holds.

    Attributes:
        since_ms: since when at least.
        exact: whether it is not longer.
        until_ms: when the lock ends.
        renewals: how often the console has seen the lock renewed.
    """

    first: int
    last: int
    member: str
    deliveries: int
    since_ms: int
    exact: bool
    until_ms: int
    renewals: int


class _Look(NamedTuple):
    at_ms: int
    holds: tuple[Hold, ...]


class Holds:
    """See the module."""

    def __init__(self) -> None:
        self._looks: dict[tuple[str, TopicPartition], _Look] = {}

    def seen(
        self,
        group: str,
        states: Mapping[TopicPartition, PartitionRecords],
        now_ms: int,
        lock_ms: int | None,
    ) -> dict[TopicPartition, tuple[Hold, ...]]:
        """Take in what was seen now, and return what is held.

        Args:
            lock_ms: how long the group's locks are; None: not known.
        """
        found = {}
        for at, records in states.items():
            before = self._looks.pop((group, at), None)
            held = tuple(_held(records.ranges, before, now_ms, lock_ms))
            self._looks[group, at] = _Look(now_ms, held)
            found[at] = held
        while len(self._looks) > PARTITIONS_MAX:
            del self._looks[next(iter(self._looks))]
        return found


def _held(
    ranges: Iterable[RecordRange], before: _Look | None, now_ms: int, lock_ms: int | None
) -> Iterable[Hold]:
    for one in ranges:
        if one.state is not RecordState.ACQUIRED or one.member_id is None:
            continue
        left_ms = one.lock_ms or 0
        age_ms = 0 if lock_ms is None else max(0, lock_ms - left_ms)
        exact = before is not None and lock_ms is not None and now_ms - before.at_ms < lock_ms
        new = Hold(
            first=one.first,
            last=one.last,
            member=one.member_id,
            deliveries=one.delivery_count,
            since_ms=now_ms - age_ms,
            exact=exact,
            until_ms=now_ms + left_ms,
            renewals=0,
        )
        yield from _since(new, () if before is None else before.holds)


def _since(new: Hold, before: tuple[Hold, ...]) -> Iterable[Hold]:
    """``new``, cut where a part of it was held before: by this member, in this delivery."""
    first = new.first
    for old in before:
        if (old.member, old.deliveries) != (new.member, new.deliveries):
            continue
        begin, end = max(first, old.first), min(new.last, old.last)
        if begin > end:
            continue
        if first < begin:
            yield new._replace(first=first, last=begin - 1)
        renewals = old.renewals + (new.until_ms > old.until_ms + RENEWED_MS)
        yield old._replace(first=begin, last=end, until_ms=new.until_ms, renewals=renewals)
        first = end + 1
    if first <= new.last:
        yield new._replace(first=first)
