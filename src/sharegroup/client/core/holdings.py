"""What a consumer holds: deliveries that wait to be handed out, and those in the application's
hands.

The acknowledgement rules of Kafka's share consumer (KIP-932 as of 4.2) are here: who may say what
when, what the next poll means for the records of the last one, and what is left over at the end.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import NamedTuple

from sharegroup.client.core.acknowledgements import (
    SENT,
    UNDECIDED,
    AcknowledgedRange,
    AckType,
)
from sharegroup.client.core.delivery import Delivery, LeaseView
from sharegroup.client.errors import IllegalState
from sharegroup.client.record import Record, Records
from sharegroup.model.errors import KafkaError
from sharegroup.model.ids import TopicIdPartition, TopicPartition
from sharegroup.model.offsets import OffsetRange


class AcknowledgementMode(Enum):
    """``share.acknowledgement.mode``."""

    IMPLICIT = "implicit"
    """The next poll accepts what the last one returned."""
    EXPLICIT = "explicit"
    """The application says of each record what became of it."""


class Decided(NamedTuple):
    """Ranges of one partition that can be sent, as long as the ``lease`` of their locks is good."""

    partition: TopicIdPartition
    ranges: list[AcknowledgedRange]
    lease: LeaseView


class Iteration:
    """Records that are handed out one by one. ``given``: how many of them the application has seen,
    the one in its hands included.
    """

    __slots__ = ("_accepted", "given", "records")

    def __init__(self, records: Records) -> None:
        self.records = records
        self.given = 0
        self._accepted = 0  # the first record of the first delivery that is not accepted whole

    @property
    def exhausted(self) -> bool:
        """The application has seen them all."""
        return self.given == len(self.records)

    def accept_first(self, count: int) -> None:
        """ACCEPT for the first ``count`` records, where nothing was said of them."""
        while self._accepted < count:
            delivery = self.records[self._accepted]._delivery
            start = delivery.records.index(self.records[self._accepted])  # 0, mostly
            delivery.accept_first(start + count - self._accepted)
            end = self._accepted + len(delivery.records) - start
            if end > count:
                return
            self._accepted = end


class Renewals(NamedTuple):
    """What to renew in one delivery, and the records that come back when it is."""

    delivery: Delivery
    offsets: OffsetRange
    records: list[Record]


class Holdings:
    """See the module.

    Invariants: a record is in at most one of buffer and hands; in the buffer nothing is decided but
    gaps and what cannot be read.
    """

    def __init__(self, mode: AcknowledgementMode) -> None:
        self._mode = mode
        self._buffer: deque[Delivery] = deque()
        self._hands: list[Delivery] = []
        self._renewed: list[Renewals] = []
        self.iteration: Iteration | None = None
        """What is handed out one by one; None: polls return lists."""

    @property
    def implicit(self) -> bool:
        """The mode."""
        return self._mode is AcknowledgementMode.IMPLICIT

    @property
    def has_buffered(self) -> bool:
        """The next poll needs no fetch."""
        return bool(self._buffer)

    # --- records on their way to the application --------------------------------------------------

    def buffer(self, deliveries: Sequence[Delivery]) -> list[Decided]:
        """Take what was fetched. Ranges without any record are decided at once, and returned."""
        self._buffer.extend(one for one in deliveries if one.records or one.error)
        return self._take([one for one in deliveries if not (one.records or one.error)])

    def next_records(self, count_max: int, now_s: float) -> Records:
        """The records of :meth:`next_deliveries`."""
        records = Records()
        for delivery in self.next_deliveries(count_max, now_s):
            records += delivery.records
        return records

    def next_deliveries(self, count_max: int, now_s: float) -> list[Delivery]:
        """Hand out whole deliveries: at least one, further ones as long as they fit into
        ``count_max``. Those whose locks have gone while they waited here are dropped: others have
        them by now.

        Raises:
            CorruptRecordBatch, RecordDeserializationError: what comes next cannot be read. It
                counts as handed out.
        """
        given: list[Delivery] = []
        count = 0
        while self._buffer:
            delivery = self._buffer[0]
            if delivery.lease.lost or delivery.deadline < now_s:
                self._buffer.popleft().forget_records()
                continue
            count += len(delivery.records)
            if given and (delivery.error or count > count_max):
                break
            self._buffer.popleft()
            delivery.held = self
            self._hands.append(delivery)
            if delivery.error is not None:
                raise delivery.error
            given.append(delivery)
        return given

    def rest(self) -> Records:
        """What a poll must return before anything else: records renewed, or the rest of an
        iteration.
        """
        records = Records()
        for one in self.take_renewed():
            records += one.records
        if self.iteration is not None:
            records += self.iteration.records[self.iteration.given :]
            self.iteration = None
        return records

    def take_renewed(self) -> list[Renewals]:
        """What was renewed, to be given to the application once more."""
        renewed, self._renewed = self._renewed, []
        for one in renewed:
            one.delivery.mark(*one.offsets, UNDECIDED)
        return renewed

    def iterate(self, records: Records) -> Iteration:
        """Hand these out one by one."""
        self.iteration = Iteration(records)
        return self.iteration

    # --- what the application says ----------------------------------------------------------------

    def decide(self, records: Iterable[Record], kind: AckType) -> None:
        """The application says ``kind`` of each of ``records``.

        Raises:
            IllegalState: the mode is implicit, or a record does not wait for it; those before it
                are decided.
        """
        self.check_explicit()
        for record in records:
            delivery = record._delivery
            if delivery.held is not self:
                raise IllegalState(f"{record} was not returned by this consumer")
            delivery.decide(record.offset, kind)

    def decide_offset(self, where: TopicPartition, offset: int, kind: AckType) -> None:
        """As :meth:`decide`, by place: a record that could not be read has no other name.

        Raises:
            IllegalState: as :meth:`decide`.
        """
        self.check_explicit()
        for delivery in self._hands:
            if delivery.topic_partition == where and delivery.first <= offset <= delivery.last:
                delivery.decide(offset, kind)
                return
        raise IllegalState(f"offset {offset} of {where} does not wait to be acknowledged")

    def in_hands(self) -> dict[TopicPartition, list[Delivery]]:
        """What the application may still say something of, by partition."""
        found: dict[TopicPartition, list[Delivery]] = {}
        for delivery in self._hands:
            found.setdefault(delivery.topic_partition, []).append(delivery)
        return found

    def check_explicit(self) -> None:
        """Raises IllegalState: the mode is implicit."""
        if self.implicit:
            raise IllegalState(
                "in implicit mode the next poll accepts records; to say it yourself make the "
                "consumer with acknowledgement_mode='explicit'"
            )

    def settle(self) -> list[Decided]:
        """A poll begins: what it says of the records before.

        Raises:
            IllegalState: in explicit mode, some record has not been acknowledged.
        """
        if self.implicit:
            self.accept_given()
        elif self._all_given and any(one.undecided for one in self._hands):
            raise IllegalState("All records must be acknowledged in explicit acknowledgement mode.")
        return self.take_decided()

    @property
    def _all_given(self) -> bool:
        return self.iteration is None or self.iteration.exhausted

    def accept_given(self) -> None:
        """Implicit mode: ACCEPT for every record that the application has been given."""
        if self.iteration is not None:
            self.iteration.accept_first(self.iteration.given)
            return
        for delivery in self._hands:
            delivery.accept_undecided()

    def take_decided(self) -> list[Decided]:
        """All that can be sent now."""
        decided = self._take(self._hands)
        hands, self._hands = self._hands, []
        for delivery in hands:
            if delivery.finished:
                delivery.forget_records()
            else:
                self._hands.append(delivery)
        return decided

    # --- renewing ---------------------------------------------------------------------------------

    def take_renewals(self) -> list[Renewals]:
        """What to renew. The caller tells the outcome by :meth:`renewed`."""
        return [
            Renewals(delivery, offsets, delivery.within(offsets))
            for delivery in self._hands
            for offsets in delivery.take_renewals()
        ]

    def renewed(self, renewals: Renewals, error: KafkaError | None, deadline_s: float) -> None:
        """The locks were renewed: the next poll returns these records, and nothing else; or they
        could not be, and nothing can be said of the records any more.
        """
        if error is None:
            renewals.delivery.deadline = deadline_s
            self._renewed.append(renewals)
        else:
            renewals.delivery.mark(*renewals.offsets, SENT)

    def undecided(self) -> list[tuple[TopicIdPartition, OffsetRange]]:
        """All that is held under a lock and not finally decided, buffered records included."""
        return [
            (delivery.partition, offsets)
            for delivery in (*self._hands, *self._buffer)
            if not delivery.lease.lost
            for offsets in delivery.held_ranges()
        ]

    def locked_until(self, deadline_s: float) -> None:
        """All locks were renewed until ``deadline_s``."""
        for delivery in (*self._hands, *self._buffer):
            delivery.deadline = deadline_s

    # --- the end ----------------------------------------------------------------------------------

    def release_all(self) -> list[Decided]:
        """The end: what is decided is said, the rest is released. In an iteration the record in the
        application's hands is not decided, and those before it are.
        """
        if self.iteration is not None and self.implicit:
            self.iteration.accept_first(self.iteration.given - 1)
        self.iteration = None
        self._renewed = []
        held = [*self._hands, *self._buffer]
        self._hands = []
        self._buffer.clear()
        for delivery in held:
            delivery.release_undecided()
            delivery.forget_records()
        return self._take(held)

    def _take(self, deliveries: list[Delivery]) -> list[Decided]:
        return [
            Decided(delivery.partition, ranges, delivery.lease)
            for delivery in deliveries
            if (ranges := delivery.take_decided())
        ]
