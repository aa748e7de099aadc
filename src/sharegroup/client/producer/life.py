"""A producer's life: it connects, flushes and disconnects, and is stopped when nobody closed it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final

from sharegroup.client.closing import ended
from sharegroup.client.errors import IllegalState
from sharegroup.client.producer.parts import ProducerParts
from sharegroup.model.errors import KafkaError, RequestTimedOut

log = logging.getLogger("sharegroup.client")

CLOSE_S: Final = 30.0


class ProducerLife:
    """See the module."""

    def __init__(self, parts: ProducerParts) -> None:
        self._parts = parts
        self._closing: asyncio.Task[None] | None = None
        self._hurry = asyncio.Event()
        self._forsaken = False

    @property
    def left_open(self) -> bool:
        """The producer was used, and nobody has closed it."""
        return self._closing is None and not self._forsaken and self._loop is not None

    def check_open(self) -> None:
        """Raises IllegalState: the producer is closed."""
        if self._closing is not None:
            raise IllegalState("the producer is closed")

    async def start(self) -> None:
        """As ``Producer.start``."""
        self.check_open()
        await self._parts.starting.done()

    async def flush(self) -> None:
        """As ``Producer.flush``."""
        through = await self._parts.buffer.all_through()
        self._raise_failure()
        for batch in through:  # another flush may have told of this one
            error = batch.outcome.exception()
            if error is not None and batch.awaited < batch.count:
                raise error

    async def close(self, timeout_s: float) -> None:
        """As ``Producer.close``."""
        if self._closing is None:
            self._closing = asyncio.create_task(self._close(timeout_s), name="producer-close")
        closing = self._closing
        if closing.done():
            return
        try:
            await asyncio.shield(closing)
        except asyncio.CancelledError:
            self._hurry.set()
            while not closing.done():
                try:
                    await asyncio.wait([closing])
                except asyncio.CancelledError:
                    continue  # the stop is under way; it takes a few turns of the event loop
            if not closing.cancelled() and (error := closing.exception()) is not None:
                log.error("records were not delivered: %s", error)
            raise

    def forsake(self) -> None:
        """Stop, from any thread, because nobody closed this producer."""
        self._forsaken = True
        loop = self._loop
        if loop is not None and not loop.is_closed():
            gone = RequestTimedOut(
                "the producer was given up before the record was confirmed: hold it until then, "
                "and close it"
            )
            stop = self._stopping(gone)
            loop.call_soon_threadsafe(lambda: loop.create_task(stop(), name="producer-stop"))

    @property
    def _loop(self) -> asyncio.AbstractEventLoop | None:
        """The event loop that the producer is used on; None: it was not used."""
        return self._parts.starting.loop or self._parts.buffer.loop

    async def _close(self, timeout_s: float) -> None:
        try:
            await self._flush_until_hurried(timeout_s)
        finally:
            late = RequestTimedOut(
                f"the producer was closed before the record was confirmed (timeout_s={timeout_s:g})"
            )
            await self._stopping(late)()
        self._raise_failure()

    async def _flush_until_hurried(self, timeout_s: float) -> None:
        flush = asyncio.create_task(self._parts.buffer.all_through())
        hurry = asyncio.create_task(self._hurry.wait())
        try:
            await asyncio.wait(
                [flush, hurry], timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            flush.cancel()
            hurry.cancel()
            await asyncio.gather(flush, hurry, return_exceptions=True)

    def _stopping(self, error: KafkaError) -> Callable[[], Coroutine[Any, Any, None]]:
        """A function that stops all parts of the producer; records not confirmed by then fail."""
        parts = self._parts

        async def stop() -> None:
            await parts.buffer.close(error)  # first: its records wait for the start
            await ended(parts.starting.cut())
            await parts.sender.stop(error)
            if parts.owns_cluster:
                await parts.cluster.close()

        return stop

    def _raise_failure(self) -> None:
        error = self._parts.buffer.failures.take()
        if error is not None:
            raise error
