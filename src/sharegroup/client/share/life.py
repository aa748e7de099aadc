"""A share consumer's life in its group: start, subscribe, unsubscribe, close."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from sharegroup.client.admin.admin import Admin
from sharegroup.client.closing import ended, finish
from sharegroup.client.core.setting_checks import check_topics
from sharegroup.client.errors import IllegalState
from sharegroup.client.share.parts import ShareParts
from sharegroup.client.wakeup import WakeupCall
from sharegroup.model.errors import KafkaError
from sharegroup.model.ids import TopicPartition


class ShareLife:
    """See the module.

    Attributes:
        closed: the consumer has been closed, or is being closed.
        started: it was connected, and began to join the group.
        ending: ends the poll that waits when the consumer is closed.
    """

    def __init__(self, parts: ShareParts) -> None:
        self._parts = parts
        self.closed = False
        self.started = False
        self.ending = WakeupCall()
        self._lock_keeper: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None

    def check_usable(self) -> None:
        """Raises IllegalState: the consumer is closed, or this is its callback."""
        if self.closed:
            raise IllegalState("the consumer is closed")
        self._parts.callback.check_outside()

    # --- start ------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Connect and join the group; as ``ShareConsumer.start``."""
        self.check_usable()
        if self.started:
            return
        parts = self._parts
        parts.leaving.start()
        if parts.settings.auto_offset_reset is not None:
            await self._begin_group_at(parts.settings.auto_offset_reset)
        await parts.member.start()
        self.started = True
        if parts.settings.renew_locks:
            self._lock_keeper = asyncio.create_task(parts.lock_keeper.run())

    async def _begin_group_at(self, reset: str) -> None:
        cluster, group = self._parts.cluster, self._parts.settings.group_id
        try:
            await Admin(cluster=cluster).begin_group_at(group, reset)
        except KafkaError as error:
            if not error.retriable:
                cluster.conditions.begins(
                    ("auto_offset_reset", group),
                    "auto_offset_reset=%r cannot be set for the group %r (%s): correct it, or leave"
                    " it out and let somebody who may set the group's share.auto.offset.reset",
                    reset,
                    group,
                    error,
                )
            raise
        cluster.conditions.ends(
            ("auto_offset_reset", group), "the group %r begins at %r", group, reset
        )

    def stop_keeping_locks(self) -> None:
        """Renew no locks in the background any more: a worker does it, and reports lost locks."""
        if self._lock_keeper is not None:
            self._lock_keeper.cancel()

    # --- subscription -----------------------------------------------------------------------------

    @property
    def assignment(self) -> list[TopicPartition]:
        """The partitions that the group has given to this consumer now, sorted."""
        parts = self._parts
        return sorted(parts.names.of(partition) for partition in parts.member.assignment)

    def subscribe(self, topics: Iterable[str]) -> None:
        """Replace the subscription."""
        self.check_usable()
        topics = tuple(topics)
        check_topics(topics)
        self._parts.member.subscribe(topics)

    async def unsubscribe(self) -> None:
        """Send pending acknowledgements, release all other records, leave the group."""
        self.check_usable()
        parts = self._parts
        left_ms = await self._release_all(parts.cluster.request_timeout_ms)
        await parts.member.leave(timeout_ms=left_ms)
        parts.callback.run()

    # --- the end ----------------------------------------------------------------------------------

    async def close(self, timeout_ms: int) -> None:
        """Release what is held, leave the group, disconnect; as ``ShareConsumer.close``."""
        parts = self._parts
        parts.callback.check_outside()
        if self._closing is None:
            self.closed = True
            self.ending.ring()
            timeout_ms = min(timeout_ms, parts.cluster.request_timeout_ms)
            closing = self._close(timeout_ms)
            self._closing = asyncio.create_task(closing, name="share-consumer-close")
            self._closing.add_done_callback(lambda _: self._cut())  # the close may not have begun
        elif self._closing.done():
            return
        try:
            await finish(self._closing)
        finally:
            parts.callback.run()

    async def _close(self, timeout_ms: int) -> None:
        try:
            left_ms = await self._release_all(timeout_ms)
            await self._parts.member.close(timeout_ms=left_ms)
        finally:
            await ended(self._cut())

    async def _release_all(self, timeout_ms: int) -> int:
        """Queue a final acknowledgement for every held record. Returns the time left, in ms."""
        parts, now = self._parts, asyncio.get_running_loop().time
        deadline = now() + timeout_ms / 1000
        with suppress(TimeoutError):
            async with asyncio.timeout_at(deadline):
                parts.committer.queue(parts.holdings.buffer(await parts.fetcher.stop()))
                await parts.committer.finish()
        parts.committer.queue(parts.holdings.release_all())
        return max(0, int((deadline - now()) * 1000))

    def _cut(self) -> list[asyncio.Task[Any]]:
        """Abort everything without telling the group. Returns the cancelled tasks, which are about
        to end."""
        self.closed = True
        parts = self._parts
        parts.leaving.stop()
        ending = [*parts.committer.cut(), *parts.fetcher.cut(), *parts.member.cut()]
        if self._lock_keeper is not None:
            ending.append(self._lock_keeper)
        if parts.owns_cluster:
            ending += parts.cluster.cut()
        for task in ending:
            task.cancel()
        return ending

    @property
    def unclosed(self) -> bool:
        """The consumer was started, and nobody has closed it."""
        return self._parts.leaving.loop is not None and not self.closed

    def forsake(self) -> None:
        """Abort without telling the group, from any thread, because nobody closed this consumer."""
        self.closed = True
        loop = self._parts.leaving.loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._cut)
