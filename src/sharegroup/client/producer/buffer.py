"""The producer's buffer: a queue of records that wait for room, topics whose partitions are being
looked up, and the outbox of each partition.

A record passes these three in this order; most records only need the outbox.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple

from sharegroup.client.core.outbox import Outbox, OutgoingBatch
from sharegroup.client.errors import BufferExhausted, IllegalState
from sharegroup.client.network.cluster import Cluster
from sharegroup.client.network.retrying import retrying
from sharegroup.client.producer.delivery import Delivery, FailedBatches
from sharegroup.client.producer.outgoing import OutgoingRecord
from sharegroup.client.producer.partitioner import StickyPartitioner, partition_of_key
from sharegroup.client.producer.sender import ProduceSender, as_failure
from sharegroup.client.producer.settings import CODECS, CheckedProducerSettings
from sharegroup.model import errors
from sharegroup.model.ids import TopicPartition

log = logging.getLogger("sharegroup.client")

UNKNOWN_TOPIC_S: Final = 5.0
"""How long a topic may be unknown before its records fail. A topic that is being created, by our
request or by another client, is known after this time.
"""


class _Waiting(NamedTuple):
    """A record that waits for room in the buffer."""

    record: OutgoingRecord
    delivery: Delivery
    sender: asyncio.Task[Any] | None
    timer: asyncio.TimerHandle


class _Topic:
    """A topic that is produced to: its outboxes by partition, and its sticky partition.

    ``waiting`` are the records that came before its partitions were known; None: they are known.
    """

    __slots__ = ("learning", "outboxes", "sticky", "waiting")

    def __init__(self, sticky: StickyPartitioner) -> None:
        self.sticky = sticky
        self.outboxes: list[Outbox] = []
        self.waiting: deque[tuple[OutgoingRecord, Delivery]] | None = deque()
        self.learning: asyncio.Task[None] | None = None


class ProduceBuffer:
    """See the module.

    Attributes:
        connect: called for each new topic, before its look-up; set once, by the producer.
        sender: takes batches from the outboxes; set once, by the producer.
        failures: failed batches with records that nobody has awaited.
        crowded: a batch is full; a caller that sends many records lets the event loop run, and
            unsets this.
        size: bytes that wait to be sent.
        loop: the event loop of the records; None: no record has been handed over.
    """

    connect: Callable[[], Awaitable[None]]
    sender: ProduceSender

    def __init__(self, cluster: Cluster, settings: CheckedProducerSettings) -> None:
        self.failures = FailedBatches()
        self.crowded = False
        self.size = 0
        self.loop: asyncio.AbstractEventLoop | None = None
        self._cluster = cluster
        self._settings = settings
        self._topics: dict[str, _Topic] = {}
        self._line: deque[_Waiting] = deque()
        self._tasks_in_line: set[asyncio.Task[Any] | None] = set()

    def waiting(self) -> list[Delivery]:
        """The deliveries of the records that are in no batch yet."""
        found = [one.delivery for one in self._line]
        return found + [d for topic in self._topics.values() for _, d in topic.waiting or ()]

    def outboxes(self) -> list[Outbox]:
        """The outboxes of all topics."""
        return [outbox for topic in self._topics.values() for outbox in topic.outboxes]

    async def all_through(self) -> list[OutgoingBatch]:
        """Send all records now, and wait until each is delivered or has failed. Returns their
        batches."""
        self.sender.flushing += 1
        try:
            waiting = [delivery.entered() for delivery in self.waiting()]
            if waiting:
                await asyncio.wait(waiting)
            return await self.sender.all_through()
        finally:
            self.sender.flushing -= 1

    async def close(self, error: errors.SharegroupError) -> None:
        """Fail all records that are in no batch yet."""
        while self._line:
            self._leave_line(self._line[0], error)
        tasks = [topic.learning for topic in self._topics.values() if topic.learning is not None]
        for topic in self._topics.values():
            self._refuse_waiting(topic, error)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def hand_over(self, record: OutgoingRecord, *, waits: bool) -> Delivery:
        """Put the record into its batch, or into the queue if there is no room. With ``waits``, the
        caller waits until the record has entered, and may have several in the queue.
        """
        try:
            now_s = asyncio.get_running_loop().time()
        except RuntimeError:
            raise IllegalState(
                "no event loop runs here: send from an async function, or use "
                "sharegroup.sync.Producer"
            ) from None
        timestamp = (
            self._settings.clock_ms() if record.timestamp_ms is None else record.timestamp_ms
        )
        delivery = Delivery(timestamp)
        if self._line or self.size + record.size > self._settings.buffer_memory:
            self._line_up(record, delivery, waits=waits)
            return delivery
        self.size += record.size
        topic = self._topics.get(record.topic)
        if topic is None or topic.waiting is not None:
            self._enter(record, delivery)
        else:
            self._append(topic, record, delivery, now_s)
        return delivery

    def _enter(self, record: OutgoingRecord, delivery: Delivery) -> None:
        """Put a record for which there is room into its batch, or let it wait for its topic."""
        topic = self._topics.get(record.topic)
        if topic is None:
            topic = self._begin_topic(record.topic)
        if topic.waiting is None:
            now_s = asyncio.get_running_loop().time()
            self._append(topic, record, delivery, now_s)
        else:
            topic.waiting.append((record, delivery))

    def _append(
        self, topic: _Topic, record: OutgoingRecord, delivery: Delivery, now_s: float
    ) -> None:
        outbox = self._outbox(topic, record)
        if outbox is None:
            count = len(topic.outboxes)
            name, partition = record.topic, record.partition
            text = f"{name} has {count} partition{'s' * (count != 1)}, and no {partition}"
            self._refuse(record, delivery, errors.InvalidPartitions(text))
            return
        try:
            batch, new = outbox.append(
                now_s, delivery.timestamp, record.key, record.value, record.headers
            )
        except Exception as error:  # noqa: BLE001  # the application's clock may say anything
            self._refuse(record, delivery, as_failure(error))
            return
        batch.size += record.size
        delivery.enter(batch, batch.count - 1)
        if new:
            self.sender.add(outbox)
            self.crowded = self.crowded or outbox.backlog

    def _outbox(self, topic: _Topic, record: OutgoingRecord) -> Outbox | None:
        """The outbox that the record goes to; None: its partition does not exist."""
        outboxes = topic.outboxes
        info = self._cluster.metadata.topics.get(record.topic)
        if info is not None and len(info.partitions) > len(outboxes):
            outboxes += [
                self._new_outbox(record.topic, i)
                for i in range(len(outboxes), len(info.partitions))
            ]
        # A topic that was made anew may have fewer.
        count = len(outboxes) if info is None else len(info.partitions)
        partition = record.partition
        if partition is None:
            if record.key is None:
                return outboxes[topic.sticky.next_partition(record.size, count)]
            return outboxes[partition_of_key(record.key, count)]
        return outboxes[partition] if 0 <= partition < count else None

    def _new_outbox(self, topic: str, partition: int) -> Outbox:
        return Outbox(
            TopicPartition(topic, partition),
            batch_size=self._settings.batch_size,
            codec=CODECS[self._settings.compression],
            delivery_timeout_s=self._settings.delivery_timeout_ms / 1000,
            idempotent=self._settings.idempotent,
            transactional=self._settings.transactional_id is not None,
            make_outcome=asyncio.get_running_loop().create_future,
        )

    def _refuse(
        self, record: OutgoingRecord, delivery: Delivery, error: errors.SharegroupError
    ) -> None:
        where = TopicPartition(record.topic, -1 if record.partition is None else record.partition)
        outcome = asyncio.get_running_loop().create_future()
        batch = OutgoingBatch.refused(where, record.size, outcome)
        delivery.enter(batch, 0)
        self.sender.complete(batch, error)

    def done(self, batch: OutgoingBatch, error: errors.SharegroupError | None) -> None:
        """A batch was delivered, or has failed for good."""
        self.size -= batch.size
        if error is None:
            self.failures.succeeded()
        else:
            self.failures.add(batch, error)
        while self._line and self.size + self._line[0].record.size <= self._settings.buffer_memory:
            self._leave_line(self._line[0])

    # --- the line for room ------------------------------------------------------------------------

    def _line_up(self, record: OutgoingRecord, delivery: Delivery, *, waits: bool) -> None:
        loop = asyncio.get_running_loop()
        task = None if waits else asyncio.current_task()
        if not waits:
            if task in self._tasks_in_line:
                raise BufferExhausted(
                    f"the buffer is full ({self.size} bytes; buffer_memory is "
                    f"{self._settings.buffer_memory}): await what send() returned before, or call "
                    "`await producer.enqueue(...)`, which waits for room"
                )
            self._tasks_in_line.add(task)
        timer = loop.call_later(self._settings.max_block_s, self._no_room, delivery)
        self._line.append(_Waiting(record, delivery, task, timer))
        self.sender.press()

    def _leave_line(self, waiting: _Waiting, error: errors.SharegroupError | None = None) -> None:
        """Move a record from the queue into the buffer, or refuse it."""
        self._line.remove(waiting)
        waiting.timer.cancel()
        self._tasks_in_line.discard(waiting.sender)
        self.sender.pressed = bool(self._line)
        self.size += waiting.record.size
        if error is None:
            self._enter(waiting.record, waiting.delivery)
        else:
            self._refuse(waiting.record, waiting.delivery, error)

    def _no_room(self, delivery: Delivery) -> None:
        for waiting in list(self._line):
            if waiting.delivery is delivery:
                error = BufferExhausted(
                    f"{self.size} bytes wait to be sent, and there was no room for "
                    f"{waiting.record.size} more in {self._settings.max_block_s:g} s"
                )
                self._leave_line(waiting, error)

    def withdraw(self, delivery: Delivery) -> None:
        """Take the record out of the queue: the caller that waited for room was cancelled."""
        for waiting in list(self._line):
            if waiting.delivery is delivery:
                self._line.remove(waiting)
                waiting.timer.cancel()
                delivery.withdrawn()
                self.sender.pressed = bool(self._line)

    # --- topics -----------------------------------------------------------------------------------

    def _begin_topic(self, name: str) -> _Topic:
        topic = _Topic(StickyPartitioner(self._settings.batch_size, self._cluster.random))
        topic.learning = asyncio.create_task(self._learn(name, topic), name=f"topic {name}")
        self.loop = topic.learning.get_loop()
        self._topics[name] = topic
        return topic

    async def _learn(self, name: str, topic: _Topic) -> None:
        """Look up the topic's partitions, then enter the records that wait for them."""
        try:
            await self.connect()
            topic.outboxes = [self._new_outbox(name, n) for n in await self._partitions_of(name)]
        except Exception as error:  # noqa: BLE001  # no record may be left without an outcome
            del self._topics[name]  # the next record asks again
            self._refuse_waiting(topic, as_failure(error))
            return
        waiting, topic.waiting = topic.waiting or (), None
        now_s = asyncio.get_running_loop().time()
        for record, delivery in waiting:
            self._append(topic, record, delivery, now_s)

    async def _partitions_of(self, name: str) -> list[int]:
        def timeout_ms(error: errors.KafkaError) -> float:
            unknown = isinstance(error, errors.UnknownTopicOrPartition)
            limit_s = self._settings.max_block_s
            return (min(limit_s, UNKNOWN_TOPIC_S) if unknown else limit_s) * 1000

        def on_retry(error: errors.KafkaError, failures: int) -> None:
            if failures == 1:
                log.warning("partitions of %s are not known yet, retrying: %s", name, error)

        try:
            info = await retrying(
                self._cluster, lambda: self._cluster.topic(name), timeout_ms, on_retry=on_retry
            )
        except errors.UnknownTopicOrPartition:
            raise _no_topic(name) from None
        except (errors.InvalidTopic, errors.TopicAuthorizationFailed) as error:
            raise errors.error_from_code(
                error.code, f"the topic {name!r} is refused: {error}"
            ) from None
        return [partition.partition for partition in info.partitions]

    def _refuse_waiting(self, topic: _Topic, error: errors.SharegroupError) -> None:
        while topic.waiting:
            self._refuse(*topic.waiting.popleft(), error)


def _no_topic(name: str) -> errors.KafkaError:
    return errors.UnknownTopicOrPartition(
        f"there is no topic {name!r}, and the broker does not create it: create it "
        f"(sharegroup topics create {name})"
    )
