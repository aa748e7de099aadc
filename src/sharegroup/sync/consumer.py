"""The blocking consumer."""

from __future__ import annotations

import asyncio
import queue
import random
import re
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Literal, Self, TypeVar

from sharegroup.client.admin.descriptions import ListedOffset
from sharegroup.client.core.committed_offsets import OffsetAndMetadata
from sharegroup.client.core.key_ranges import Assignment, KeyRanges
from sharegroup.client.core.rebalance import MemberIdentity
from sharegroup.client.core.record import ConsumerRecord, ConsumerRecords, K, V
from sharegroup.client.group import consumer
from sharegroup.client.group.loops import GIVE_UP_S
from sharegroup.client.group.loops import ArrowLoop as AsyncArrowLoop
from sharegroup.client.group.offsets import Committed
from sharegroup.client.group.rebalancing import RebalanceCallback
from sharegroup.client.metrics import Metrics
from sharegroup.client.security.properties import SecuritySettings
from sharegroup.client.worker.retry import Backoff
from sharegroup.client.worker.slots import PlainHandler
from sharegroup.model.ids import TopicPartition
from sharegroup.sync.front import Front
from sharegroup.sync.key_pool import Failed, KeyPool, on_a_thread

if TYPE_CHECKING:
    from sharegroup.client.group.arrow_chunks import RecordBatch

T = TypeVar("T")

Calls = queue.SimpleQueue[Callable[[], None] | None]
"""Functions that the program's thread is to call; None: no more come."""


class Consumer(Front, Generic[K, V]):
    """:class:`sharegroup.client.Consumer`, blocking; it takes the same arguments.

    The callbacks of :meth:`subscribe` are plain functions. They run on the thread that calls
    :meth:`poll`, :meth:`unsubscribe` or :meth:`close`, and may call :meth:`commit` and
    :meth:`seek`. Deserializers run on the background thread.
    """

    def __init__(
        self,
        *topics: str,
        group_id: str | None = None,
        bootstrap_servers: str | Iterable[str] = "127.0.0.1:9092",
        group_protocol: Literal["consumer", "classic"] = "consumer",
        group_instance_id: str | None = None,
        group_remote_assignor: str | None = None,
        partition_assignment_strategy: Sequence[str] = ("range", "cooperative-sticky"),
        auto_offset_reset: str = "latest",
        enable_auto_commit: bool = True,
        auto_commit_interval_ms: int = 5_000,
        isolation_level: Literal["read_uncommitted", "read_committed"] = "read_uncommitted",
        key_deserializer: Callable[[bytes], K] | None = None,
        value_deserializer: Callable[[bytes], V] | None = None,
        max_poll_records: int = 500,
        max_poll_interval_ms: int = 300_000,
        session_timeout_ms: int = 45_000,
        heartbeat_interval_ms: int = 3_000,
        fetch_min_bytes: int = 1,
        fetch_max_bytes: int = 52_428_800,
        fetch_max_wait_ms: int = 500,
        max_partition_fetch_bytes: int = 1_048_576,
        check_crcs: bool = True,
        client_id: str = "sharegroup",
        client_rack: str | None = None,
        request_timeout_ms: int = 30_000,
        metadata_max_age_ms: int = 300_000,
        allow_auto_create_topics: bool = True,
        key_ranges: bool = False,
        cooperative: bool = False,
        max_num_ranges_to_commit: int = 10_000,
        security: SecuritySettings = None,
        jitter: random.Random | None = None,
    ) -> None:
        self._inner: consumer.Consumer[K, V] = consumer.Consumer(
            *topics,
            group_id=group_id,
            bootstrap_servers=bootstrap_servers,
            group_protocol=group_protocol,
            group_instance_id=group_instance_id,
            group_remote_assignor=group_remote_assignor,
            partition_assignment_strategy=partition_assignment_strategy,
            auto_offset_reset=auto_offset_reset,
            enable_auto_commit=enable_auto_commit,
            auto_commit_interval_ms=auto_commit_interval_ms,
            isolation_level=isolation_level,
            key_deserializer=key_deserializer,
            value_deserializer=value_deserializer,
            max_poll_records=max_poll_records,
            max_poll_interval_ms=max_poll_interval_ms,
            session_timeout_ms=session_timeout_ms,
            heartbeat_interval_ms=heartbeat_interval_ms,
            fetch_min_bytes=fetch_min_bytes,
            fetch_max_bytes=fetch_max_bytes,
            fetch_max_wait_ms=fetch_max_wait_ms,
            max_partition_fetch_bytes=max_partition_fetch_bytes,
            check_crcs=check_crcs,
            client_id=client_id,
            client_rack=client_rack,
            request_timeout_ms=request_timeout_ms,
            metadata_max_age_ms=metadata_max_age_ms,
            allow_auto_create_topics=allow_auto_create_topics,
            key_ranges=key_ranges,
            cooperative=cooperative,
            max_num_ranges_to_commit=max_num_ranges_to_commit,
            security=security,
            jitter=jitter,
        )
        self._calls: Calls = queue.SimpleQueue()
        self._inner._rebalancing.call = partial(_call_there, self._calls)
        super().__init__()

    # --- the program's thread ---------------------------------------------------------------------

    def _serving(self, work: Coroutine[Any, Any, T]) -> T:
        """As :meth:`_run`; callbacks run here meanwhile."""
        if self._thread is None:
            return self._run(work)
        future = asyncio.run_coroutine_threadsafe(work, self._thread.loop)
        future.add_done_callback(lambda _: self._calls.put(None))
        try:
            while (call := self._calls.get()) is not None:
                call()
            return future.result()
        except BaseException:
            if not future.done():
                future.cancel()
            raise

    # --- life -------------------------------------------------------------------------------------

    def start(self) -> None:
        """Connect, and begin to join the group."""
        self._run(self._inner.start())

    def close(self, *, timeout_ms: int = 30_000) -> None:
        """Commit the records that were returned, if commits are automatic; leave the group, and
        disconnect."""
        if self._thread is not None:
            self._inner._reader.asked()
            self._end(timeout_ms)

    def _end(self, timeout_ms: int) -> None:
        try:
            self._serving(self._inner._finish(timeout_ms))
        finally:
            self._close(self._inner._finish(0))

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
        unclosed = getattr(self, "_thread", None) is not None
        super().__del__()  # warns
        if unclosed:
            self._inner._forsake()

    @property
    def closed(self) -> bool:
        """The consumer has been closed."""
        return self._inner.closed

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
            lambda: self._inner.subscribe(
                *topics,
                pattern=pattern,
                on_assigned=on_assigned,
                on_revoked=on_revoked,
                on_lost=on_lost,
            )
        )

    def assign(self, partitions: Assignment) -> None:
        """Read exactly these partitions, or key ranges of them."""
        self._call(lambda: self._inner.assign(partitions))

    def unsubscribe(self) -> None:
        """Give up all partitions and leave the group."""
        self._serving(self._inner.unsubscribe())

    @property
    def subscription(self) -> tuple[str, ...]:
        """The subscribed topics; without the topics that match a pattern."""
        return self._inner.subscription

    @property
    def assignment(self) -> list[TopicPartition]:
        """The partitions that are read now, sorted."""
        return self._inner.assignment

    @property
    def key_ranges(self) -> dict[TopicPartition, KeyRanges]:
        """Partition → the key ranges that are read of it; without partitions read whole."""
        return self._inner.key_ranges

    @property
    def group_protocol(self) -> str:
        """The protocol that this member uses: ``consumer`` or ``classic``."""
        return self._inner.group_protocol

    def group_metadata(self) -> MemberIdentity:
        """This member's identity now, for ``Producer.send_offsets``."""
        return self._inner.group_metadata()

    def metrics(self) -> Metrics:
        """Kafka's consumer metrics: (group, name) → value."""
        return self._call(self._inner.metrics)

    # --- records ----------------------------------------------------------------------------------

    def poll(self, timeout_ms: int = 1_000) -> ConsumerRecords[K, V]:
        """The next records; empty when there were none within ``timeout_ms``."""
        return self._serving(self._inner.poll(timeout_ms))

    def __iter__(self) -> RecordLoop[K, V]:
        """An endless loop over records. A record is done when the loop asks for the next one."""
        return RecordLoop(self)

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
        inner = self._inner.by_key(
            workers,
            max_in_flight=max_in_flight,
            retry=retry,
            fatal=(*fatal, PlainHandler),
            on_failure=None if on_failure is None else on_a_thread(on_failure),
            commit_interval_s=commit_interval_s,
            drain_s=drain_s,
        )
        return KeyPool(self, inner, workers)

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
        """A loop over Arrow record batches: endless, or until no batch came for
        ``idle_timeout_ms``."""
        return ArrowLoop(
            self,
            self._inner.arrow_batches(
                max_records=max_records,
                include_headers=include_headers,
                idle_timeout_ms=idle_timeout_ms,
            ),
        )

    def wakeup(self) -> None:
        """End the waiting :meth:`poll`, or else the next one. Any thread may call it."""
        if self._thread is not None:
            self._thread.loop.call_soon_threadsafe(self._inner.wakeup)

    # --- positions --------------------------------------------------------------------------------

    def seek(self, topic: str, partition: int, offset: int) -> None:
        """The next record of this partition is the one at ``offset``."""
        self._call(lambda: self._inner.seek(topic, partition, offset))

    def seek_to_beginning(self, *partitions: tuple[str, int]) -> None:
        """Go on at the first record of these partitions; without arguments, of all partitions."""
        self._call(lambda: self._inner.seek_to_beginning(*partitions))

    def seek_to_end(self, *partitions: tuple[str, int]) -> None:
        """Go on after the last record of these partitions; without arguments, of all partitions."""
        self._call(lambda: self._inner.seek_to_end(*partitions))

    def position(self, topic: str, partition: int) -> int:
        """The offset of the next record of this partition. Waits until it is known."""
        return self._run(self._inner.position(topic, partition))

    def current_lag(self, topic: str, partition: int) -> int | None:
        """How far this partition's end is from its next record; None: not known yet."""
        return self._call(lambda: self._inner.current_lag(topic, partition))

    def pause(self, *partitions: tuple[str, int]) -> None:
        """Return no records of these partitions until :meth:`resume`."""
        self._call(lambda: self._inner.pause(*partitions))

    def resume(self, *partitions: tuple[str, int]) -> None:
        """Return records of these partitions again."""
        self._call(lambda: self._inner.resume(*partitions))

    @property
    def paused(self) -> list[TopicPartition]:
        """The paused partitions, sorted."""
        return self._inner.paused

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
        self._run(self._inner.commit(offsets, timeout_ms=timeout_ms))

    def committed(
        self, *partitions: tuple[str, int]
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """The group's committed offset in each of these partitions; None: it has none there."""
        return self._run(self._inner.committed(*partitions))

    def offsets_for_times(
        self, times: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, ListedOffset | None]:
        """The first record of each partition that is not older than this time."""
        return self._run(self._inner.offsets_for_times(times))

    def beginning_offsets(self, *partitions: tuple[str, int]) -> dict[TopicPartition, int]:
        """The offset of each partition's first record; without arguments, of all assigned
        partitions."""
        return self._run(self._inner.beginning_offsets(*partitions))

    def end_offsets(self, *partitions: tuple[str, int]) -> dict[TopicPartition, int]:
        """The offset after each partition's last record that may be read; without arguments, of
        all assigned partitions.
        """
        return self._run(self._inner.end_offsets(*partitions))


async def _call_there(
    calls: Calls, callback: RebalanceCallback, wheres: list[TopicPartition]
) -> None:
    """Call ``callback`` on the thread that takes ``calls``. This function holds no reference to the
    consumer, because the consumer's parts keep it.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def call() -> None:
        error: Exception | None = None
        try:
            callback(wheres)
        except Exception as raised:  # noqa: BLE001  # the application's code may raise anything
            error = raised
        loop.call_soon_threadsafe(_set, done, error)

    calls.put(call)
    await done


class RecordLoop(Generic[K, V]):
    """Records, one by one, until the consumer is closed."""

    def __init__(self, front: Consumer[Any, Any]) -> None:
        self._front = front

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> ConsumerRecord[K, V]:
        front = self._front
        record: ConsumerRecord[K, V] | None = None
        if front._thread is not None:
            record = front._serving(front._inner._next_record(GIVE_UP_S))
        if record is None:
            raise StopIteration
        return record


class BatchLoop(Generic[K, V]):
    """The results of polls, without the empty ones, until the consumer is closed."""

    def __init__(self, front: Consumer[Any, Any], wait_s: float) -> None:
        self._front = front
        self._wait_s = wait_s

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> ConsumerRecords[K, V]:
        while not self._front.closed:
            records: ConsumerRecords[K, V] = self._front._serving(
                self._front._inner._poll(self._wait_s)
            )
            if records:
                return records
        raise StopIteration


class ArrowLoop:
    """Arrow batches, until no batch has come for a while, or the consumer is closed."""

    def __init__(self, front: Consumer[Any, Any], inner: AsyncArrowLoop) -> None:
        self._front = front
        self._inner = inner

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> RecordBatch:
        try:
            return self._front._serving(self._inner.__anext__())
        except StopAsyncIteration:
            raise StopIteration from None


def _set(done: asyncio.Future[None], error: Exception | None) -> None:
    if done.done():
        return
    if error is None:
        done.set_result(None)
    else:
        done.set_exception(error)
