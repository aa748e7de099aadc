"""What becomes of records that were handed to a producer: a delivery for each record, and the
failures of records that nobody has awaited.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Generator
from typing import Any, Final, NamedTuple

from sharegroup.client.core.outbox import OutgoingBatch
from sharegroup.model.errors import SharegroupError

log = logging.getLogger("sharegroup.client")

_KEPT_FAILURES_MAX: Final = 1_000
"""Batches that failed and are kept for :meth:`Producer.flush`; older ones were logged."""


class RecordMetadata(NamedTuple):
    """Where a record went. ``timestamp`` (ms) is the broker's time if the topic has LogAppendTime,
    else the record's own.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int

    @property
    def repeated(self) -> bool:
        """The topic has had a record with this ``message_id`` before: ``offset`` is that record's,
        and this one was not added."""
        return False


class RepeatedRecordMetadata(RecordMetadata):
    """Of a record that was not added. A class of its own: the tuple has four fields, as ever."""

    __slots__ = ()

    @property
    def repeated(self) -> bool:
        """See :class:`RecordMetadata`."""
        return True


class Delivery:
    """A record that was handed to the producer. Await it: it returns :class:`RecordMetadata` when
    the record is durable, or raises the error why it was not delivered.

    Cancelling the await does not cancel the record. It may be awaited more than once.
    """

    __slots__ = ("_awaited", "_batch", "_entered", "_index", "timestamp")

    def __init__(self, timestamp: int) -> None:
        self.timestamp = timestamp
        self._batch: OutgoingBatch | None = None
        self._index = 0
        self._awaited = False
        self._entered: asyncio.Future[None] | None = None

    def done(self) -> bool:
        """The outcome is known: awaiting it will not wait."""
        self._follow()
        batch = self._batch
        return batch is not None and bool(batch.outcome.done())

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        if not self._awaited:
            self._awaited = True
            if self._batch is not None:
                self._batch.awaited += 1
        try:
            if self._batch is None:
                yield from asyncio.shield(self.entered()).__await__()
            while True:
                self._follow()
                batch = self._batch
                assert batch is not None, "it has entered a batch"
                outcome = yield from asyncio.shield(batch.outcome).__await__()
                if not batch.parts:
                    break
        except asyncio.CancelledError:
            self._take_back()
            raise
        return self._metadata(batch, outcome)

    def outcome(self) -> RecordMetadata:
        """What awaiting it gives, when it is :meth:`done`.

        Raises:
            SharegroupError: the record was not delivered.
        """
        self._follow()
        batch = self._batch
        assert batch is not None, "it is done"
        if not self._awaited:
            self._awaited = True
            batch.awaited += 1
        return self._metadata(batch, batch.outcome.result())

    def _metadata(self, batch: OutgoingBatch, outcome: Any) -> RecordMetadata:
        base_offset, append_time_ms, repeated = outcome
        where = batch.where
        timestamp = append_time_ms if append_time_ms >= 0 else self.timestamp
        if repeated and self._index in repeated:
            first = repeated[self._index]
            return RepeatedRecordMetadata(where.topic, where.partition, first, timestamp)
        return RecordMetadata(where.topic, where.partition, base_offset + self._index, timestamp)

    def __del__(self) -> None:
        self._follow()
        batch = self._batch
        if batch is not None and not self._awaited:
            batch.dropped += 1
            if batch.failures is not None:
                batch.failures.dropped(batch)

    def _follow(self) -> None:
        """If the record's batch was split, go on to the part that has the record."""
        while self._batch is not None and self._batch.parts:
            part, self._index = self._batch.part_of(self._index)
            self._batch.awaited -= self._awaited
            part.awaited += self._awaited
            self._batch = part

    def _take_back(self) -> None:
        """The waiting task was cancelled, and has not seen the outcome."""
        self._awaited = False
        if self._batch is not None:
            self._batch.awaited -= 1

    # --- for the producer -------------------------------------------------------------------------

    def enter(self, batch: OutgoingBatch, index: int) -> None:
        """The record is in this batch. A refused record has a batch of its own, which fails."""
        self._batch = batch
        self._index = index
        if self._awaited:
            batch.awaited += 1
        if self._entered is not None:
            self._entered.set_result(None)

    def withdrawn(self) -> None:
        """The record will be in no batch: who waits for that waits no more."""
        if self._entered is not None:
            self._entered.cancel()

    @property
    def has_entered(self) -> bool:
        """The record is in a batch."""
        return self._batch is not None

    def entered(self) -> asyncio.Future[None]:
        """Done when the record is in a batch. The future is shared: shield it."""
        if self._entered is None:
            self._entered = asyncio.get_running_loop().create_future()
            if self._batch is not None:
                self._entered.set_result(None)
        return self._entered


class FailedBatches:
    """Failed batches, kept while they have records that nobody has awaited.

    When a failed record can no longer be awaited, one line is logged. The next line comes only
    after :meth:`take` or a success.
    """

    def __init__(self) -> None:
        self._batches: deque[tuple[OutgoingBatch, SharegroupError]] = deque(
            maxlen=_KEPT_FAILURES_MAX
        )
        self._logged = False

    def add(self, batch: OutgoingBatch, error: SharegroupError) -> None:
        """This batch has failed for good."""
        batch.failures = self
        self._batches.append((batch, error))
        if batch.dropped:
            self.dropped(batch)

    def succeeded(self) -> None:
        """A batch was delivered: the next failure is logged again."""
        self._logged = False

    def dropped(self, batch: OutgoingBatch) -> None:
        """A record of this batch has failed, and nobody can await it any more."""
        if self._logged:
            return
        self._logged = True
        log.error(
            "a record for %s was not delivered, and its result was not awaited: %s "
            "(flush() or close() raises this, and says how many)",
            batch.where,
            batch.outcome.exception(),
        )

    def take(self) -> SharegroupError | None:
        """The first error that nobody has seen; its note says how many records failed unseen.
        Forgets these failures."""
        left = [(batch, error) for batch, error in self._batches if batch.awaited < batch.count]
        self._batches.clear()
        self._logged = False
        if not left:
            return None
        count = sum(batch.count - batch.awaited for batch, _ in left)
        error = left[0][1]
        error.add_note(
            f"this is the first of the records that nobody awaited and that failed: {count}"
        )
        return error
