"""How a consumer asks for records, for its polls and its loops."""

from __future__ import annotations

import asyncio
import re
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from sharegroup.client.core.rebalance import GroupState
from sharegroup.client.core.record import ConsumerRecord, ConsumerRecords, K, V
from sharegroup.client.errors import IllegalState
from sharegroup.client.group.fetcher import Fetcher
from sharegroup.client.group.loops import ARROW_CHUNKS, GIVE_UP_S, ArrowLoop, BatchLoop
from sharegroup.client.group.member import GroupMember
from sharegroup.client.group.metrics import ConsumerMetrics
from sharegroup.client.group.offsets import OffsetCalls
from sharegroup.client.group.rebalancing import Rebalancing
from sharegroup.client.records.arrow_modules import arrow
from sharegroup.client.records.decode import Decoding
from sharegroup.client.worker.key_pool import KeyPool, OnFailure, PoolSettings
from sharegroup.client.worker.retry import Backoff

if TYPE_CHECKING:
    from sharegroup.client.group.arrow_chunks import ArrowForm, RecordBatch

T = TypeVar("T")

_ALIVE_S: Final = 1.0
"""How often, in seconds, a loop over records says that the application is alive."""
_TURN_S: Final = 0.02
"""How long, in seconds, a loop whose body awaits nothing may block the event loop."""


class Asking(OffsetCalls, Generic[K, V]):
    """See the module. The consumer sets the attributes."""

    _alive_at: float = 0.0
    _clock: Callable[[], float] = float
    """The event loop's clock, once the consumer is started."""
    _decoding: Decoding
    _fetcher: Fetcher
    _form: str | None = None
    _max_poll_records: int
    _member: GroupMember
    _metrics: ConsumerMetrics
    _pattern: str | re.Pattern[str] | None
    _polling: bool = False
    _rebalancing: Rebalancing
    _topics: tuple[str, ...]
    _turn_at: float = 0.0

    @property
    @abstractmethod
    def closed(self) -> bool:
        """The consumer has been closed, or is being closed."""

    def by_key(
        self,
        workers: int,
        *,
        max_in_flight: int | None = None,
        retry: Backoff | None = None,
        fatal: Sequence[type[Exception]] = (),
        on_failure: OnFailure[K, V] | None = None,
        commit_interval_s: float = 5.0,
        drain_s: float = 30.0,
    ) -> KeyPool[K, V]:
        """A pool that handles up to ``workers`` keys at once, each key's records one after the
        other; records without a key in any order. The pool commits the records that are done,
        even without ``enable_auto_commit``.

        Args:
            max_in_flight: the most records that the pool holds; None: ten for each worker. When it
                holds as many, it takes no more until half of them are done.
            retry: the pauses after a failure, and how often a record is tried; ``attempts=None``
                is five times. During a pause only the record's own key waits.
            fatal: exceptions after which a record is not tried again, as after ``Reject``.
            on_failure: called with a record that is given up and its error; when it returns, the
                record is done. None: the run ends with :class:`HandlerFailed`.
            commit_interval_s: the seconds between commits.
            drain_s: how many seconds running handlers may take when their partitions are given up,
                and at the end. After that time their records come again.

        Raises:
            ConfigError: an argument is invalid.
            IllegalState: there is no group.
        """
        self.group_metadata()
        settings = PoolSettings(
            workers=workers,
            max_in_flight=max_in_flight,
            retry=retry or Backoff(),
            fatal=fatal,
            commit_interval_s=commit_interval_s,
            drain_s=drain_s,
        )
        return KeyPool(self, settings, on_failure)

    def batches(self, timeout_ms: int = 1_000) -> BatchLoop[K, V]:
        """An endless loop over the results of :meth:`poll`, without the empty ones."""
        return BatchLoop(self, timeout_ms / 1000)

    def arrow_batches(
        self,
        *,
        max_records: int = 50_000,
        include_headers: bool = False,
        idle_timeout_ms: int | None = None,
    ) -> ArrowLoop:
        """An endless loop over Arrow record batches, each of one partition, with the columns key,
        value, topic, partition, offset, timestamp[, headers]. A batch is done when the loop asks
        for the next one.

        Args:
            max_records: the most rows of a batch.
            idle_timeout_ms: end after this long without records, counted from the first assignment
                of partitions; None: never.

        Raises:
            ConfigError: NumPy or PyArrow is missing, or deserializers are set.
            IllegalState: this consumer has given records in another form.
        """
        wait_s = GIVE_UP_S if idle_timeout_ms is None else idle_timeout_ms / 1000
        return ArrowLoop(self, max_records, include_headers, wait_s)

    async def _poll(self, wait_s: float) -> ConsumerRecords[K, V]:
        reader = self._reader
        reader.asked()
        if reader.coming:  # a loop was left before it had given out these records
            coming = [reader.coming.popleft() for _ in range(len(reader.coming))]
            reader.gave(coming)
            return ConsumerRecords(coming)
        self._give("records")
        found = await self._wait(wait_s, self._take_records) or []
        reader.gave_taken()
        return ConsumerRecords(found)

    def _record_at_hand(self) -> ConsumerRecord[K, V] | None:
        """The next record of a loop, if it has come and nothing else must run before it; else
        None."""
        reader = self._reader
        if not reader.coming or self.closed or self._must_give_way():
            return None
        record = reader.coming.popleft()
        reader.gave_one(record)
        return record

    async def _next_record(self, wait_s: float) -> ConsumerRecord[K, V] | None:
        """The next record of a loop; None: the consumer is closed."""
        reader = self._reader
        reader.asked()
        if reader.coming and self._must_give_way():
            await self._give_way()
        while not reader.coming:
            if self.closed:
                return None
            self._give("records")
            reader.coming.extend(await self._wait(wait_s, self._take_records) or ())
        if self.closed:
            return None
        record = reader.coming.popleft()
        reader.gave_one(record)
        return record

    def _must_give_way(self) -> bool:
        """Something else must run before the next record of a loop."""
        return self._member.machine.change is not None or self._clock() > self._turn_at

    async def _give_way(self) -> None:
        """Between the records of a loop: apply a rebalance, stay alive, let other tasks run."""
        if self._member.machine.change is not None:
            await self._rebalancing.apply()
        now = self._now()
        if now > self._alive_at:
            self._alive_at = now + _ALIVE_S
            self._member.polled()
        await asyncio.sleep(0)
        self._turn_at = self._now() + _TURN_S

    def _take_records(self) -> list[ConsumerRecord[Any, Any]]:
        found = self._reader.take(self._max_poll_records)
        if found:
            self._metrics.gave(len(found))
        self._committer.look()
        return found

    def _give(self, form: str) -> None:
        """Fix the form of this consumer's records: it gives either records or Arrow batches,
        because records that were fetched ahead are decoded in one form."""
        if self._form not in (None, form):
            raise IllegalState(f"this consumer gives {self._form}: make another one for {form}")
        self._form = form

    async def _next_arrow(self, form: ArrowForm, wait_s: float) -> RecordBatch | None:
        """The next Arrow batch of a loop; None: there was none within ``wait_s``, or the consumer
        is closed."""
        self._give(form.name)
        self._reader.asked()
        make = arrow(ARROW_CHUNKS).ArrowChunk
        batch: RecordBatch | None = await self._wait(
            wait_s, lambda: self._reader.take_arrow(lambda one: make(one, form))
        )
        if batch is not None:
            self._metrics.gave(batch.num_rows)
        return batch

    async def _wait(self, wait_s: float, take: Callable[[], T]) -> T | None:
        """The result of ``take``, when it has one; an empty one after ``wait_s``; None if the
        consumer is closed."""
        self._check_usable()
        if self._polling:
            raise IllegalState("another poll is running: a consumer is for one task at a time")
        if not (self._topics or self._pattern is not None or self._positions.assigned):
            raise IllegalState("nothing to read: name topics, or call subscribe() or assign()")
        self._polling = True
        self._metrics.poll_begins()
        try:
            await self.start()
            deadline = self._now() + wait_s
            if self._member.runs:
                self._member.polled()
            async with self._wakeup.answering():
                return await self._taken_until(deadline, take)
        finally:
            self._polling = False
            self._metrics.poll_ends()

    async def _taken_until(self, deadline: float, take: Callable[[], T]) -> T | None:
        while not self.closed:
            self._news.clear()  # first, so that news of the steps below end the wait
            if self._member.runs:
                # Before the take: partitions that go give no more records, and on_assigned may
                # seek before new ones give any.
                await self._rebalancing.apply()
            self._raise_error()
            self._lookup.begin()
            found = take()
            self._fetcher.begin()  # after the take, which empties buffers: these are fetched anew
            remaining = deadline - self._now()
            if found or remaining <= 0:
                return found
            try:
                async with asyncio.timeout(remaining):
                    await self._news.wait()
            except TimeoutError:
                continue  # a last look
        return None

    def _raise_error(self) -> None:
        error = self._member.machine.error
        if self._member.runs and self._member.machine.state is GroupState.FAILED and error:
            raise error
        for errors in (self._lookup.errors, self._fetcher.errors):
            if errors:
                raise errors.popleft()

    def _now(self) -> float:
        return asyncio.get_running_loop().time()
