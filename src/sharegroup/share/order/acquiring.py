"""Acquiring records that lie apart, for orders that choose single records."""

from __future__ import annotations

from collections.abc import Sequence

from sharegroup.share.offset_codes import DOUBLED, ODD, combined, distinct, marked_runs
from sharegroup.share.ranges import AcquiredRange, add_runs, ranges_of
from sharegroup.share.record_state import RecordState
from sharegroup.share.spans import Status
from sharegroup.share.stretches import Stretch, recoded
from sharegroup.share.window import Window


def acquire_offsets(
    window: Window, offsets: Sequence[int], member_id: str, deadline_ms: int
) -> list[AcquiredRange]:
    """Acquire these records, ascending and at least one, which are available, under the member's
    lock that ends then; returns them as ranges."""
    base = offsets[0]
    marks = bytearray(offsets[-1] - base + 1)
    for offset in offsets:
        marks[offset - base] = 1
    lock = window.locks.take(member_id, deadline_ms)
    lock.add_range(base, offsets[-1])
    found: list[tuple[Stretch, bytes, dict[int, int]]] = []
    new: list[Stretch] = []
    pieces = window.pieces(base, offsets[-1])
    for piece in pieces:
        wanted = bytes(marks[piece.first - base : piece.last - base + 1])
        # A code is twice the status's code, and odd if the offset is to be acquired.
        codes = wanted
        if not piece.uniform:
            codes = combined(piece.codes.translate(DOUBLED), wanted)
        counts: dict[int, int] = {}
        status_of: dict[int, Status] = {}
        for code in distinct(codes):
            status = piece.statuses[code >> 1]
            if code & 1:
                counts[code] = status.delivery_count + 1
                status = Status(RecordState.ACQUIRED, counts[code], lock)
            status_of[code] = status
        if counts:
            found.append((piece, codes, counts))
        new += recoded(piece.first, piece.last, codes, status_of)
    window.replace(pieces, new)
    if len(once := {count for _, _, counts in found for count in counts.values()}) == 1:
        return ranges_of(offsets, *once)
    given: list[AcquiredRange] = []
    for piece, codes, counts in found:
        add_runs(given, marked_runs(piece.first, piece.last, codes.translate(ODD)), counts)
    return given
