"""The topic of a round. It may be deleted, and made anew under its name."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

from sharegroup.client.core.record import ConsumerRecord, Record
from sharegroup.model.ids import TopicPartition

TOPIC: Final = "jobs"
_MARK: Final = "#"


class JobsTopic:
    """Which topic of the name is there, and who writes to it.

    A history names each of them differently: the id of a record says to which it was written.
    """

    def __init__(self) -> None:
        self.mark = ""
        """The end of its name in a history, and of the ids of its records."""
        self._made = 0
        self._writing = 0
        self._closing = asyncio.Lock()
        self._open = asyncio.Event()
        self._open.set()
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def name(self) -> str:
        """Its name in a history."""
        return TOPIC + self.mark

    def place(self, at: TopicPartition) -> tuple[str, int]:
        """A partition of the topic that is there now, as a history names it."""
        return at.topic + self.mark * (at.topic == TOPIC), at.partition

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[None]:
        """While something is written: it waits until the topic is there, and the topic for it."""
        await self._open.wait()
        self._writing += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._writing -= 1
            if not self._writing:
                self._idle.set()

    async def replace(
        self, delete: Callable[[], Awaitable[None]], create: Callable[[], Awaitable[None]]
    ) -> None:
        """Delete the topic once nobody writes, and create it."""
        async with self.closed():
            await delete()
            self._made += 1
            self.mark = f"{_MARK}{self._made}"
            await create()

    @asynccontextmanager
    async def closed(self) -> AsyncIterator[None]:
        """While nobody writes: it waits for who does, and whoever wants to write waits for it."""
        async with self._closing:
            self._open.clear()
            await self._idle.wait()
            try:
                yield
            finally:
                self._open.set()


def place_of(record: Record[bytes, bytes] | ConsumerRecord[bytes, bytes]) -> tuple[str, int, int]:
    """Topic, partition and offset of a record, as a history names them."""
    _, mark, number = (record.value or b"").decode().partition(_MARK)
    return record.topic + mark + number, record.partition, record.offset
