"""A consumer's life: it connects, gives up its partitions when it closes, and is cut off when
nobody closed it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from sharegroup.client.closing import ended, finish
from sharegroup.client.group.parts import ConsumerParts
from sharegroup.client.group.subscription import ConsumerSubscription

log = logging.getLogger("sharegroup.client")


class Life:
    """See the module.

    Attributes:
        clock: the event loop's clock, once the consumer is started.
    """

    def __init__(self, parts: ConsumerParts, subscription: ConsumerSubscription) -> None:
        self.clock: Callable[[], float] = float
        self._parts = parts
        self._subscription = subscription
        self._loop: asyncio.AbstractEventLoop | None = None
        self._started = False

    @property
    def closed(self) -> bool:
        """The consumer has been closed, or is being closed."""
        return self._parts.state.closed

    @property
    def left_open(self) -> bool:
        """The consumer was started, and nobody has closed it."""
        return self._loop is not None and not self.closed

    async def start(self) -> None:
        """As ``Consumer.start``."""
        parts = self._parts
        parts.state.check_usable()
        if self.closed:
            return  # it gives up its partitions, and must not join again
        if not self._started:
            await parts.cluster.start()
            self._loop = asyncio.get_running_loop()
            self.clock = self._loop.time
            self._started = True
        await self._subscription.join()
        if parts.settings.commits:
            parts.committer.start(parts.settings.auto_commit_interval_ms)

    async def close(self, timeout_ms: int) -> None:
        """As ``Consumer.close``: the application is done with the records that it had."""
        if not self.closed:
            self._parts.reader.asked()
        await self.finish(timeout_ms)

    async def finish(self, timeout_ms: int) -> None:
        """As :meth:`close`, but the record in work is not committed."""
        state = self._parts.state
        if state.closing is None:
            closing = self._close(timeout_ms)
            state.closing = asyncio.create_task(closing, name="consumer-close")
            state.closing.add_done_callback(
                lambda _: self._cut()  # the close may not have begun
            )
            state.giving_up = self._in_group
            self._parts.wakeup.mute()
            self._parts.news.set()
        elif state.closing.done() or state.closing is asyncio.current_task():
            return  # the current task: a callback of the close itself
        await finish(state.closing)

    async def unsubscribe(self) -> None:
        """As ``Consumer.unsubscribe``."""
        parts = self._parts
        parts.state.check_open()
        parts.reader.asked()
        if self._in_group:
            await self._give_up(parts.cluster.request_timeout_ms)
        self._subscription.clear()

    def forsake(self) -> None:
        """Abort without telling the group, from any thread, because nobody closed the consumer."""
        loop, self._loop = self._loop, None  # nothing is left to close, or to warn of
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._parts.cut)

    async def _close(self, timeout_ms: int) -> None:
        parts = self._parts
        try:
            if self._in_group:
                async with asyncio.timeout(timeout_ms / 1000):
                    await self._give_up(timeout_ms)
        except TimeoutError:
            log.warning(
                "group %r: the consumer could not say good-bye within %d ms: its partitions are"
                " free when its session times out, and what was not committed comes again",
                parts.settings.group_id,
                timeout_ms,
            )
        finally:
            await ended(self._cut())

    @property
    def _in_group(self) -> bool:
        """The consumer was started, and commits for a group."""
        return self._started and self._parts.settings.group_id is not None

    def _cut(self) -> list[asyncio.Task[Any]]:
        self._gave_up()
        return self._parts.cut()

    def _gave_up(self) -> None:
        """From now on a consumer that is being closed refuses everything, and ends what waits."""
        self._parts.state.giving_up = False
        self._parts.news.set()

    async def _give_up(self, timeout_ms: int) -> None:
        """Commit, tell the application, and leave the group."""
        parts = self._parts
        try:
            if parts.settings.commits:
                await parts.committer.commit_done(timeout_ms)
            if parts.member.runs:
                await parts.rebalancing.give_up()
        finally:
            self._gave_up()
            if parts.member.runs:
                await parts.member.leave(timeout_ms)
