"""Records of one partition handed out to the members of a consumer group in turns, by the
share-partition machine (KIP-X, "Cooperative Fetch").

A member fetches in numbered *turns*. Turn 1 begins anew: records that the member still holds go
back. A turn that is asked for again, because its answer was lost, gets the same records, or those
of them that there is room for: then the others go back. To ask for the next turn confirms that the
answer to the last turn has arrived.

Nothing here is durable: the group's committed offset, and the committed ranges after it, say which
records are done. A record is held until it is committed, its member has given the partition back or
its lock expires.

Every member is told of offsets without a record (*holes*) until a member has committed them.
Otherwise the group's committed offset would never pass the holes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from sharegroup.cooperative.committed import CommittedRanges
from sharegroup.cooperative.intervals import Intervals, common, minus, normal
from sharegroup.model.errors import InvalidFetchSessionEpoch
from sharegroup.model.share_state import StateBatch
from sharegroup.share.acknowledge import AckBatch
from sharegroup.share.partition import SharePartition
from sharegroup.share.record_state import ACQUIRED, AVAILABLE, AckType, RecordState
from sharegroup.share.settings import DeliverySettings
from sharegroup.share.spans import Span, clipped

FIRST_TURN: Final = 1
TURN_RECORDS: Final = 500
"""About how many records a turn gets; log batches are not divided."""
_ACCEPT: Final = (AckType.ACCEPT,)
_RELEASE: Final = (AckType.RELEASE,)
_NOBODY: Final = ""
NO_OFFSET: Final = -1


class _Turn(NamedTuple):
    """The last turn of a member that got records."""

    number: int
    given: Intervals


class Done(NamedTuple):
    """What a group has committed in a partition."""

    stable: int
    """All before this offset."""
    ranges: Intervals
    """Ranges after it."""

    def beyond(self, other: Done) -> Intervals:
        """The offsets that are done here, and not in ``other``."""
        if self == other:
            return ()
        mine, others = (((NO_OFFSET, one.stable - 1), *one.ranges) for one in (self, other))
        return minus(mine, others)


class PartitionTurns:
    """One partition of one group.

    Args:
        stable: the group's committed offset.
        committed: the committed ranges after that offset.

    Attributes:
        holes: offsets without a record that are not known to be committed.
    """

    def __init__(self, stable: int, committed: Intervals = ()) -> None:
        self.holes: Intervals = ()
        self._stable = stable
        self._done = CommittedRanges(stable, committed)
        self._turns: dict[str, _Turn] = {}
        done = int(RecordState.ACKNOWLEDGED)
        self._core = SharePartition(
            start_offset=stable,
            state_epoch=0,
            leader_epoch=0,
            batches=[StateBatch(first, last, done, 0) for first, last in committed],
        )

    @property
    def next_offset(self) -> int:
        """Where to read the log for :meth:`give`."""
        return self._core.next_fetch_offset()

    def has_room(self, settings: DeliverySettings) -> bool:
        """Whether :meth:`give` may give records now."""
        return self._core.can_acquire(settings)

    @property
    def done(self) -> Done:
        """What is never given again, because the group has committed it. If the group has lost
        some of it, the caller must begin with a new object."""
        return Done(self._done.stable, self._done.ranges)

    # -- the group ----------------------------------------------------------------------------

    def follow(self, stable: int) -> bool:
        """Take ``stable`` as the group's committed offset. False: the offset has moved back, and
        the caller must begin with a new object."""
        if stable < self._stable:
            return False
        self._stable = stable
        self._done.advance(stable)
        self._core.log_start_moved(stable)
        self.holes = tuple((max(first, stable), end) for first, end in self.holes if end >= stable)
        return True

    def commit(
        self, member_id: str, ranges: Intervals, now_ms: int, settings: DeliverySettings
    ) -> bool:
        """``member_id`` has committed ``ranges``; it holds its other records for another
        ``lock_ms``. False: the ranges go past all records given to anybody, and the caller must
        begin with a new object.
        """
        core = self._core
        if ranges and ranges[-1][1] >= core.end_offset:
            return False
        answers: dict[str, list[AckBatch]] = {}
        for span in self._spans(ranges):
            holder = _NOBODY
            if span.lock is not None:
                holder = span.lock.member_id
            elif span.state is AVAILABLE:
                self._take(span, now_ms, settings)
            else:
                continue
            answers.setdefault(holder, []).append((span.first, span.last, _ACCEPT))
        for holder, said in answers.items():
            core.acknowledge(holder, said, now_ms=now_ms, settings=settings)
        self.holes = minus(self.holes, ranges)
        self._done.commit(ranges)
        core.renew_member(member_id, now_ms=now_ms, settings=settings)
        return True

    def _spans(self, ranges: Intervals) -> list[Span]:
        """The spans of the window, cut to ``ranges``, in one pass over both."""
        found: list[Span] = []
        left = deque(one for one in ranges if one[1] >= self._core.start_offset)
        for span in self._core.spans(left[0][0]) if left else ():
            while left and left[0][1] < span.first:
                left.popleft()
            if not left:
                break
            while left and left[0][0] <= span.last:
                found.append(clipped(span, *left[0]))
                if left[0][1] > span.last:
                    break
                left.popleft()
        return found

    def _take(self, span: Span, now_ms: int, settings: DeliverySettings) -> None:
        """Acquire the available records of ``span`` in nobody's name: only acquired records can be
        accepted."""
        self._core.acquire(
            _NOBODY,
            [(span.first, span.last)],
            fetch_offset=span.first,
            records_max=span.size + 1,
            batch_size=span.size,
            now_ms=now_ms,
            settings=settings,
        )

    def keep(self, members: Collection[str], now_ms: int, settings: DeliverySettings) -> None:
        """Take back the records of everybody but ``members``, and records with an expired lock."""
        for member_id in self._turns.keys() - members:
            del self._turns[member_id]
            self._core.release_member(member_id, now_ms=now_ms, settings=settings)
        self._core.tick(now_ms, settings)

    # -- a turn -------------------------------------------------------------------------------

    def begin(
        self, member_id: str, number: int, now_ms: int, settings: DeliverySettings
    ) -> Intervals:
        """A member asks for turn ``number``. Returns the records that it gets again; if they are
        empty, the caller must :meth:`give` it new ones.

        Raises:
            InvalidFetchSessionEpoch: ``number`` is neither the member's last turn nor the next one:
                the member must begin anew.
        """
        if number == FIRST_TURN:
            self._turns.pop(member_id, None)
            self._core.release_member(member_id, now_ms=now_ms, settings=settings)
            return ()
        turn = self._turns.get(member_id)
        if turn is None or number not in (turn.number, turn.number + 1):
            raise InvalidFetchSessionEpoch
        # Records of the turn that were committed or taken back since are not given again.
        return common(turn.given, self._held(member_id)) if number == turn.number else ()

    def give(
        self,
        member_id: str,
        number: int,
        batches: Sequence[tuple[int, int]],
        *,
        fetch_offset: int,
        now_ms: int,
        settings: DeliverySettings,
    ) -> Intervals:
        """Give records that were read from ``fetch_offset``, an earlier :attr:`next_offset`.

        A call may give nothing and still move :attr:`next_offset`: read on from there.

        Args:
            batches: (base offset, last offset) of each log batch.
        """
        acquired = self._core.acquire(
            member_id,
            batches,
            fetch_offset=fetch_offset,
            records_max=TURN_RECORDS,
            batch_size=TURN_RECORDS,
            now_ms=now_ms,
            settings=settings,
        )
        given = normal((first, last) for first, last, _ in acquired.ranges)
        if given:
            self._turns[member_id] = _Turn(number, given)
        # The empty batch in front makes a hole of the offsets before the first batch.
        self._found_holes([(fetch_offset, fetch_offset - 1), *batches])
        return given

    def give_less(
        self, member_id: str, given: Intervals, now_ms: int, settings: DeliverySettings
    ) -> None:
        """A member gets only ``given`` of its last turn again: the rest of the turn goes back.
        Otherwise the member would hold records that no answer to it has."""
        number, before = self._turns[member_id]
        self._turns[member_id] = _Turn(number, given)
        rest = common(minus(before, given), self._held(member_id))
        said = [(first, last, _RELEASE) for first, last in rest]
        self._core.acknowledge(member_id, said, now_ms=now_ms, settings=settings)

    def pass_over(self, first: int, last: int) -> None:
        """Archive offsets ``first`` … ``last``, which hold no record for the group: a hole."""
        self._core.compacted(first, last)
        self._found_holes([(first, first - 1), (last + 1, last)])

    def _found_holes(self, batches: Sequence[tuple[int, int]]) -> None:
        """Note the offsets between ``batches`` as holes, as far as the window goes."""
        between = [(a[1] + 1, b[0] - 1) for a, b in pairwise(batches) if a[1] + 1 < b[0]]
        if between:
            inside = ((self._stable, max(self._stable, self._core.end_offset - 1)),)
            self.holes = normal((*self.holes, *common(normal(between), inside)))

    def _held(self, member_id: str) -> Intervals:
        return normal(
            (span.first, span.last)
            for span in self._core.spans()
            if span.lock is not None and span.lock.member_id == member_id
        )

    # -- look ---------------------------------------------------------------------------------

    def check_invariants(self) -> None:
        """The share partition's invariants hold, only members that had a turn hold records, and
        holes ascend and lie in the window.

        Raises:
            AssertionError: one of these conditions is false.
        """
        self._core.check_invariants()
        for span in self._core.spans():
            if span.state is ACQUIRED:
                assert span.lock is not None
                assert span.lock.member_id in self._turns, span
        assert self.holes == normal(self.holes), self.holes
        assert not self.holes or self._stable <= self.holes[0][0], self.holes
        assert not self.holes or self.holes[-1][1] < self._core.end_offset, self.holes
