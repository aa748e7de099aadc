"""Delivery of one partition to one share group: acquire, acknowledge, expire (KIP-932).

Kafka's counterpart is class SharePartition. What differs, and why:

* **Applied at once.** A request is checked completely, then applied, and the change is returned as
  a :class:`StateChange`. The caller must make it durable before it answers. If that write fails,
  the caller must throw the object away and load it again from durable state (docs/decisions.md,
  3); nothing here rolls back. So a released record may go to another member before its release is
  durable. After a crash it is delivered with its earlier count, which at-least-once allows.
* **A change carries the start offset after the change**; batches below it are left out.
* **Redelivery does not count against the window limit**, since it does not widen the window; only
  new records count. In Kafka a nearly full window can hold back redelivery.
* **Redelivery that reaches MaxRecords** also takes the rest of the log batch, up to the end of the
  delivery batch (:mod:`sharegroup.share.batches`). Kafka takes the rest of the delivery batch.
* **Offsets missing between log batches** are archived at once. Kafka acquires them and waits for
  the client to report them as gaps. Here an acknowledgement may include them, without effect.
* **Under record_limit the window ends at the last acquired record.** Kafka's window extends to the
  end of the log batch, and all of it counts against the window limit.
* **Moving the log start** forgets all records below it, acquired or not. Kafka keeps acquired ones
  until their locks expire. In both, a late acknowledgement succeeds and is ignored.

A lock expires in :meth:`SharePartition.tick`, not at its deadline. Until then its holder may still
acknowledge: no other member can have acquired the record.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from sharegroup.model.errors import InvalidRecordState
from sharegroup.model.share_state import StateRow
from sharegroup.share.acknowledge import SILENT, AckBatch, Answer, checked_answers
from sharegroup.share.acquire import (
    NOTHING,
    Acquisition,
    Request,
    acquired,
    lose,
    unfinished,
)
from sharegroup.share.archived import Archived, Reason
from sharegroup.share.locks import Lock
from sharegroup.share.offset_codes import combined, distinct
from sharegroup.share.ranges import Fetched
from sharegroup.share.record_state import AVAILABLE, RENEW, AckType, RecordState, Verb
from sharegroup.share.release import take_back
from sharegroup.share.settings import DeliverySettings
from sharegroup.share.spans import ABSENT, Span, Status
from sharegroup.share.state_changes import Changes, StateChange
from sharegroup.share.stretches import Stretch
from sharegroup.share.window import Window

_TYPE_BITS = 3
_VERBS = tuple(Verb(kind) for kind in AckType)
_OR = [bytes([code | kind for code in range(256)]) for kind in range(1 << _TYPE_BITS)]
_SHIFTED = bytes([code << _TYPE_BITS & 0xFF for code in range(256)])


@dataclass(slots=True)
class _Meeting:
    """A piece of the window, with the answer that names its offsets.

    A code is one byte for the status and the acknowledgement type together. ``codes`` has one for
    each offset, or one for all. ``met`` has the status and the verb of each code. The verb is None
    if the answer is silent about these offsets, or if nobody holds them.
    """

    piece: Stretch
    codes: bytes
    met: dict[int, tuple[Status, Verb | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """A snapshot for console, metrics and tests. Counts are offsets, unless said otherwise."""

    start_offset: int
    end_offset: int
    available: int
    acquired: int
    acknowledged: int
    archived: int
    spans: int
    """Number of spans in the window, on which its memory and cost depend."""
    members: int
    """Members that hold records."""


class SharePartition:
    """One share partition at its leader.

    ``archived`` collects the records archived from now on, with the reason.

    Raises:
        ValueError: ``batches`` are not a valid durable state (see :meth:`Window.restored`).
    """

    def __init__(
        self,
        *,
        start_offset: int,
        state_epoch: int,
        leader_epoch: int,
        batches: Iterable[StateRow] = (),
        archived: Archived | None = None,
    ) -> None:
        self.state_epoch = state_epoch
        self.leader_epoch = leader_epoch
        self.archived = archived or Archived()
        self._window = Window.restored(start_offset, batches)

    @property
    def start_offset(self) -> int:
        """SPSO: the lowest offset not finished."""
        return self._window.start

    @property
    def end_offset(self) -> int:
        """One past the highest offset ever in flight (Kafka's SPEO + 1). It is the start offset
        while no offset is in flight."""
        return self._window.end

    @property
    def in_flight_count(self) -> int:
        """Width of the window in offsets. Finished offsets after an unfinished one count, too."""
        return self._window.end - self._window.start

    @property
    def delivery_complete_count(self) -> int:
        """Finished offsets in the window; lag is high watermark − start − this."""
        return self._window.finished

    def next_fetch_offset(self, member_id: str = "") -> int:
        """Where to read the log for the next acquisition: redelivery first, else new records."""
        available = self._window.first_available()
        return self._window.end if available is None else available

    def can_acquire(
        self,
        settings: DeliverySettings,
        member_id: str = "",
    ) -> bool:
        """Whether to read the log: records are available, or the window may grow."""
        return (
            self._window.counts[AVAILABLE] > 0 or self.in_flight_count < settings.record_locks_max
        )

    def offers(self, end: int, settings: DeliverySettings) -> bool:
        """Whether some member may acquire a record below the offset ``end``."""
        return self.next_fetch_offset() < end and self.can_acquire(settings)

    def next_deadline_ms(self) -> int | None:
        """When :meth:`tick` has something to do, or None."""
        return self._window.locks.next_deadline_ms()

    # -- acquire ----------------------------------------------------------------------------

    def acquire(
        self,
        member_id: str,
        batches: Sequence[tuple[int, int]],
        *,
        fetch_offset: int,
        records_max: int,
        batch_size: int,
        strict: bool = False,
        aborted: Iterable[tuple[int, int]] = (),
        now_ms: int,
        settings: DeliverySettings,
    ) -> Acquisition:
        """Give ``member_id`` up to ``records_max`` of the records read from the log.

        ``batches`` are (base offset, last offset) of every whole log batch that a read from
        ``fetch_offset`` returned; ``fetch_offset`` is an earlier :meth:`next_fetch_offset`. Offsets
        that the read passed over are archived as compacted away.

        ``strict`` (record_limit, KIP-1206) gives at most ``records_max`` records and makes no cuts.
        Otherwise (batch_optimized) the last log batch is taken whole, and ranges are cut at log
        batch bases once they have ``batch_size`` offsets.

        ``aborted`` (``share.isolation.level`` read_committed) are ascending offset ranges: the data
        batches of aborted transactions among ``batches``. They are archived and given to nobody.
        Control batches are given like others; the client reports them as gaps.

        A call may give nothing and still move :meth:`next_fetch_offset`: read on from there. If
        ``fetch_offset`` is past the window's end, the read began before this object was loaded. It
        gives nothing, because the offsets in between were not read.

        Raises:
            ValueError: ``batches`` are out of order.
        """
        window = self._window
        if not batches or records_max <= 0 or batches[-1][1] < window.start:
            return NOTHING
        if fetch_offset > window.end:
            return NOTHING
        fetched = Fetched(fetch_offset, batches, aborted)
        request = Request(member_id, records_max, batch_size, strict, now_ms + settings.lock_ms)
        return acquired(window, fetched, request, settings)

    # -- give back --------------------------------------------------------------------------

    def acknowledge(
        self,
        member_id: str,
        batches: Sequence[AckBatch],
        *,
        now_ms: int,
        settings: DeliverySettings,
        renew_allowed: bool = True,
    ) -> StateChange | None:
        """Apply the acknowledgements of ``member_id``: all of them, or raise an error before any.

        Offsets below the start are ignored, and so are offsets that are not in the log. RENEW
        restarts the lock and changes nothing durable. None: there is nothing to write.

        Raises:
            InvalidRequest: a batch is malformed or goes past the window (see
                :func:`~sharegroup.share.acknowledge.checked_answers`), or carries RENEW without
                ``renew_allowed`` (request version 2 with IsRenewAck).
            InvalidRecordState: a record is not acquired, or is acquired by another member, or RENEW
                is switched off for the group.
        """
        window = self._window
        answers = checked_answers(
            batches, start=window.start, end=window.end, renew_allowed=renew_allowed
        )
        if not settings.renew_enabled and any(RENEW in one.types for one in answers):
            raise InvalidRecordState("Renewing acquisition locks is not enabled for the group.")
        met = [_met(window.pieces(one.first, one.last), one, member_id) for one in answers]
        changes = Changes(settings.delivery_count_limit, self.archived)
        for meetings in met:
            self._apply(meetings, member_id, now_ms + settings.lock_ms, changes)
        return changes.settled(window)

    def _apply(
        self, meetings: list[_Meeting], member_id: str, deadline_ms: int, changes: Changes
    ) -> None:
        """Apply one answer; ``meetings`` are all pieces that it names."""
        window = self._window
        new: list[Stretch] = []
        for meeting in meetings:
            piece, lock = meeting.piece, None
            for _, verb in meeting.met.values():
                if verb is RENEW:
                    lock = window.locks.take(member_id, deadline_ms)
                    lock.add_range(piece.first, piece.last)
                    break
            new += changes.moved(piece, meeting.codes, meeting.met, lock)
        window.replace([one.piece for one in meetings], new)

    def release_member(
        self,
        member_id: str,
        *,
        now_ms: int,
        settings: DeliverySettings,
    ) -> StateChange | None:
        """Release all records of ``member_id``, whose session ended. Delivery counts stay.

        With very many pieces, a part is left to :meth:`tick`, which is due at once: the caller must
        check :meth:`next_deadline_ms` again.
        """
        return self._release(self._window.locks.of_member(member_id), now_ms, settings)

    def renew_member(self, member_id: str, *, now_ms: int, settings: DeliverySettings) -> None:
        """Restart the locks of ``member_id``."""
        locks = self._window.locks
        for lock in locks.of_member(member_id):
            locks.end_at(lock, now_ms + settings.lock_ms)

    def tick(self, now_ms: int, settings: DeliverySettings) -> StateChange | None:
        """Release the records of locks whose deadline is at or before ``now_ms``.

        ``expired`` of the result is their number. It is right even if the write fails: loading
        again gives the same or an earlier state of these records. With very many pieces, a part is
        left to the next call, which is due at once (:mod:`sharegroup.share.release`).
        """
        return self._release(self._window.locks.expired(now_ms), now_ms, settings)

    def _release(
        self, locks: list[Lock], now_ms: int, settings: DeliverySettings
    ) -> StateChange | None:
        changes = Changes(settings.delivery_count_limit, self.archived)
        if locks:
            take_back(self._window, locks, changes, now_ms)
        return changes.settled(self._window)

    def log_start_moved(self, log_start: int) -> StateChange | None:
        """Forget records below ``log_start``, which retention or DeleteRecords removed.

        The start offset moves at once, past acquired records as well. None when it is at or past
        ``log_start`` already.
        """
        window = self._window
        if log_start <= window.start:
            return None
        self.archived.add(unfinished(window, window.start, log_start - 1, Reason.DELETED))
        window.move_start(log_start)
        return Changes(0, self.archived).settled(self._window, moved=True)

    def damaged(self, first: int, last: int) -> StateChange | None:
        """Archive offsets ``first`` … ``last``, which the log has lost to damage.

        They begin inside the window or right at its end. None when the start offset does not move:
        nothing need be durable then, because a later read finds the same damage.
        """
        self.archived.add(unfinished(self._window, first, last, Reason.DAMAGED))
        return self.compacted(first, last)

    def compacted(self, first: int, last: int) -> StateChange | None:
        """Archive offsets ``first`` … ``last``, whose records compaction has removed.

        As :meth:`damaged`, but ``archived`` does not count these offsets.
        """
        before = self._window.start
        lose(self._window, first, last)
        return Changes(0, self.archived).settled(self._window, moved=self._window.start > before)

    # -- look -------------------------------------------------------------------------------

    def statistics(self) -> Statistics:
        """A snapshot of the window."""
        window = self._window
        return Statistics(
            start_offset=window.start,
            end_offset=window.end,
            available=window.counts[AVAILABLE],
            acquired=window.counts[RecordState.ACQUIRED],
            acknowledged=window.counts[RecordState.ACKNOWLEDGED],
            archived=window.counts[RecordState.ARCHIVED],
            spans=window.span_count(),
            members=window.locks.members(),
        )

    def spans(self, first: int = 0) -> Iterator[Span]:
        """The spans of the window, beginning with the span that holds ``first``; for a console or a
        checker. Consume them before the window changes.
        """
        window = self._window
        if first <= window.start:
            return iter(window)
        return window.iterate_from(first) if first < window.end else iter(())

    def check_invariants(self) -> None:
        """Assert the invariants that :mod:`sharegroup.share.window` lists."""
        self._window.check_invariants()


def _met(pieces: list[Stretch], answer: Answer, member_id: str) -> list[_Meeting]:
    """What ``answer`` says about each of ``pieces``; both cover the same offsets.

    Raises:
        InvalidRecordState: ``member_id`` does not hold a record that the answer names.
    """
    found = []
    for piece in pieces:
        types = answer.types
        if len(types) > 1:
            types = types[piece.first - answer.first : piece.last - answer.first + 1]
        codes = codes_of(piece, types)
        met = {}
        refused: list[tuple[int, str]] = []
        for code in distinct(codes):
            status = piece.statuses[code >> _TYPE_BITS]
            kind = code & SILENT
            lock = status.lock
            met[code] = (status, _VERBS[kind] if lock and kind != SILENT else None)
            if kind == SILENT or (lock is not None and lock.member_id == member_id):
                continue
            if reason := _not_held(status):
                refused.append((piece.first + codes.index(code), reason))
        if refused:
            raise InvalidRecordState("Offset {} is {}.".format(*min(refused)))
        found.append(_Meeting(piece, codes, met))
    return found


def codes_of(piece: Stretch, types: bytes) -> bytes:
    """Status and type in one byte each: the type is in the lowest bits."""
    if len(piece.codes) == 1:
        return types  # the only status has code 0
    statuses = piece.codes.translate(_SHIFTED)
    return statuses.translate(_OR[types[0]]) if len(types) == 1 else combined(statuses, types)


def _not_held(status: Status) -> str | None:
    """Why a member cannot acknowledge offsets of this status, which it does not hold; None if the
    offsets have no records."""
    if status.lock is None:
        return None if status.delivery_count == ABSENT else "not acquired"
    return "acquired by another member"
