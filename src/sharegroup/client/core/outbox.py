"""Records on their way to one partition: batches that fill, batches under way, and their sequence
numbers.

An idempotent producer (KIP-98) numbers its records per partition; the broker refuses a gap and
answers a duplicate with the first outcome. So batches must arrive in order, even with retries:

* up to five batches are under way at a time (the broker remembers that many);
* after a failure, nothing new is sent until all batches under way are answered; then the failed
  ones are sent again one at a time, in order, with their old numbers;
* when a batch is given up, the numbers after it may leave a gap: the partition goes on with a new
  producer id, from 0. First the batches that were sent after it end under their old numbers: if
  they are in the log already, a new producer id would write them a second time;
* a batch too large for the topic is split, and its parts go in its place, under its numbers;
* a broker takes any number from a producer id that it does not know. So the first batch travels
  alone: were it refused, a later one would have taken its place.

Sans-IO. Times are in seconds, on whatever clock the caller uses.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import Any, Final, NamedTuple

from crc32c import crc32c

from sharegroup.client.core.record import Fields, Headers
from sharegroup.model.ids import TopicPartition
from sharegroup.records.record_codec import BatchBuilder, records_in
from sharegroup.wire.batch import parse_header

IN_FLIGHT_MAX: Final = 5
SEQUENCE_MASK: Final = 0x7FFFFFFF
_RECORD_BYTES: Final = 8
_CRC_AT: Final = 17
_CRC_FROM: Final = 21
_PRODUCER_AT: Final = 43
_PRODUCER = struct.Struct(">qhi")
_CRC = struct.Struct(">I")


class ProducerIdentity(NamedTuple):
    """The producer id and the epoch that InitProducerId returned."""

    producer_id: int
    epoch: int


class OutgoingBatch:
    """Records that travel together.

    Attributes:
        outcome: completed by the caller; what the application awaits.
        size: bytes that it holds in the producer's buffer.
        deadline_s: when it is given up.
        awaited: how many of its records somebody awaits, or has awaited.
        dropped: how many of its records nobody can await any more.
        failures: is told when more records are dropped; None until the batch has failed.
        parts: the batches that it was split into. Its ``outcome`` then says only that it was split;
            the outcomes of the parts are awaited.
    """

    __slots__ = (
        "_builder",
        "_data",
        "awaited",
        "count",
        "deadline_s",
        "dropped",
        "failures",
        "made_s",
        "outcome",
        "parts",
        "sequence",
        "size",
        "where",
    )

    def __init__(
        self,
        where: TopicPartition,
        builder: BatchBuilder | None,
        outcome: Any,
        made_s: float,
        deadline_s: float,
    ) -> None:
        self.where = where
        self.outcome = outcome
        self.made_s = made_s
        self.deadline_s = deadline_s
        self.count = 0
        self.size = 0
        self.sequence = -1
        self.awaited = 0
        self.dropped = 0
        self.failures: Any = None
        self.parts: Sequence[OutgoingBatch] = ()
        self._builder = builder
        self._data: bytearray | None = None

    def append(
        self, timestamp_ms: int, key: bytes | None, value: bytes | None, headers: Headers
    ) -> bool:
        """Add a record; False when it does not fit any more."""
        assert self._builder is not None, "it was encoded"
        if not self._builder.append(timestamp_ms, key, value, headers):
            return False
        self.count += 1
        return True

    @classmethod
    def refused(cls, where: TopicPartition, size: int, outcome: Any) -> OutgoingBatch:
        """A batch of one refused record, which was in no batch; the caller completes it."""
        batch = cls(where, None, outcome, 0.0, 0.0)
        batch.count, batch.size = 1, size
        return batch

    def part_of(self, index: int) -> tuple[OutgoingBatch, int]:
        """The part that has the record of this index, and its index there."""
        ends = list(accumulate(part.count for part in self.parts))
        at = bisect_right(ends, index)
        return self.parts[at], index - (ends[at - 1] if at else 0)

    def records(self) -> Sequence[Fields]:
        """The records of a batch that was encoded."""
        assert self._data is not None, "it was not sent"
        return records_in(parse_header(self._data), self._data)

    def release(self) -> None:
        """Drop the bytes, because the outcome is known: a kept delivery must not keep them."""
        self._builder = self._data = None

    def encoded(self, identity: ProducerIdentity | None) -> bytearray:
        """The bytes to send, under the identity and this batch's sequence number."""
        if self._data is None:
            assert self._builder is not None, "its outcome is known"
            self._data = self._builder.build()
            self._builder = None
        if identity is not None:
            _PRODUCER.pack_into(self._data, _PRODUCER_AT, *identity, self.sequence)
            _CRC.pack_into(self._data, _CRC_AT, crc32c(memoryview(self._data)[_CRC_FROM:]))
        return self._data


class Outbox:
    """One partition's batches. See the module.

    Args:
        transactional: the records are part of a transaction.
        idempotent: if False, only one batch is under way at a time, which also keeps the order.
        make_outcome: a future for each new batch.

    Attributes:
        identity: the identity to send under; None: :meth:`identify` must come first, with another
            identity than ``spent``.
        not_before_s: a pause after a failure.
    """

    def __init__(
        self,
        where: TopicPartition,
        *,
        batch_size: int,
        codec: int,
        delivery_timeout_s: float,
        idempotent: bool,
        transactional: bool = False,
        make_outcome: Callable[[], Any],
    ) -> None:
        self.where = where
        self.identity: ProducerIdentity | None = None
        self.spent: ProducerIdentity | None = None
        self.not_before_s = 0.0
        self._batch_size = batch_size
        self._codec = codec
        self._delivery_timeout_s = delivery_timeout_s
        self._idempotent = idempotent
        self._transactional = transactional
        self._make_outcome = make_outcome
        self._open: OutgoingBatch | None = None
        self._closed: deque[OutgoingBatch] = deque()
        self._sent: deque[OutgoingBatch] = deque()
        self._unanswered = 0
        self._repeating = False
        self._gap = False  # a batch was given up, and those sent after it have not ended
        self._next_sequence = 0
        self._accepted_id: int | None = None  # the producer id that the partition knows

    def __bool__(self) -> bool:
        return bool(self._open or self._closed or self._sent)

    def __iter__(self) -> Iterator[OutgoingBatch]:
        """All batches, oldest first."""
        yield from self._sent
        yield from self._closed
        if self._open is not None:
            yield self._open

    @property
    def backlog(self) -> bool:
        """There are batches that are full and not sent."""
        return bool(self._closed)

    @property
    def needs_identity(self) -> bool:
        """Nothing can be sent before :meth:`identify`."""
        return self._idempotent and self.identity is None

    def append(
        self,
        now_s: float,
        timestamp_ms: int,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
    ) -> tuple[OutgoingBatch, bool]:
        """Add a record to the batch that is filling; that batch, and whether it is new."""
        batch = self._open
        if batch is not None:
            if batch.append(timestamp_ms, key, value, headers):
                return batch, False
            self._closed.append(batch)
            self._open = None
        batch = self._new_batch(now_s, now_s + self._delivery_timeout_s)
        batch.append(timestamp_ms, key, value, headers)
        self._open = batch
        return batch, True

    def _new_batch(self, made_s: float, deadline_s: float) -> OutgoingBatch:
        builder = BatchBuilder(self._codec, self._batch_size, transactional=self._transactional)
        return OutgoingBatch(self.where, builder, self._make_outcome(), made_s, deadline_s)

    # --- sending ----------------------------------------------------------------------------------

    def due_s(self, linger_s: float) -> float | None:
        """When to send next: a past time means now, None means not before the next answer.

        Without a linger time, a batch that is still filling waits while another is under way:
        records sent meanwhile join it.
        """
        if self._repeating:
            return self.not_before_s if self._unanswered == 0 else None
        if len(self._sent) >= self._in_flight_max():
            return None
        if self._closed:
            return self.not_before_s
        if self._open is None or (linger_s == 0 and self._sent):
            return None
        return max(self.not_before_s, self._open.made_s + linger_s)

    def _in_flight_max(self) -> int:
        identity = self.identity
        known = identity is not None and identity.producer_id == self._accepted_id
        return IN_FLIGHT_MAX if self._idempotent and known else 1

    def take(self) -> OutgoingBatch:
        """The next batch to send. The caller must report its answer: see "answers" below."""
        self._unanswered += 1
        if self._repeating:
            return self._sent[0]
        if self._closed:
            batch = self._closed.popleft()
        else:
            assert self._open is not None, "nothing is due"
            batch, self._open = self._open, None
        self._number(batch)
        self._sent.append(batch)
        return batch

    def renew(self) -> None:
        """The producer has a new identity. Nothing is sent before it comes by :meth:`identify`."""
        assert not self._sent, "batches are under way"
        self.identity = self.spent = None
        self._gap = False

    def identify(self, identity: ProducerIdentity) -> None:
        """Continue with this identity: batches that were sent and not accepted get new numbers."""
        self.identity = identity
        self._next_sequence = 0
        for batch in self._sent:
            self._number(batch)

    def _number(self, batch: OutgoingBatch) -> None:
        batch.sequence = self._next_sequence
        self._next_sequence = (self._next_sequence + batch.count) & SEQUENCE_MASK

    # --- answers ----------------------------------------------------------------------------------

    def succeeded(self, batch: OutgoingBatch) -> None:
        """The batch is in the log."""
        self._answered(batch)
        self._remove(batch)
        if self.identity is not None:
            self._accepted_id = self.identity.producer_id

    def split(self, batch: OutgoingBatch) -> Sequence[OutgoingBatch]:
        """The batch has several records and is too large for the topic: its parts, which are sent
        in its place. Later batches are made no larger.

        A part has at most half of the batch's bytes, or one record. So a few rounds find a size
        that fits, and it is never less than half of the largest size that the topic takes.
        """
        self._answered(batch)
        self._repeating = True
        records = batch.records()
        self._batch_size = min(self._batch_size, sum(map(_size, records)) // 2)
        batch.parts = self._parts(batch, records)
        at = self._sent.index(batch)
        del self._sent[at]
        for number, part in enumerate(batch.parts):
            self._sent.insert(at + number, part)
        return batch.parts

    def _parts(self, batch: OutgoingBatch, records: Sequence[Fields]) -> list[OutgoingBatch]:
        parts: list[OutgoingBatch] = []
        for index, record in enumerate(records):
            fields = record[1:]
            if not parts or not parts[-1].append(*fields):
                part = self._new_batch(batch.made_s, batch.deadline_s)
                part.sequence = (batch.sequence + index) & SEQUENCE_MASK
                part.append(*fields)
                parts.append(part)
        for part in parts:
            part.size = batch.size * part.count // batch.count
            part.dropped = min(part.count, batch.dropped)
        parts[0].size += batch.size - sum(part.size for part in parts)
        return parts

    def failed(self, batch: OutgoingBatch) -> None:
        """The batch failed, but a retry may succeed."""
        self._answered(batch)
        self._repeating = True

    def follows_another(self, batch: OutgoingBatch) -> bool:
        """Whether a batch before this one is not in the log yet: it has failed, and is sent again.
        Then the broker must miss records before this batch (Kafka's TransactionManager.canRetry).
        """
        return batch is not self._sent[0]

    def out_of_order(self, batch: OutgoingBatch) -> None:
        """The broker misses earlier records. After another batch's failure that is expected; if no
        batch is before this one, the broker has forgotten our producer id.
        """
        if not self.follows_another(batch):
            self._lose_identity()
        self.failed(batch)

    def gave_up(self, batch: OutgoingBatch) -> None:
        """The batch failed for good."""
        self._answered(batch)
        self._repeating = self._gap = True
        self._remove(batch)

    def expire(self, now_s: float) -> list[OutgoingBatch]:
        """Remove batches past their deadline, if no batch is under way. The caller completes them.
        If ``now_s`` is infinity, all batches are past it.
        """
        if self._unanswered:
            return []
        expired = [batch for batch in self if batch.deadline_s <= now_s]
        for batch in expired:
            if batch is self._open:
                self._open = None
            elif batch in self._closed:
                self._closed.remove(batch)
            else:
                self._gap = True
                self._remove(batch)
        return expired

    def _lose_identity(self) -> None:
        self._gap = False
        if self.identity is not None:
            self.spent, self.identity = self.identity, None

    def _answered(self, batch: OutgoingBatch) -> None:
        assert self._unanswered > 0, f"{batch.where}: a response without a request"
        self._unanswered -= 1

    def _remove(self, batch: OutgoingBatch) -> None:
        self._sent.remove(batch)
        if not self._sent:
            self._repeating = False
            if self._gap:
                self._lose_identity()


def _size(record: Fields) -> int:
    """About the bytes that the record takes in a batch; never more than twice as many."""
    _, _, key, value, headers = record
    own = len(key or b"") + len(value or b"")
    return _RECORD_BYTES + own + sum(len(n.encode()) + len(v or b"") for n, v in headers)
