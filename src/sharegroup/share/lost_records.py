"""Archive offsets that the log has lost, or that were compacted away or aborted."""

from __future__ import annotations

from collections.abc import Iterator

from sharegroup.share.archived import ArchivedRange, Reason
from sharegroup.share.record_state import ACQUIRED, AVAILABLE, DELAYED, TRANSITIONS, Verb
from sharegroup.share.spans import ABSENT, Span, Status
from sharegroup.share.stretches import Stretch, recoded, spans_of
from sharegroup.share.window import Window

_FREE = (AVAILABLE, DELAYED)
GONE = TRANSITIONS[AVAILABLE, Verb.DISCARD]
"""The state of an offset without a record."""


def discard(window: Window, missing: list[tuple[int, int]]) -> None:
    """Archive available offsets that are no longer in the log or belong to aborted transactions.

    The change need not be written: after a reload, the next read finds the same offsets missing.
    """
    for hole_first, hole_last in missing:
        first, last = max(hole_first, window.start), min(hole_last, window.end - 1)
        if first > last:
            continue
        old = window.pieces(first, last)
        window.replace(old, [stretch for piece in old for stretch in _discarded(piece)])
    window.pass_terminal()


def _discarded(piece: Stretch) -> list[Stretch]:
    gone = Status(GONE, 0, None)
    status_of = {code: gone if status.state in _FREE else status for code, status in piece.met()}
    return recoded(piece.first, piece.last, piece.codes, status_of)


def lose(window: Window, first: int, last: int) -> None:
    """Archive offsets ``first`` … ``last``, which the log has lost, as if they were never there.
    Acquired records stay acquired: their holder has read them.
    """
    discard(window, [(first, last)])
    end = window.end
    if end <= last:
        window.extend([Span(end, last, GONE, ABSENT, None)])
        window.batches.add(end, last)
        window.pass_terminal()


def unfinished(window: Window, first: int, last: int, reason: Reason) -> Iterator[ArchivedRange]:
    """The unfinished records among offsets ``first`` … ``last``, to be archived for ``reason``.

    Acquired records are included unless they are damaged: the holder of damaged records has read
    them.
    """
    first, inside = max(first, window.start), min(last, window.end - 1)
    for span in spans_of(window.pieces(first, inside)) if first <= inside else ():
        held = span.state is ACQUIRED
        if span.state in _FREE or (held and reason is not Reason.DAMAGED):
            yield ArchivedRange(span.first, span.last, reason, max(0, span.delivery_count))
    if last >= window.end:
        yield ArchivedRange(max(first, window.end), last, reason, 0)
