"""Apply acknowledgements to the window.

An order says in :class:`AnsweredPiece` objects what happens to which records; :func:`apply` does
it. For one byte per offset there is a *code*: the status of the offset and the acknowledgement type
together.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from sharegroup.model.errors import InvalidRecordState
from sharegroup.share.acknowledge import SILENT, Answer
from sharegroup.share.offset_codes import combined, distinct
from sharegroup.share.record_state import ACQUIRED, RELEASE, RENEW, AckType, Verb, released
from sharegroup.share.spans import ABSENT, Status
from sharegroup.share.state_changes import Changes
from sharegroup.share.stretches import Stretch
from sharegroup.share.window import Window

TYPE_BITS: Final = 3
"""The lowest bits of a code are the acknowledgement type, the others the index of the status."""
_VERBS: Final = tuple(Verb(kind) for kind in AckType)
_OR: Final = [bytes([code | kind for code in range(256)]) for kind in range(1 << TYPE_BITS)]
_SHIFTED: Final = bytes([code << TYPE_BITS & 0xFF for code in range(256)])


@dataclass(slots=True)
class AnsweredPiece:
    """A piece of the window, with the answer that names its offsets.

    ``codes`` has one code for each offset, or one for all. ``met`` has the status and the verb of
    each code. The verb is None if the status stays.
    """

    stretch: Stretch
    codes: bytes
    met: dict[int, tuple[Status, Verb | None]]
    pause_ms: int | None = None
    """How long the records under DELAY rest; None: as the group's back-off says."""


def apply(
    window: Window,
    answers: Iterable[list[AnsweredPiece]],
    member_id: str,
    deadline_ms: int,
    changes: Changes,
) -> None:
    """Change the window as ``answers`` say; each has all pieces between two offsets. Records under
    RENEW stay with ``member_id`` until ``deadline_ms``."""
    for pieces in answers:
        new: list[Stretch] = []
        for piece in pieces:
            stretch, lock = piece.stretch, None
            for _, verb in piece.met.values():
                if verb is RENEW:
                    lock = window.locks.take(member_id, deadline_ms)
                    lock.add_range(stretch.first, stretch.last)
                    break
            new += changes.moved(stretch, piece.codes, piece.met, lock, piece.pause_ms)
        window.replace([piece.stretch for piece in pieces], new)


def held_pieces(
    stretches: list[Stretch],
    answer: Answer,
    member_id: str,
    delivery_count_limit: int,
    *,
    delays: bool,
) -> list[AnsweredPiece]:
    """What ``answer`` says about each of ``stretches``; both cover the same offsets. ``delays``:
    records that are released rest.

    Raises:
        InvalidRecordState: ``member_id`` does not hold a record that the answer names.
    """
    found = []
    for stretch in stretches:
        codes = codes_of(stretch, types_of(answer, stretch))
        met: dict[int, tuple[Status, Verb | None]] = {}
        refused: list[tuple[int, str]] = []
        for code in distinct(codes):
            status = stretch.statuses[code >> TYPE_BITS]
            kind = code & SILENT
            lock = status.lock if status.state is ACQUIRED else None
            verb = _VERBS[kind] if lock and kind != SILENT else None
            if verb is RELEASE:
                verb = released(status.delivery_count, delivery_count_limit, delays=delays)
            met[code] = (status, verb)
            if kind == SILENT or (lock is not None and lock.member_id == member_id):
                continue
            if reason := _not_held(status):
                refused.append((stretch.first + codes.index(code), reason))
        if refused:
            raise InvalidRecordState("Offset {} is {}.".format(*min(refused)))
        found.append(AnsweredPiece(stretch, codes, met, answer.pause_ms))
    return found


def types_of(answer: Answer, stretch: Stretch) -> bytes:
    """The types that ``answer`` has for the offsets of ``stretch``: one for all, or one for
    each."""
    types = answer.types
    if len(types) == 1:
        return types
    return types[stretch.first - answer.first : stretch.last - answer.first + 1]


def codes_of(stretch: Stretch, types: bytes) -> bytes:
    """Status and type in one byte each; ``types`` has one byte for all offsets or one for each."""
    if len(stretch.codes) == 1:
        return types  # the only status has code 0
    statuses = stretch.codes.translate(_SHIFTED)
    return statuses.translate(_OR[types[0]]) if len(types) == 1 else combined(statuses, types)


def _not_held(status: Status) -> str | None:
    """Why a member cannot acknowledge offsets of this status, which it does not hold; None if the
    offsets have no records."""
    if status.state is not ACQUIRED:
        return None if status.delivery_count == ABSENT else "not acquired"
    return "acquired by another member"
