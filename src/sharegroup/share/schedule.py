"""Scheduled delivery: a record whose header says a later time rests until then.

The caller finds such records in what it has read from the log, as it does what has expired. They
rest as after a failure (:mod:`sharegroup.share.pauses`): DELAYED, with delivery count 0, under a
lock of nobody. Nothing is written for them. The log knows their times: after a restart the next
read finds them again.

Very many records may rest, each with a time of its own, so what waits is kept by ranges:

* Ranges that are due soon, and long ranges, have a lock that ends when they are due.
* Other ranges are in a *bucket*: one lock for all that are due at about the same time. *About* is
  one part in :data:`PARTS` of the time that is left. A bucket knows the time of each of its ranges,
  three numbers a range. Its lock ends as long before the first of them is due, so that there is
  time to move them to locks that are nearer to their times. So there are few locks, whatever the
  records say, and a range moves some six times in a week.

An operator may release records before their time. Durable state has that as a rest with delivery
count 0 that is over, since nothing else rests with this count there.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final, NamedTuple, TypeAlias

from sharegroup.cooperative.intervals import Intervals, normal
from sharegroup.model.share_state import DelayedRow
from sharegroup.share import stretches
from sharegroup.share.locks import NOBODY, Lock
from sharegroup.share.ranges import LogRead
from sharegroup.share.record_state import AVAILABLE, DELAYED
from sharegroup.share.spans import Span, Status
from sharegroup.share.stretches import Stretch, spans_of
from sharegroup.share.window import Window

PARTS: Final = 32
"""A bucket is for ranges whose times differ by at most one part in this many of what is left."""
FINE_MS: Final = 16
"""If that is at most so much, a range has a lock with its own time."""
LONG: Final = 32
"""A range of so many records has, too: more in a bucket would not save much."""
MOVED_MAX: Final = 128
"""Ranges that one call moves from buckets, which takes some milliseconds."""
_NEAR: Final = 16
"""Ranges with at most so many offsets between them are put into the window together."""
_TOGETHER: Final = 512
"""So many offsets of such ranges at most."""
_HINT: Final = 65_536
"""A bucket's lock remembers places that are so near to each other as one range."""


_BYTES: Final = [bytes((code,)) for code in range(stretches.STATUSES_MAX)]

_Placed: TypeAlias = tuple[int, int, Status]
"""First and last offset, and what the window knows of the records."""


class NotDue(NamedTuple):
    """Offsets ``first`` … ``last``, both included, that must not be delivered before ``due_ms``."""

    first: int
    last: int
    due_ms: int


class Schedule:
    """The records of one share partition that rest until the time in their header.

    Invariant: a range of a bucket that still rests under the bucket's lock is not due before this
    lock ends.

    Args:
        delayed: what durable state says of rests.
    """

    def __init__(self, window: Window, delayed: Iterable[DelayedRow] = ()) -> None:
        self._window = window
        self._buckets: dict[Lock, array[int]] = {}
        self._statuses: dict[int, Status] = {}
        """Of records under the locks that ended, when they were made, at these times: a million
        records share a few hundred of them."""
        self._freed: Intervals = ()
        """Released by an operator before their time."""
        self._resting: list[tuple[int, int]] = []
        """What the last call has put under a lock."""
        self.free(delayed)

    def free(self, rows: Iterable[DelayedRow]) -> None:
        """Remember those of ``rows`` that say that an operator has released records before their
        time."""
        freed = [(one.first, one.last) for one in rows if not one.delivery_count]
        if freed:
            start = self._window.start
            self._freed = normal(one for one in (*self._freed, *freed) if one[1] >= start)

    def kept(self, later: Sequence[NotDue]) -> list[NotDue]:
        """``later`` without what an operator has released; both ascending and disjoint."""
        if not self._freed:
            return list(later)
        found: list[NotDue] = []
        freed, at = self._freed, 0
        for first, last, due_ms in later:
            while at < len(freed) and freed[at][1] < first:
                at += 1
            place = at
            while place < len(freed) and freed[place][0] <= last:
                if freed[place][0] > first:
                    found.append(NotDue(first, freed[place][0] - 1, due_ms))
                first = freed[place][1] + 1
                place += 1
            if first <= last:
                found.append(NotDue(first, last, due_ms))
        return found

    # -- rest, move -------------------------------------------------------------------------

    def rest(self, later: Iterable[NotDue], now_ms: int) -> list[tuple[int, int]]:
        """Let the available records in ``later`` rest that were never delivered; returns them.
        ``later`` is ascending, disjoint and not due. Offsets outside of the window are left out."""
        self._tidy()
        self._resting = []
        self._place(list(later), None, now_ms)
        return self._resting

    def move(self, ended: Iterable[Lock], now_ms: int) -> list[Lock]:
        """Move the ranges of buckets whose locks have ``ended`` to locks that are nearer to their
        times, or a part of them: these locks are due again then. Returns the locks whose other
        records are due."""
        self._resting = []
        over: list[Lock] = []
        room = MOVED_MAX
        for lock in ended:
            ranges = self._buckets.get(lock)
            if ranges is None:
                over.append(lock)
                continue
            numbers = ranges[-3 * room :] if room else array("q")
            del ranges[len(ranges) - len(numbers) :]
            moved = map(NotDue, numbers[::3], numbers[1::3], numbers[2::3])
            room -= len(numbers) // 3
            self._place(sorted(moved), lock, now_ms)
            if not ranges:
                del self._buckets[lock]
                if lock.held:
                    over.append(lock)
            elif lock.held:
                self._window.locks.end_at(lock, min(lock.deadline_ms, now_ms))
            else:
                del self._buckets[lock]
        return over

    def _tidy(self) -> None:
        """Forget locks that have lost their last record, if they are many."""
        locks = self._window.locks.count
        if len(self._buckets) > locks:
            self._buckets = {lock: one for lock, one in self._buckets.items() if lock.held}
        if len(self._statuses) > 2 * locks + _NEAR:
            live = self._statuses.items()
            self._statuses = {end: one for end, one in live if one.lock and one.lock.held}

    def _place(self, ranges: Sequence[NotDue], bucket: Lock | None, now_ms: int) -> None:
        """Put records under the locks of their times: what rests in ``bucket``, or, if it is None,
        what is available."""
        window = self._window
        for group in _groups(ranges):
            first, last = max(group[0].first, window.start), min(group[-1].last, window.end - 1)
            if first > last:
                continue
            old, before = window.pieces(first, last), len(self._resting)
            placed = list(self._placed(spans_of(old), group, bucket, now_ms))
            if len(self._resting) > before:
                window.replace(old, list(_stretches(placed)))

    def _placed(
        self, spans: Iterable[Span], ranges: Sequence[NotDue], bucket: Lock | None, now_ms: int
    ) -> Iterator[_Placed]:
        state = AVAILABLE if bucket is None else DELAYED
        at = 0
        for span in spans:
            first, until, *_ = span
            status = Status(*span[2:])
            while at < len(ranges) and ranges[at].last < first:
                at += 1
            place = at
            free = span.state is state and not span.delivery_count and span.lock is bucket
            while free and place < len(ranges) and ranges[place].first <= until:
                begin, last, due_ms = ranges[place]
                begin, last = max(begin, first), min(last, until)
                place += 1
                if begin > last:
                    continue
                if begin > first:
                    yield first, begin - 1, status
                self._resting.append((begin, last))
                yield begin, last, self._rests(begin, last, due_ms, now_ms)
                first = last + 1
            if first <= until:
                yield first, until, status

    def _rests(self, first: int, last: int, due_ms: int, now_ms: int) -> Status:
        """The status of a range that rests: with the lock of its time. The caller must put it into
        the window."""
        part = 1 << max(0, ((due_ms - now_ms) // PARTS).bit_length() - 1)
        fine = part <= FINE_MS or last - first + 1 >= LONG
        end_ms = max(due_ms, now_ms) if fine else due_ms // part * part - part
        status = self._statuses.get(end_ms)
        lock = None if status is None else status.lock
        if status is None or lock is None or not lock.held:
            lock = self._window.locks.take(NOBODY, end_ms)
            status = self._statuses[end_ms] = Status(DELAYED, 0, lock)
        if fine:
            lock.add_range(first, last)
            return status
        ranges = self._buckets.get(lock)
        if ranges is None:
            ranges = self._buckets[lock] = array("q")
        ranges.extend((first, last, due_ms))
        if lock.ranges and 0 < first - lock.ranges[-1][1] <= _HINT:
            lock.ranges[-1] = (lock.ranges[-1][0], last)
        else:
            lock.ranges.append((first, last))
        return status

    def check_invariants(self) -> None:
        """Assert the invariant of the class; costs a walk over the window."""
        for span in self._window:
            ranges = self._buckets.get(span.lock) if span.lock is not None else None
            if ranges is None or span.delivery_count or span.lock is None:
                continue
            for first, last, due_ms in zip(ranges[::3], ranges[1::3], ranges[2::3], strict=True):
                if first <= span.last and last >= span.first:
                    assert due_ms >= span.lock.deadline_ms, f"{span} rests too long"


def _groups(ranges: Sequence[NotDue]) -> Iterator[list[NotDue]]:
    """``ranges``, ascending, in groups that lie near each other."""
    group: list[NotDue] = []
    for one in ranges:
        far = group and one.first - group[-1].last > _NEAR
        if far or (group and one.last - group[0].first >= _TOGETHER):
            yield group
            group = []
        group.append(one)
    if group:
        yield group


def _stretches(placed: Iterable[_Placed]) -> Iterator[Stretch]:
    """Adjoining ranges with their statuses as stretches, which share these statuses."""
    begin = end = -1
    codes: dict[Status, int] = {}
    parts: list[bytes] = []
    for first, last, status in placed:
        size = last - first + 1
        many = len(codes) == stretches.STATUSES_MAX and status not in codes
        if parts and (many or last - begin >= stretches.SHORT):
            yield _stretch(begin, end, codes, parts)
            codes, parts = {}, []
        if size > stretches.SHORT:
            yield Stretch(first, last, (status,))
            continue
        if not parts:
            begin = first
        parts.append(_BYTES[codes.setdefault(status, len(codes))] * size)
        end = last
    if parts:
        yield _stretch(begin, end, codes, parts)


def _stretch(first: int, last: int, codes: Mapping[Status, int], parts: Iterable[bytes]) -> Stretch:
    if len(codes) == 1:
        return Stretch(first, last, tuple(codes))
    return Stretch(first, last, tuple(codes), b"".join(parts))


def within(later: Iterable[NotDue], end: int) -> list[NotDue]:
    """What of ``later`` lies below the offset ``end``."""
    return [
        one if one.last < end else one._replace(last=end - 1) for one in later if one.first < end
    ]


def reach(window: Window, fetched: LogRead, later: Iterable[NotDue], room: int) -> int:
    """The last offset to take into the window, so that those of ``later`` can rest that lie past
    its end. At most ``room`` records that are due come with them. The offset before the window's
    end if there are none."""
    last = window.end - 1
    begin = fetched.from_offset(window.end)
    if room <= 0 or begin is None:
        return last
    due = 0
    for first, until, _ in later:
        if until < begin:
            continue
        due += max(0, first - begin)
        if due > room:
            break
        last, begin = until, until + 1
    return last


def note_batches(window: Window, fetched: LogRead, last: int) -> None:
    """Make each log batch that begins up to ``last`` a delivery batch."""
    for first, until in sorted(chain(zip(fetched.bases, fetched.lasts, strict=True),
                                     fetched.missing)):  # fmt: skip
        if first > last:
            break
        window.batches.add(first, until)
