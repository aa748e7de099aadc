"""Which record a pool handles next: one lane for each key, and how far each partition is done.

::

    add ─▶ waiting ─take─▶ running ─done─▶ done: the partition's stable offset may move
              ▲               │
              └─again─ resting ◀─rest─┘   the other records of its key wait behind it

Records of one key in one partition run one after the other, in the order of :meth:`KeyLanes.add`.
A record without a key has a lane of its own. Each step costs the same for any number of records,
but for the stable offset: the logarithm of the number of done ranges after it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

from sharegroup.cooperative.committed import CommittedRanges
from sharegroup.cooperative.intervals import Intervals
from sharegroup.model.ids import TopicPartition

T = TypeVar("T")


class _Partition(Generic[T]):
    """The state of one partition. ``count``: its records that are not done; ``running``: its
    records that run. ``gone``: the partition was forgotten, and late results do not count."""

    __slots__ = ("closed", "committed", "count", "gone", "lanes", "next_offset", "running")

    def __init__(self, first: int) -> None:
        self.committed = CommittedRanges(first)
        self.next_offset = first
        self.lanes: dict[Hashable, _Lane[T]] = {}
        self.count = 0
        self.running = 0
        self.closed = False
        self.gone = False


class _Lane(Generic[T]):
    """The records of one key. ``busy``: the first of them runs or rests."""

    __slots__ = ("busy", "entries", "name", "partition")

    def __init__(self, name: Hashable, partition: _Partition[T]) -> None:
        self.name = name
        self.partition = partition
        self.entries: deque[Entry[T]] = deque()
        self.busy = False


class Entry(Generic[T]):
    """One record.

    Attributes:
        item: the record.
        offset: its offset.
        failures: how often it has been put to rest.
        running: it runs; otherwise it waits, rests or is done.
    """

    __slots__ = ("_lane", "failures", "item", "offset", "running")

    def __init__(self, item: T, offset: int, lane: _Lane[T]) -> None:
        self.item = item
        self.offset = offset
        self.failures = 0
        self.running = False
        self._lane = lane

    @property
    def gone(self) -> bool:
        """Its partition was forgotten: its result does not count."""
        return self._lane.partition.gone


class KeyLanes(Generic[T]):
    """See the module.

    Attributes:
        count: records that wait, run or rest.
        running: records that run, without those of partitions that were forgotten.
    """

    def __init__(self) -> None:
        self.count = 0
        self.running = 0
        self._partitions: dict[TopicPartition, _Partition[T]] = {}
        self._ready: deque[_Lane[T]] = deque()

    # --- records ----------------------------------------------------------------------------------

    def add(self, where: TopicPartition, offset: int, key: Hashable | None, item: T) -> None:
        """A record of this partition; offsets ascend. Offsets that are left out count as done.

        Raises:
            ValueError: the offset does not ascend, or the partition is being closed.
            TypeError: the key is not hashable. Nothing has changed.
        """
        name: Hashable = (None, offset) if key is None else (key,)
        hash(name)  # before anything changes
        partition = self._partitions.get(where)
        if partition is None:
            partition = self._partitions[where] = _Partition(offset)
        if partition.closed or offset < partition.next_offset:
            raise ValueError(f"the offset {offset} of {where} comes too late")
        if offset > partition.next_offset:
            partition.committed.commit([(partition.next_offset, offset - 1)])
        partition.next_offset = offset + 1
        lane = partition.lanes.get(name)
        if lane is None:
            lane = partition.lanes[name] = _Lane(name, partition)
            self._ready.append(lane)
        lane.entries.append(Entry(item, offset, lane))
        partition.count += 1
        self.count += 1

    def take(self) -> Entry[T] | None:
        """The record that runs next; None: there is none now."""
        while self._ready:
            lane = self._ready.popleft()
            if not lane.entries:
                continue  # its records were dropped
            entry = lane.entries[0]
            lane.busy = entry.running = True
            lane.partition.running += 1
            self.running += 1
            return entry
        return None

    def rest(self, entry: Entry[T]) -> bool:
        """The record has failed: it rests until :meth:`again`, and its key with it. False: it was
        dropped, and must not run again."""
        entry.failures += 1
        if not self._stop_running(entry):
            return False
        if entry._lane.partition.closed:
            self._forget_lane(entry._lane)
            return False
        return True

    def again(self, entry: Entry[T]) -> None:
        """The record's rest is over. Does nothing if the record was dropped meanwhile."""
        lane = entry._lane
        if lane.entries and lane.entries[0] is entry and lane.busy and not entry.running:
            lane.busy = False
            self._ready.append(lane)

    def done(self, entry: Entry[T]) -> bool:
        """The record is done. False: its partition was forgotten before."""
        if not self._stop_running(entry):
            return False
        lane, partition = entry._lane, entry._lane.partition
        lane.entries.popleft()
        partition.count -= 1
        self.count -= 1
        partition.committed.commit([(entry.offset, entry.offset)])
        lane.busy = False
        if lane.entries:
            self._ready.append(lane)
        else:
            del partition.lanes[lane.name]
        return True

    # --- partitions -------------------------------------------------------------------------------

    def close(self, wheres: Iterable[TopicPartition]) -> None:
        """Drop the records of these partitions that wait or rest; running records may end."""
        for where in wheres:
            partition = self._partitions.get(where)
            if partition is None:
                continue
            partition.closed = True
            for lane in list(partition.lanes.values()):
                if lane.entries[0].running:
                    self._drop(lane, keep=1)
                else:
                    self._forget_lane(lane)

    def forget(self, wheres: Iterable[TopicPartition]) -> None:
        """Drop all records of these partitions; the results of running records do not count."""
        for where in wheres:
            partition = self._partitions.pop(where, None)
            if partition is None:
                continue
            partition.gone = True
            self.running -= partition.running
            for lane in list(partition.lanes.values()):
                self._forget_lane(lane)

    def running_of(self, wheres: Iterable[TopicPartition]) -> int:
        """How many records of these partitions run."""
        found = (self._partitions.get(where) for where in wheres)
        return sum(one.running for one in found if one is not None)

    def stable(self) -> dict[TopicPartition, int]:
        """For each partition that has records to do, or that is being closed: the first offset that
        is not done."""
        return {
            where: one.committed.stable
            for where, one in self._partitions.items()
            if one.count or one.closed
        }

    def ranges(self, where: TopicPartition) -> Intervals:
        """The ranges of done offsets after the stable offset, both ends included: individual
        commits may add them to the stable offset (KIP-X)."""
        partition = self._partitions.get(where)
        return () if partition is None else partition.committed.ranges

    # --- inside -----------------------------------------------------------------------------------

    def _stop_running(self, entry: Entry[T]) -> bool:
        assert entry.running, "the record does not run"
        entry.running = False
        partition = entry._lane.partition
        if partition.gone:
            return False
        partition.running -= 1
        self.running -= 1
        return True

    def _forget_lane(self, lane: _Lane[T]) -> None:
        self._drop(lane, keep=0)
        del lane.partition.lanes[lane.name]

    def _drop(self, lane: _Lane[T], *, keep: int) -> None:
        dropped = len(lane.entries) - keep
        for _ in range(dropped):
            lane.entries.pop()
        lane.partition.count -= dropped
        self.count -= dropped

    def check_invariants(self) -> None:
        """Raises AssertionError: the state contradicts itself."""
        ready = [lane for lane in self._ready if lane.entries]
        assert len({id(lane) for lane in ready}) == len(ready), "a lane is ready twice"
        waiting = {id(lane) for lane in ready}
        for where, one in self._partitions.items():
            one.committed.check_invariants()
            lanes = one.lanes.values()
            assert one.count == sum(len(lane.entries) for lane in lanes), f"{where}: count"
            running = sum(entry.running for lane in lanes for entry in lane.entries)
            assert one.running == running, f"{where}: running"
            for lane in lanes:
                assert lane.entries, f"{where}: an empty lane is kept"
                assert lane.busy != (id(lane) in waiting), f"{where}: a lane is lost"
                offsets = [entry.offset for entry in lane.entries]
                assert offsets == sorted(offsets), f"{where}: a key is out of order"
                assert not any(entry.running for entry in list(lane.entries)[1:]), "order"
                assert one.committed.stable <= offsets[0], f"{where}: committed too far"
        assert self.count == sum(one.count for one in self._partitions.values())
        assert self.running == sum(one.running for one in self._partitions.values())
