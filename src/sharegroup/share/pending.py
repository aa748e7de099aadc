"""Acknowledgements in a transaction: they take effect when it commits (KIP-1289).

A record that is acknowledged in a transaction is held by the transaction in place of its member:
it stays ACQUIRED, under a :class:`~sharegroup.share.locks.Lock` without a deadline. So it is
delivered to nobody, counts as held, and neither the end of its member's session nor an operator
changes that. The end of the transaction is an acknowledgement by that holder: of the type that
the member has said, or RELEASE after an abort.

In durable state the record is available, as an abort leaves it, and beside it stands the
:class:`~sharegroup.model.pending_acks.PendingAck`. Whoever loads the state gives the record back to
the transaction (:func:`hold_again`).

A group without such acknowledgements pays nothing for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from sharegroup.cooperative.intervals import overlaps
from sharegroup.model.dead_records import DeadRecords
from sharegroup.model.errors import InvalidRecordState, InvalidRequest
from sharegroup.model.pending_acks import EndRules, PendingAck, TransactionMark
from sharegroup.model.share_state import StateRow
from sharegroup.share.acknowledge import SILENT, Answer
from sharegroup.share.applying import TYPE_BITS, codes_of, types_of
from sharegroup.share.by_hand import held_by
from sharegroup.share.locks import NEVER
from sharegroup.share.offset_codes import distinct, runs
from sharegroup.share.order.order import Order
from sharegroup.share.pauses import end_ms
from sharegroup.share.record_state import ACQUIRED, AVAILABLE, RELEASE, AckType
from sharegroup.share.settings import DeliverySettings
from sharegroup.share.spans import ABSENT, Status
from sharegroup.share.state_changes import StateChange
from sharegroup.share.stretches import Stretch, recoded
from sharegroup.share.window import Window

_ALLOWED: Final = bytes([AckType.ACCEPT, AckType.REJECT, SILENT])


class _Looked(NamedTuple):
    """A piece of the window with the answer for it; ``own``: the codes of what the member holds."""

    piece: Stretch
    codes: bytes
    own: dict[int, Status]


def hold(
    window: Window, answers: Sequence[Answer], member_id: str, transaction: TransactionMark
) -> StateChange | None:
    """Let ``transaction`` hold the records that ``member_id`` acknowledges: all of them, or raise
    an error before any. Records that it holds already stay as they are: a request may be repeated.
    None: there is nothing to write.

    Raises:
        InvalidRequest: a type is neither ACCEPT nor REJECT.
        InvalidRecordState: the member does not hold a record.
    """
    if any(one.types.translate(None, _ALLOWED) for one in answers):
        raise InvalidRequest("In a transaction, records are accepted or rejected.")
    holder = transaction.holder
    looked = [
        _look(piece, types_of(one, piece), member_id, holder)
        for one in answers
        for piece in window.pieces(one.first, one.last)
    ]
    pending: list[PendingAck] = []
    for piece, codes, own in looked:
        if not own:
            continue
        lock = window.locks.take(holder, NEVER)
        status_of = {code: piece.statuses[code >> TYPE_BITS] for code in distinct(codes)}
        for code, status in own.items():
            status_of[code] = Status(ACQUIRED, status.delivery_count, lock)
        for first, last, code in zip(*runs(piece.first, piece.last, codes), strict=True):
            if code in own:
                lock.add_range(first, last)
                count = own[code].delivery_count
                _add(pending, PendingAck(first, last, count, code & SILENT, transaction, member_id))
        window.replace([piece], recoded(piece.first, piece.last, codes, status_of))
    if not pending:
        return None
    return StateChange(
        start_offset=window.start,
        delivery_complete_count=window.finished,
        batches=tuple(_as_aborted(pending)),
        pending=tuple(pending),
    )


def _look(piece: Stretch, types: bytes, member_id: str, holder: str) -> _Looked:
    codes = codes_of(piece, types)
    own: dict[int, Status] = {}
    for code in distinct(codes):
        status = piece.statuses[code >> TYPE_BITS]
        if code & SILENT == SILENT or status.delivery_count == ABSENT:
            continue
        by = status.lock.member_id if status.lock is not None else None
        if by == member_id:
            own[code] = status
        elif by != holder:
            offset = piece.first + codes.index(code)
            raise InvalidRecordState(f"Offset {offset} is not acquired by the member.")
    return _Looked(piece, codes, own)


def _add(pending: list[PendingAck], one: PendingAck) -> None:
    """Append ``one``, joined with the last one if it continues it."""
    if pending and pending[-1].last + 1 == one.first and pending[-1][2:] == one[2:]:
        pending[-1] = one._replace(first=pending[-1].first)
    else:
        pending.append(one)


def _as_aborted(pending: Iterable[PendingAck]) -> Iterator[StateRow]:
    """The records of ``pending`` as an abort leaves them; equal neighbours are joined."""
    before: StateRow | None = None
    for one in pending:
        row = (one.first, one.last, int(AVAILABLE), one.delivery_count)
        if before is not None and (before[1] + 1, before[3]) == (row[0], row[3]):
            before = (before[0], *row[1:])
            continue
        if before is not None:
            yield before
        before = row
    if before is not None:
        yield before


def hold_again(window: Window, pending: Iterable[PendingAck]) -> None:
    """Let transactions hold the available records that ``pending`` names with their delivery count.
    A row that names other records is out of date: they are finished or gone."""
    for one in pending:
        first, last = max(one.first, window.start), min(one.last, window.end - 1)
        for piece in window.pieces(first, last) if first <= last else ():
            status_of = dict(piece.met())
            wanted = Status(AVAILABLE, one.delivery_count, None)
            if wanted not in status_of.values():
                continue
            lock = window.locks.take(one.transaction.holder, NEVER)
            lock.add_range(piece.first, piece.last)
            for code, status in status_of.items():
                if status == wanted:
                    status_of[code] = Status(ACQUIRED, one.delivery_count, lock)
            window.replace([piece], recoded(piece.first, piece.last, piece.codes, status_of))


def answers_of(
    window: Window, pending: Sequence[PendingAck], holder: str, *, committed: bool
) -> list[Answer]:
    """The end of a transaction as acknowledgements by ``holder``, of what it still holds: records
    that the log has lost meanwhile are left out."""
    rows = sorted(pending)
    held = held_by(window, holder, [(one.first, one.last) for one in rows])
    return [
        Answer(first, last, bytes([one.kind if committed else RELEASE]))
        for first, last, one, _ in overlaps(rows, held)
    ]


def end(
    window: Window,
    order: Order,
    pending: Sequence[PendingAck],
    now_ms: int,
    settings: DeliverySettings,
    *,
    committed: bool,
) -> StateChange:
    """The end of the transaction of all ``pending``."""
    transaction = pending[0].transaction
    assert all(one.transaction == transaction for one in pending), "two transactions"
    answers = answers_of(window, pending, transaction.holder, committed=committed)
    change = None
    if answers:
        change = order.give_back(answers, transaction.holder, now_ms, settings)
    if change is None:  # the log has lost the records
        change = StateChange(window.start, window.finished, ())
    return change._replace(dead=named(change.dead, pending), ended=(transaction,))


def end_rules(settings: DeliverySettings, now_ms: int) -> EndRules:
    """The same for a share partition that nobody has in memory: :func:`end` for its durable state.
    ``now_ms``: time of the wall clock."""
    back_off = settings.back_off

    def due_ms(delivery_count: int, first: int) -> int:
        assert back_off is not None
        return end_ms(now_ms, back_off.pause_ms(delivery_count, first))

    return EndRules(
        settings.dead_letters,
        settings.delivery_count_limit,
        settings.blocks,
        None if back_off is None else due_ms,
    )


def named(dead: Sequence[DeadRecords], pending: Sequence[PendingAck]) -> tuple[DeadRecords, ...]:
    """``dead`` records of a transaction, ascending, with the members that held them, and what they
    said."""
    return tuple(
        one._replace(first=first, last=last, member_id=row.member_id, reason=row.reason)
        for first, last, one, row in overlaps(dead, sorted(pending))
    )
