"""Acknowledgements and ended locks as one list of offsets for each verb: the form in which order
per key handles them (:mod:`sharegroup.share.order.key_order`).

In this package ``said`` is such a list of lists. Its index is the number of a :class:`Verb`,
:data:`TAKE_BACK`, or SILENT.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, compress
from typing import Final

from sharegroup.share.acknowledge import SILENT, Answer
from sharegroup.share.applying import TYPE_BITS, AnsweredPiece, codes_of, types_of
from sharegroup.share.locks import Lock
from sharegroup.share.offset_codes import distinct
from sharegroup.share.record_state import RELEASE, Verb, released
from sharegroup.share.spans import ABSENT, Status
from sharegroup.share.stretches import Stretch

TAKE_BACK: Final = 5
"""A release that also takes back the delivery. It has the number of ACQUIRE, which is never an
acknowledgement."""
_NEAR: Final = 4_096
"""Changes with at most this many offsets between them are made in one pass."""


def sort_out(
    stretch: Stretch, types: bytes, member_id: str, limit: int, said: list[list[int]]
) -> AnsweredPiece:
    """Add the offsets of ``stretch`` to ``said``, each under its verb. An offset released at the
    ``limit`` goes under EXHAUST, an offset that the member does not hold under SILENT. Returns the
    same as a piece, which is right as long as ``said`` stays as it is."""
    codes = codes_of(stretch, types)
    met: dict[int, tuple[Status, Verb | None]] = {}
    for code in distinct(codes):
        kind, status = code & SILENT, stretch.statuses[code >> TYPE_BITS]
        lock = status.lock
        met[code] = (status, None)
        if kind == SILENT or (lock is None and status.delivery_count == ABSENT):
            continue
        if lock is None or lock.member_id != member_id:
            _add(said[SILENT], stretch, codes, code)
            continue
        verb = released(status.delivery_count, limit) if kind == RELEASE else Verb(kind)
        met[code] = (status, verb)
        _add(said[verb], stretch, codes, code)
    return AnsweredPiece(stretch, codes, met)


def sort_ended(piece: Stretch, ended: set[Lock], limit: int, said: list[list[int]]) -> None:
    """Add the offsets of ``piece`` whose lock has ended to RELEASE, or to EXHAUST at the limit."""
    for code, status in piece.met():
        if status.lock in ended:
            _add(said[released(status.delivery_count, limit)], piece, piece.codes, code)


def sort_all(said: Iterable[list[int]]) -> None:
    """Put each list into the order of the log."""
    for offsets in said:
        offsets.sort()


def _add(offsets: list[int], piece: Stretch, codes: bytes, code: int) -> None:
    """Add the offsets of ``piece`` that have this code."""
    every = range(piece.first, piece.last + 1)
    if len(codes) == 1 or codes.count(code) == len(codes):
        offsets += every
    else:
        table = bytearray(256)
        table[code] = 1
        offsets += compress(every, codes.translate(table))


def said_pieces(stretches: Iterable[Stretch], answer: Answer) -> list[AnsweredPiece]:
    """What ``answer`` says about each of ``stretches``; both cover the same offsets, and the answer
    names only records that are held."""
    found = []
    for stretch in stretches:
        codes = codes_of(stretch, types_of(answer, stretch))
        met = {
            code: _meant(stretch.statuses[code >> TYPE_BITS], code & SILENT)
            for code in distinct(codes)
        }
        found.append(AnsweredPiece(stretch, codes, met))
    return found


def _meant(status: Status, kind: int) -> tuple[Status, Verb | None]:
    """A status and the verb that applies to it."""
    if kind == SILENT:
        return status, None
    if kind == TAKE_BACK:
        return status._replace(delivery_count=status.delivery_count - 1), Verb.RELEASE
    return status, Verb(kind)


def as_answers(said: Sequence[Sequence[int]]) -> Iterator[Answer]:
    """``said`` as answers: ascending, disjoint. Offsets near each other are in one answer."""
    for first, last in _groups(said):
        types = bytearray([SILENT]) * (last - first + 1)
        for verb, offsets in enumerate(said):
            for offset in offsets[bisect_left(offsets, first) : bisect_left(offsets, last + 1)]:
                types[offset - first] = verb
        yield Answer(first, last, bytes(types))


def _groups(said: Iterable[Sequence[int]]) -> Iterator[tuple[int, int]]:
    """Ranges that hold all offsets in ``said``; offsets near each other are in one range."""
    some = [offsets for offsets in said if offsets]
    if not some:
        return
    first, last = min(one[0] for one in some), max(one[-1] for one in some)
    if last - first <= _NEAR:
        yield first, last
        return
    begin = before = first
    for offset in sorted(chain.from_iterable(some)):
        if offset - before > _NEAR:
            yield begin, before
            begin = offset
        before = offset
    yield begin, before
