"""Records that a worker has given up, on their way to another topic.

The headers have the names that Apache Kafka's own dead-letter queues use (KIP-1191), so that one
tool reads both; the time stamp and the exception's type are additions.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from sharegroup.client.admin import Admin
from sharegroup.client.cluster import Cluster
from sharegroup.client.producer import Producer
from sharegroup.client.record import Headers, Record
from sharegroup.model.errors import (
    ConfigError,
    KafkaError,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)

log = logging.getLogger("sharegroup.worker")

HEADER_PREFIX: Final = "__dlq.errors."
MESSAGE_BYTES_MAX: Final = 1_000
"""Of an exception's text."""
_PATIENCE_MS: Final = 10_000
"""How long one dead letter may take; then its record is released and comes again."""
_CLOSE_S: Final = 2.0


class DeadLetters:
    """Produces to one topic, which must exist, over connections of its own: those of the consumer
    answer in order, and a fetch may wait on them.

    Args:
        cluster: the consumer's; the brokers and the client's name are taken from it.
        topic: where to.
        group_id: who gives the records up.
    """

    def __init__(self, cluster: Cluster, topic: str, group_id: str) -> None:
        self.topic = topic
        self._group_id = group_id
        self._cluster = Cluster(
            [str(address) for address in cluster.bootstrap],
            client_id=cluster.client_id,
            request_timeout_ms=min(_PATIENCE_MS, cluster.request_timeout_ms),
            allow_auto_create_topics=False,
            jitter=cluster.random,
        )
        self._producer = Producer(
            cluster=self._cluster, max_block_ms=_PATIENCE_MS, delivery_timeout_ms=_PATIENCE_MS
        )

    async def start(self, *, create: bool) -> None:
        """Connect and look for the topic.

        Args:
            create: make the topic when it is missing, with the broker's defaults.

        Raises:
            ConfigError: it is missing.
            KafkaError: it cannot be asked for or made.
        """
        await self._producer.start()
        admin = Admin(cluster=self._cluster)
        try:
            await admin.describe_topics(self.topic)
        except UnknownTopicOrPartition:
            if not create:
                raise ConfigError(
                    f"the dead-letter topic {self.topic!r} does not exist: make it (sharegroup "
                    f"topics create {self.topic}), or pass create_dead_letter=True"
                ) from None
            await self._create(admin)

    async def _create(self, admin: Admin) -> None:
        try:
            await admin.create_topics(self.topic)
        except TopicAlreadyExists:
            return  # another worker has just made it

    async def send(self, record: Record, error: BaseException) -> None:
        """Produce a dead letter; it is durable when this returns.

        Raises:
            KafkaError, SharegroupError: it could not be produced.
        """
        await self._producer.send(
            self.topic,
            record.value,
            key=record.key,
            headers=headers_of(record, self._group_id, error),
        )

    async def close(self) -> None:
        """Disconnect, soon: what was sent and not awaited is given up."""
        try:
            async with asyncio.timeout(_CLOSE_S):
                await self._producer.close()
        except (KafkaError, TimeoutError) as error:
            log.info("a dead letter was under way: %s", str(error) or "no answer")
        finally:
            await self._cluster.close()


def headers_of(record: Record, group_id: str, error: BaseException) -> Headers:
    """The record's own headers, and where it comes from and why."""
    message = str(error).encode(errors="replace")[:MESSAGE_BYTES_MAX]
    reasons = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "group": group_id,
        "delivery.count": record.delivery_count,
        "exception": type(error).__qualname__,
        "message": message.decode(errors="ignore"),
    }
    own = [(name, data) for name, data in record.headers if not name.startswith(HEADER_PREFIX)]
    return own + [(HEADER_PREFIX + name, str(said).encode()) for name, said in reasons.items()]
