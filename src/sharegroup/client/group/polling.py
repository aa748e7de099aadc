"""How a consumer asks for records, for its polls and its loops."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from sharegroup.client.core.rebalance import GroupState
from sharegroup.client.core.record import ConsumerRecord, ConsumerRecords, K, V
from sharegroup.client.errors import IllegalState
from sharegroup.client.group.life import Life
from sharegroup.client.group.parts import ConsumerParts
from sharegroup.client.group.subscription import ConsumerSubscription
from sharegroup.client.records.arrow_modules import arrow

if TYPE_CHECKING:
    from sharegroup.client.group.arrow_chunks import ArrowChunkForm, RecordBatch

T = TypeVar("T")

RECORDS: Final = "records"
"""The form of records that are no Arrow batches."""
_ARROW_CHUNKS: Final = "sharegroup.client.group.arrow_chunks"
_ALIVE_S: Final = 1.0
"""How often, in seconds, a loop over records says that the application is alive."""
_TURN_S: Final = 0.02
"""How long, in seconds, a loop whose body awaits nothing may block the event loop."""


class Polling(Generic[K, V]):
    """See the module."""

    def __init__(
        self, parts: ConsumerParts, subscription: ConsumerSubscription, life: Life
    ) -> None:
        self._parts = parts
        self._state = parts.state
        self._reader = parts.reader
        self._member = parts.member
        self._subscription = subscription
        self._life = life
        self._form: str | None = None
        self._running = False
        self._alive_at = 0.0
        self._turn_at = 0.0

    @property
    def closed(self) -> bool:
        """The consumer has been closed, or is being closed."""
        return self._state.closed

    @property
    def assigned(self) -> bool:
        """There are partitions to read."""
        return bool(self._parts.positions.assigned)

    # --- records ----------------------------------------------------------------------------------

    async def poll_records(self, wait_s: float) -> ConsumerRecords[K, V]:
        """As ``Consumer.poll``; waits up to ``wait_s``."""
        reader = self._reader
        reader.asked()
        if reader.coming:  # a loop was left before it had given out these records
            coming = [reader.coming.popleft() for _ in range(len(reader.coming))]
            reader.gave(coming)
            return ConsumerRecords(coming)
        self.fix_form(RECORDS)
        found = await self.wait(wait_s, self._take_records) or []
        reader.gave_taken()
        return ConsumerRecords(found)

    def record_at_hand(self) -> ConsumerRecord[K, V] | None:
        """The next record of a loop, if it has come and nothing else must run before it; else
        None."""
        reader = self._reader
        if not reader.coming or self._state.closing is not None or self._must_give_way():
            return None
        record = reader.coming.popleft()
        reader.gave_one(record)
        return record

    async def next_record(self, wait_s: float) -> ConsumerRecord[K, V] | None:
        """The next record of a loop; None: the consumer is closed."""
        reader = self._reader
        reader.asked()
        if reader.coming and self._must_give_way():
            await self._give_way()
        while not reader.coming:
            if self.closed:
                return None
            self.fix_form(RECORDS)
            reader.coming.extend(await self.wait(wait_s, self._take_records) or ())
        if self.closed:
            return None
        record = reader.coming.popleft()
        reader.gave_one(record)
        return record

    def _must_give_way(self) -> bool:
        """Something else must run before the next record of a loop."""
        return self._member.machine.change is not None or self._life.clock() > self._turn_at

    async def _give_way(self) -> None:
        """Between the records of a loop: apply a rebalance, stay alive, let other tasks run."""
        if self._member.machine.change is not None:
            await self._parts.rebalancing.apply()
        now = _now()
        if now > self._alive_at:
            self._alive_at = now + _ALIVE_S
            self._member.polled()
        await asyncio.sleep(0)
        self._turn_at = _now() + _TURN_S

    def _take_records(self) -> list[ConsumerRecord[Any, Any]]:
        found = self._reader.take(self._parts.settings.max_poll_records)
        if found:
            self._parts.metrics.gave(len(found))
        self._parts.committer.look()
        return found

    def fix_form(self, form: str) -> None:
        """Fix the form of this consumer's records: it gives either records or Arrow batches,
        because records that were fetched ahead are decoded in one form.

        Raises:
            IllegalState: this consumer has given records in another form.
        """
        if self._form not in (None, form):
            raise IllegalState(f"this consumer gives {self._form}: make another one for {form}")
        self._form = form

    # --- Arrow batches ----------------------------------------------------------------------------

    async def arrow_form(self, max_records: int, include_headers: bool) -> ArrowChunkForm:
        """The form of the batches of a loop.

        Raises:
            ConfigError: as ``Consumer.arrow_batches``.
        """
        module = await asyncio.to_thread(arrow, _ARROW_CHUNKS)  # the import takes a second
        decoding = self._parts.decoding
        form: ArrowChunkForm = module.ArrowChunkForm(max_records, include_headers, decoding)
        return form

    async def poll_arrow(self, form: ArrowChunkForm, wait_s: float) -> RecordBatch | None:
        """The next Arrow batch of a loop; None: there was none within ``wait_s``, or the consumer
        is closed."""
        self.fix_form(form.name)
        self._reader.asked()
        make = arrow(_ARROW_CHUNKS).ArrowChunk
        batch: RecordBatch | None = await self.wait(
            wait_s, lambda: self._reader.take_arrow(lambda one: make(one, form))
        )
        if batch is not None:
            self._parts.metrics.gave(batch.num_rows)
        return batch

    # --- the wait ---------------------------------------------------------------------------------

    async def wait(self, wait_s: float, take: Callable[[], T]) -> T | None:
        """The result of ``take``, when it has one; an empty one after ``wait_s``; None if the
        consumer is closed.

        Raises:
            IllegalState, KafkaError, SharegroupError: as ``Consumer.poll``.
        """
        parts, subscription = self._parts, self._subscription
        self._state.check_open()
        if self._running:
            raise IllegalState("another poll is running: a consumer is for one task at a time")
        if not (subscription.chosen or self.assigned):
            raise IllegalState("nothing to read: name topics, or call subscribe() or assign()")
        self._running = True
        parts.metrics.poll_begins()
        try:
            await self._life.start()
            deadline = _now() + wait_s
            if self._member.runs:
                self._member.polled()
            async with parts.wakeup.answering():
                return await self._taken_until(deadline, take)
        finally:
            self._running = False
            parts.metrics.poll_ends()

    async def _taken_until(self, deadline: float, take: Callable[[], T]) -> T | None:
        parts = self._parts
        while not self.closed:
            parts.news.clear()  # first, so that news of the steps below end the wait
            if self._member.runs:
                # Before the take: partitions that go give no more records, and on_assigned may
                # seek before new ones give any.
                await parts.rebalancing.apply()
            self.raise_error()
            if anew := parts.identities.look():
                parts.rebalancing.begin_anew(anew)
            parts.lookup.begin()
            found = take()
            parts.fetcher.begin()  # after the take, which empties buffers: these are fetched anew
            remaining = deadline - _now()
            if found or remaining <= 0:
                return found
            try:
                async with asyncio.timeout(remaining):
                    await parts.news.wait()
            except TimeoutError:
                continue  # a last look
        return None

    def raise_error(self) -> None:
        """Raise an error of the background tasks, if there is one."""
        error = self._member.machine.error
        if self._member.runs and self._member.machine.state is GroupState.FAILED and error:
            raise error
        for errors in (self._parts.lookup.errors, self._parts.fetcher.errors):
            if errors:
                raise errors.popleft()


def _now() -> float:
    return asyncio.get_running_loop().time()
