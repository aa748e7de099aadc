"""Produces dead letters: records that a worker has given up on go to another topic.

The headers have the names of Apache Kafka's own dead-letter queues (KIP-1191), so that one tool
reads both. The timestamp and the exception's type are our additions.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from typing import Final

from sharegroup.client.admin.admin import Admin
from sharegroup.client.core.record import Headers, Record
from sharegroup.client.network.cluster import Cluster
from sharegroup.client.producer.producer import Producer
from sharegroup.client.worker.failures import text_of
from sharegroup.client.worker.retry import LETTERS_TOPIC, WRITES_LETTERS
from sharegroup.model import errors

log = logging.getLogger("sharegroup.worker")

HEADER_PREFIX: Final = "__dlq.errors."
MESSAGE_BYTES_MAX: Final = 1_000
"""The most bytes that are kept of an exception's text."""
MESSAGE_BYTES_SHORT: Final = 100
"""The most bytes that are kept of it if the topic's limit leaves little room."""
LOOK_S: Final = 10.0
_PATIENCE_MS: Final = 10_000
"""How long one dead letter may take. After that, its record is released and delivered again."""
_CLOSE_S: Final = 2.0
_BATCH_BYTES_MIN: Final = 49 + 7
"""The bytes that the broker counts for a batch of one empty record: the batch's header after the
length field, and the lengths and numbers of the record."""
_HEADER_BYTES_MIN: Final = 2
"""The bytes that the broker counts for an empty header of a record: two lengths."""


class DeadLetters:
    """Produces to one topic, which must exist. It uses connections of its own: the consumer's
    connections answer in order, so a produce request would wait for the answer of a fetch.

    Args:
        cluster: the consumer's; it gives the brokers' addresses and the client id.
        topic: the dead-letter topic.
        group_id: the share group that the records come from.
    """

    def __init__(self, cluster: Cluster, topic: str, group_id: str) -> None:
        self.topic = topic
        self._group_id = group_id
        self._warned = False
        self._broker_writes = False
        self._look_s = 0.0
        """When to look next whether the broker writes them."""
        self._cluster = Cluster(
            [str(address) for address in cluster.bootstrap],
            client_id=cluster.client_id,
            request_timeout_ms=min(_PATIENCE_MS, cluster.request_timeout_ms),
            allow_auto_create_topics=False,
            security=cluster.security,
            jitter=cluster.random,
        )
        self._producer = Producer(
            cluster=self._cluster, max_block_ms=_PATIENCE_MS, delivery_timeout_ms=_PATIENCE_MS
        )

    async def start(self, *, create: bool) -> None:
        """Connect and look for the topic.

        Args:
            create: create the topic if it is missing, with the broker's defaults.

        Raises:
            ConfigError: the topic is missing.
            KafkaError: the topic cannot be looked up or created.
        """
        await self._producer.start()
        admin = Admin(cluster=self._cluster)
        try:
            await admin.describe_topics(self.topic)
        except errors.UnknownTopicOrPartition:
            if not create:
                raise errors.ConfigError(
                    f"the dead-letter topic {self.topic!r} does not exist: make it (sharegroup "
                    f"topics create {self.topic}), or pass create_dead_letter=True"
                ) from None
            await self._create(admin)

    async def _create(self, admin: Admin) -> None:
        try:
            await admin.create_topics(self.topic)
        except errors.TopicAlreadyExists:
            return  # another worker has just created it

    async def are_the_brokers(self) -> bool:
        """Whether the group has got a topic for its dead letters since the worker began: then the
        broker writes them, and this worker none, or there would be two of each. The group's
        settings are looked at again after ``LOOK_S`` seconds."""
        now_s = asyncio.get_running_loop().time()
        if self._broker_writes or now_s < self._look_s:
            return self._broker_writes
        self._look_s = now_s + LOOK_S
        admin = Admin(cluster=self._cluster, request_timeout_ms=_PATIENCE_MS)
        try:
            setting = (await admin.describe_configs("group", self._group_id)).get(LETTERS_TOPIC)
        except errors.SharegroupError as error:
            log.debug("the settings of %s are not known: %s", self._group_id, error)
            return False
        named = setting is not None and setting.value
        self._broker_writes = bool(named) and WRITES_LETTERS in self._cluster.features
        if self._broker_writes:
            log.warning(
                "the broker writes the dead letters of %s to %s now: this worker writes none to %s",
                self._group_id,
                named,
                self.topic,
            )
        return self._broker_writes

    async def send(self, record: Record, error: BaseException) -> None:
        """Produce a dead letter; it is durable when this returns. If it is too large for the topic,
        its added headers are shortened and then left out: the record matters more. If this client
        may see the topic's limit, it does not try letters over the limit.

        Raises:
            KafkaError, SharegroupError: the dead letter could not be produced.
        """
        too_large: errors.KafkaError | None = None
        limit: int | None = None
        for headers in headers_of(record, self._group_id, error):
            if limit is not None and _bytes_min(record, headers) > limit:
                continue
            try:
                await self._producer.send(self.topic, record.value, key=record.key, headers=headers)
            except (errors.MessageTooLarge, errors.RecordListTooLarge) as refusal:
                if too_large is None:
                    limit = await self._bytes_max()
                too_large = refusal
                continue
            if too_large is not None:
                self._say_shortened(record)
            return
        assert too_large is not None
        raise too_large

    async def _bytes_max(self) -> int | None:
        """The topic's ``max.message.bytes``, asked anew each time, because it may have been raised;
        None: this client may not see it.
        """
        admin = Admin(cluster=self._cluster, request_timeout_ms=_PATIENCE_MS)
        try:
            setting = (await admin.describe_configs("topic", self.topic)).get("max.message.bytes")
        except errors.KafkaError as error:
            log.debug("max.message.bytes of %s is not known: %s", self.topic, error)
            return None
        return int(setting.value) if setting is not None and setting.value else None

    def _say_shortened(self, record: Record) -> None:
        log.log(
            logging.INFO if self._warned else logging.WARNING,
            "the dead letter of %s@%d is in %s with fewer or shorter %s* headers: with all of "
            "them it is too large for the topic (see max.message.bytes)",
            record.topic_partition,
            record.offset,
            self.topic,
            HEADER_PREFIX,
        )
        self._warned = True

    async def close(self) -> None:
        """Disconnect within ``_CLOSE_S`` seconds; dead letters still pending are dropped."""
        try:
            async with asyncio.timeout(_CLOSE_S):
                await self._producer.close()
        except (errors.KafkaError, TimeoutError) as error:
            log.info("a dead letter was not confirmed: %s", str(error) or "no answer")
        finally:
            await self._cluster.close()


def _bytes_min(record: Record, headers: Headers) -> int:
    """The least number of bytes that a batch of this record can have."""
    said = sum(len(name.encode()) + len(data or b"") + _HEADER_BYTES_MIN for name, data in headers)
    return _BATCH_BYTES_MIN + len(record.key or b"") + len(record.value or b"") + said


def headers_of(record: Record, group_id: str, error: BaseException) -> Iterator[Headers]:
    """The headers of a dead letter in several versions, each shorter than the one before. The
    first has the record's own headers, its origin, and the reason. Then the text of the error is
    shortened; then left out; then only the origin is added; then nothing.
    """
    own = [(name, data) for name, data in record.headers if not name.startswith(HEADER_PREFIX)]
    origin = {"topic": record.topic, "partition": record.partition, "offset": record.offset}
    reasons = origin | {
        "timestamp": record.timestamp,
        "group": group_id,
        "delivery.count": record.delivery_count,
        "exception": type(error).__qualname__,
    }
    message = text_of(error).encode(errors="replace")
    whole, short = (
        {"message": message[:most].decode(errors="ignore")}
        for most in (MESSAGE_BYTES_MAX, MESSAGE_BYTES_SHORT)
    )
    for added in (reasons | whole, reasons | short, reasons, origin, {}):
        yield own + [(HEADER_PREFIX + name, str(said).encode()) for name, said in added.items()]
