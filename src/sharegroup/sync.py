"""The client for code that does not use asyncio: same names, same arguments, without ``await``.

::

    from sharegroup.sync import Producer, ShareConsumer

    with ShareConsumer("orders", group_id="billing") as consumer:
        for record in consumer:
            print(record.value, record.delivery_count)

A thin blocking front over one event loop in one background thread, which lives as long as some
client is open. It is not a second implementation made by machine (unasync), because a share
consumer has work to do while the program does its own: heartbeats keep it in the group, locks are
renewed, the next records are fetched. In a blocking client all of this would stand still for as
long as the program works on a record.

Ctrl-C ends the call that is waiting; leaving the ``with`` then releases what was not accepted. An
object may be used from one thread at a time.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, ClassVar, Final, Self, TypeVar

from sharegroup import client
from sharegroup.client.commit_callback import AckCallback
from sharegroup.client.consumer_metrics import Metrics
from sharegroup.client.core.acknowledgements import AckType
from sharegroup.client.core.holdings import Iteration
from sharegroup.client.descriptions import (
    ClusterDescription,
    ConfigSetting,
    GroupListing,
    ListedOffset,
    OffsetSpec,
    ShareGroupDescription,
    ShareGroupOffset,
    TopicDescription,
    TopicListing,
)
from sharegroup.client.producer import RecordMetadata
from sharegroup.client.record import Record, Records
from sharegroup.model.errors import KafkaError, SharegroupError
from sharegroup.model.ids import TopicPartition

T = TypeVar("T")

_QUEUE_MAX: Final = 10_000
"""Records that a blocking producer hands over before it waits for the loop's thread to take
them.
"""


class _LoopThread:
    """The one event loop, in its thread. Counted: the last one out stops it."""

    _lock: ClassVar = threading.Lock()
    _shared: ClassVar[_LoopThread | None] = None

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._users = 0
        self._thread = threading.Thread(target=self._run, name="sharegroup-client", daemon=True)
        self._thread.start()

    @classmethod
    def enter(cls) -> _LoopThread:
        """Use the loop; :meth:`leave` must follow."""
        with cls._lock:
            if cls._shared is None:
                cls._shared = cls()
            cls._shared._users += 1
            return cls._shared

    def leave(self) -> None:
        """Use it no more."""
        with self._lock:
            self._users -= 1
            if self._users:
                return
            _LoopThread._shared = None
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run ``work`` on the loop and wait; when the waiting is interrupted, the work is
        cancelled.
        """
        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()


class _Front:
    """What all fronts have: a loop, used from construction to :meth:`close`."""

    def __init__(self) -> None:
        self._thread: _LoopThread | None = _LoopThread.enter()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        if self._thread is None:
            work.close()
            raise client.IllegalState(f"the {type(self).__name__} is closed")
        return self._thread.run(work)

    def _call(self, work: Callable[[], T]) -> T:
        """As :meth:`_run`, for what does not wait."""

        async def call() -> T:
            return work()

        return self._run(call())

    def _close(self, work: Coroutine[Any, Any, None]) -> None:
        thread, self._thread = self._thread, None
        if thread is None:
            work.close()
            return
        try:
            thread.run(work)
        finally:
            thread.leave()


class ShareConsumer(_Front):
    """:class:`sharegroup.client.ShareConsumer`, blocking; it takes the same arguments.

    The acknowledgement callback runs on the thread that calls :meth:`poll`, :meth:`commit` or
    :meth:`close`; deserializers run on the background thread.
    """

    def __init__(self, *topics: str, group_id: str, **settings: Any) -> None:
        self._inner = client.ShareConsumer(*topics, group_id=group_id, **settings)
        self._inner._callback.elsewhere = True
        super().__init__()

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
        self.close()

    def start(self) -> None:
        """Connect and join the group."""
        self._run(self._inner.start())

    def close(self, *, timeout_ms: int = 30_000) -> None:
        """Send what is acknowledged, release the rest, leave the group."""
        self._inner._callback.check_outside()
        self._close(self._inner.close(timeout_ms=timeout_ms))
        self._tell()

    @property
    def subscription(self) -> tuple[str, ...]:
        """The topics."""
        return self._inner.subscription

    @property
    def assignment(self) -> list[TopicPartition]:
        """The partitions that the group has given to this consumer now, sorted."""
        return self._inner.assignment

    @property
    def member_id(self) -> str:
        """This consumer's name in the group."""
        return self._inner.member_id

    @property
    def acquisition_lock_timeout_ms(self) -> int | None:
        """How long a lock lasts; None before the first fetch."""
        return self._inner.acquisition_lock_timeout_ms

    def metrics(self) -> Metrics:
        """Kafka's share consumer metrics: (group, name) → value."""
        return self._call(self._inner.metrics)

    def subscribe(self, *topics: str) -> None:
        """Replace the subscription."""
        self._call(lambda: self._inner.subscribe(*topics))

    def unsubscribe(self) -> None:
        """Send what is acknowledged, release the rest, leave the group."""
        self._run(self._inner.unsubscribe())
        self._tell()

    def poll(self, timeout_ms: int = 1_000) -> Records:
        """The next records; empty when there were none within ``timeout_ms``."""
        self._tell()
        return self._run(self._inner.poll(timeout_ms))

    def __iter__(self) -> Iterator[Record]:
        """Records without end, one by one; ends when the consumer is closed."""
        # A record that is at hand costs no way to the other thread and back; nothing there touches
        # what the application holds while it is not waiting in a call.
        inner = self._inner
        while self._thread is not None:
            now = self._thread.loop.time
            iteration = inner._holdings.iteration or self._next_iteration()
            for record in iteration.records[iteration.given :]:
                if now() > inner._flush_at:
                    self._run(inner._give_way())
                if iteration is not inner._holdings.iteration:
                    break  # a poll in the loop's body has taken the rest
                iteration.given += 1
                yield record
            else:
                self._next_iteration()

    def batches(self, timeout_ms: int = 1_000) -> Iterator[Records]:
        """What :meth:`poll` returns, without end, and without the empty ones."""
        while self._thread is not None:
            records = self.poll(timeout_ms)
            if records:
                yield records

    def _next_iteration(self) -> Iteration:
        self._tell()
        return self._run(self._inner._next_iteration())

    def wakeup(self) -> None:
        """End the :meth:`poll` or :meth:`commit` that waits, or else the next one, with ``Wakeup``.
        From any thread.
        """
        if self._thread is not None:
            self._thread.loop.call_soon_threadsafe(self._inner.wakeup)

    def accept(self, *records: Record) -> None:
        """Explicit mode: processed."""
        self._inner.accept(*records)

    def release(self, *records: Record) -> None:
        """Explicit mode: deliver them again."""
        self._inner.release(*records)

    def reject(self, *records: Record) -> None:
        """Explicit mode: they cannot be processed."""
        self._inner.reject(*records)

    def renew(self, *records: Record) -> None:
        """Explicit mode: still at work."""
        self._inner.renew(*records)

    def acknowledge(self, record: Record, kind: AckType = AckType.ACCEPT) -> None:
        """Any of the four."""
        self._inner.acknowledge(record, kind)

    def acknowledge_offset(self, topic: str, partition: int, offset: int, kind: AckType) -> None:
        """Any of the four, by place: for a record that could not be read."""
        self._inner.acknowledge_offset(topic, partition, offset, kind)

    def commit(self, *, timeout_ms: int | None = None) -> dict[TopicPartition, KafkaError | None]:
        """Send what is acknowledged and wait for the outcome per partition."""
        self._tell()
        try:
            return self._run(self._inner.commit(timeout_ms=timeout_ms))
        finally:
            self._tell()

    def commit_async(self) -> None:
        """Send what is acknowledged; the outcome goes to the callback."""
        self._tell()
        self._call(self._inner.commit_async)

    def set_acknowledgement_commit_callback(self, callback: AckCallback | None) -> None:
        """Replace the callback; None: there is none."""
        self._call(lambda: self._inner.set_acknowledgement_commit_callback(callback))

    def _tell(self) -> None:
        self._inner._callback.run(elsewhere=True)


class SentRecord:
    """A record that was handed to a blocking producer."""

    __slots__ = ("_error", "_producer", "_sent")

    def __init__(self, producer: Producer) -> None:
        self._producer = producer
        self._sent: client.SentRecord | None = None
        self._error: SharegroupError | None = None

    def done(self) -> bool:
        """The outcome is known: :meth:`result` will not wait."""
        return self._error is not None or (self._sent is not None and self._sent.done())

    def result(self, timeout_ms: int | None = None) -> RecordMetadata:
        """Wait until it is through, and where.

        Raises:
            KafkaError: it could not be delivered.
            TimeoutError: not known yet after ``timeout_ms``.
        """
        return self._producer._run(self._outcome(timeout_ms))

    async def _outcome(self, timeout_ms: int | None) -> RecordMetadata:
        async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
            await self._producer._handed_over()
            if self._error is not None:
                raise self._error
            assert self._sent is not None, "the record was not handed over"
            return await self._sent


class Producer(_Front):
    """:class:`sharegroup.client.Producer`, blocking; it takes the same arguments.

    :meth:`send` does not wait for the other thread: records cross over in bulk.
    """

    def __init__(
        self, bootstrap_servers: str | Iterable[str] = "127.0.0.1:9092", **settings: Any
    ) -> None:
        self._inner = client.Producer(bootstrap_servers, **settings)
        self._queue: deque[tuple[SentRecord, str, Any, dict[str, Any]]] = deque()
        self._crossing = False
        self._crossing_task: asyncio.Task[None] | None = None
        self._error: SharegroupError | None = None
        super().__init__()

    def __enter__(self) -> Self:
        try:
            self._run(self._inner.start())
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
        try:
            self.close()
        except SharegroupError:
            if error is None:
                raise

    def send(
        self,
        topic: str,
        value: bytes | str | None = None,
        *,
        key: bytes | str | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> SentRecord:
        """Hand over one record; ``result()`` of what is returned says where it went."""
        if self._thread is None:
            raise client.IllegalState("the Producer is closed")
        sent = SentRecord(self)
        more: dict[str, Any] = {"key": key}
        if headers:
            more["headers"] = headers
        if partition is not None:
            more["partition"] = partition
        if timestamp_ms is not None:
            more["timestamp_ms"] = timestamp_ms
        self._queue.append((sent, topic, value, more))
        if not self._crossing:
            self._crossing = True
            self._thread.loop.call_soon_threadsafe(self._cross)
        if len(self._queue) >= _QUEUE_MAX:
            self._run(self._handed_over())
        return sent

    def flush(self) -> None:
        """Send all now and wait until it is through; raises the first error that nobody asked
        for.
        """
        self._run(self._flush())

    def close(self) -> None:
        """Flush and disconnect."""
        self._close(self._finish())

    def _cross(self) -> None:
        if self._crossing_task is None or self._crossing_task.done():  # else it sees the record
            self._crossing_task = asyncio.get_running_loop().create_task(self._take_all())

    async def _take_all(self) -> None:
        while self._queue:
            sent, topic, value, more = self._queue.popleft()
            try:
                sent._sent = await self._inner.send(topic, value, **more)
            except SharegroupError as error:
                sent._error = error
                self._error = self._error or error
            if not self._queue:
                self._crossing = False  # whoever comes now calls again, or is seen by the loop

    async def _handed_over(self) -> None:
        while self._queue or (self._crossing_task is not None and not self._crossing_task.done()):
            if self._crossing_task is None or self._crossing_task.done():
                await asyncio.sleep(0)  # the call that begins it is on its way
            else:
                await asyncio.wait([self._crossing_task])

    async def _flush(self) -> None:
        await self._handed_over()
        await self._inner.flush()
        error, self._error = self._error, None
        if error is not None:
            raise error

    async def _finish(self) -> None:
        try:
            await self._flush()
        finally:
            await self._inner.close()


class Admin(_Front):
    """:class:`sharegroup.client.Admin`, blocking; it takes the same arguments."""

    def __init__(
        self, bootstrap_servers: str | Iterable[str] = "127.0.0.1:9092", **settings: Any
    ) -> None:
        self._inner = client.Admin(bootstrap_servers, **settings)
        super().__init__()

    def __enter__(self) -> Self:
        try:
            self._run(self._inner.start())
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
        self.close()

    def close(self) -> None:
        """Disconnect."""
        self._close(self._inner.close())

    def create_topics(self, *names: str, **settings: Any) -> None:
        """Create topics, all alike."""
        self._run(self._inner.create_topics(*names, **settings))

    def delete_topics(self, *names: str) -> None:
        """Delete topics with all that is in them."""
        self._run(self._inner.delete_topics(*names))

    def create_partitions(self, topic: str, count: int) -> None:
        """Raise the number of partitions to ``count``."""
        self._run(self._inner.create_partitions(topic, count))

    def list_topics(self, *, include_internal: bool = False) -> list[TopicListing]:
        """All topics, by name."""
        return self._run(self._inner.list_topics(include_internal=include_internal))

    def describe_topics(self, *names: str) -> dict[str, TopicDescription]:
        """Topics by name, with their partitions."""
        return self._run(self._inner.describe_topics(*names))

    def list_offsets(
        self, partitions: Iterable[TopicPartition], at: OffsetSpec | int = OffsetSpec.LATEST
    ) -> dict[TopicPartition, ListedOffset]:
        """Offsets of partitions."""
        return self._run(self._inner.list_offsets(partitions, at))

    def delete_records(self, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Delete the records before an offset; the new start of each partition."""
        return self._run(self._inner.delete_records(before))

    def describe_cluster(self) -> ClusterDescription:
        """The cluster's id, controller and brokers."""
        return self._run(self._inner.describe_cluster())

    def describe_configs(self, resource: Any, name: str) -> dict[str, ConfigSetting]:
        """All settings of a topic, a broker or a group."""
        return self._run(self._inner.describe_configs(resource, name))

    def alter_configs(self, resource: Any, name: str, settings: Mapping[str, str | None]) -> None:
        """Set some settings and leave the others; None takes one back to its default."""
        self._run(self._inner.alter_configs(resource, name, settings))

    def begin_group_at(self, group: str, offset_reset: str) -> bool:
        """See ``Admin.begin_group_at``."""
        return self._run(self._inner.begin_group_at(group, offset_reset))

    def list_groups(self, *types: str, states: Iterable[str] = ()) -> list[GroupListing]:
        """All groups, or those of these types and states, by group id."""
        return self._run(self._inner.list_groups(*types, states=states))

    def describe_share_groups(self, groups: Iterable[str]) -> dict[str, ShareGroupDescription]:
        """Share groups by id, with their members."""
        return self._run(self._inner.describe_share_groups(groups))

    def list_share_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, ShareGroupOffset]:
        """Where the group is in each partition."""
        return self._run(self._inner.list_share_group_offsets(group_id, partitions))

    def alter_share_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, KafkaError | None]:
        """Move a share group that has no members; each partition with its error."""
        return self._run(self._inner.alter_share_group_offsets(group_id, offsets))

    def delete_share_group_offsets(
        self, group_id: str, *topics: str
    ) -> dict[str, KafkaError | None]:
        """Let a share group that has no members forget topics; each with its error."""
        return self._run(self._inner.delete_share_group_offsets(group_id, *topics))

    def delete_share_groups(self, *groups: str) -> dict[str, KafkaError | None]:
        """Delete share groups that have no members; each with its error."""
        return self._run(self._inner.delete_share_groups(*groups))

    def delete_groups(self, *groups: str) -> None:
        """Delete groups that have no members."""
        self._run(self._inner.delete_groups(*groups))
