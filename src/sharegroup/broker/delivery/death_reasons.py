"""Joins records that failed for good with what their consumer said of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from sharegroup.model.dead_records import DeadRecords
from sharegroup.model.limits import DEATH_REASON_LENGTH_MAX
from sharegroup.model.pending_acks import PendingAck

R = TypeVar("R", DeadRecords, PendingAck)

if TYPE_CHECKING:  # messages are loaded with the handlers that have them
    from sharegroup.wire.messages.acknowledgement_notes import Reason


def with_reasons(dead: Iterable[R], reasons: Sequence[Reason]) -> Iterator[R]:
    """``dead`` records, or those that a transaction rejects, with their reasons; ranges are cut
    where the reason changes.

    Where several reasons name one offset, the first one in the order of offsets holds. A reason is
    cut to DEATH_REASON_LENGTH_MAX characters.
    """
    waiting = sorted(reasons, key=lambda reason: (reason.first, reason.last))
    at = 0
    for one in sorted(dead):
        offset = one.first
        while offset <= one.last:
            while at < len(waiting) and waiting[at].last < offset:
                at += 1
            if at == len(waiting) or waiting[at].first > one.last:
                yield one._replace(first=offset)
                break
            reason = waiting[at]
            if reason.first > offset:
                yield one._replace(first=offset, last=reason.first - 1)
                offset = reason.first
            last = min(reason.last, one.last)
            said = reason.text[:DEATH_REASON_LENGTH_MAX]
            yield one._replace(first=offset, last=last, reason=said)
            offset = last + 1
