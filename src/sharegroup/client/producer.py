"""The producer: records in, batches out, in order and once (KIP-98), however often the connection
breaks.

::

    async with Producer("127.0.0.1:9092") as producer:
        for flight in flights:
            await producer.send("flights", value=flight, key=carrier)
        await producer.flush()
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Generator, Iterable, Sequence
from types import TracebackType
from typing import Any, Final, Literal, NamedTuple, Self

from sharegroup.client.clock import wall_ms
from sharegroup.client.cluster import Cluster
from sharegroup.client.core.outbox import Batch, Outbox
from sharegroup.client.errors import BufferExhausted, IllegalState
from sharegroup.client.partitioner import StickyPartitioner, partition_of_key
from sharegroup.client.produce_sender import ProduceSender
from sharegroup.model.errors import (
    ConfigError,
    InvalidPartitions,
    KafkaError,
    MessageTooLarge,
    RetriableError,
)
from sharegroup.model.ids import TopicPartition

log = logging.getLogger("sharegroup.client")

CODECS: Final = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
RECORD_OVERHEAD_BYTES: Final = 24
"""What a record costs besides its key, value and headers: an upper bound, from Kafka's class
DefaultRecord.
"""


class RecordMetadata(NamedTuple):
    """Where a record went. ``timestamp`` (ms) is the broker's under LogAppendTime, else the
    record's own.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int


class SentRecord:
    """A record that was handed to the producer. Await it for its :class:`RecordMetadata`, or
    its error.
    """

    __slots__ = ("_batch", "_index", "_timestamp")

    def __init__(self, batch: Batch, index: int, timestamp: int) -> None:
        self._batch = batch
        self._index = index
        self._timestamp = timestamp

    def done(self) -> bool:
        """The outcome is known: awaiting it will not wait."""
        done: bool = self._batch.outcome.done()
        return done

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        self._batch.observed = True
        base_offset, append_time_ms = yield from asyncio.shield(self._batch.outcome).__await__()
        where = self._batch.where
        timestamp = append_time_ms if append_time_ms >= 0 else self._timestamp
        return RecordMetadata(where.topic, where.partition, base_offset + self._index, timestamp)


class _Topic:
    """A topic that is produced to: its outboxes by partition, and its sticky partition."""

    __slots__ = ("outboxes", "sticky")

    def __init__(self, sticky: StickyPartitioner) -> None:
        self.sticky = sticky
        self.outboxes: list[Outbox] = []


class Producer:
    """An asynchronous producer with ``acks=all``.

    Args:
        bootstrap_servers: ``host:port,…`` or a list.
        enable_idempotence: no duplicates and no reordering when requests are sent again.
        acks: ``"all"`` or 1; what the broker has done before it answers.
        compression: ``none``, ``gzip``, ``snappy``, ``lz4`` or ``zstd``, per batch.
        batch_size: a batch is closed when it has this many bytes. A share group takes batches
            whole: with large ones, one consumer gets many records at once, and others none.
        linger_ms: how long a batch may wait for more records. With 0 those go together that are
            sent before the event loop runs again, or while the broker is busy.
        buffer_memory: bytes that may wait; :meth:`send` waits when there are more.
        max_block_ms: how long :meth:`send` waits for room or for the topic.
        max_request_size: bytes of one request; also of one record.
        delivery_timeout_ms: a record that is not through after this time fails.
        clock_ms: the wall clock, for records without a timestamp.
        cluster: connections to share with others; it is not closed then.
    """

    def __init__(
        self,
        bootstrap_servers: str | Iterable[str] = "127.0.0.1:9092",
        *,
        enable_idempotence: bool = True,
        acks: Literal["all", 1] = "all",
        compression: str = "none",
        batch_size: int = 16_384,
        linger_ms: int = 0,
        buffer_memory: int = 33_554_432,
        max_block_ms: int = 60_000,
        max_request_size: int = 1_048_576,
        delivery_timeout_ms: int = 120_000,
        request_timeout_ms: int = 30_000,
        client_id: str = "sharegroup",
        clock_ms: Callable[[], int] = wall_ms,
        cluster: Cluster | None = None,
        jitter: random.Random | None = None,
    ) -> None:
        if compression not in CODECS:
            raise ConfigError(f"compression is {compression!r}: write one of {', '.join(CODECS)}")
        if acks not in ("all", 1):
            raise ConfigError(f"acks is {acks!r}: write 'all' or 1")
        self._cluster = cluster or Cluster(
            bootstrap_servers,
            client_id=client_id,
            request_timeout_ms=request_timeout_ms,
            jitter=jitter,
        )
        self._owns_cluster = cluster is None
        self._idempotent = enable_idempotence and acks == "all"
        self._codec = CODECS[compression]
        self._batch_size = batch_size
        self._buffer_memory = buffer_memory
        self._max_block_s = max_block_ms / 1000
        self._max_request_size = max_request_size
        self._delivery_timeout_s = delivery_timeout_ms / 1000
        self._clock_ms = clock_ms
        self._topics: dict[str, _Topic] = {}
        self._buffered = 0
        self._room = asyncio.Event()
        self._sender = ProduceSender(
            self._cluster,
            acks=-1 if acks == "all" else 1,
            linger_s=linger_ms / 1000,
            max_request_size=max_request_size,
            on_done=self._done,
        )
        self._unreported: KafkaError | None = None
        self._started = False
        self._closed = False

    # --- life -------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Connect; ``async with`` and the first :meth:`send` do it by themselves.

        Raises:
            BootstrapError: no broker could be reached.
        """
        if self._closed:
            raise IllegalState("the producer is closed")
        if not self._started:
            await self._cluster.start()
            self._started = True
            self._sender.start()

    async def close(self) -> None:
        """Flush, then disconnect. Nothing happens the second time. Raises as :meth:`flush`."""
        if self._closed:
            return
        self._closed = True
        try:
            if self._started:
                await self._flush()
        finally:
            await self._sender.stop()
            if self._owns_cluster:
                await self._cluster.close()

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            await self.close()
        except KafkaError as failure:
            if error is None:
                raise
            log.error("records were not delivered: %s", failure)

    # --- producing --------------------------------------------------------------------------------

    async def send(
        self,
        topic: str,
        value: bytes | str | None = None,
        *,
        key: bytes | str | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> SentRecord:
        """Hand over one record. Returns when it is in the buffer; await what is returned to know
        where it went::

            sent = await producer.send("orders", b"...", key=b"customer-7")
            print((await sent).offset)

        Text is encoded as UTF-8. Records with one key go to one partition, the same one that Java's
        producer takes.

        Raises:
            BufferExhausted: no room in ``buffer_memory`` for ``max_block_ms``.
            MessageTooLarge: the record alone is larger than a request may be.
            InvalidPartitions: the topic has no such partition.
            UnknownTopicOrPartition: there is no such topic, and the broker does not create it.
        """
        if not self._started or self._closed:
            await self.start()
        known = self._topics.get(topic) or await self._learn_topic(topic)
        key = key.encode() if isinstance(key, str) else key
        value = value.encode() if isinstance(value, str) else value
        size = RECORD_OVERHEAD_BYTES + (len(key) if key else 0) + (len(value) if value else 0)
        if headers:
            size += sum(len(name) + len(data or b"") + 10 for name, data in headers)
        if self._buffered + size > self._buffer_memory or size > self._max_request_size:
            await self._wait_for_room(size)
        outbox = self._outbox(known, topic, key, partition, size)
        timestamp = self._clock_ms() if timestamp_ms is None else timestamp_ms
        now_s = asyncio.get_running_loop().time()
        batch, new = outbox.append(now_s, timestamp, key, value, list(headers))
        batch.size += size
        self._buffered += size
        if new:
            self._sender.add(outbox)
            if batch.count == 1 and outbox.backlog:
                await asyncio.sleep(0)  # a batch is full: let it go, and let others run
        return SentRecord(batch, batch.count - 1, timestamp)

    async def flush(self) -> None:
        """Send all now, and wait until every record is through.

        Raises:
            KafkaError: the first error of a record whose outcome nobody awaited.
        """
        if self._started and not self._closed:
            await self._flush()

    async def _flush(self) -> None:
        await self._sender.flush()
        error, self._unreported = self._unreported, None
        if error is not None:
            raise error

    # --- inside -----------------------------------------------------------------------------------

    def _outbox(
        self, known: _Topic, topic: str, key: bytes | None, partition: int | None, size: int
    ) -> Outbox:
        outboxes = known.outboxes
        info = self._cluster.metadata.topics.get(topic)
        if info is not None and len(info.partitions) > len(outboxes):
            outboxes += [
                self._new_outbox(topic, i) for i in range(len(outboxes), len(info.partitions))
            ]
        if partition is None:
            count = len(outboxes)
            if key is None:
                return outboxes[known.sticky.next_partition(size, count)]
            return outboxes[partition_of_key(key, count)]
        if not 0 <= partition < len(outboxes):
            raise InvalidPartitions(f"{topic} has {len(outboxes)} partitions, and no {partition}")
        return outboxes[partition]

    async def _learn_topic(self, name: str) -> _Topic:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._max_block_s
        backoff = self._cluster.backoff()
        while True:
            try:
                info = await self._cluster.topic(name)
                break
            except RetriableError:
                pause = backoff.next_ms() / 1000
                if loop.time() + pause > deadline:
                    raise
                await asyncio.sleep(pause)
        topic = _Topic(StickyPartitioner(self._batch_size, self._cluster.random))
        topic.outboxes = [self._new_outbox(name, p.partition) for p in info.partitions]
        return self._topics.setdefault(name, topic)

    def _new_outbox(self, topic: str, partition: int) -> Outbox:
        return Outbox(
            TopicPartition(topic, partition),
            batch_size=self._batch_size,
            codec=self._codec,
            delivery_timeout_s=self._delivery_timeout_s,
            idempotent=self._idempotent,
            make_outcome=asyncio.get_running_loop().create_future,
        )

    async def _wait_for_room(self, size: int) -> None:
        if size > min(self._max_request_size, self._buffer_memory):
            raise MessageTooLarge(
                f"the record has {size} bytes; max_request_size is {self._max_request_size}, "
                f"buffer_memory {self._buffer_memory}"
            )
        try:
            async with asyncio.timeout(self._max_block_s):
                while self._buffered + size > self._buffer_memory:
                    self._room.clear()
                    await self._room.wait()
        except TimeoutError:
            raise BufferExhausted(
                f"{self._buffered} bytes wait to be sent, and {self._max_block_s:.0f} s made no "
                f"room for {size} more"
            ) from None

    def _done(self, batch: Batch, error: KafkaError | None) -> None:
        """A batch is through, or has failed for good."""
        self._buffered -= batch.size
        self._room.set()
        if error is not None and not batch.observed:
            self._unreported = self._unreported or error
