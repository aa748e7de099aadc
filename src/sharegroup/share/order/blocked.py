"""Records that wait for an operator (``share.ordering.on.failure=block``).

A record that fails at the delivery limit is not archived: it stays available and is *blocked* in
:mod:`sharegroup.share.order.key_queues`, which keeps back the later records of its key, too.
Durable state knows a blocked record by its delivery count only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sharegroup.share.order.key_queues import KeyQueues
from sharegroup.share.record_state import AVAILABLE, DELAYED, Verb
from sharegroup.share.settings import DeliverySettings
from sharegroup.share.spans import Span, clipped
from sharegroup.share.window import Window


def available(window: Window, first: int, last: int, least: int = 0) -> Iterator[tuple[int, int]]:
    """Runs of available offsets in ``first`` … ``last`` that were delivered ``least`` times or
    more."""
    for span in unheld(window, first, last):
        if span.state is AVAILABLE and span.delivery_count >= least:
            yield span.first, span.last


def unheld(window: Window, first: int, last: int) -> Iterator[Span]:
    """The records in ``first`` … ``last`` that are available or rest."""
    first, last = max(first, window.start), min(last, window.end - 1)
    for piece in window.pieces(first, last) if first <= last else ():
        for span in piece.spans():
            if span.state in (AVAILABLE, DELAYED):
                yield clipped(span, first, last)


class Blocked:
    """Finds the blocked records of a share partition in its window, for the queues of its keys."""

    def __init__(self, window: Window, queues: KeyQueues) -> None:
        self._window = window
        self._queues = queues
        self._limit: int | None = None
        """Available records with this many deliveries are blocked; None: the group blocks no
        records."""

    def configure(self, settings: DeliverySettings) -> None:
        """Obey the group's settings."""
        queues = self._queues
        limit = settings.delivery_count_limit if settings.blocks else None
        if limit != self._limit:
            self._limit = limit
            for offset in list(queues.blocked):
                queues.unblock(offset)
            self.look(self._window.start, queues.end - 1)

    def kept(self, said: list[list[int]]) -> set[int]:
        """The records under EXHAUST in ``said``, if the group blocks such records: they move to
        RELEASE. Else empty."""
        stuck = set(said[Verb.EXHAUST])
        if self._limit is None or not stuck:
            return set()
        said[Verb.RELEASE] = sorted([*said[Verb.RELEASE], *stuck])
        said[Verb.EXHAUST] = []
        return stuck

    def look(self, first: int, last: int) -> None:
        """Block the records at the limit in ``first`` … ``last``, which must be loaded."""
        if self._limit is not None:
            for at, until in list(available(self._window, first, last, self._limit)):
                for offset in range(at, until + 1):
                    self._queues.block(offset)

    def failed(self, offsets: Iterable[int]) -> None:
        """Block records that have failed at the limit."""
        for offset in offsets:
            self._queues.block(offset)

    def has(self, offset: int, settings: DeliverySettings) -> bool:
        """Whether this record, whose key is loaded or not, waits for an operator."""
        limit = settings.delivery_count_limit
        return settings.blocks and any(available(self._window, offset, offset, limit))
