"""How a share consumer asks for records, for its polls and its loops."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

from sharegroup.client.core.held_deliveries import Holdings, Iteration
from sharegroup.client.core.record import Records
from sharegroup.client.errors import IllegalState
from sharegroup.client.records.arrow_modules import arrow
from sharegroup.client.records.decode import Decoding
from sharegroup.client.share.answering import ARROW_BATCHES
from sharegroup.client.share.committer import Committer
from sharegroup.client.share.fetcher import Fetcher
from sharegroup.client.share.loop_exits import Leaving
from sharegroup.client.share.receiver import Receiver
from sharegroup.client.share.share_member import ShareMember
from sharegroup.client.wakeup import WakeupCall

if TYPE_CHECKING:
    from sharegroup.client.records.arrow_decode import RecordBatch
    from sharegroup.client.share.arrow_batches import ArrowForm

_ITERATION_FLUSH_S: Final = 1.0
"""How often, in seconds, accepted records are sent while an ``async for`` goes slowly through a
batch."""
_YIELD_S: Final = 0.02
"""How long, in seconds, an ``async for`` whose body awaits nothing may block the event loop."""
GIVE_UP_S: Final = 365 * 86_400

T = TypeVar("T")


class Asking(ABC):
    """See the module. The consumer sets the attributes."""

    _closed: bool = False
    _committer: Committer
    _decoding: Decoding
    _fetcher: Fetcher
    _flush_at: float = 0.0
    _form: str | None = None
    _holdings: Holdings
    _leaving: Leaving
    _max_poll_records: int
    _member: ShareMember
    _polling: bool = False
    _receiver: Receiver
    _started: bool = False
    _wakeup: WakeupCall
    _yield_at: float = 0.0

    @abstractmethod
    def _check_usable(self) -> None:
        """Raises IllegalState: the consumer is closed, or this is its callback."""

    @abstractmethod
    async def start(self) -> None:
        """Connect and join the group."""

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    async def _poll(
        self, wait_s: float, take: Callable[[], T], asking: Iteration | None = None
    ) -> T | None:
        self._check_usable()
        if not self._started:
            await self.start()
        if not self._member.topics:
            raise IllegalState("no topics are subscribed: name topics, or call subscribe()")
        if self._polling:
            raise IllegalState("another poll is running: a consumer is for one task at a time")
        self._polling = True
        self._leaving.stop()
        self._member.metrics.poll_begins()
        try:
            async with self._wakeup.answering():
                return await self._receiver.receive(take, wait_s, asking)
        finally:
            self._polling = False
            self._member.metrics.poll_ends()

    async def _poll_records(
        self, wait_s: float, asking: Iteration | None = None
    ) -> Records[Any, Any]:
        self._give("records")
        return await self._poll(wait_s, self._take_records, asking) or Records()

    def _take_records(self) -> Records[Any, Any]:
        rest = self._holdings.rest()
        return rest or self._holdings.next_records(self._max_poll_records, self._now())

    def _arrow_form(self, max_records: int, include_headers: bool) -> ArrowForm:
        module = arrow(ARROW_BATCHES)
        form: ArrowForm = module.ArrowForm(max_records, include_headers, self._decoding)
        self._give(form.name)
        return form

    async def _poll_arrow(
        self, form: ArrowForm, wait_s: float, asking: Iteration
    ) -> RecordBatch | None:
        self._fetcher.settings = form.settings(self._fetcher.settings)
        return await self._poll(wait_s, lambda: form.take(self._holdings, self._now()), asking)

    def _give(self, form: str) -> None:
        """Fix the form of this consumer's records: it gives either records or Arrow batches,
        because prefetched records are decoded in one form."""
        self._check_usable()
        if self._form not in (None, form):
            raise IllegalState(f"this consumer gives {self._form}: make another one for {form}")
        self._form = form

    async def _next_records(self, asking: Iteration) -> None:
        """The next records for a loop over them, however long it takes."""
        records = await self._poll_records(GIVE_UP_S, asking)
        self._yield_at = self._now() + _YIELD_S
        self._flush_at = self._now() + _ITERATION_FLUSH_S
        asking.hand_out(records)

    def _may_ask(self, iteration: Iteration) -> bool:
        """Whether the loop goes on.

        Raises:
            IllegalState: another loop or a poll has replaced this one.
        """
        if self._closed or iteration.ended:
            return False
        if iteration.replaced:
            raise IllegalState(
                "this loop is over: another loop was begun on the same consumer, or poll() was "
                "called, and what this loop had in work was released; use one loop at a time"
            )
        return True

    async def _give_way(self) -> None:
        """In a long iteration, let the event loop run other tasks and send accepted records."""
        await asyncio.sleep(0)
        now = self._now()
        self._yield_at = now + _YIELD_S
        if now > self._flush_at and not self._closed:
            self._member.polled()
            self._flush_at = now + _ITERATION_FLUSH_S
            self._committer.queue_decided()
            self._committer.flush()
