"""How a share consumer asks for records, for its polls, its loops and a worker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

from sharegroup.client.core.held_deliveries import Iteration
from sharegroup.client.core.record import Records
from sharegroup.client.errors import IllegalState, Wakeup
from sharegroup.client.records.arrow_modules import arrow
from sharegroup.client.share.decisions import ARROW_BATCHES
from sharegroup.client.share.life import ShareLife
from sharegroup.client.share.parts import ShareParts

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


class SharePolling:
    """See the module.

    Attributes:
        holdings: the consumer's. Loops look there for their next record.
        clock: the event loop's, once a loop was given records; in seconds.
        yield_at: from then on, an ``async for`` calls :meth:`give_way` before its next record.
        flush_at: from then on, a blocking loop does so.
    """

    def __init__(self, parts: ShareParts, life: ShareLife) -> None:
        self._parts = parts
        self._life = life
        self.holdings = parts.holdings
        self.clock: Callable[[], float] = float
        self.yield_at = 0.0
        self.flush_at = 0.0
        self._form: str | None = None
        self._polling = False

    @property
    def assigned(self) -> bool:
        """The group has given partitions to this consumer."""
        return bool(self._parts.member.assignment)

    async def poll(
        self, wait_s: float, take: Callable[[], T], asking: Iteration | None = None
    ) -> T | None:
        """The result of ``take``, after as many fetches as ``wait_s`` allows; None: no records, or
        the consumer was closed meanwhile.

        Args:
            asking: the loop that asks; None: a poll asks.

        Raises:
            IllegalState, KafkaError, Wakeup, CorruptRecordBatch, RecordDeserializationError: as
                ``ShareConsumer.poll``.
        """
        self._life.check_usable()
        if not self._life.started:
            await self._life.start()
        parts = self._parts
        if not parts.member.topics:
            raise IllegalState("no topics are subscribed: name topics, or call subscribe()")
        if self._polling:
            raise IllegalState("another poll is running: a consumer is for one task at a time")
        self._polling = True
        parts.leaving.stop()
        parts.member.metrics.poll_begins()
        try:
            async with parts.wakeup.answering(), self._life.ending.answering():
                return await parts.receiver.receive(take, wait_s, asking)
        except Wakeup:
            if not self._life.closed:
                raise
            return None
        finally:
            self._polling = False
            parts.member.metrics.poll_ends()

    async def poll_records(
        self, wait_s: float, asking: Iteration | None = None
    ) -> Records[Any, Any]:
        """The records of one poll. Raises as :meth:`poll`."""
        self._give("records")
        return await self.poll(wait_s, self._take_records, asking) or Records()

    def _take_records(self) -> Records[Any, Any]:
        rest = self.holdings.rest()
        now_s = asyncio.get_running_loop().time()
        return rest or self.holdings.next_records(self._parts.settings.max_poll_records, now_s)

    def _give(self, form: str) -> None:
        """Fix the form of this consumer's records: it gives either records or Arrow batches,
        because prefetched records are decoded in one form."""
        self._life.check_usable()
        if self._form not in (None, form):
            raise IllegalState(f"this consumer gives {self._form}: make another one for {form}")
        self._form = form

    def leave_to_worker(self) -> None:
        """From now on, only a worker polls.

        Raises:
            IllegalState: the consumer is closed, or has polled before.
        """
        self._life.check_usable()
        if self._form is not None:
            raise IllegalState(
                "run() needs a consumer that has polled nothing, and runs once: make another one"
            )
        self._form = "records to run()"

    # --- Arrow ------------------------------------------------------------------------------------

    def load_arrow(self) -> None:
        """Import NumPy and PyArrow, which takes a second. Any thread may call it.

        Raises:
            ConfigError: one of them is missing.
        """
        arrow(ARROW_BATCHES)

    def arrow_form(self, max_records: int, include_headers: bool) -> ArrowForm:
        """The form of a loop's Arrow batches.

        Raises:
            ConfigError: NumPy or PyArrow is missing, or deserializers are set.
            IllegalState: this consumer has given records in another form.
        """
        module = arrow(ARROW_BATCHES)
        form: ArrowForm = module.ArrowForm(max_records, include_headers, self._parts.decoding)
        self._give(form.name)
        return form

    async def poll_arrow(
        self, form: ArrowForm, wait_s: float, asking: Iteration
    ) -> RecordBatch | None:
        """The next Arrow batch of a loop; None: there was none within ``wait_s``. Raises as
        :meth:`poll`."""
        fetcher, now = self._parts.fetcher, asyncio.get_running_loop().time
        fetcher.settings = form.settings(fetcher.settings)
        return await self.poll(wait_s, lambda: form.take(self.holdings, now()), asking)

    # --- loops ------------------------------------------------------------------------------------

    def may_ask(self, iteration: Iteration) -> bool:
        """Whether the loop goes on.

        Raises:
            IllegalState: another loop or a poll has replaced this one.
        """
        if self._life.closed or iteration.ended:
            return False
        if iteration.replaced:
            raise IllegalState(
                "this loop is over: another loop was begun on the same consumer, or poll() was "
                "called, and what this loop had in work was released; use one loop at a time"
            )
        return True

    async def next_records(self, iteration: Iteration) -> None:
        """Hand out the next records to a loop over them, however long it takes."""
        records = await self.poll_records(GIVE_UP_S, iteration)
        self.clock = asyncio.get_running_loop().time
        self.yield_at = self.clock() + _YIELD_S
        self.flush_at = self.clock() + _ITERATION_FLUSH_S
        iteration.hand_out(records)

    async def give_way(self) -> None:
        """In a long iteration, let the event loop run other tasks and send accepted records."""
        await asyncio.sleep(0)
        now = self.clock()
        self.yield_at = now + _YIELD_S
        if now > self.flush_at and not self._life.closed:
            self._parts.member.polled()
            self.flush_at = now + _ITERATION_FLUSH_S
            self._parts.committer.queue_decided()
            self._parts.committer.flush()

    def leave(self, iteration: Iteration) -> None:
        """The application has left the loop. Any thread may call it."""
        self._parts.leaving.leave(iteration)
