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
* **Offsets missing between log batches** are archived at once; an acknowledgement that has them is
  fine. Kafka acquires them, and the client reports them as gaps.
* **Under record_limit the window ends at the last acquired record**, Kafka's with its log batch.
* **Moving the log start** forgets all records below it, acquired or not. Kafka keeps acquired ones
  until their locks expire. In both, a late acknowledgement succeeds and is ignored.

Which record comes next, and who may get it, is the matter of the share partition's *order*
(:mod:`sharegroup.share.order`). The list above is about the order of the log.

A lock expires in :meth:`SharePartition.tick`, not at its deadline. Until then its holder may still
acknowledge: no other member can have acquired the record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from sharegroup.model.dead_records import Cause
from sharegroup.model.errors import InvalidRecordState, InvalidRequest
from sharegroup.model.limits import AHEAD_MAX
from sharegroup.model.pending_acks import PendingAck, TransactionMark
from sharegroup.model.share_state import DelayedRow, StateRow
from sharegroup.share.acknowledge import AckBatch, checked_answers, with_pauses
from sharegroup.share.acquire import NOTHING, Acquisition, Request
from sharegroup.share.archived import Archived, Reason
from sharegroup.share.by_hand import FINISHING, Decided, Hand, TakenByHand
from sharegroup.share.by_hand import NOTHING as NOTHING_DECIDED
from sharegroup.share.locks import NOBODY
from sharegroup.share.lost_records import unfinished
from sharegroup.share.order.log_order import LogOrder
from sharegroup.share.order.order import Order
from sharegroup.share.pending import end, hold, hold_again
from sharegroup.share.ranges import LogRead
from sharegroup.share.record_state import AVAILABLE, RENEW, RecordState, Verb
from sharegroup.share.resting import rest_again
from sharegroup.share.schedule import NotDue, Schedule, within
from sharegroup.share.settings import DeliverySettings
from sharegroup.share.spans import Span
from sharegroup.share.state_changes import Changes, StateChange
from sharegroup.share.tenant_rates import TenantRates
from sharegroup.share.window import Window


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """A snapshot for console, metrics and tests. Counts are offsets, unless said otherwise."""

    start_offset: int
    end_offset: int
    available: int
    delayed: int  # not to be delivered again before they are due
    acquired: int
    acknowledged: int
    archived: int
    spans: int
    """Number of spans in the window, on which its memory and cost depend."""
    members: int
    """Members that hold records."""


class SharePartition:
    """One share partition at its leader.

    Args:
        delayed: of the available records in ``batches``, those that are not due yet. Rows that do
            not agree with ``batches`` are out of date, and are ignored.
        pending: of the available records in ``batches``, those that open transactions hold; not
            with order per key.
        archived: collects the records archived from now on, with the reason.
        order: makes the order in which the records are delivered.

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
        delayed: Iterable[DelayedRow] = (),
        pending: Iterable[PendingAck] = (),
        archived: Archived | None = None,
        order: Callable[[Window, Archived], Order] = LogOrder,
    ) -> None:
        self.state_epoch = state_epoch
        self.leader_epoch = leader_epoch
        self.archived = archived or Archived()
        self.late = 0
        """Records that a member answered after an operator had decided about them."""
        self._taken: TakenByHand | None = None
        self._window = Window.restored(start_offset, batches)
        delayed = list(delayed)
        rest_again(self._window, delayed)
        self._schedule = Schedule(self._window, delayed)
        hold_again(self._window, pending)
        self.order = order(self._window, self.archived)

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
        """Where to read the log for this member's next records."""
        return self.order.next_offset(member_id)

    def can_acquire(self, settings: DeliverySettings, member_id: str = "") -> bool:
        """Whether to read the log for this member: there is something, and the group goes on."""
        return not settings.paused and self.order.has_room(settings, member_id)

    def offers(self, end: int, settings: DeliverySettings) -> bool:
        """Whether some member may acquire a record below the offset ``end``."""
        return not settings.paused and self.order.offers(end, settings)

    def next_deadline_ms(self) -> int | None:
        """When :meth:`tick` has something to do, or None."""
        of_locks, of_order = self._window.locks.next_deadline_ms(), self.order.next_ms
        if of_locks is None:
            return of_order
        return of_locks if of_order is None else min(of_locks, of_order)

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
        tenant_rates: TenantRates | None = None,
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

        ``tenant_rates``: how many records of each tenant may go out now. A paused group gets
        nothing, also if it was paused since the log was read.

        A call may give nothing and still move :meth:`next_fetch_offset`: read on from there. If
        ``fetch_offset`` is past the window's end, the read began before this object was loaded. It
        gives nothing, because the offsets in between were not read.

        Raises:
            ValueError: ``batches`` are out of order.
        """
        if not batches or records_max <= 0 or batches[-1][1] < self._window.start:
            return NOTHING
        if fetch_offset > self.order.loaded_end or settings.paused:
            return NOTHING
        fetched = LogRead(fetch_offset, batches, aborted)
        until = now_ms + settings.lock_ms
        request = Request(member_id, records_max, batch_size, strict, until, now_ms, tenant_rates)
        return Acquisition(self.order.take(fetched, request, settings))

    # -- give back --------------------------------------------------------------------------

    def acknowledge(
        self,
        member_id: str,
        batches: Sequence[AckBatch],
        *,
        now_ms: int,
        settings: DeliverySettings,
        renew_allowed: bool = True,
        pauses: Sequence[tuple[int, int, int]] = (),
    ) -> StateChange | None:
        """Apply the acknowledgements of ``member_id``: all of them, or raise an error before any.
        With order per key they may apply in part (:mod:`sharegroup.share.order.key_order`).

        Offsets below the start are ignored, and so are offsets that are not in the log. RENEW
        restarts the lock and changes nothing durable. None: there is nothing to write.

        Answers for records that an operator has taken from the member have no effect
        (:meth:`decide`). The other ones are applied, and ``late`` of the result counts those.

        ``pauses`` are ranges of offsets, each with milliseconds: the released records among them
        are not delivered again before that, whatever the group's back-off says; 0 is at once.

        Raises:
            InvalidRequest: a batch is malformed or goes past the window (see
                :func:`~sharegroup.share.acknowledge.checked_answers`), or carries RENEW without
                ``renew_allowed`` (request version 2 with IsRenewAck).
            InvalidRecordState: a record is not acquired, or is acquired by another member, or RENEW
                is switched off for the group. Or there is nothing to write, and an operator has
                taken records from the member; the other acknowledgements are applied.
        """
        late = 0
        if self._taken is not None:
            batches, late = self._taken.late(member_id, batches, self._window)
            self.late += late
        window = self._window
        answers = checked_answers(
            batches, start=window.start, end=window.end, renew_allowed=renew_allowed
        )
        if not settings.renew_enabled and any(RENEW in one.types for one in answers):
            raise InvalidRecordState("Renewing acquisition locks is not enabled for the group.")
        if pauses:
            answers = list(with_pauses(answers, pauses))
        change = self.order.give_back(answers, member_id, now_ms, settings) if answers else None
        if not late:
            return change
        if change is None:
            raise InvalidRecordState(f"An operator has decided about {late} of the records.")
        return change._replace(late=change.late + late)

    def hold(
        self, member_id: str, batches: Sequence[AckBatch], transaction: TransactionMark
    ) -> StateChange | None:
        """Let an open transaction hold the records that ``member_id`` acknowledges, all or none,
        until :meth:`end_transaction` (:mod:`sharegroup.share.pending`). Then they are the member's
        no longer. None: there is nothing to write.

        Raises:
            InvalidRequest: as :meth:`acknowledge`; or a type is neither ACCEPT nor REJECT; or
                records come by key.
            InvalidRecordState: the member does not hold a record.
        """
        if self.order.needs_keys:
            raise InvalidRequest("Where records come by key, none can join a transaction.")
        window = self._window
        answers = checked_answers(batches, start=window.start, end=window.end, renew_allowed=False)
        return hold(window, answers, member_id, transaction)

    def end_transaction(
        self,
        pending: Sequence[PendingAck],
        *,
        committed: bool,
        now_ms: int,
        settings: DeliverySettings,
    ) -> StateChange:
        """A transaction has ended: its acknowledgements take effect, or its records come back as
        after a release, with their delivery counts. ``pending``: what the transaction holds by the
        durable state, which must forget it."""
        return end(self._window, self.order, pending, now_ms, settings, committed=committed)

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
        if self._taken is not None:
            self._taken.forget(member_id)
        locks = self._window.locks.of_member(member_id)
        return self.order.take_back(locks, now_ms, Cause.SESSION_ENDED, settings)

    def renew_member(self, member_id: str, *, now_ms: int, settings: DeliverySettings) -> None:
        """Restart the locks of ``member_id``."""
        locks = self._window.locks
        for lock in locks.of_member(member_id):
            locks.end_at(lock, now_ms + settings.lock_ms)

    def tick(self, now_ms: int, settings: DeliverySettings) -> StateChange | None:
        """Release the records of locks whose deadline is at or before ``now_ms``, and make
        available the records whose pause is over.

        ``expired`` of the result is their number. It is right even if the write fails: loading
        again gives the same or an earlier state of these records. With very many pieces, a part is
        left to the next call, which is due at once (:mod:`sharegroup.share.release`).
        """
        ended = self._window.locks.expired(now_ms)
        pauses = [lock for lock in ended if lock.member_id == NOBODY]
        if pauses:
            pauses = self._schedule.move(pauses, now_ms)
        if pauses or self.order.next_ms is not None:
            self.order.come_due(pauses, now_ms)
        locks = [lock for lock in ended if lock.member_id != NOBODY]
        return self.order.take_back(locks, now_ms, Cause.LOCK_EXPIRED, settings)

    # -- operators --------------------------------------------------------------------------

    def decide(
        self,
        first: int,
        last: int,
        verb: Verb,
        *,
        now_ms: int,
        settings: DeliverySettings,
        extend_ms: int = 0,
    ) -> Decided:
        """Apply an operator's decision about the records ``first`` … ``last``, which the log has
        (:mod:`sharegroup.share.by_hand`). Records that are finished stay so. The caller must go on
        at ``end`` of the result until it is past ``last``, and check :meth:`next_deadline_ms`.

        GAP, ACCEPT and REJECT may name records that were never delivered. So may RELEASE in a group
        with scheduled delivery: such records go out before their time.

        Args:
            extend_ms: with RENEW, how long the holders may keep the records from now on.

        Raises:
            InvalidRecordState: the records begin more than AHEAD_MAX past those in flight.
        """
        window = self._window
        first, behind = max(first, window.start), last + 1
        names_new = verb in FINISHING or (verb is Verb.RELEASE and settings.scheduled)
        if behind > window.end and names_new and first < behind:
            self._widen(first, last)
        last = min(last, window.end - 1)
        if last < first:
            return NOTHING_DECIDED._replace(end=behind)
        limit, until_ms = settings.delivery_count_limit, now_ms + extend_ms
        hand = Hand(verb, limit, now_ms, until_ms, scheduled=settings.scheduled)
        decided = self.order.decide(first, last, hand, settings)
        if decided.change is not None and verb is Verb.RELEASE:
            self._schedule.free(decided.change.delayed)
        if hand.taken:
            if self._taken is None:
                self._taken = TakenByHand()
            self._taken.add(hand.taken)
        self.archived.add(hand.purged)
        return decided if decided.end <= last else decided._replace(end=behind)

    def _widen(self, first: int, last: int) -> None:
        end = self._window.end
        if first - end > AHEAD_MAX:
            raise InvalidRecordState(
                f"Offset {first} is too far past the records that were delivered: the last one is "
                f"{end - 1}, and by hand one may go {AHEAD_MAX} further."
            )
        self._window.extend([Span(end, last, AVAILABLE, 0, None)])
        self.order.widened(end)

    def log_start_moved(
        self, log_start: int, reason: Reason = Reason.DELETED
    ) -> StateChange | None:
        """Forget records below ``log_start``, which retention or DeleteRecords removed.

        The start offset moves at once, past acquired records as well. None when it is at or past
        ``log_start`` already.
        """
        window = self._window
        if log_start <= window.start:
            return None
        self.archived.add(unfinished(window, window.start, log_start - 1, reason))
        window.move_start(log_start)
        change = Changes(self.archived).settled(window, moved=True)
        self.order.start_moved()
        return change

    def expire(
        self,
        ranges: Sequence[tuple[int, int]],
        batches: Sequence[tuple[int, int]],
        *,
        fetch_offset: int,
        aborted: Iterable[tuple[int, int]] = (),
        settings: DeliverySettings,
    ) -> StateChange | None:
        """Archive the records in ``ranges`` that nobody holds: they are worthless by now. Call it
        before :meth:`acquire` with the same read, whose arguments the others are. ``ranges`` lie
        in the batches, ascending and disjoint.

        Records past the window's end are archived as far as the window may grow. Of a paused group
        nothing expires.

        Raises:
            ValueError: ``batches`` are out of order.
        """
        if not ranges or settings.paused or fetch_offset > self.order.loaded_end:
            return None
        return self.order.expire(LogRead(fetch_offset, batches, aborted), ranges, settings)

    def let_rest(
        self,
        later: Sequence[NotDue],
        batches: Sequence[tuple[int, int]],
        *,
        fetch_offset: int,
        aborted: Iterable[tuple[int, int]] = (),
        now_ms: int,
        settings: DeliverySettings,
    ) -> int | None:
        """Let the records in ``later`` rest that were never delivered: they are not due
        (:mod:`sharegroup.share.schedule`). Call it before :meth:`acquire` with the same read, whose
        arguments the others are, and check :meth:`next_deadline_ms` after it. ``later`` is
        ascending and disjoint, and without aborted batches; what lies behind ``batches`` is left
        out. Nothing need be written.

        Returns the first of these records for which the window has no room yet: from it on nothing
        may be acquired.

        Raises:
            ValueError: ``batches`` are out of order.
        """
        if not batches or settings.paused or fetch_offset > self.order.loaded_end:
            return None
        later = [one for one in within(later, batches[-1][1] + 1) if one.due_ms > now_ms]
        later = self._schedule.kept(later)
        if not later:
            return None
        fetched = LogRead(fetch_offset, batches, aborted)
        return self.order.let_rest(fetched, later, self._schedule, now_ms, settings)

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
        self.order.lost(first, last)
        return Changes(self.archived).settled(self._window, moved=self._window.start > before)

    # -- look -------------------------------------------------------------------------------

    def statistics(self) -> Statistics:
        """A snapshot of the window."""
        window = self._window
        return Statistics(
            start_offset=window.start,
            end_offset=window.end,
            available=window.counts[AVAILABLE],
            delayed=window.counts[RecordState.DELAYED],
            acquired=window.counts[RecordState.ACQUIRED],
            acknowledged=window.counts[RecordState.ACKNOWLEDGED],
            archived=window.counts[RecordState.ARCHIVED],
            spans=window.span_count(),
            members=window.locks.members(),
        )

    def spans(self, first: int = 0) -> Iterator[Span]:
        """The spans of the window, beginning with the span that holds ``first``; for a console or a
        checker. Consume them before the window changes."""
        window = self._window
        if first <= window.start:
            return iter(window)
        return window.iterate_from(first) if first < window.end else iter(())

    def check_invariants(self) -> None:
        """Assert the invariants that :mod:`sharegroup.share.window` and the order list."""
        self._window.check_invariants()
        self._schedule.check_invariants()
        self.order.check_invariants()
