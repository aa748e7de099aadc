"""The in-flight window of one share partition: every offset from ``start`` up to ``end``.

One flat structure holds all of it (architecture, decision 2). Invariants, asserted by
:meth:`Window.check_invariants`:

* spans adjoin and tile ``start`` … ``end - 1`` exactly; neighbours differ in state, count or lock;
* the first span is not terminal (finished offsets leave the window at its head);
* a span has a lock exactly while ACQUIRED, and a lock counts exactly the offsets that point to it;
* every offset held by a lock lies in a range that the lock remembers;
* ``counts`` is the number of offsets per state;
* every AVAILABLE offset lies in a remembered free range;
* delivery batches tile at least the window; no delivery count is above ``deliveries_max``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush, heapreplace

from sharegroup.model.share_state import StateBatch
from sharegroup.share.batches import DeliveryBatches
from sharegroup.share.locks import Lock, LockTable
from sharegroup.share.record_state import TERMINAL, RecordState
from sharegroup.share.spans import Span, SpanList, clipped, merged

_FREE_MIN = 64
_PERSISTED = frozenset({RecordState.AVAILABLE, *TERMINAL})


class Window:
    """Spans between the share partition's start offset (SPSO) and its end, exclusive."""

    def __init__(self, start: int) -> None:
        self.start = start
        self.end = start
        self.counts = [0] * (max(RecordState) + 1)
        self.locks = LockTable()
        self.batches = DeliveryBatches(start)
        self.deliveries_max = 0
        """Upper bound of the delivery counts in the window; 0 again when the window is empty."""
        self._spans = SpanList()
        # Heap of ranges that became available; parts of them may have been acquired since.
        self._free: list[tuple[int, int]] = []

    @classmethod
    def restored(cls, start: int, batches: Iterable[StateBatch]) -> Window:
        """The window that durable ``batches`` describe (Kafka class SharePartition, load).

        No member has acknowledged offsets between batches: they become AVAILABLE with count 0.

        Raises:
            ValueError: a batch is below ``start``, empty, out of order, or in no durable state.
        """
        if start < 0:
            raise ValueError(f"start offset {start} is negative")
        window = cls(start)
        spans: list[Span] = []
        end = start
        for batch in batches:
            if batch.first < end or batch.last < batch.first:
                raise ValueError(f"{batch} is out of order behind offset {end}")
            if batch.state not in _PERSISTED or batch.delivery_count < 0:
                raise ValueError(f"{batch} has a state that is never durable")
            if batch.first > end:
                spans.append(Span(end, batch.first - 1, RecordState.AVAILABLE, 0, None))
            state = RecordState(batch.state)
            count = 0 if state in TERMINAL else batch.delivery_count
            spans.append(Span(batch.first, batch.last, state, count, None))
            end = batch.last + 1
        if spans:
            window.extend(spans)
        window.pass_terminal()
        return window

    @property
    def finished(self) -> int:
        """Offsets in a terminal state."""
        return self.counts[RecordState.ACKNOWLEDGED] + self.counts[RecordState.ARCHIVED]

    def __iter__(self) -> Iterator[Span]:
        return iter(self._spans)

    def __len__(self) -> int:
        return len(self._spans)

    def iterate_from(self, offset: int) -> Iterator[Span]:
        """Spans from the one that holds ``offset``, which must be inside, on."""
        return self._spans.iterate_from(offset)

    def pieces(self, first: int, last: int) -> list[Span]:
        """The window's content in ``first`` … ``last``, which must be inside, cut at both ends."""
        spans = self._spans.covering(first, last)
        spans[0] = clipped(spans[0], first, last)
        spans[-1] = clipped(spans[-1], first, last)
        return spans

    def replace(self, first: int, last: int, new: list[Span]) -> None:
        """Put ``new`` spans, which must tile ``first`` … ``last``, in place of what is there."""
        low, high = max(first - 1, self.start), min(last + 1, self.end - 1)
        spans = self._spans.covering(low, high)
        left, right = spans[0], spans[-1]
        # `spans` includes the whole neighbour on either side: a new span may merge with it.
        gone = list(spans)
        if left.last < first:
            del gone[0]
        elif left.first < first:
            gone[0] = clipped(left, first, last)
        if right.first > last:
            del gone[-1]
        elif right.last > last:
            gone[-1] = clipped(gone[-1], first, last)
        self._count(new)
        self._discount(gone)
        around = list(new)
        if low < first:
            around.insert(0, clipped(left, left.first, first - 1))
        if high > last:
            around.append(clipped(right, last + 1, right.last))
        self._spans.splice(low, high, merged(around))

    def extend(self, new: list[Span]) -> None:
        """Append ``new`` spans; the first must begin at the window's end.

        Each becomes a delivery batch, unless ``batches`` covers its offsets already.
        """
        self._count(new)
        for span in new:
            self.batches.add(span.first, span.last)
        tail = self._spans.tail()
        if tail is None:
            self._spans.append(merged(new))
        else:
            self._spans.splice(tail.first, tail.last, merged([tail, *new]))
        self.end = new[-1].last + 1
        self.offer([(s.first, s.last) for s in new if s.state is RecordState.AVAILABLE])

    def move_start(self, offset: int) -> None:
        """Forget everything below ``offset``; the window is empty when that is past its end."""
        if offset <= self.start:
            return
        if self.start < self.end:
            last = min(offset, self.end) - 1
            self._discount(self.pieces(self.start, last))
            rest = self._spans.covering(last, last)[0]
            kept = [clipped(rest, offset, rest.last)] if rest.last >= offset else []
            self._spans.splice(self.start, last, kept)
        self.start = offset
        self.end = max(self.end, offset)
        self.batches.move_start(offset)
        if self.start == self.end:
            self.deliveries_max = 0

    def pass_terminal(self) -> bool:
        """Move the start over finished offsets at the head; returns whether it moved."""
        head = self._spans.head()
        if head is None or head.state not in TERMINAL:
            return False
        end = self.start
        for span in self._spans:
            if span.state not in TERMINAL:
                break
            end = span.last + 1
        self.move_start(end)
        return True

    def offer(self, ranges: list[tuple[int, int]]) -> None:
        """Remember that ``ranges`` became AVAILABLE. Call it after the spans have changed."""
        free = self._free
        if len(free) + len(ranges) > _FREE_MIN + 2 * (self.end - self.start):
            free[:] = [(s.first, s.last) for s in self if s.state is RecordState.AVAILABLE]
        elif len(ranges) > len(free):
            free += ranges
            heapify(free)
        else:
            for first_and_last in ranges:
                heappush(free, first_and_last)

    def first_available(self) -> int | None:
        """The lowest AVAILABLE offset, or None."""
        free = self._free
        if not self.counts[RecordState.AVAILABLE]:
            free.clear()
            return None
        while True:
            first, last = free[0]
            found = self._first_available_in(max(first, self.start), last)
            if found is not None:
                if found > first:
                    heapreplace(free, (found, last))
                return found
            heappop(free)

    def _first_available_in(self, first: int, last: int) -> int | None:
        if first > last:
            return None
        for span in self._spans.iterate_from(first):
            if span.first > last:
                return None
            if span.state is RecordState.AVAILABLE:
                return max(span.first, first)
        return None

    def _count(self, spans: list[Span]) -> None:
        counts, deliveries_max = self.counts, self.deliveries_max
        for first, last, state, count, lock in spans:
            counts[state] += last - first + 1
            if count > deliveries_max:
                deliveries_max = count
            if lock is not None:
                lock.held += last - first + 1
        self.deliveries_max = deliveries_max

    def _discount(self, spans: list[Span]) -> None:
        counts = self.counts
        for first, last, state, _, lock in spans:
            counts[state] -= last - first + 1
            if lock is not None:
                lock.held -= last - first + 1
                if not lock.held:
                    self.locks.drop(lock)

    def check_invariants(self) -> None:
        """Assert what the module's docstring lists; costs a walk over the window."""
        offset, counts = self.start, [0] * len(self.counts)
        held: Counter[Lock] = Counter()
        before: Span | None = None
        for span in self._spans:
            assert span.first == offset, f"{span} does not begin at {offset}"
            assert span.last >= span.first, f"{span} is empty"
            assert before is None or before[2:] != span[2:], f"{before} and {span} are equal"
            assert before is not None or span.state not in TERMINAL, f"terminal head {span}"
            assert (span.lock is not None) == (span.state is RecordState.ACQUIRED), f"lock: {span}"
            assert span.state not in TERMINAL or span.delivery_count <= 0, f"count: {span}"
            counts[span.state] += span.size
            assert span.delivery_count <= self.deliveries_max, f"more than the maximum: {span}"
            if span.lock is not None:
                held[span.lock] += span.size
            offset, before = span.last + 1, span
        assert offset == self.end, f"spans end at {offset}, the window at {self.end}"
        assert counts == self.counts, f"{counts} counted, {self.counts} kept"
        assert held == Counter({lock: lock.held for lock in self.locks}), "locks miscounted"
        self.batches.check_invariants(self.start, self.end)
        for lock in held:
            _check_covered([span for span in self if span.lock is lock], lock.ranges)
        _check_covered([s for s in self if s.state is RecordState.AVAILABLE], self._free)


def _check_covered(spans: list[Span], ranges: list[tuple[int, int]]) -> None:
    """Assert that every offset of ``spans`` is in one of the remembered ``ranges``."""
    remembered = iter(sorted(ranges))
    first, last = next(remembered, (0, -1))
    for span in spans:
        offset = span.first
        while offset <= span.last:
            while last < offset:
                first, last = next(remembered, (offset + 1, offset))
                assert first <= offset or last > offset, f"{span} is not remembered"
            assert first <= offset, f"{span} is not remembered"
            offset = last + 1
