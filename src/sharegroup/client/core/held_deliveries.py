"""The deliveries that a consumer holds: buffered ones, and those given to the application.

The acknowledgement rules of Kafka's share consumer (KIP-932 as of 4.2) are here: which
acknowledgements are allowed when, what the next poll means for the previous records, and what
happens to the rest at the end.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Any, NamedTuple

from sharegroup.client.core.acknowledgements import (
    SENT,
    UNDECIDED,
    AcknowledgedRange,
    AckType,
)
from sharegroup.client.core.record import HeldDelivery, LeaseView, Record, Records, delivery_of
from sharegroup.client.core.taken_back import AcknowledgementsAnswered, TakenBack
from sharegroup.client.errors import IllegalState
from sharegroup.model.errors import KafkaError
from sharegroup.model.ids import TopicIdPartition, TopicPartition
from sharegroup.model.offsets import OffsetRange


class AcknowledgementMode(Enum):
    """``share.acknowledgement.mode``."""

    IMPLICIT = "implicit"
    """The next poll accepts what the last one returned."""
    EXPLICIT = "explicit"
    """The application acknowledges each record."""


class Decided(NamedTuple):
    """Ranges of one partition that can be sent while the ``lease`` of their locks is valid."""

    partition: TopicIdPartition
    ranges: list[AcknowledgedRange]
    lease: LeaseView


class Iteration:
    """One loop over a consumer. It is given records one by one, or whole batches.

    Attributes:
        records: the records to give one by one; empty in a loop over batches.
        given: how many of these the application was given, including the one in work.
        done: how many of these are done, because the application asked for the next one.
        asker: the task or thread that asked last.
        ended: the application has left the loop. Set from any thread.
        replaced: another loop or a poll began before this one had ended.
    """

    __slots__ = ("_accepted", "asker", "done", "ended", "given", "records", "replaced")

    def __init__(self) -> None:
        self.asker: object = None
        self.ended = self.replaced = False
        self.hand_out(Records())

    def hand_out(self, records: Records[Any, Any]) -> None:
        """Give these records to the loop, one by one."""
        self.records = records
        self.given = self.done = 0
        self._accepted = 0  # the first record of the first delivery that is not accepted whole

    @property
    def in_work(self) -> bool:
        """The loop was given a record and has not asked for the next one. Always true in a loop
        over batches."""
        return not self.records or self.done < self.given

    def accept_first(self, count: int) -> None:
        """ACCEPT for the undecided ones among the first ``count`` records."""
        while self._accepted < count:
            delivery = delivery_of(self.records[self._accepted])
            start = delivery.records.index(self.records[self._accepted])  # 0, mostly
            delivery.accept_first(start + count - self._accepted)
            end = self._accepted + len(delivery.records) - start
            if end > count:
                return
            self._accepted = end


class Renewals(NamedTuple):
    """Offsets to renew in one delivery, and the records to return after the renewal."""

    delivery: HeldDelivery
    offsets: OffsetRange
    records: list[Record[Any, Any]]


class Holdings:
    """See the module.

    Invariants: a record is in the buffer or in the application's hands, never in both. In the
    buffer, only gaps and unreadable data are decided.
    """

    def __init__(self, mode: AcknowledgementMode) -> None:
        self._mode = mode
        self._by_worker = False
        self._buffer: deque[HeldDelivery] = deque()
        self._hands: list[HeldDelivery] = []
        self._renewed: list[Renewals] = []
        self._kept = Records()
        self._left_unanswered = False
        self._taken_back = TakenBack()
        self._released_more = False
        self.iteration: Iteration | None = None
        """The loop that was given the latest records; None: a poll was."""

    @property
    def implicit(self) -> bool:
        """The mode."""
        return self._mode is AcknowledgementMode.IMPLICIT and not self._by_worker

    def leave_to_worker(self) -> None:
        """From now on, ``ShareConsumer.run`` acknowledges each record when its handler has ended;
        polls do not wait for that.
        """
        self._by_worker = True

    @property
    def has_buffered(self) -> bool:
        """The next poll needs no fetch."""
        return bool(self._buffer)

    @property
    def keeps(self) -> bool:
        """Some records were not given to the application."""
        return bool(self._kept or self._buffer)

    # --- records on their way to the application --------------------------------------------------

    def buffer(self, deliveries: Sequence[HeldDelivery]) -> list[Decided]:
        """Take what was fetched. Ranges without any record are decided at once, and returned."""
        if self._taken_back:
            for one in deliveries:
                self._drop_stale(one)
        self._buffer.extend(one for one in deliveries if one.records or one.error)
        return self._take([one for one in deliveries if not (one.records or one.error)])

    def next_records(self, count_max: int, now_s: float) -> Records[Any, Any]:
        """The records of :meth:`next_deliveries`."""
        records: Records[Any, Any] = Records()
        for delivery in self.next_deliveries(count_max, now_s):
            records += delivery.records
        return records

    def next_deliveries(self, count_max: int, now_s: float) -> list[HeldDelivery]:
        """Hand out whole deliveries: at least one, and more while they fit into ``count_max``.
        Deliveries whose locks were lost in the buffer are dropped: other members may have them.

        Raises:
            CorruptRecordBatch, RecordDeserializationError: the next delivery cannot be read. It
                counts as handed out.
        """
        given: list[HeldDelivery] = []
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
                for offset in [*(delivery.keys or ())]:
                    self._obey_order(delivery, offset)
                raise delivery.error
            given.append(delivery)
        return given

    def rest(self) -> Records[Any, Any]:
        """The records to give first: renewed ones, and those that the last loop did not reach."""
        records: Records[Any, Any] = Records()
        for one in self.take_renewed():
            records += one.records
        for delivery in _deliveries_of(self._kept):
            delivery.give_kept()
        records += self._kept
        self._kept = Records()
        return records

    def take_renewed(self) -> list[Renewals]:
        """The renewed records, to be given to the application once more."""
        renewed, self._renewed = self._renewed, []
        for one in renewed:
            one.delivery.mark(*one.offsets, UNDECIDED)
        return renewed

    # --- what the application says ----------------------------------------------------------------

    def decide(self, records: Iterable[Record[Any, Any]], kind: AckType) -> None:
        """Acknowledge each of ``records`` with ``kind``.

        Raises:
            IllegalState: the mode is implicit, or a record is not waiting for an acknowledgement;
                the records before it are decided.
        """
        self.check_explicit()
        for record in records:
            delivery = delivery_of(record)
            if delivery.held is not self:
                raise IllegalState(f"{record} was not returned by this consumer")
            delivery.decide(record.offset, kind)
            if delivery.keys is not None:
                self._obey_order(delivery, record.offset)

    def decide_offset(self, where: TopicPartition, offset: int, kind: AckType) -> TopicIdPartition:
        """As :meth:`decide`, by partition and offset, for a record that could not be read. Returns
        the partition.

        Raises:
            IllegalState: as :meth:`decide`.
        """
        self.check_explicit()
        for delivery in self._hands:
            if delivery.topic_partition == where and delivery.first <= offset <= delivery.last:
                delivery.decide(offset, kind)
                if delivery.keys is not None:
                    self._obey_order(delivery, offset)
                return delivery.partition
        raise IllegalState(f"offset {offset} of {where} is not waiting for an acknowledgement")

    def in_hands(self) -> dict[TopicPartition, list[HeldDelivery]]:
        """The deliveries that the application may still acknowledge, by partition."""
        found: dict[TopicPartition, list[HeldDelivery]] = {}
        for delivery in self._hands:
            found.setdefault(delivery.topic_partition, []).append(delivery)
        return found

    def check_explicit(self) -> None:
        """Raises IllegalState: the mode is implicit, or a worker answers."""
        if self._by_worker:
            raise IllegalState(
                "run() answers for its records: return from the handler, or raise what is wrong"
            )
        if self.implicit:
            raise IllegalState(
                "in implicit mode the next poll accepts records; to acknowledge them yourself, "
                "create the consumer with acknowledgement_mode='explicit'"
            )

    def settle(self, asking: Iteration | None = None) -> list[Decided]:
        """Settle the previous records, because a loop, or a poll (None), asks for more. Returns
        what can be sent.

        A loop that had not ended ends here, and its last record is not accepted.

        Raises:
            IllegalState: in explicit mode, some record has not been acknowledged.
        """
        if self.iteration is not asking:
            self.end_iteration()
        if self.implicit:
            self.accept_given()
        elif self._left_unanswered:
            self._release_given()
        elif not self._by_worker and any(one.undecided for one in self._hands):
            raise IllegalState("All records must be acknowledged in explicit acknowledgement mode.")
        self._left_unanswered = False
        self.iteration = asking
        if asking is not None:
            asking.hand_out(Records())
        return self.take_decided()

    def end_iteration(self) -> None:
        """The loop ends before it asked for its next record. Its done records are accepted, its
        record in work is released (in explicit mode: by the next poll or loop, if the application
        has not acknowledged it by then). Unreached records are kept for the next poll or loop:
        delivering them anew would raise their delivery count.
        """
        iteration, self.iteration = self.iteration, None
        if iteration is None:
            return
        iteration.replaced = not iteration.ended
        self._kept = Records(iteration.records[iteration.given :])
        for first in {id(delivery_of(one)): one for one in reversed(self._kept)}.values():
            delivery_of(first).keep_from(first.offset)
        if self.implicit:
            iteration.accept_first(iteration.done)
            self._release_given()
        else:
            self._left_unanswered = True

    def accept_given(self, *, in_work: bool = True) -> None:
        """Implicit mode: ACCEPT for every record that the application has been given. In a loop,
        ``in_work`` says whether that includes the record in work.
        """
        iteration = self.iteration
        if iteration is not None and iteration.records:
            iteration.accept_first(iteration.given if in_work else iteration.done)
        elif iteration is None or in_work:
            for delivery in self._hands:
                delivery.accept_undecided()

    def _release_given(self) -> None:
        ordered = [
            (delivery, offset)
            for delivery in self._hands
            for offset in delivery.keys or ()
            if delivery.types[offset - delivery.first] == UNDECIDED
        ]
        for delivery in self._hands:
            delivery.release_given()
        for delivery, offset in ordered:
            self._obey_order(delivery, offset)

    def take_decided(self) -> list[Decided]:
        """All that can be sent now."""
        if self._released_more:
            self._pass_over_in_buffer()
        decided = self._take(self._hands)
        hands, self._hands = self._hands, []
        for delivery in hands:
            if delivery.finished:
                delivery.forget_records()
            else:
                self._hands.append(delivery)
        return decided

    # --- order per key ----------------------------------------------------------------------------

    def _obey_order(self, delivery: HeldDelivery, offset: int) -> None:
        """The application has decided on this record. When it is released, the broker takes back
        the later records of its key. So the later records that the application was not given yet
        are passed over, and released in the same request, after this one: there a release costs
        them no delivery."""
        key = (delivery.keys or {}).get(offset)
        if key is None:
            return
        partition = delivery.partition
        if delivery.types[offset - delivery.first] != AckType.RELEASE:
            self._taken_back.withdrawn(partition, key, offset)
            return
        self._taken_back.released(partition, key, offset)
        self._released_more = True
        self._pass_over_in_hands(partition, key, offset)

    def _pass_over_in_buffer(self) -> None:
        """Pass over stale records in the buffer, once for all releases that are sent together: many
        records may fail at a time."""
        self._released_more = False
        for delivery in self._buffer:
            for offset in self._drop_stale(delivery):
                alone = delivery.part(offset, offset)
                alone.mark(offset, offset, AckType.RELEASE)
                self._hands.append(alone)

    def _pass_over_in_hands(self, partition: TopicIdPartition, key: bytes, offset: int) -> None:
        iteration = self.iteration
        waiting = self._kept if iteration is None else iteration.records[iteration.given :]
        passed: dict[HeldDelivery, list[int]] = {}
        left = Records()
        for record in waiting:
            delivery = delivery_of(record)
            if delivery.partition == partition and delivery.is_behind(record.offset, key, offset):
                passed.setdefault(delivery, []).append(record.offset)
            else:
                left.append(record)
        for delivery, later in passed.items():
            delivery.drop(later, AckType.RELEASE)
        if passed and iteration is None:
            self._kept = left
        elif passed and iteration is not None:
            iteration.records[iteration.given :] = left

    def _drop_stale(self, delivery: HeldDelivery) -> list[int]:
        """Keep from the application the records of this delivery that the broker has taken back, or
        will take back. Returns their offsets."""
        if delivery.error is not None:
            return []
        stale = [
            offset
            for offset, key in (delivery.keys or {}).items()
            if self._taken_back.is_stale(delivery.partition, key, offset, delivery.request)
            and delivery.types[offset - delivery.first] == UNDECIDED
        ]
        if stale:
            delivery.drop(stale, SENT)
        return stale

    def answered(self, answer: AcknowledgementsAnswered) -> None:
        """The broker has answered to these acknowledgements."""
        self._taken_back.answered(answer)

    # --- renewing ---------------------------------------------------------------------------------

    def take_renewals(self) -> list[Renewals]:
        """The pending renewals. The caller reports their outcome to :meth:`renewed`."""
        return [
            Renewals(delivery, offsets, delivery.within(offsets))
            for delivery in self._hands
            for offsets in delivery.take_renewals()
        ]

    def renewed(self, renewals: Renewals, error: KafkaError | None, deadline_s: float) -> None:
        """The outcome of renewals. After a success, the next poll returns only renewed records.
        After an ``error``, these records cannot be acknowledged any more.
        """
        if error is None:
            renewals.delivery.deadline = deadline_s
            self._renewed.append(renewals)
        else:
            renewals.delivery.mark(*renewals.offsets, SENT)

    def undecided(self, now_s: float = -math.inf) -> list[tuple[TopicIdPartition, OffsetRange]]:
        """All offsets held under a lock and not finally decided, buffered records included. Locks
        that were over at ``now_s`` are left out."""
        return [
            (delivery.partition, offsets)
            for delivery in (*self._hands, *self._buffer)
            if not delivery.lease.lost and delivery.deadline >= now_s
            for offsets in delivery.held_ranges()
        ]

    def partition_locked_until(
        self,
        partition: TopicIdPartition,
        held: Iterable[OffsetRange],
        deadline_s: float,
        now_s: float = -math.inf,
    ) -> None:
        """The locks of these offsets of one partition were renewed until ``deadline_s``. Locks that
        were over at ``now_s`` stay so: what was renewed is a later delivery of the same offsets."""
        firsts = [offsets.first for offsets in held]
        for delivery in (*self._hands, *self._buffer):
            if (
                delivery.partition == partition
                and delivery.deadline >= now_s
                and any(delivery.first <= first <= delivery.last for first in firsts)
            ):
                delivery.deadline = deadline_s

    # --- the end ----------------------------------------------------------------------------------

    def give_back(self) -> list[Decided]:
        """Release records not given to the application. Errors stay: they must be raised."""
        for delivery in _deliveries_of(self._kept):
            delivery.release_kept()
        self._kept = Records()
        waiting, self._buffer = self._buffer, deque()
        for delivery in waiting:
            if delivery.error is not None:
                self._buffer.append(delivery)
                continue
            delivery.release_undecided()
            self._hands.append(delivery)
        return self.take_decided()

    def release_all(self) -> list[Decided]:
        """At the end: send decided acknowledgements, release all other records. In a loop, the
        record in work is undecided, and the records before it are decided.
        """
        if self.iteration is not None:
            if self.implicit:
                self.iteration.accept_first(self.iteration.done)
            self.iteration.hand_out(Records())
        self.iteration = None
        self._left_unanswered = False
        self._renewed = []
        self._kept = Records()
        held = [*self._hands, *self._buffer]
        self._hands = []
        self._buffer.clear()
        for delivery in held:
            delivery.release_undecided()
            delivery.forget_records()
        return self._take(held)

    def _take(self, deliveries: list[HeldDelivery]) -> list[Decided]:
        return [
            Decided(delivery.partition, ranges, delivery.lease)
            for delivery in deliveries
            if (ranges := delivery.take_decided())
        ]


def _deliveries_of(records: Records) -> list[HeldDelivery]:
    """The deliveries that these records belong to, in the order of the records."""
    return list({id(delivery_of(one)): delivery_of(one) for one in records}.values())
