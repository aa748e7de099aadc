"""A consumer's fetching: on demand, and ahead of demand while there is plenty."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from dataclasses import dataclass

from sharegroup.client.core.delivery import Delivery
from sharegroup.client.decode import decode_fetched
from sharegroup.client.errors import CorruptRecordBatch
from sharegroup.client.node_session import FetchedPartition
from sharegroup.client.share_member import ShareMember

log = logging.getLogger("sharegroup.client")


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchSettings:
    """What every fetch of a consumer asks for."""

    max_records: int
    max_bytes: int
    min_bytes: int
    max_wait_ms: int
    strict: bool
    check_crcs: bool


class Fetcher:
    """Fetches through a member and decodes.

    A fetch that waits at the broker would hold up a commit behind it, and locks of records that
    nobody processes run out; so the fetch ahead does not wait, and happens only when the last fetch
    came back full.

    Attributes:
        errors: damaged batches, to be raised by the consumer.
    """

    def __init__(self, member: ShareMember, settings: FetchSettings) -> None:
        self.errors: deque[CorruptRecordBatch] = deque()
        self._member = member
        self._settings = settings
        self._ahead: asyncio.Task[list[FetchedPartition]] | None = None
        self._plenty = False

    def fetch_ahead(self) -> bool:
        """Begin the next fetch now, if there is plenty; whether one is under way."""
        if self._ahead is None and self._plenty and not self._settings.strict:
            self._ahead = asyncio.create_task(self._fetch(0), name="share-fetch-ahead")
            self._ahead.add_done_callback(_seen)
        return self._ahead is not None

    async def fetch(self, wait_s: float) -> list[Delivery]:
        """The next deliveries; empty when there are none within ``wait_s``, or within
        ``max_wait_ms``.

        Raises:
            KafkaError: a partition is refused for good (authorisation), or the group.
        """
        if self._ahead is not None:
            ahead = self._ahead
            await asyncio.wait([ahead])  # whoever is cancelled here leaves it to the next one
            self._ahead = None
            return self._decode(ahead.result())
        wait_ms = min(self._settings.max_wait_ms, int(wait_s * 1000))
        return self._decode(await self._fetch(wait_ms))

    async def stop(self) -> None:
        """Wait for the fetch ahead, which does not wait itself, and forget what it brought."""
        if self._ahead is not None:
            await asyncio.wait([self._ahead])
            self._ahead = None

    async def _fetch(self, max_wait_ms: int) -> list[FetchedPartition]:
        return await self._member.fetch(
            max_records=self._settings.max_records,
            max_bytes=self._settings.max_bytes,
            max_wait_ms=max_wait_ms,
            min_bytes=self._settings.min_bytes,
            strict=self._settings.strict,
        )

    def _decode(self, fetched: list[FetchedPartition]) -> list[Delivery]:
        found: list[Delivery] = []
        for one in fetched:
            if one.error is not None:
                raise one.error
            deliveries, errors = decode_fetched(one, check_crcs=self._settings.check_crcs)
            self.errors.extend(errors)
            found += deliveries
        count = sum(len(delivery.records) for delivery in found)
        size = sum(len(one.records) for one in fetched)
        self._plenty = count >= self._settings.max_records or 2 * size >= self._settings.max_bytes
        return found


def _seen(task: asyncio.Task[list[FetchedPartition]]) -> None:
    """An error of the fetch ahead is raised by the next :meth:`Fetcher.fetch`, if there is one."""
    if not task.cancelled() and (error := task.exception()) is not None:
        log.info("fetch ahead: %s", error)
