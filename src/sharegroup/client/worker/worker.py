"""A worker's life: join, fetch while slots are free, drain, leave."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from typing import Any, Final, Literal

from sharegroup.client.core.record import Records
from sharegroup.client.errors import CorruptRecordBatch
from sharegroup.client.records.decode import Decoding, decode_all
from sharegroup.client.share.calls import ShareCalls
from sharegroup.client.share.metrics import Metrics
from sharegroup.client.worker.answers import WorkerAnswers
from sharegroup.client.worker.dead_letters import DeadLetters
from sharegroup.client.worker.handler_kinds import check_awaited
from sharegroup.client.worker.locks import WorkerLocks
from sharegroup.client.worker.metrics import WorkerMetrics
from sharegroup.client.worker.retry import Backoff, Deliveries, deliveries_of
from sharegroup.client.worker.settings import Handler, WorkerSettings
from sharegroup.client.worker.signals import answering_signals
from sharegroup.client.worker.slots import Slots
from sharegroup.model.errors import ConfigError, UnsupportedVersion
from sharegroup.model.offsets import OFFSET_MAX

log = logging.getLogger("sharegroup.worker")

_POLL_S: Final = 1.0
_WAIT_BUSY_MS: Final = 100
"""While handlers run, a fetch waits at most this long at the broker, because acknowledgements and
renewals wait for its answer."""
_LAST_FETCH_S: Final = 1.0
_CANCELLED_S: Final = 5.0
"""How long cancelled handlers, and dead letters under way, may take to end."""
_CANCELLED_AT_ONCE_S: Final = 1.0
_CLOSE_MS: Final = 10_000
_CLOSE_AT_ONCE_MS: Final = 1_000


class Worker:
    """See the module. When the worker has ended, its consumer is closed.

    Args:
        calls: those of a consumer that has not polled yet.
        handler: awaited with each record.
        settings: see :class:`WorkerSettings`.
        interruptible: cancelling the handler's task ends the handler; in a thread it does not.
        overdue: how many slots are taken by handlers that nobody awaits any more.

    Raises:
        PlainHandler: what the handler returns cannot be awaited.
        IllegalState: the consumer is closed, or has polled before.
    """

    def __init__(
        self,
        calls: ShareCalls,
        handler: Handler,
        settings: WorkerSettings,
        *,
        interruptible: bool = True,
        overdue: Callable[[], int] = lambda: 0,
    ) -> None:
        check_awaited(handler)
        calls.polling.leave_to_worker()
        self._parts = parts = calls.parts
        self._life = calls.life
        self._polling = calls.polling
        self._group_id = parts.settings.group_id
        self._handler = handler
        self._settings = settings
        self._interruptible = interruptible
        self._overdue = overdue
        self._metrics = WorkerMetrics(asyncio.get_running_loop().time)
        self._stopping = asyncio.Event()
        self._hurrying = asyncio.Event()
        self._letters: DeadLetters | None = None
        self._slots: Slots | None = None
        self._answers = WorkerAnswers(
            parts.holdings, parts.member, parts.committer, self._note_late
        )
        self._max_wait_ms = parts.fetcher.settings.max_wait_ms
        self._strict = True

    # --- from outside -----------------------------------------------------------------------------

    def stop(self) -> None:
        """Drain, and end."""
        self._stopping.set()

    def interrupt(self) -> None:
        """:meth:`stop`; the second time, end at once."""
        if self._stopping.is_set():
            self._hurrying.set()
        self._stopping.set()

    def slot_freed(self) -> None:
        """A handler that nobody awaited any more has ended."""
        if self._slots is not None:
            self._slots.fill()

    def read_metrics(self) -> Metrics:
        """Totals, and how many records the worker holds now."""
        slots = self._slots
        return self._metrics.read(
            slots=self._settings.concurrency,
            running=0 if slots is None else slots.busy,
            waiting=0 if slots is None else slots.waiting,
            resting=0 if slots is None else slots.resting,
            resting_at_broker=0 if slots is None else slots.resting_at_broker,
            kept=0 if slots is None else slots.kept,
        )

    async def run(self) -> None:
        """Run until stopped. A first cancellation stops the worker; a second ends it at once."""
        life = asyncio.create_task(self._live(), name="share-worker")
        cancelled: asyncio.CancelledError | None = None
        with answering_signals(self._settings.signals, self.interrupt):
            while not life.done():
                try:
                    await asyncio.wait([life])
                except asyncio.CancelledError as error:
                    cancelled = error
                    self.interrupt()
        if cancelled is None:
            life.result()
            return
        if not life.cancelled() and (failure := life.exception()) is not None:
            log.warning("the worker failed while it ended: %s", failure)
        raise cancelled

    # --- life -------------------------------------------------------------------------------------

    async def _live(self) -> None:
        stopping = asyncio.create_task(self._stopping.wait())
        beginning = asyncio.create_task(self._begin())
        try:
            await asyncio.wait([beginning, stopping], return_when=asyncio.FIRST_COMPLETED)
            if beginning.done():
                slots, keeper = beginning.result()
                await self._work(slots, keeper, stopping)
        finally:
            await _cancel(beginning, stopping)
            await self._end()

    async def _begin(self) -> tuple[Slots, WorkerLocks]:
        """Join the group, read its settings, look for the dead-letter topic."""
        parts, settings = self._parts, self._settings
        topic = settings.dead_letter
        if topic is not None and topic in parts.member.topics:
            raise ConfigError(f"dead_letter is {topic!r}, a topic that this consumer reads")
        parts.holdings.leave_to_worker()
        await self._life.start()
        self._life.stop_keeping_locks()  # the worker does it, and reports lost locks
        deliveries = await deliveries_of(
            parts.cluster, self._group_id, settings.retry or Backoff(), dead_letter=topic
        )
        if topic is not None and deliveries.letters_topic is None:
            self._letters = DeadLetters(parts.cluster, topic, self._group_id)
            await self._letters.start(create=settings.create_dead_letter)
        log.info(
            "a worker in %s with %d slots, member %s: "
            "a record is given up after %d failed deliveries",
            self._group_id,
            settings.concurrency,
            parts.member.member_id,
            deliveries.attempts,
        )
        return self._open(deliveries)

    def _open(self, deliveries: Deliveries) -> tuple[Slots, WorkerLocks]:
        parts = self._parts
        parts.callback.watcher = self._answers.outcome
        as_bytes = Decoding(parts.decoding.check_crcs)  # a dead letter has the record's bytes
        parts.fetcher.settings = replace(
            parts.fetcher.settings, decode=partial(decode_all, decoding=as_bytes)
        )
        if not deliveries.renewable:
            log.warning("the group %s does not let locks be renewed", self._group_id)
        keeper = WorkerLocks(parts.holdings, parts.member, renewing=deliveries.renewable)
        self._slots = Slots(
            self._handler,
            self._settings,
            decoding=parts.decoding,
            answers=self._answers,
            letters=self._letters,
            deliveries=deliveries,
            metrics=self._metrics,
            chance=parts.cluster.random,
            renewing=lambda: keeper.renewing,
            is_served=parts.member.is_served,
            interruptible=self._interruptible,
        )
        self._slots.overdue = self._overdue
        self._answers.ordered = deliveries.ordered
        self._answers.on_answered = self._slots.lines.answered
        return self._slots, keeper

    async def _work(
        self, slots: Slots, keeper: WorkerLocks, stopping: asyncio.Task[Literal[True]]
    ) -> None:
        """Work until something ends the worker; then drain. If an error ended it, raises that
        error."""
        keeping = asyncio.create_task(keeper.run(slots.lose, slots.look_for_lost))
        taking = asyncio.create_task(self._take(slots), name="share-worker-fetch")
        try:
            ends = [keeping, taking, stopping]
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            self.stop()
            await _cancel(taking)
            await self._take_last(slots)
            await self._drain(slots)
        finally:
            slots.cancel(letters_too=True)
            await _cancel(taking, keeping)
        for task in (taking, keeping):
            if not task.cancelled():
                task.result()
        if slots.failure is not None:  # it came while the worker was ending
            raise slots.failure

    # --- fetching ---------------------------------------------------------------------------------

    async def _take(self, slots: Slots) -> None:
        """Fetch as many records as there is room for, until the consumer is closed."""
        while not self._life.closed:
            slots.changed.clear()
            room = slots.room()
            if slots.failure is not None:
                raise slots.failure
            if not room:
                await slots.changed.wait()
                continue
            records = await self._fetch(room, busy=slots.busy > 0)
            slots.look_for_lost()
            slots.take(records)

    async def _fetch(self, room: int, *, busy: bool) -> Records:
        fetcher, holdings = self._parts.fetcher, self._parts.holdings
        wait_ms = min(self._max_wait_ms, _WAIT_BUSY_MS) if busy else self._max_wait_ms
        fetcher.settings = replace(
            fetcher.settings, max_records=room, max_wait_ms=wait_ms, strict=self._strict
        )
        now = asyncio.get_running_loop().time
        try:
            found = await self._polling.poll(_POLL_S, lambda: holdings.next_records(room, now()))
        except CorruptRecordBatch:
            self._metrics.damaged += 1  # the batch is rejected, and logged elsewhere
            return Records()
        except UnsupportedVersion as error:
            if not self._strict:
                raise
            self._strict = False
            log.warning("a fetch may bring more records than there are slots: %s", error)
            return Records()
        return found or Records()

    # --- the end ----------------------------------------------------------------------------------

    async def _take_last(self, slots: Slots) -> None:
        """Take the records of fetches under way, so that the drain releases them too. Otherwise
        they would stay locked during the drain.
        """
        slots.start_no_more()
        parts, now = self._parts, asyncio.get_running_loop().time
        holdings = parts.holdings
        deliveries = await parts.fetcher.last(_LAST_FETCH_S)
        parts.committer.queue(holdings.buffer(deliveries))
        while holdings.has_buffered:
            try:
                slots.take(holdings.next_records(OFFSET_MAX, now()))
            except CorruptRecordBatch:
                self._metrics.damaged += 1

    async def _drain(self, slots: Slots) -> None:
        """Release unstarted records, and wait for running handlers for at most ``drain_s``."""
        log.info(
            "draining: %d handlers run, %d records are released",
            slots.busy,
            slots.waiting + slots.resting,
        )
        slots.drain()
        hurrying = asyncio.create_task(self._hurrying.wait())
        ended = asyncio.create_task(_all_done(slots))
        await asyncio.wait(
            [hurrying, ended],
            timeout=self._settings.drain_s,
            return_when=asyncio.FIRST_COMPLETED,
        )
        await _cancel(hurrying, ended)
        unfinished = slots.running()
        tasks = slots.cancel(letters_too=False)
        if tasks:
            hurry = self._hurrying.is_set()
            await asyncio.wait(tasks, timeout=_CANCELLED_AT_ONCE_S if hurry else _CANCELLED_S)
            if unfinished and not self._interruptible:
                log.warning(
                    "records of handlers that still run are released: %s", ", ".join(unfinished)
                )
        if slots.running():
            log.warning(
                "the handlers of these do not end though they are cancelled; their records are "
                "released: %s",
                ", ".join(slots.running()),
            )

    async def _end(self) -> None:
        """Send the last answers, release all other records, leave the group, disconnect."""
        limit_ms = _CLOSE_AT_ONCE_MS if self._hurrying.is_set() else _CLOSE_MS
        async with AsyncExitStack() as stack:  # each step runs, whatever goes wrong in another
            if self._letters is not None:
                stack.push_async_callback(self._letters.close)
            stack.push_async_callback(self._life.close, limit_ms)
            if self._slots is not None:
                stack.callback(self._slots.close)
                await self._answered(limit_ms / 1000)
        self._parts.callback.watcher = None
        if self._slots is not None:
            self._slots.say_kept()
            log.info("the worker in %s ended after %s", self._group_id, self._metrics.summary())

    async def _answered(self, limit_s: float) -> None:
        try:
            async with asyncio.timeout(limit_s):
                await self._answers.finish()
        except TimeoutError:
            log.warning(
                "the last acknowledgements were not confirmed in %.0f s: "
                "the records are redelivered",
                limit_s,
            )

    def _note_late(self, count: int) -> None:
        self._metrics.lost += count
        if self._slots is not None:
            self._slots.look_for_lost()


async def _all_done(slots: Slots) -> None:
    while not slots.done:
        slots.changed.clear()
        await slots.changed.wait()


async def _cancel(*tasks: asyncio.Task[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
