"""The loops over a consumer: ``async for`` over records, batches and Arrow batches.

The loops are objects, not generators: a loop that is left keeps nothing open.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Final, Generic, Self

from sharegroup.client.core.record import ConsumerRecord, ConsumerRecords, K, V
from sharegroup.client.records.arrow_modules import arrow

if TYPE_CHECKING:
    from sharegroup.client.group.arrow_chunks import ArrowForm, RecordBatch
    from sharegroup.client.group.polling import Asking

ARROW_CHUNKS: Final = "sharegroup.client.group.arrow_chunks"
GIVE_UP_S: Final = 365 * 86_400.0


async def _ready(record: ConsumerRecord[K, V]) -> ConsumerRecord[K, V]:
    return record


class RecordLoop(Generic[K, V]):
    """Records, one by one, until the consumer is closed."""

    def __init__(self, consumer: Asking[Any, Any]) -> None:
        self._consumer = consumer

    def __aiter__(self) -> Self:
        return self

    def __anext__(self) -> Coroutine[Any, Any, ConsumerRecord[K, V]]:
        record: ConsumerRecord[K, V] | None = self._consumer._record_at_hand()
        return self._next() if record is None else _ready(record)

    async def _next(self) -> ConsumerRecord[K, V]:
        record: ConsumerRecord[K, V] | None = await self._consumer._next_record(GIVE_UP_S)
        if record is None:
            raise StopAsyncIteration
        return record


class BatchLoop(Generic[K, V]):
    """The results of polls, without the empty ones, until the consumer is closed."""

    def __init__(self, consumer: Asking[Any, Any], wait_s: float) -> None:
        self._consumer = consumer
        self._wait_s = wait_s

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ConsumerRecords[K, V]:
        while not self._consumer.closed:
            records: ConsumerRecords[K, V] = await self._consumer._poll(self._wait_s)
            if records:
                return records
        raise StopAsyncIteration


class ArrowLoop:
    """Arrow batches, until no batch has come for ``wait_s``, or the consumer is closed."""

    def __init__(
        self,
        consumer: Asking[Any, Any],
        max_records: int,
        include_headers: bool,
        wait_s: float,
    ) -> None:
        self._consumer = consumer
        self._columns = (max_records, include_headers)
        self._wait_s = wait_s
        self._form: ArrowForm | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> RecordBatch:
        consumer = self._consumer
        if self._form is None:
            module = await asyncio.to_thread(arrow, ARROW_CHUNKS)  # the import takes a second
            self._form = module.ArrowForm(*self._columns, consumer._decoding)
        while not consumer.closed:
            batch = await consumer._next_arrow(self._form, self._wait_s)
            if batch is not None:
                return batch
            if consumer.assignment:
                break
        raise StopAsyncIteration
