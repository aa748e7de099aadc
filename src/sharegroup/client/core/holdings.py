"""What a consumer holds: deliveries that wait to be handed out, and those in the application's
hands.

The acknowledgement rules of Kafka's share consumer (KIP-932 as of 4.2) are here: who may say what
when, what the next poll means for the records of the last one, and what is left over at the end.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from sharegroup.client.core.acknowledgements import AcknowledgedRange, AckType
from sharegroup.client.core.delivery import Delivery
from sharegroup.client.errors import IllegalState
from sharegroup.model.ids import TopicIdPartition
from sharegroup.model.offsets import OffsetRange

if TYPE_CHECKING:
    from sharegroup.client.record import Record


class AcknowledgementMode(Enum):
    """``share.acknowledgement.mode``."""

    IMPLICIT = "implicit"
    """The next poll accepts what the last one returned."""
    EXPLICIT = "explicit"
    """The application says of each record what became of it."""


class Decided(NamedTuple):
    """Ranges of one partition that can be sent; ``lost``: their locks are gone, it is too late."""

    partition: TopicIdPartition
    ranges: list[AcknowledgedRange]
    lost: bool


class Holdings:
    """See the module.

    Invariants: a record is in at most one of buffer, iteration and hands; nothing is decided in the
    buffer but gaps and damaged batches.
    """

    def __init__(self, mode: AcknowledgementMode) -> None:
        self._mode = mode
        self._buffer: deque[Delivery] = deque()
        self._hands: list[Delivery] = []
        self._iteration: Iterator[Record] = iter(())
        self._iterating = False
        self._current: Record | None = None
        self._renewed: list[Record] = []

    @property
    def implicit(self) -> bool:
        """The mode."""
        return self._mode is AcknowledgementMode.IMPLICIT

    @property
    def has_buffered(self) -> bool:
        """The next poll needs no fetch."""
        return bool(self._buffer)

    # --- records on their way to the application --------------------------------------------------

    def buffer(self, deliveries: list[Delivery]) -> list[Decided]:
        """Take what was fetched. Ranges without any record are decided at once, and returned."""
        self._buffer.extend(one for one in deliveries if one.records)
        return self._take([one for one in deliveries if not one.records])

    def next_records(self, count_max: int, now_s: float) -> list[Record]:
        """Hand out whole deliveries: at least one, further ones as long as they fit into
        ``count_max``. Those whose locks have gone while they waited here are dropped: others have
        them by now.
        """
        records: list[Record] = []
        while self._buffer:
            delivery = self._buffer[0]
            if delivery.lease.lost or delivery.deadline < now_s:
                self._buffer.popleft()
                continue
            if records and len(records) + len(delivery.records) > count_max:
                break
            self._hands.append(self._buffer.popleft())
            records = records + delivery.records
        return records

    def rest(self) -> list[Record]:
        """What a poll must return before anything else: records renewed, or the rest of an
        iteration.
        """
        records, self._renewed = self._renewed, []
        if self._iterating:
            records = records + list(self._iteration)
            self._end_iteration()
        return records

    # --- one by one -------------------------------------------------------------------------------

    def iterate(self, records: list[Record]) -> None:
        """Hand these out by :meth:`advance` rather than all at once."""
        self._iteration = iter(records)
        self._iterating = True

    def advance(self) -> Record | None:
        """The next record of the iteration; in implicit mode the one before is accepted. None
        at the end.
        """
        current = self._current
        if current is not None and self.implicit:
            current._delivery.types[current.offset - current._delivery.first] = AckType.ACCEPT
        self._current = record = next(self._iteration, None)
        if record is None:
            self._end_iteration()
        return record

    def _end_iteration(self) -> None:
        self._iteration = iter(())
        self._iterating = False
        self._current = None

    # --- what the application says ----------------------------------------------------------------

    def decide(self, record: Record, kind: AckType) -> None:
        """The application says ``kind`` of ``record``.

        Raises:
            IllegalState: the mode is implicit, or the record does not wait for it.
        """
        if self.implicit:
            raise IllegalState(
                "in implicit mode the next poll accepts records; to say it yourself make the "
                "consumer with acknowledgement_mode='explicit'"
            )
        record._delivery.decide(record.offset, kind)

    def settle(self) -> list[Decided]:
        """A poll begins: what it says of the records before.

        Raises:
            IllegalState: in explicit mode, some record has not been acknowledged.
        """
        if self.implicit:
            self.accept_given()
        elif not self._iterating and any(one.undecided for one in self._hands):
            raise IllegalState("All records must be acknowledged in explicit acknowledgement mode.")
        return self.take_decided()

    def accept_given(self) -> None:
        """Implicit mode: ACCEPT for every record that the application has been given."""
        if not self._iterating:
            for delivery in self._hands:
                delivery.accept_undecided()
        elif self._current is not None:
            current = self._current._delivery
            current.types[self._current.offset - current.first] = AckType.ACCEPT

    def take_decided(self) -> list[Decided]:
        """All that can be sent now."""
        decided = self._take(self._hands)
        self._hands = [one for one in self._hands if one.undecided or AckType.RENEW in one.types]
        return decided

    def take_renewals(self) -> list[tuple[TopicIdPartition, OffsetRange]]:
        """What to renew; these records are what the next poll returns, and nothing else."""
        renewals = []
        for delivery in self._hands:
            for offsets in delivery.take_renewals():
                renewals.append((delivery.partition, offsets))
                self._renewed += [
                    one for one in delivery.records if offsets.first <= one.offset <= offsets.last
                ]
        return renewals

    def undecided(self) -> list[tuple[TopicIdPartition, OffsetRange]]:
        """All that is held under a lock and not decided, buffered records included."""
        return [
            (delivery.partition, offsets)
            for delivery in (*self._hands, *self._buffer)
            if not delivery.lease.lost
            for offsets in delivery.undecided_ranges()
        ]

    def locked_until(self, deadline_s: float) -> None:
        """All locks were renewed until ``deadline_s``."""
        for delivery in (*self._hands, *self._buffer):
            delivery.deadline = deadline_s

    def release_all(self) -> list[Decided]:
        """The end: what is decided is said, the rest is released."""
        self._end_iteration()
        self._renewed = []
        held = [*self._hands, *self._buffer]
        self._hands = []
        self._buffer.clear()
        for delivery in held:
            delivery.release_undecided()
        return self._take(held)

    def _take(self, deliveries: list[Delivery]) -> list[Decided]:
        return [
            Decided(delivery.partition, ranges, delivery.lease.lost)
            for delivery in deliveries
            if (ranges := delivery.take_decided())
        ]
