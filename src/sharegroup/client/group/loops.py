"""The loops over a consumer: ``async for`` over records, batches and Arrow batches.

The loops are objects, not generators: a loop that is left keeps nothing open. Each keeps its
consumer, ``owner``: a consumer that nobody keeps is cut off.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Final, Generic, Self

from sharegroup.client.core.record import ConsumerRecord, ConsumerRecords, K, V
from sharegroup.client.group.polling import Polling

if TYPE_CHECKING:
    from sharegroup.client.group.arrow_chunks import ArrowChunkForm, RecordBatch

GIVE_UP_S: Final = 365 * 86_400.0


async def _ready(record: ConsumerRecord[K, V]) -> ConsumerRecord[K, V]:
    return record


class RecordLoop(Generic[K, V]):
    """Records, one by one, until the consumer is closed."""

    def __init__(self, polling: Polling[K, V], owner: object) -> None:
        self._polling = polling
        self._owner = owner

    def __aiter__(self) -> Self:
        return self

    def __anext__(self) -> Coroutine[Any, Any, ConsumerRecord[K, V]]:
        record = self._polling.record_at_hand()
        return self._next() if record is None else _ready(record)

    async def _next(self) -> ConsumerRecord[K, V]:
        record = await self._polling.next_record(GIVE_UP_S)
        if record is None:
            raise StopAsyncIteration
        return record


class BatchLoop(Generic[K, V]):
    """The results of polls, without the empty ones, until the consumer is closed."""

    def __init__(self, polling: Polling[K, V], owner: object, wait_s: float) -> None:
        self._polling = polling
        self._owner = owner
        self._wait_s = wait_s

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ConsumerRecords[K, V]:
        while not self._polling.closed:
            records = await self._polling.poll_records(self._wait_s)
            if records:
                return records
        raise StopAsyncIteration


class ArrowLoop:
    """Arrow batches, until no batch has come for ``idle_timeout_ms``, or the consumer is closed."""

    def __init__(
        self,
        polling: Polling[Any, Any],
        owner: object,
        max_records: int,
        include_headers: bool,
        idle_timeout_ms: int | None,
    ) -> None:
        self._polling = polling
        self._owner = owner
        self._columns = (max_records, include_headers)
        self._wait_s = GIVE_UP_S if idle_timeout_ms is None else idle_timeout_ms / 1000
        self._form: ArrowChunkForm | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> RecordBatch:
        polling = self._polling
        if self._form is None:
            self._form = await polling.arrow_form(*self._columns)
        while not polling.closed:
            batch = await polling.poll_arrow(self._form, self._wait_s)
            if batch is not None:
                return batch
            if polling.assigned:
                break
        raise StopAsyncIteration
