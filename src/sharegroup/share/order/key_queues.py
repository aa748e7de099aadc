"""Which records may be delivered when each key's records are to be in order
(``share.ordering=key``).

A key is known by its hash. Its unfinished records are in two queues, both in log order: first the
*held* records, all held by one member, then the *waiting* records. A record may be delivered to a
member if all earlier records of its key are finished or held by that member. A key whose next
record may be delivered is in a heap, by that record's offset. There is one heap for each holder and
one for the keys that nobody holds, so finding the next record does not walk over waiting records.

When a record of a key was given back, one record of the key is held at a time until the record that
was given back is finished. Of other keys up to :attr:`KeyQueues.width` records are held at a time.

A record may be *blocked* until an operator decides (:mod:`sharegroup.share.order.blocked`), or
*rest* until its pause is over: neither it nor later records of its key are delivered.

The window (:mod:`sharegroup.share.window`) has the states of records, this module has their order.
The order is not durable: after a reload the records are loaded again, in the order of the log.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence, Set
from heapq import heapify, heappop, heappush

from sharegroup.share.order.pace import UNBOUNDED

_Heap = list[tuple[int, int]]
"""Offset of a key's next record, and the key; entries may be out of date."""


_COMPACT = 64
"""A key forgets its finished records when it has this many, and more than unfinished ones."""


class _Key:
    """The records of one key by offset, ascending: finished ones, held ones, waiting ones."""

    __slots__ = ("failed", "hash", "head", "member_id", "offsets", "wait", "width")

    def __init__(self, key_hash: int, offset: int, width: int) -> None:
        self.hash = key_hash
        self.offsets = [offset]
        self.head = 0
        """Index of the first record that is not finished."""
        self.wait = 0
        """Index of the first record that waits."""
        self.member_id: str | None = None
        """The member that holds records of the key, if any."""
        self.failed = -1
        """The last record that was given back: up to it, one record is held at a time."""
        self.width = width
        """How many records may be held: :attr:`KeyQueues.width` when the key last changed."""

    def remove(self, offset: int) -> None:
        """Take out a record that is not finished."""
        if self.offsets[self.head] == offset:
            self.head += 1
            self.wait = max(self.wait, self.head)
            self.compact()
            return
        at = bisect_left(self.offsets, offset, self.head)
        del self.offsets[at]
        self.wait -= at < self.wait  # a held record is gone: the waiting ones move up by one

    def compact(self) -> None:
        """Forget finished records, if they are many."""
        head = self.head
        # Only when more records are forgotten than moved up: the cost for a record is constant.
        if head >= _COMPACT and head * 2 > len(self.offsets):
            del self.offsets[:head]
            self.wait -= head
            self.head = 0

    def place(self, offset: int) -> int:
        """The index of a held record; -1 if the record is not held."""
        at = bisect_left(self.offsets, offset, self.head, self.wait)
        return at if at < self.wait and self.offsets[at] == offset else -1


class KeyQueues:
    """The order of the unfinished records in the window of one share partition.

    Args:
        start: the first offset that will be loaded.
        key_max: how many records of one key a member may hold
            (``share.ordering.key.max.in.flight``).
    """

    def __init__(self, start: int, key_max: int) -> None:
        self.end = start
        """One past the last offset that was loaded."""
        self.width = UNBOUNDED
        """How many records of one key a member may hold, if this is less than ``key_max``. A new
        value holds at once for keys without a holder, for others from their next answer on."""
        self._key_max = key_max
        self._keys: dict[int, _Key] = {}
        self._key_of: dict[int, _Key] = {}
        self._free: _Heap = []
        self._own: dict[str, _Heap] = {}
        self._blocked: set[int] = set()
        self._resting: set[int] = set()
        self._kept: set[int] = set()
        """The blocked records and the resting ones: they keep back the later ones of their keys."""

    def __len__(self) -> int:
        """How many unfinished records are loaded."""
        return len(self._key_of)

    @property
    def keys(self) -> int:
        """How many keys the unfinished records have."""
        return len(self._keys)

    @property
    def blocked(self) -> Set[int]:
        """The records that are blocked."""
        return self._blocked

    @property
    def blocked_keys(self) -> int:
        """How many keys have a record that is blocked."""
        return len({self._key_of[offset].hash for offset in self._blocked})

    @property
    def key_max(self) -> int:
        """How many records of one key a member may hold. Records that are held already stay held
        when it falls."""
        return self._key_max

    @key_max.setter
    def key_max(self, key_max: int) -> None:
        if key_max == self._key_max:
            return
        self._key_max = key_max
        # A key whose holder had all it may hold is in no heap: line up all keys again.
        self._free.clear()
        self._own.clear()
        for key in self._keys.values():
            self._line_up(key)

    def load(self, offsets: Sequence[int], hashes: Sequence[int], end: int) -> None:
        """Add unfinished records that nobody holds, with the hashes of their keys.

        Args:
            offsets: ascending, from :attr:`end` on.
            end: one past the last offset that was read.
        """
        keys, key_of, free = self._keys, self._key_of, self._free
        for offset, key_hash in zip(offsets, hashes, strict=True):
            key = keys.get(key_hash)
            if key is None:
                keys[key_hash] = key = _Key(key_hash, offset, self.width)
                heappush(free, (offset, key_hash))
            else:
                key.offsets.append(offset)
                if key.wait == len(key.offsets) - 1:  # no record waited, so no heap has the key
                    self._line_up(key)
            key_of[offset] = key
        self.end = end

    def next_offset(self, member_id: str) -> int | None:
        """The lowest offset that may be delivered to this member, or None."""
        best: int | None = None
        for heap, holder in ((self._free, None), (self._own.get(member_id, []), member_id)):
            while heap and not self._may_go(*heap[0], holder):
                heappop(heap)
            if heap and (best is None or heap[0][0] < best):
                best = heap[0][0]
        return best

    def take(self, member_id: str, last: int, records_max: int) -> list[int]:
        """Give a member up to ``records_max`` records up to the offset ``last``. Returns their
        offsets, ascending."""
        taken: list[int] = []
        free, own = self._free, self._own.setdefault(member_id, [])
        while len(taken) < records_max and (free or own):
            is_own = bool(own) and (not free or own[0] < free[0])
            heap = own if is_own else free
            offset, key_hash = heap[0]
            if offset > last:
                break
            heappop(heap)
            if not self._may_go(offset, key_hash, member_id if is_own else None):
                continue
            key = self._keys[key_hash]
            if not is_own:
                key.member_id, key.width = member_id, self.width
            # All that may go of this key at once, so that a key costs one step, not one a record.
            room = min(self._room(key), records_max - len(taken))
            end = bisect_right(key.offsets, last, key.wait, min(len(key.offsets), key.wait + room))
            if self._kept:
                end = next((i for i in range(key.wait, end) if key.offsets[i] in self._kept), end)
            taken += key.offsets[key.wait : end]
            key.wait = end
            if self._next_may_go(key):
                heappush(own, (key.offsets[end], key_hash))
        if not own:
            del self._own[member_id]
        taken.sort()
        return taken

    def accept(self, offsets: Sequence[int]) -> list[int]:
        """Finish accepted records, one after the other. A record is not finished if an earlier
        record of its key is still unfinished; returns the offsets of such records.

        Args:
            offsets: of held records, ascending.
        """
        early: list[int] = []
        key_of = self._key_of
        touched: dict[int, _Key] = {}
        for offset in offsets:
            key = key_of[offset]
            head = key.head
            if key.offsets[head] == offset:
                del key_of[offset]
                key.head = head + 1
                touched[key.hash] = key
            else:
                early.append(offset)
        for key in touched.values():
            key.compact()
            self._settle(key)
        return early

    def finish(self, offsets: Iterable[int]) -> None:
        """Forget records that were accepted or archived. Offsets that are not loaded, or finished
        already, change nothing."""
        for offset in offsets:
            key = self._key_of.pop(offset, None)
            if key is None:
                continue
            if offset in self._kept:
                for kept in (self._blocked, self._resting, self._kept):
                    kept.discard(offset)
            key.remove(offset)
            self._settle(key)

    def give_back(self, offset: int) -> list[int]:
        """Put a held record, and the later held records of its key, back in line. Returns the
        offsets of the later records, ascending. Does nothing if the record is not held."""
        key = self._key_of.get(offset)
        at = -1 if key is None else key.place(offset)
        if key is None or at < 0:
            return []
        later = key.offsets[at + 1 : key.wait]
        key.wait = at
        key.failed = max(key.failed, offset)
        self._settle(key)
        return later

    def failing(self, offsets: Iterable[int]) -> int:
        """How many keys begin to fail with these records. A record does not count if it, or a later
        record of its key, was given back before."""
        keys = map(self._key_of.get, offsets)
        return len({key for key, at in zip(keys, offsets, strict=True) if key and key.failed < at})

    def forget_member(self, member_id: str) -> None:
        """Forget a member that holds nothing."""
        self._own.pop(member_id, None)

    def block(self, offset: int) -> None:
        """Keep a record, and the later records of its key, from everybody. The record must be
        loaded and not held."""
        self._blocked.add(offset)
        self._kept.add(offset)

    def unblock(self, offset: int) -> None:
        """Let a blocked record, and the later records of its key, be delivered again."""
        self._blocked.remove(offset)
        self._keep_no_more(offset)

    def rest(self, offset: int) -> None:
        """As :meth:`block`, until :meth:`wake`."""
        self._resting.add(offset)
        self._kept.add(offset)

    def wake(self, offset: int) -> None:
        """Let a resting record, and the later records of its key, be delivered again. Does nothing
        if the record does not rest."""
        if offset in self._resting:
            self._resting.remove(offset)
            self._keep_no_more(offset)

    def let_go(self, offset: int) -> None:
        """Let a record, and the later records of its key, be delivered again, whether it is blocked
        or rests. Does nothing if neither."""
        if offset in self._kept:
            self._blocked.discard(offset)
            self._resting.discard(offset)
            self._keep_no_more(offset)

    def _keep_no_more(self, offset: int) -> None:
        if offset not in self._blocked and offset not in self._resting:
            self._kept.remove(offset)
            self._line_up(self._key_of[offset])

    def move_start(self, start: int) -> None:
        """Forget all records below ``start``."""
        self.finish([offset for offset in self._key_of if offset < start])
        self.end = max(self.end, start)

    def _settle(self, key: _Key) -> None:
        """After a key's queues changed: forget its holder if no record is held, and the key if no
        record is left; else put it into the heap in which its next record is looked for."""
        if key.wait == key.head:
            key.member_id = None
            if key.head == len(key.offsets):
                del self._keys[key.hash]
                return
        self._line_up(key)

    def _line_up(self, key: _Key) -> None:
        key.width = self.width
        if not self._next_may_go(key):
            return
        if key.member_id is None:
            heap = self._free
        else:
            heap = self._own.setdefault(key.member_id, [])
        heappush(heap, (key.offsets[key.wait], key.hash))
        # A key that is lined up again leaves its entry there twice.
        if len(heap) > 64 + 4 * len(self._keys):
            heap[:] = set(heap)
            heapify(heap)

    def _next_may_go(self, key: _Key) -> bool:
        """Whether the key's first waiting record may be delivered: to the key's holder, or to any
        member if the key has no holder."""
        wait = key.wait
        return (
            wait < len(key.offsets) and self._room(key) > 0 and key.offsets[wait] not in self._kept
        )

    def _room(self, key: _Key) -> int:
        """How many more records of the key its holder may get; the key has unfinished records.

        Until the record that was given back is finished, records go out one at a time: if one
        fails again, later ones would be taken back with it.
        """
        narrow = key.offsets[key.head] <= key.failed
        return (1 if narrow else min(key.width, self._key_max)) - key.wait + key.head

    def _may_go(self, offset: int, key_hash: int, holder: str | None) -> bool:
        """Whether an entry of a heap is up to date, and its record may be delivered."""
        key = self._keys.get(key_hash)
        return (
            key is not None
            and key.member_id == holder
            and self._next_may_go(key)
            and key.offsets[key.wait] == offset
        )

    def holders(self) -> dict[int, str | None]:
        """Who holds each unfinished record; for a checker."""
        return {
            offset: key.member_id if key.place(offset) >= 0 else None
            for offset, key in self._key_of.items()
        }

    def check_invariants(self) -> None:
        """Held records come before waiting ones, each record is in its key's queues once, and each
        key with a record that may be delivered is in the heap where it is looked for.

        Raises:
            AssertionError: one of these does not hold.
        """
        seen: dict[int, _Key] = {}
        for key_hash, key in self._keys.items():
            assert 0 <= key.head <= key.wait <= len(key.offsets), "head and wait are wrong"
            records = key.offsets[key.head :]
            assert key.hash == key_hash
            assert records, "a key without records"
            assert records == sorted(set(records)), f"out of order: {records}"
            assert (key.member_id is None) == (key.wait == key.head), f"holder of {records}"
            seen |= dict.fromkeys(records, key)
            waiting = records[key.wait - key.head :]
            assert not self._kept.intersection(records[: key.wait - key.head]), "held and kept back"
            if self._next_may_go(key):
                heap = self._free if key.member_id is None else self._own.get(key.member_id, [])
                assert (waiting[0], key_hash) in heap, f"{waiting[0]} cannot be found"
        assert seen == self._key_of
        assert self._blocked | self._resting == self._kept, "kept back for no reason"
        assert self._kept <= seen.keys(), "a record is kept back that is not there"
        assert all(offset < self.end for offset in seen)
