"""Delivery of one partition to one share group: acquire, acknowledge, expire (KIP-932).

Kafka's counterpart is class SharePartition. What differs, and why:

* **Applied at once.** A change is checked whole, applied, and returned as a :class:`StateChange`.
  The caller must make it durable before it answers. When that write fails the caller must throw
  the object away and load it again from durable state (architecture, decision 3); nothing here
  rolls back. A released record may thus go to another member before its release is durable; a crash
  then delivers it with the count it had before, which at-least-once allows.
* **The start offset in a change is the one after it**, and what lies below is left out.
* **Redelivery is not counted against the window limit**, since it does not widen the window; only
  new records are. Kafka lets a nearly full window hold redelivery back.
* **Redelivery that has reached MaxRecords** takes the rest of its log batch, as far as it came
  together at first (:mod:`sharegroup.share.batches`). Kafka takes the rest of what came together.
* **Offsets missing between log batches** are archived at once. Kafka acquires them and waits for
  the client to report them as gaps. An acknowledgement may name them, and says nothing by it.
* **Under record_limit the window ends at what was given.** Kafka's reaches to the end of the log
  batch, and counts that against the window limit.
* **Moving the log start** forgets what is below, acquired or not. Kafka keeps acquired records
  there until their locks end; a late acknowledgement is ignored with success either way.

A lock ends when :meth:`SharePartition.tick` says so: until then an acknowledgement by its holder
counts, even after the deadline, since nobody else can have got the record.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from sharegroup.model.errors import InvalidRecordState
from sharegroup.model.share_state import StateBatch
from sharegroup.share.acknowledge import AckBatch, AckRun, checked_runs, neighbouring
from sharegroup.share.acquire import (
    NOTHING,
    Acquisition,
    Request,
    acquired,
    lose,
    unfinished,
)
from sharegroup.share.archived import Archived, Reason
from sharegroup.share.changes import Changes, StateChange
from sharegroup.share.locks import Lock
from sharegroup.share.ranges import Fetched
from sharegroup.share.record_state import RecordState, Verb
from sharegroup.share.release import take_back
from sharegroup.share.settings import DeliverySettings
from sharegroup.share.spans import ABSENT, Span, clipped
from sharegroup.share.window import Window

_Meeting = tuple[Span, Verb | None]


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
    """Pieces the window is in: its memory and cost."""
    members: int
    """Members that hold records."""


class SharePartition:
    """One share partition at its leader.

    ``archived`` takes what is given up from now on, and why.

    Raises:
        ValueError: ``batches`` are no valid durable state (see :meth:`Window.restored`).
    """

    def __init__(
        self,
        *,
        start_offset: int,
        state_epoch: int,
        leader_epoch: int,
        batches: Iterable[StateBatch] = (),
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
        """One past the highest offset ever in flight (Kafka's SPEO + 1); the start when none is."""
        return self._window.end

    @property
    def in_flight_count(self) -> int:
        """Width of the window in offsets, finished ones behind an unfinished one included."""
        return self._window.end - self._window.start

    @property
    def delivery_complete_count(self) -> int:
        """Finished offsets in the window; lag is high watermark − start − this."""
        return self._window.finished

    def next_fetch_offset(self) -> int:
        """Where to read the log for the next acquisition: redelivery first, else new records."""
        available = self._window.first_available()
        return self._window.end if available is None else available

    def can_acquire(self, settings: DeliverySettings) -> bool:
        """Whether a read would be of use: something is available, or the window may grow."""
        return (
            self._window.counts[RecordState.AVAILABLE] > 0
            or self.in_flight_count < settings.record_locks_max
        )

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
        ``fetch_offset``, a former :meth:`next_fetch_offset`, returned; what it passed over is
        archived as compacted away. ``strict`` (record_limit, KIP-1206) gives at most
        ``records_max`` and makes no cuts; otherwise (batch_optimized) the last log batch is taken
        whole, and ranges are cut at log batch bases once they have ``batch_size`` offsets.
        ``aborted`` (``share.isolation.level`` read_committed) are ascending offset ranges of data
        batches of aborted transactions among ``batches``: they are finished, as Archived, and given
        to nobody. Control batches are given like others; the client reports them as gaps. A call
        may thus give nothing and yet move :meth:`next_fetch_offset`: read on from there.
        A read from past the window's end, begun before this object was loaded, gives nothing:
        what lies between was not read.

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
        """Apply what ``member_id`` says about records: all of it, or nothing and an error.

        Offsets below the start are ignored, and so are those that were never there. RENEW starts
        the lock anew and changes nothing durable. None: there is nothing to write.

        Raises:
            InvalidRequest: a batch is malformed or goes past the window (see
                :func:`~sharegroup.share.acknowledge.checked_runs`), or carries RENEW without
                ``renew_allowed`` (request version 2 with IsRenewAck).
            InvalidRecordState: a record is not acquired, or by another member; or RENEW is
                switched off for the group.
        """
        window = self._window
        runs = checked_runs(
            batches, start=window.start, end=window.end, renew_allowed=renew_allowed
        )
        if not settings.renew_enabled and any(run.verb is Verb.RENEW for run in runs):
            raise InvalidRecordState("Renewing acquisition locks is not enabled for the group.")
        groups = [
            (group, _met(window.pieces(group[0].first, group[-1].last), group))
            for group in neighbouring(runs)
        ]
        for _, met in groups:
            self._check_held(met, member_id)
        changes = Changes(settings.delivery_count_limit)
        deadline_ms = now_ms + settings.lock_ms
        for group, met in groups:
            self._acknowledge(member_id, group, met, deadline_ms, changes)
        self.archived.add(changes.given_up)
        return changes.settled(window)

    @staticmethod
    def _check_held(met: list[_Meeting], member_id: str) -> None:
        for piece, verb in met:
            if verb is None:
                continue
            if piece.lock is None:
                if piece.delivery_count == ABSENT:
                    continue
                raise InvalidRecordState(f"Offset {piece.first} is not acquired.")
            if piece.lock.member_id != member_id:
                raise InvalidRecordState(f"Offset {piece.first} is acquired by another member.")

    def _acknowledge(
        self,
        member_id: str,
        group: list[AckRun],
        met: list[_Meeting],
        deadline_ms: int,
        changes: Changes,
    ) -> None:
        """Apply the adjoining runs of ``group`` to the pieces that each has ``met``."""
        window = self._window
        new = []
        for piece, verb in met:
            if verb is None or piece.lock is None:
                new.append(piece)
            elif verb is Verb.RENEW:
                lock = window.locks.take(member_id, deadline_ms)
                lock.add_range(piece.first, piece.last)
                new.append(piece._replace(lock=lock))
            else:
                new.append(changes.moved(piece, verb))
        window.replace(group[0].first, group[-1].last, new)

    def release_member(
        self,
        member_id: str,
        *,
        now_ms: int,
        settings: DeliverySettings,
    ) -> StateChange | None:
        """Take back all that ``member_id`` holds: its session ended. Delivery counts stay.

        Of very many pieces a part is left to :meth:`tick`, due at once: the caller must look at
        :meth:`next_deadline_ms` again.
        """
        return self._release(self._window.locks.of_member(member_id), now_ms, settings)

    def tick(self, now_ms: int, settings: DeliverySettings) -> StateChange | None:
        """Take back what is held by locks that ended at or before ``now_ms``.

        ``expired`` of the result says how many records that were. It stands even if the write
        fails; loading again gives the same or an earlier state of these records. Of very many
        pieces a part is left to the next call (:mod:`sharegroup.share.release`), due at once.
        """
        return self._release(self._window.locks.expired(now_ms), now_ms, settings)

    def _release(
        self, locks: list[Lock], now_ms: int, settings: DeliverySettings
    ) -> StateChange | None:
        changes = Changes(settings.delivery_count_limit)
        if locks:
            take_back(self._window, locks, changes, now_ms)
            self.archived.add(changes.given_up)
        return changes.settled(self._window)

    def log_start_moved(self, log_start: int) -> StateChange | None:
        """Forget what retention or DeleteRecords took from the log; None when it is not news.

        The start offset follows at once, past records that are acquired too.
        """
        window = self._window
        if log_start <= window.start:
            return None
        self.archived.add(unfinished(window, window.start, log_start - 1, Reason.DELETED))
        window.move_start(log_start)
        return Changes(0).settled(self._window, moved=True)

    def damaged(self, first: int, last: int) -> StateChange | None:
        """Finish offsets ``first`` … ``last``, which the log has lost to damage, as Archived. They
        are at or after the start and adjoin the window. None when the start does not move: then
        nothing need be durable, since a later read finds the same damage.
        """
        before = self._window.start
        self.archived.add(unfinished(self._window, first, last, Reason.DAMAGED))
        lose(self._window, first, last)
        return Changes(0).settled(self._window, moved=self._window.start > before)

    # -- look -------------------------------------------------------------------------------

    def statistics(self) -> Statistics:
        """A snapshot of the window."""
        window = self._window
        return Statistics(
            start_offset=window.start,
            end_offset=window.end,
            available=window.counts[RecordState.AVAILABLE],
            acquired=window.counts[RecordState.ACQUIRED],
            acknowledged=window.counts[RecordState.ACKNOWLEDGED],
            archived=window.counts[RecordState.ARCHIVED],
            spans=len(window),
            members=window.locks.members(),
        )

    def spans(self, first: int = 0) -> Iterator[Span]:
        """The window's content from the span that holds ``first`` on, for a console or a checker;
        read it before anything changes.
        """
        window = self._window
        if first <= window.start:
            return iter(window)
        return window.iterate_from(first) if first < window.end else iter(())

    def check_invariants(self) -> None:
        """Assert what module :mod:`sharegroup.share.window` lists."""
        self._window.check_invariants()


def _met(pieces: list[Span], runs: list[AckRun]) -> list[_Meeting]:
    """Cut ``pieces`` and ``runs``, which tile the same offsets, against each other."""
    met: list[_Meeting] = []
    following = iter(pieces)
    piece = next(following)
    for first, last, verb in runs:
        while piece.last < last:
            met.append((clipped(piece, first, last), verb))
            piece = next(following)
        met.append((clipped(piece, first, last), verb))
        if piece.last == last:
            piece = next(following, piece)
    return met
