"""Order per key: records that have a state before their key is loaded. Durable state was restored,
or an operator has decided about them before they were delivered.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import compress

from sharegroup.share.lost_records import discard
from sharegroup.share.order.blocked import unheld
from sharegroup.share.spans import ABSENT, as_spans
from sharegroup.share.window import Window


def unfinished(
    window: Window, since: int, offsets: Sequence[int], hashes: Sequence[int], last: int
) -> tuple[Sequence[int], Sequence[int]]:
    """The records to load, and the hashes of their keys: of the offsets ``since`` … ``last``, which
    have a state, only available and resting ones; all later ones. Such offsets up to ``last`` that
    have no record are archived.

    Args:
        offsets: of the records that the log has from ``since`` on, ascending.
        hashes: of the records' keys.
    """
    inside = bisect_left(offsets, last + 1)
    free = bytearray(last - since + 1)
    for first, until, *_ in unheld(window, since, last):
        free[first - since : until - since + 1] = b"\1" * (until - first + 1)
    kept = bytes(free[offset - since] for offset in offsets[:inside])
    kept += b"\1" * (len(offsets) - inside)
    holes = [s for s in as_spans(offsets[:inside], since, last) if s.delivery_count == ABSENT]
    discard(window, [(hole.first, hole.last) for hole in holes])
    return [*compress(offsets, kept)], [*compress(hashes, kept)]
