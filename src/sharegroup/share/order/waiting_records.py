"""The loaded records of each *class*: which of them wait, and which are held or rest.

A class is what an order of delivery tells records by: a tenant
(:mod:`sharegroup.share.order.tenants`) or a priority (:mod:`sharegroup.share.order.priorities`). It
is known by a number. What was loaded at once is one *block*, and a block has the waiting records of
each class as one sequence of offsets: a ``range`` if they adjoin. So a class with a million records
side by side takes as much memory as a class with one.

The window has the states of records. What waits here is a hint: a record may have been archived
since, and is dropped when it would be taken. Every available record below :attr:`end` is here, with
its class. The records of a class that are not here any more, but not finished either, are *held* by
members or *rest*: these are known one by one.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import compress, repeat
from typing import Final, NamedTuple

from sharegroup.share.order.waiting_offsets import available, grouped, without
from sharegroup.share.window import Window

_LOOK_FIRST: Final = 4
_LOOK: Final = 256
"""How many waiting records are looked at at once to find an available one."""


class RecordClass:
    """What is known of one class."""

    __slots__ = ("blocks", "held", "turn")

    def __init__(self) -> None:
        self.turn = 0
        """For the order of delivery, which may note here when the class is next."""
        self.held = 0
        """How many of its records members hold."""
        self.blocks: list[int] = []
        """The first offsets of blocks that may have waiting records of the class, ascending."""


class Block:
    """The records that were loaded at once: ``first`` up to ``end``, exclusive."""

    __slots__ = ("again", "end", "first", "fresh")

    def __init__(self, first: int, end: int) -> None:
        self.first = first
        self.end = end
        self.fresh: dict[int, Sequence[int]] = {}
        """Class → offsets that were not taken yet, ascending."""
        self.again: dict[int, list[int]] = {}
        """Class → offsets that came back, ascending."""

    def classes(self) -> Iterable[int]:
        """The classes that may have waiting records here."""
        return self.fresh.keys() | self.again.keys()


class Moved(NamedTuple):
    """What has become of records."""

    freed: Mapping[int, int]
    """Class → how many of its records members hold no longer."""
    waiting: Sequence[int]
    """Classes with records that wait, which had none before."""


class WaitingRecords:
    """See the module.

    Args:
        window: its start is where the records begin that will be loaded.
    """

    def __init__(self, window: Window) -> None:
        self.end = window.start
        """One past the last offset that was loaded."""
        self.entries = 0
        """Sequences of offsets in all blocks: what memory depends on, beside the records of blocks
        with many classes, which take 8 bytes each."""
        self.classes: dict[int, RecordClass] = {}
        """The classes that have records here or hold some, and maybe others."""
        self._window = window
        self._start = window.start
        self._blocks: list[Block] = []
        self._held: dict[int, int] = {}
        """Offset → class, of each record that a member holds."""
        self._resting: dict[int, int] = {}
        """The same for records that rest."""

    def load(self, offsets: Sequence[int], classes: Sequence[int], end: int) -> list[int]:
        """Add records that nobody holds, with their classes. Those that rest must be put off at
        once (:meth:`put_off`). Returns the classes that had no waiting records before.

        Args:
            offsets: ascending, from :attr:`end` on.
            end: one past the last offset that was read.
        """
        block = Block(self.end, end)
        self.end = end
        if not offsets:
            return []
        self._blocks.append(block)
        waiting = []
        for each, found in grouped(offsets, classes):
            block.fresh[each] = found
            self.entries += 1
            if self._wait(each, block):
                waiting.append(each)
        return waiting

    # -- take -------------------------------------------------------------------------------

    def first_of(self, each: int) -> int | None:
        """The lowest available record of a class, or None."""
        blocks = self.classes[each].blocks
        while blocks:
            block = self._block_at(blocks[0])
            if block is not None:
                found = [
                    self._first_in(offsets, each, block)
                    for offsets in (block.again.get(each), block.fresh.get(each))
                    if offsets is not None
                ]
                lowest = min((at for at in found if at is not None), default=None)
                if lowest is not None:
                    return lowest
            del blocks[0]
        return None

    def about_first_of(self, each: int) -> int:
        """The lowest record of a class that may wait, at little cost: it may be finished."""
        blocks = self.classes[each].blocks
        block = self._block_at(blocks[0]) if blocks else None
        if block is None:
            return self._start
        parts = (block.again.get(each), block.fresh.get(each))
        return min((part[0] for part in parts if part), default=block.first)

    def blocks_of_classes(self, first: int, end: int) -> dict[int, list[Block]]:
        """The classes that may have records waiting from ``first`` up to ``end``, exclusive, with
        the blocks of these records."""
        found: dict[int, list[Block]] = {}
        for block in self._between(first, end):
            for each in block.classes():
                found.setdefault(each, []).append(block)
        return found

    def take(
        self, each: int, blocks: Iterable[Block], between: tuple[int, int], wanted: int
    ) -> list[int]:
        """Let a member hold up to ``wanted`` available records of a class in these blocks, at or
        after the first offset in ``between`` and before the second one. Returns their offsets,
        ascending."""
        found: list[int] = []
        for block in blocks:
            if len(found) < wanted:
                found += self._take_from(block, each, between, wanted - len(found))
        self.classes[each].held += len(found)
        self._held.update(zip(found, repeat(each)))
        return found

    def _take_from(
        self, block: Block, each: int, between: tuple[int, int], wanted: int
    ) -> list[int]:
        """The same from one block: these records wait no longer."""
        parts = [one for one in (block.again.get(each), block.fresh.get(each)) if one is not None]
        found: list[int] = []
        for offsets in parts:
            at, high = (bisect_left(offsets, offset) for offset in between)
            enough = len(found) + wanted
            while at < high and len(found) < enough:
                until = min(high, at + enough - len(found))
                found += available(self._window, offsets[at:until])
                at = until
        found.sort()  # a record that has rested may lie behind one that was not taken yet
        del found[wanted:]
        begin, end = between
        if len(found) == wanted:
            end = found[-1] + 1
        for offsets in parts:
            low, high = bisect_left(offsets, begin), bisect_left(offsets, end)
            if low < high:
                self._keep(offsets, each, block, without(offsets, low, high))
        return found

    # -- back, gone -------------------------------------------------------------------------

    def back(self, offsets: Sequence[int], *, rested: bool = False) -> Moved:
        """Records have become available that members held (or that ``rested``). Offsets of other
        records change nothing.

        Args:
            offsets: ascending.
        """
        classes, freed = self._no_longer_held(offsets)
        if rested and self._resting:
            rests = map(self._resting.pop, offsets, repeat(None))
            classes = [a if a is not None else b for a, b in zip(classes, rests, strict=True)]
        if classes.count(None) == len(classes):
            return Moved(freed, ())
        known = [one is not None for one in classes]
        ours = [one for one in classes if one is not None]
        waiting: list[int] = []
        for each, found in grouped([*compress(offsets, known)], ours):
            waiting += self._put_back(found, each)
        return Moved(freed, waiting)

    def pause(self, offsets: Sequence[int]) -> Mapping[int, int]:
        """Records that members held rest from now on, until :meth:`back` with ``rested``. Returns
        the classes of the records, and how many there are of each."""
        classes, freed = self._no_longer_held(offsets)
        self._resting.update(
            (offset, one) for offset, one in zip(offsets, classes, strict=True) if one is not None
        )
        return freed

    def put_off(self, ranges: Iterable[tuple[int, int]]) -> set[int]:
        """Records that waited rest from now on, until :meth:`back` with ``rested``. Returns their
        classes.

        Args:
            ranges: their first and last offsets, ascending and disjoint.
        """
        resting = {at for first, last in ranges for at in range(first, last + 1)}
        if not resting:
            return set()
        idle: set[int] = set()
        for block in self._between(min(resting), max(resting) + 1):
            for part in (block.fresh, block.again):
                for each, offsets in list(part.items()):
                    found = resting.intersection(offsets)
                    if found:
                        self._resting.update(zip(found, repeat(each)))
                        left = array("q", [at for at in offsets if at not in found])
                        self._keep(offsets, each, block, left)
                        idle.add(each)
        for each in idle:
            self.first_of(each)  # it forgets the blocks where nothing waits any more
        return idle

    def gone(self, offsets: range) -> Mapping[int, int]:
        """Records are finished. Those that wait are found to be so when they would be taken.
        Returns the classes of those that members held, and how many there are of each."""
        held = _known(self._held, offsets)
        _, freed = self._no_longer_held(held)
        for offset in _known(self._resting, offsets):
            self._resting.pop(offset, None)
        return freed

    def move_start(self) -> Mapping[int, int]:
        """Forget all records below the window's start. Returns as :meth:`gone`."""
        start = self._window.start
        if start <= self._start:
            return {}
        freed = self.gone(range(self._start, start))
        self._start = start
        self.end = max(self.end, start)
        passed = bisect_right(self._blocks, start, key=lambda one: one.end)
        for block in self._blocks[:passed]:
            self.entries -= len(block.fresh) + len(block.again)
        del self._blocks[:passed]
        return freed

    def forget_idle(self, classes: Iterable[int]) -> None:
        """Forget the classes that have no records here and hold none."""
        for each in classes:
            one = self.classes.get(each)
            if one is not None and not one.blocks and not one.held:
                del self.classes[each]

    def _no_longer_held(self, offsets: Sequence[int]) -> tuple[list[int | None], dict[int, int]]:
        """Take records from their holders. Returns the class of each, None where nobody held the
        record, and the number of records of each class."""
        classes = [*map(self._held.pop, offsets, repeat(None))]
        freed = {each: number for each, number in Counter(classes).items() if each is not None}
        for each, number in freed.items():
            self.classes[each].held -= number
        return classes, freed

    # -- where records wait -----------------------------------------------------------------

    def _wait(self, each: int, block: Block) -> bool:
        """Records of a class wait in a block in which none have waited. Returns whether none have
        waited anywhere."""
        one = self.classes.get(each)
        if one is None:
            one = self.classes[each] = RecordClass()
        new = not one.blocks
        at = bisect_left(one.blocks, block.first)
        if block.first not in one.blocks[at : at + 1]:
            one.blocks.insert(at, block.first)
        return new

    def _put_back(self, offsets: Sequence[int], each: int) -> list[int]:
        """Let records of a class wait again. Returns the class if it had none that waited."""
        waiting = []
        while offsets:
            at = bisect_right(self._blocks, offsets[0], key=lambda one: one.first) - 1
            block = self._blocks[at]
            there = bisect_left(offsets, block.end)
            waits = each in block.fresh or each in block.again
            if each not in block.again:
                block.again[each] = []
                self.entries += 1
            again = block.again[each]
            behind = not again or again[-1] < offsets[0]
            again += offsets[:there]
            if not behind:
                again.sort()
            if not waits and self._wait(each, block):
                waiting.append(each)
            offsets = offsets[there:]
        return waiting

    def _block_at(self, first: int) -> Block | None:
        """The block that begins at this offset; None if it is forgotten."""
        at = bisect_left(self._blocks, first, key=lambda one: one.first)
        found = self._blocks[at] if at < len(self._blocks) else None
        return found if found is not None and found.first == first else None

    def _between(self, first: int, end: int) -> Iterator[Block]:
        """The blocks with offsets from ``first`` up to ``end``, exclusive."""
        at = bisect_right(self._blocks, first, key=lambda one: one.end)
        while at < len(self._blocks) and self._blocks[at].first < end:
            yield self._blocks[at]
            at += 1

    def _first_in(self, offsets: Sequence[int], each: int, block: Block) -> int | None:
        """The first available one of ``offsets``, which are the class's in this block. Those before
        it are dropped."""
        at, look = 0, _LOOK_FIRST  # most often the very first one is available
        while at < len(offsets):
            found = available(self._window, offsets[at : at + look])
            if found:
                at = bisect_left(offsets, found[0])
                break
            at, look = at + look, _LOOK
        if at:
            self._keep(offsets, each, block, offsets[at:])
        return found[0] if at < len(offsets) else None

    def _keep(self, offsets: Sequence[int], each: int, block: Block, rest: Sequence[int]) -> None:
        """Let only ``rest`` of a class's ``offsets`` wait in this block."""
        if block.again.get(each) is offsets:
            if rest:
                block.again[each] = list(rest)
                return
            del block.again[each]
        else:
            if rest:
                block.fresh[each] = rest
                return
            del block.fresh[each]
        self.entries -= 1

    # -- for a checker ----------------------------------------------------------------------

    def check_invariants(self, held: Iterable[int], resting: Iterable[int]) -> None:
        """Assert that what is known agrees with the window, which has these records held and
        resting below :attr:`end`.

        Raises:
            AssertionError: it does not.
        """
        assert self._held.keys() == set(held), "held records differ"
        assert self._resting.keys() >= set(resting), "a resting record has no class"
        assert all(offset >= self._start for offset in self._resting)
        counts = Counter(self._held.values())
        assert counts == Counter({key: one.held for key, one in self.classes.items() if one.held})
        waiting: list[int] = []
        entries = 0
        end = self._start
        for block in self._blocks:
            assert end <= block.end <= self.end, "blocks are out of order"
            end = block.end
            for part in (block.fresh, block.again):
                entries += len(part)
                for each, offsets in part.items():
                    assert offsets, "nothing waits there"
                    assert list(offsets) == sorted(set(offsets)), f"out of order: {offsets}"
                    waiting += offsets
                    known = self.classes[each].blocks
                    assert block.first in known, "a class does not know its block"
        assert entries == self.entries, "sequences miscounted"
        assert len(set(waiting)) == len(waiting), "a record waits twice"
        assert not self._resting.keys() & set(waiting), "a record that rests waits, too"
        first, last = self._window.start, min(self.end, self._window.end) - 1
        free = [*available(self._window, range(first, last + 1))]
        assert set(free) <= set(waiting), "an available record does not wait"


def _known(known: Mapping[int, int], offsets: range) -> Sequence[int]:
    """``offsets``, or only those that are known, if these are fewer."""
    if len(offsets) <= len(known):
        return offsets
    return [offset for offset in known if offset in offsets]
