"""The blocking consumer."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Coroutine, Mapping, Sequence
from threading import get_ident
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, Unpack

from sharegroup.client.admin.descriptions import ListedOffset
from sharegroup.client.core.committed_offsets import OffsetAndMetadata
from sharegroup.client.core.key_ranges import Assignment, KeyRanges
from sharegroup.client.core.rebalance import MemberIdentity
from sharegroup.client.core.record import ConsumerRecord, ConsumerRecords, K, V
from sharegroup.client.core.shown_settings import shows
from sharegroup.client.group.calls import ConsumerCalls, consumer_calls
from sharegroup.client.group.loops import GIVE_UP_S
from sharegroup.client.group.loops import ArrowLoop as AsyncArrowLoop
from sharegroup.client.group.offsets import Committed
from sharegroup.client.group.polling import Polling
from sharegroup.client.group.rebalancing import RebalanceCallback
from sharegroup.client.group.settings import CheckedConsumerSettings, ConsumerSettings
from sharegroup.client.metrics import Metrics
from sharegroup.client.worker.handler_kinds import PlainHandler
from sharegroup.client.worker.key_pool import KeyPool as AsyncKeyPool
from sharegroup.client.worker.key_pool import PoolSettings
from sharegroup.client.worker.retry import Backoff
from sharegroup.model.ids import TopicPartition
from sharegroup.sync.callbacks import Callbacks
from sharegroup.sync.front import Front, Waiting
from sharegroup.sync.key_pool import Failed, KeyPool, on_a_thread

if TYPE_CHECKING:
    from sharegroup.client.group.arrow_chunks import RecordBatch

T = TypeVar("T")


class Consumer(Front, Generic[K, V]):
    """:class:`sharegroup.client.Consumer`, blocking; it takes the same arguments.

    The callbacks of :meth:`subscribe` are plain functions. They run on the thread that calls
    :meth:`poll`, :meth:`unsubscribe` or :meth:`close`, and may call :meth:`commit` and
    :meth:`seek`. Deserializers run on the background thread.
    """

    @shows(CheckedConsumerSettings)
    def __init__(
        self,
        *topics: str,
        **settings: Unpack[ConsumerSettings[K, V]],
    ) -> None:
        self._calls: ConsumerCalls[K, V] = consumer_calls(topics, settings)
        self._parts, self._life = self._calls.parts, self._calls.life
        self._polling, self._offsets = self._calls.polling, self._calls.offsets
        self._subscription = self._calls.subscription
        self._callbacks = Callbacks()
        self._parts.rebalancing.call = self._callbacks.call_there
        self._ending: int | None = None
        super().__init__()

    # --- the program's thread ---------------------------------------------------------------------

    def _serving(self, work: Coroutine[Any, Any, T]) -> T:
        """As :meth:`_run`; callbacks run here meanwhile."""
        if self._thread is None:
            return self._run(work)
        future = asyncio.run_coroutine_threadsafe(work, self._thread.loop)
        try:
            self._callbacks.serve_until(future)
            return future.result()
        except BaseException:
            if not future.done():
                future.cancel()
            raise

    # --- life -------------------------------------------------------------------------------------

    def start(self) -> None:
        """Connect, and begin to join the group."""
        self._run(self._life.start())

    def close(self, *, timeout_ms: int = 30_000) -> None:
        """Commit the records that were returned, if commits are automatic; leave the group, and
        disconnect."""
        if self._thread is not None:
            self._parts.reader.asked()
            self._end(timeout_ms)

    def _end(self, timeout_ms: int) -> None:
        if self._ending == get_ident():
            return  # this is a callback of the close, which cannot wait for itself
        self._ending = get_ident()
        try:
            self._serving(self._life.finish(timeout_ms))
        finally:
            self._close(self._life.finish(0))

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self.close()
        elif self._thread is not None:
            self._end(30_000)

    def __del__(self) -> None:
        unclosed = self._thread is not None
        super().__del__()  # warns
        if unclosed:
            self._life.forsake()

    @property
    def closed(self) -> bool:
        """The consumer has been closed."""
        return self._life.closed

    # --- what to read -----------------------------------------------------------------------------

    def subscribe(
        self,
        *topics: str,
        pattern: str | re.Pattern[str] | None = None,
        on_assigned: RebalanceCallback | None = None,
        on_revoked: RebalanceCallback | None = None,
        on_lost: RebalanceCallback | None = None,
    ) -> None:
        """Replace the subscription."""
        self._call(
            lambda: self._subscription.subscribe(topics, pattern, on_assigned, on_revoked, on_lost)
        )

    def assign(self, partitions: Assignment) -> None:
        """Read exactly these partitions, or key ranges of them."""
        self._call(lambda: self._subscription.assign(partitions))

    def unsubscribe(self) -> None:
        """Give up all partitions and leave the group."""
        self._serving(self._life.unsubscribe())

    @property
    def subscription(self) -> tuple[str, ...]:
        """The subscribed topics; without the topics that match a pattern."""
        return self._subscription.topics

    @property
    def assignment(self) -> list[TopicPartition]:
        """The partitions that are read now, sorted."""
        return self._subscription.assignment

    @property
    def key_ranges(self) -> dict[TopicPartition, KeyRanges]:
        """Partition → the key ranges that are read of it; without partitions read whole."""
        return self._subscription.key_ranges

    @property
    def group_protocol(self) -> str:
        """The protocol that this member uses: ``consumer`` or ``classic``."""
        return self._parts.member.protocol

    def group_metadata(self) -> MemberIdentity:
        """This member's identity now, for ``Producer.send_offsets``."""
        return self._parts.identity.known()

    def metrics(self) -> Metrics:
        """Kafka's consumer metrics: (group, name) → value."""
        return self._call(self._parts.metrics.read)

    # --- records ----------------------------------------------------------------------------------

    def poll(self, timeout_ms: int = 1_000) -> ConsumerRecords[K, V]:
        """The next records; empty when there were none within ``timeout_ms``."""
        return self._serving(self._polling.poll_records(timeout_ms / 1000))

    def __iter__(self) -> RecordLoop[K, V]:
        """An endless loop over records. A record is done when the loop asks for the next one."""
        return RecordLoop(self._polling, self._serving)

    def by_key(
        self,
        workers: int,
        *,
        max_in_flight: int | None = None,
        retry: Backoff | None = None,
        fatal: Sequence[type[Exception]] = (),
        on_failure: Failed[K, V] | None = None,
        commit_interval_s: float = 5.0,
        drain_s: float = 30.0,
    ) -> KeyPool[K, V]:
        """A pool that handles up to ``workers`` keys at once, each on a thread."""
        settings = PoolSettings(
            workers=workers,
            max_in_flight=max_in_flight,
            retry=retry or Backoff(),
            fatal=(*fatal, PlainHandler),
            commit_interval_s=commit_interval_s,
            drain_s=drain_s,
        )
        failed = None if on_failure is None else on_a_thread(on_failure)
        pool = AsyncKeyPool(self._calls, self, settings, failed)
        return KeyPool(pool, workers, self._life, self._serving)

    def batches(self, timeout_ms: int = 1_000) -> BatchLoop[K, V]:
        """An endless loop over the results of :meth:`poll`, without the empty ones."""
        return BatchLoop(self._polling, self._serving, timeout_ms / 1000)

    def arrow_batches(
        self,
        *,
        max_records: int = 50_000,
        include_headers: bool = False,
        idle_timeout_ms: int | None = None,
    ) -> ArrowLoop:
        """A loop over Arrow record batches: endless, or until no batch came for
        ``idle_timeout_ms``."""
        batches = AsyncArrowLoop(self._polling, self, max_records, include_headers, idle_timeout_ms)
        return ArrowLoop(batches, self._serving)

    def wakeup(self) -> None:
        """End the waiting :meth:`poll`, or else the next one. Any thread may call it."""
        if self._thread is not None:
            self._thread.loop.call_soon_threadsafe(self._parts.wakeup.ring)

    # --- positions --------------------------------------------------------------------------------

    def seek(self, topic: str, partition: int, offset: int) -> None:
        """The next record of this partition is the one at ``offset``."""
        self._call(lambda: self._offsets.seek(topic, partition, offset))

    def seek_to_beginning(self, *partitions: tuple[str, int]) -> None:
        """Go on at the first record of these partitions; without arguments, of all partitions."""
        self._call(lambda: self._offsets.seek_to_beginning(*partitions))

    def seek_to_end(self, *partitions: tuple[str, int]) -> None:
        """Go on after the last record of these partitions; without arguments, of all partitions."""
        self._call(lambda: self._offsets.seek_to_end(*partitions))

    def position(self, topic: str, partition: int) -> int:
        """The offset of the next record of this partition. Waits until it is known."""
        return self._run(self._offsets.position(topic, partition))

    def current_lag(self, topic: str, partition: int) -> int | None:
        """How far this partition's end is from its next record; None: not known yet."""
        return self._call(lambda: self._offsets.current_lag(topic, partition))

    def pause(self, *partitions: tuple[str, int]) -> None:
        """Return no records of these partitions until :meth:`resume`."""
        self._call(lambda: self._offsets.pause(*partitions))

    def resume(self, *partitions: tuple[str, int]) -> None:
        """Return records of these partitions again."""
        self._call(lambda: self._offsets.resume(*partitions))

    @property
    def paused(self) -> list[TopicPartition]:
        """The paused partitions, sorted."""
        return self._offsets.paused

    # --- offsets ----------------------------------------------------------------------------------

    def commit(
        self,
        offsets: Committed | None = None,
        *,
        timeout_ms: int | None = None,
    ) -> None:
        """Commit offsets, or with ``key_ranges=True`` single records, and wait until the group has
        them.
        """
        self._run(self._offsets.commit(offsets, timeout_ms=timeout_ms))

    def committed(
        self, *partitions: tuple[str, int]
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """The group's committed offset in each of these partitions; None: it has none there."""
        return self._run(self._offsets.committed(*partitions))

    def offsets_for_times(
        self, times: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, ListedOffset | None]:
        """The first record of each partition that is not older than this time."""
        return self._run(self._offsets.offsets_for_times(times))

    def beginning_offsets(self, *partitions: tuple[str, int]) -> dict[TopicPartition, int]:
        """The offset of each partition's first record; without arguments, of all assigned
        partitions."""
        return self._run(self._offsets.beginning_offsets(*partitions))

    def end_offsets(self, *partitions: tuple[str, int]) -> dict[TopicPartition, int]:
        """The offset after each partition's last record that may be read; without arguments, of
        all assigned partitions.
        """
        return self._run(self._offsets.end_offsets(*partitions))


class RecordLoop(Generic[K, V]):
    """Records, one by one, until the consumer is closed."""

    def __init__(self, polling: Polling[K, V], serving: Waiting) -> None:
        self._polling = polling
        self._serving = serving

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> ConsumerRecord[K, V]:
        record: ConsumerRecord[K, V] | None = None
        if not self._polling.closed:
            record = self._serving(self._polling.next_record(GIVE_UP_S))
        if record is None:
            raise StopIteration
        return record


class BatchLoop(Generic[K, V]):
    """The results of polls, without the empty ones, until the consumer is closed."""

    def __init__(self, polling: Polling[K, V], serving: Waiting, wait_s: float) -> None:
        self._polling = polling
        self._serving = serving
        self._wait_s = wait_s

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> ConsumerRecords[K, V]:
        while not self._polling.closed:
            records = self._serving(self._polling.poll_records(self._wait_s))
            if records:
                return records
        raise StopIteration


class ArrowLoop:
    """Arrow batches, until no batch has come for a while, or the consumer is closed."""

    def __init__(self, batches: AsyncArrowLoop, serving: Waiting) -> None:
        self._batches = batches
        self._serving = serving

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> RecordBatch:
        try:
            return self._serving(self._batches.__anext__())
        except StopAsyncIteration:
            raise StopIteration from None
