"""What a share partition asks of the order in which its records are delivered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from sharegroup.model.dead_records import Cause
from sharegroup.share.acknowledge import Answer
from sharegroup.share.acquire import Request
from sharegroup.share.by_hand import Decided, Hand
from sharegroup.share.locks import Lock
from sharegroup.share.order.order_violations import Disorder
from sharegroup.share.ranges import AcquiredRange, LogRead
from sharegroup.share.schedule import NotDue, Schedule
from sharegroup.share.settings import DeliverySettings
from sharegroup.share.state_changes import StateChange


class Order(Protocol):
    """The order of one share partition's records.

    It is made with the partition's window and the list of its archived records. It changes the
    window itself, and is told of each change that the share partition makes.
    """

    @property
    def needs_keys(self) -> bool:
        """Records are delivered only after :meth:`load` has told the hashes of their keys, and
        members may hold any records among the records of others."""

    @property
    def in_order(self) -> bool:
        """Each key's records come in the order of the log, one member at a time."""

    @property
    def reads_ahead(self) -> bool:
        """:meth:`load` should be told of records before they are to be delivered, as long as
        :attr:`may_load`."""

    @property
    def loaded_end(self) -> int:
        """One past the last offset that the order knows. A read of the log begins here at the
        latest."""

    @property
    def may_load(self) -> bool:
        """Whether :meth:`load` may add records. False without :attr:`needs_keys`."""

    @property
    def disorder(self) -> Disorder | None:
        """What went against the order; None if nothing can."""

    @property
    def blocked_keys(self) -> int:
        """Loaded keys with a record that waits for an operator."""

    @property
    def next_ms(self) -> int | None:
        """When :meth:`come_due` has something to do besides ending pauses; None: never."""

    def configure(self, settings: DeliverySettings) -> None:
        """Obey new settings of the group at once, not only from the next call on."""

    def load(self, offsets: Sequence[int], hashes: Sequence[int], end: int) -> None:
        """Take in the records that the log has from :attr:`loaded_end` up to ``end``, exclusive.
        Called only with :attr:`needs_keys`.

        Args:
            offsets: of the records, ascending.
            hashes: of the records' keys, or what else the order tells records by.
        """

    # -- next, room -------------------------------------------------------------------------

    def next_offset(self, member_id: str) -> int:
        """Where to read the log for this member's next records."""

    def has_room(self, settings: DeliverySettings, member_id: str) -> bool:
        """Whether to read the log for this member."""

    def offers(self, end: int, settings: DeliverySettings) -> bool:
        """Whether some member may acquire a record below the offset ``end``."""

    # -- take -------------------------------------------------------------------------------

    def take(
        self, fetched: LogRead, request: Request, settings: DeliverySettings
    ) -> tuple[AcquiredRange, ...]:
        """Acquire what ``request`` asks for from the ``fetched`` records, under the member's lock.
        Returns ascending, disjoint ranges."""

    # -- give back --------------------------------------------------------------------------

    def give_back(
        self,
        answers: Sequence[Answer],
        member_id: str,
        now_ms: int,
        settings: DeliverySettings,
    ) -> StateChange | None:
        """Apply the acknowledgements of a member. Renewed records are held for another
        ``settings.lock_ms``.

        Raises:
            InvalidRecordState: the member does not hold a record; nothing was applied.
        """

    def come_due(self, pauses: list[Lock], now_ms: int) -> None:
        """Make available the records of ``pauses`` that have ended, or a part of them; the pauses
        are due again then. Nothing need be written. Called without pauses at :attr:`next_ms`."""

    def take_back(
        self, locks: list[Lock], now_ms: int, cause: Cause, settings: DeliverySettings
    ) -> StateChange | None:
        """Release what ended ``locks`` hold, or a part of it; the locks are due again then.
        ``cause``: why they ended."""

    def is_blocked(self, offset: int, settings: DeliverySettings) -> bool:
        """Whether this record waits for an operator."""

    def decide(self, first: int, last: int, hand: Hand, settings: DeliverySettings) -> Decided:
        """Apply an operator's decision about the records ``first`` … ``last``, which lie in the
        window, or about a first part of them."""

    def widened(self, first: int) -> None:
        """The window was extended by available records from ``first`` on, which no read has
        found."""

    # -- finished, not due ------------------------------------------------------------------

    def expire(
        self, fetched: LogRead, ranges: Sequence[tuple[int, int]], settings: DeliverySettings
    ) -> StateChange | None:
        """Archive the records in ``ranges`` that nobody holds: they have expired. ``ranges`` lie in
        the ``fetched`` batches, ascending and disjoint."""

    def let_rest(
        self,
        fetched: LogRead,
        later: Sequence[NotDue],
        schedule: Schedule,
        now_ms: int,
        settings: DeliverySettings,
    ) -> int | None:
        """Let the available records in ``later`` rest, by ``schedule``: they were never delivered,
        and are not due. ``later`` lies in the ``fetched`` batches, ascending and disjoint. Returns
        the first of its offsets that the window has no room for yet."""

    def is_full(self, settings: DeliverySettings) -> bool:
        """Whether so many records rest that no new ones are delivered."""

    def lost(self, first: int, last: int) -> None:
        """Archive offsets ``first`` … ``last``, which the log has lost; ``first`` is at most
        :attr:`loaded_end`. Acquired records stay acquired: their holder has read them."""

    def start_moved(self) -> None:
        """Forget all records below the window's start, which has moved past unfinished ones."""

    def check_invariants(self) -> None:
        """Assert that the order agrees with the window."""
