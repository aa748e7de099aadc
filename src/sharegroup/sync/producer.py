"""The blocking producer."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Any, Final, Self

from sharegroup import client
from sharegroup.client.errors import IllegalState
from sharegroup.client.producer import RecordMetadata
from sharegroup.model.errors import SharegroupError
from sharegroup.sync.front import Front

_QUEUE_MAX: Final = 10_000
"""Records that a blocking producer hands over before it waits for the loop's thread to take
them.
"""


class SentRecord:
    """A record that was handed to a blocking producer."""

    __slots__ = ("_error", "_producer", "_sent")

    def __init__(self, producer: Producer) -> None:
        self._producer = producer
        self._sent: client.SentRecord | None = None
        self._error: SharegroupError | None = None

    def done(self) -> bool:
        """The outcome is known: :meth:`result` will not wait."""
        return self._error is not None or (self._sent is not None and self._sent.done())

    def result(self, timeout_ms: int | None = None) -> RecordMetadata:
        """Wait until it is through, and where.

        Raises:
            KafkaError: it could not be delivered.
            TimeoutError: not known yet after ``timeout_ms``.
        """
        return self._producer._run(self._outcome(timeout_ms))

    async def _outcome(self, timeout_ms: int | None) -> RecordMetadata:
        async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
            await self._producer._handed_over()
            if self._error is not None:
                raise self._error
            assert self._sent is not None, "the record was not handed over"
            return await self._sent


class Producer(Front):
    """:class:`sharegroup.client.Producer`, blocking; it takes the same arguments.

    :meth:`send` does not wait for the other thread: records cross over in bulk.
    """

    def __init__(
        self, bootstrap_servers: str | Iterable[str] = "127.0.0.1:9092", **settings: Any
    ) -> None:
        self._inner = client.Producer(bootstrap_servers, **settings)
        self._queue: deque[tuple[SentRecord, str, Any, dict[str, Any]]] = deque()
        self._crossing = False
        self._crossing_task: asyncio.Task[None] | None = None
        self._error: SharegroupError | None = None
        super().__init__()

    def start(self) -> None:
        """Connect; ``with`` does it by itself."""
        self._run(self._inner.start())

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self.close()
        except SharegroupError:
            if error is None:
                raise

    def send(
        self,
        topic: str,
        value: bytes | str | None = None,
        *,
        key: bytes | str | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> SentRecord:
        """Hand over one record; ``result()`` of what is returned says where it went."""
        if self._thread is None:
            raise IllegalState("the Producer is closed")
        sent = SentRecord(self)
        more: dict[str, Any] = {"key": key}
        if headers:
            more["headers"] = headers
        if partition is not None:
            more["partition"] = partition
        if timestamp_ms is not None:
            more["timestamp_ms"] = timestamp_ms
        self._queue.append((sent, topic, value, more))
        if not self._crossing:
            self._crossing = True
            self._thread.loop.call_soon_threadsafe(self._cross)
        if len(self._queue) >= _QUEUE_MAX:
            self._run(self._handed_over())
        return sent

    def flush(self) -> None:
        """Send all now and wait until it is through; raises the first error that nobody asked
        for.
        """
        self._run(self._flush())

    def close(self) -> None:
        """Flush and disconnect."""
        self._close(self._finish())

    def _cross(self) -> None:
        if self._crossing_task is None or self._crossing_task.done():  # else it sees the record
            self._crossing_task = asyncio.get_running_loop().create_task(self._take_all())

    async def _take_all(self) -> None:
        while self._queue:
            sent, topic, value, more = self._queue.popleft()
            try:
                sent._sent = await self._inner.send(topic, value, **more)
            except SharegroupError as error:
                sent._error = error
                self._error = self._error or error
            if not self._queue:
                self._crossing = False  # whoever comes now calls again, or is seen by the loop

    async def _handed_over(self) -> None:
        while self._queue or (self._crossing_task is not None and not self._crossing_task.done()):
            if self._crossing_task is None or self._crossing_task.done():
                await asyncio.sleep(0)  # the call that begins it is on its way
            else:
                await asyncio.wait([self._crossing_task])

    async def _flush(self) -> None:
        await self._handed_over()
        await self._inner.flush()
        error, self._error = self._error, None
        if error is not None:
            raise error

    async def _finish(self) -> None:
        try:
            await self._flush()
        finally:
            await self._inner.close()
