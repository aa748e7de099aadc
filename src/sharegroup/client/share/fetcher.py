"""Fetching ahead: while the application works on records, the next ones are on their way."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from sharegroup.client.core.fetched import FetchedPartition
from sharegroup.client.core.record import HeldDelivery
from sharegroup.client.errors import CorruptRecordBatch
from sharegroup.client.share.share_member import ShareMember
from sharegroup.model.errors import KafkaError

Decode = Callable[[Sequence[FetchedPartition]], Sequence[HeldDelivery]]

log = logging.getLogger("sharegroup.client")

_AHEAD_S: Final = 0.05
"""Target processing time of one prefetch, in seconds."""
_AHEAD_POLLS_MAX: Final = 16
"""The most that one prefetch brings, in polls. With the default of 500 records a poll, that is the
in-flight limit of four share partitions (2,000 each).
"""

_TURNS_UNTIL_SENT: Final = 3
"""Turns of the event loop until a fetch is written to the socket. Without this wait, decoding and
the application's own work would delay it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareFetchSettings:
    """The settings of every fetch of a consumer."""

    max_records: int
    max_bytes: int
    min_bytes: int
    max_wait_ms: int
    strict: bool
    decode: Decode


class ShareFetcher:
    """Fetches through a member and decodes.

    A fetch that waits at the broker would delay the commits sent after it, and the locks of
    prefetched records run out while nobody processes them. So a prefetch does not wait at the
    broker, and is sent only after a fetch that came back full. It is sent before the last response
    is decoded, so that the broker works meanwhile. For a quick application it brings more records
    than one poll returns, but never more than the application has processed recently.

    Attributes:
        settings: the settings of the next fetch.
        errors: partitions refused with a permanent error, which the consumer raises.
    """

    def __init__(self, member: ShareMember, settings: ShareFetchSettings) -> None:
        self.errors: deque[KafkaError] = deque()
        self._member = member
        self.settings = settings
        self._arrived: list[FetchedPartition] = []
        self._ahead: asyncio.Task[list[FetchedPartition]] | None = None
        self._takers = 0
        self._plenty = False
        self._last_count = 0
        self._last_at = 0.0

    @property
    def fetching_ahead(self) -> bool:
        """The next fetch is under way."""
        return self._ahead is not None

    async def fetch(self, wait_s: float) -> Sequence[HeldDelivery]:
        """The next deliveries; empty when there are none within ``wait_s``, or within
        ``max_wait_ms``.

        Raises:
            KafkaError: the group has removed this member.
        """
        with self._taking():
            if not self._arrived:
                # Kept in self: if this call is cancelled below, the next one returns these.
                self._arrived = await self._next(wait_s)
                worth = self._worth()  # before the count that it needs is replaced
                self._note_plenty(self._arrived)
                if self._plenty and not self.settings.strict:
                    await self._fetch_ahead(worth)
            arrived, self._arrived = self._arrived, []
            return self._decode(arrived)

    async def _fetch_ahead(self, count: int) -> None:
        fetch = self._fetch(0, count)
        self._ahead = asyncio.create_task(fetch, name="share-fetch-ahead")
        self._ahead.add_done_callback(_seen)
        for _ in range(_TURNS_UNTIL_SENT):
            await asyncio.sleep(0)

    async def _next(self, wait_s: float) -> list[FetchedPartition]:
        if self._ahead is None:
            wait_ms = min(self.settings.max_wait_ms, int(wait_s * 1000))
            return await self._fetch(wait_ms, self.settings.max_records)
        ahead = self._ahead
        await asyncio.wait([ahead])  # if this is cancelled, the next call takes the result of ahead
        self._ahead = None
        return ahead.result()

    async def last(self, wait_s: float) -> Sequence[HeldDelivery]:
        """The results of fetches under way, within ``wait_s``. Starts no new fetch."""
        with self._taking():
            return [*await self.stop(), *self._decode(await self._member.last_fetched(wait_s))]

    async def stop(self) -> Sequence[HeldDelivery]:
        """Wait for the prefetch (it does not wait at the broker). Returns the deliveries that
        nobody will process.
        """
        arrived, self._arrived = self._arrived, []
        if self._ahead is not None:
            ahead, self._ahead = self._ahead, None
            with self._taking():
                await asyncio.wait([ahead])
            if not ahead.cancelled() and ahead.exception() is None:
                arrived += ahead.result()
        return self._decode(arrived)

    def arrived(self) -> Sequence[HeldDelivery]:
        """What has come and nobody has asked for yet; nothing while somebody waits for it."""
        ahead = self._ahead
        if self._takers or (ahead is not None and not ahead.done()):
            return []
        fetched = self._member.arrived()
        if ahead is not None and not ahead.cancelled() and ahead.exception() is None:
            self._ahead = None
            fetched = ahead.result() + fetched
        if fetched:
            self._note_plenty(fetched)
        arrived, self._arrived = self._arrived + fetched, []
        return self._decode(arrived)

    @contextmanager
    def _taking(self) -> Iterator[None]:
        """What comes meanwhile is the caller's."""
        self._takers += 1
        try:
            yield
        finally:
            self._takers -= 1

    def cut(self) -> list[asyncio.Task[Any]]:
        """Cancel the prefetch. Returns the cancelled tasks, which are about to end."""
        ahead, self._ahead = self._ahead, None
        if ahead is None:
            return []
        ahead.cancel()
        return [ahead]

    def _worth(self) -> int:
        """How many records to prefetch, from the application's pace since the last fetch."""
        now = asyncio.get_running_loop().time()
        pace = self._last_count / max(now - self._last_at, 1e-6)
        self._last_at = now
        at_least = self.settings.max_records
        return max(at_least, min(int(pace * _AHEAD_S), _AHEAD_POLLS_MAX * at_least))

    async def _fetch(self, max_wait_ms: int, max_records: int) -> list[FetchedPartition]:
        return await self._member.fetch(
            max_records=max_records,
            batch_size=self.settings.max_records,
            max_bytes=self.settings.max_bytes,
            max_wait_ms=max_wait_ms,
            min_bytes=self.settings.min_bytes,
            strict=self.settings.strict,
        )

    def _note_plenty(self, fetched: list[FetchedPartition]) -> None:
        count = sum(last - first + 1 for one in fetched for first, last, _ in one.acquired)
        size = sum(len(one.records) for one in fetched)
        self._last_count = count
        self._plenty = count >= self.settings.max_records or 2 * size >= self.settings.max_bytes
        if fetched:
            self._member.metrics.fetched(size, count)

    def _decode(self, fetched: list[FetchedPartition]) -> Sequence[HeldDelivery]:
        self.errors.extend(one.error for one in fetched if one.error is not None)
        deliveries = self.settings.decode([one for one in fetched if one.error is None])
        damaged = {id(d.error) for d in deliveries if isinstance(d.error, CorruptRecordBatch)}
        if damaged:
            self._member.metrics.damaged(len(damaged))
        return deliveries


def _seen(task: asyncio.Task[list[FetchedPartition]]) -> None:
    """Mark a prefetch's error as seen: the next :meth:`ShareFetcher.fetch`, if any, raises it."""
    if not task.cancelled() and (error := task.exception()) is not None:
        log.debug("fetch ahead: %s", error)
