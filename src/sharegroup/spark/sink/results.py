"""Writes a Spark task's result records to their topic; the task ends when all are confirmed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from sharegroup.client.network.cluster import Cluster
from sharegroup.client.producer.producer import Producer
from sharegroup.model.errors import RetriableError, SharegroupError, UnknownTopicOrPartition
from sharegroup.spark.sink.raw_text import raw, texts

if TYPE_CHECKING:
    import pyarrow as pa

    from sharegroup.spark.options.sink import SinkOptions
    from sharegroup.spark.sink.columns import SinkColumns


TOPIC_SECONDS: Final = 5.0
RETRY_SECONDS: Final = 0.2


class ResultError(SharegroupError):
    """A row names no topic for its record, or a topic that does not exist."""


def write_results(
    batches: Iterable[pa.RecordBatch], options: SinkOptions, columns: SinkColumns
) -> None:
    """Write every row's record, and return when the broker has confirmed all.

    Raises:
        BootstrapError: no broker answered in kafka.max.block.ms.
        KafkaError: a record was refused, or not confirmed in kafka.delivery.timeout.ms.
        ResultError: a row names no topic, or a topic that does not exist.
        NotText: the name of a topic or of a header is no UTF-8.
    """
    asyncio.run(_write(batches, options, columns))


async def _write(
    batches: Iterable[pa.RecordBatch], options: SinkOptions, columns: SinkColumns
) -> None:
    cluster = Cluster(
        options.bootstrap_servers or "",
        client_id=options.client_id,
        request_timeout_ms=options.request_timeout_ms,
        bootstrap_timeout_ms=options.block_ms,
        allow_auto_create_topics=options.create_topics,
        security=options.security,
    )
    known: set[str] = set()
    try:
        async with _producer(options, cluster) as producer:
            for batch in batches:
                for topic, partition, key, value, headers in _records(batch, options, columns):
                    if topic not in known:
                        await _check_topic(cluster, topic, options)
                        known.add(topic)
                    await producer.enqueue(
                        topic, value, key=key, headers=headers, partition=partition
                    )
                # The next batch may take minutes, and nothing is sent while we wait for it.
                await producer.flush()
    finally:
        await cluster.close()


async def _check_topic(cluster: Cluster, topic: str, options: SinkOptions) -> None:
    """Check that the topic exists; wait a few seconds for a new topic, and longer for a broker."""
    loop = asyncio.get_running_loop()
    block_s = options.block_ms / 1000
    deadline = loop.time() + block_s
    missing_since: float | None = None
    while True:
        try:
            await cluster.topic(topic)
            return
        except UnknownTopicOrPartition:
            missing_since = missing_since or loop.time()
            if loop.time() > missing_since + (block_s if options.create_topics else TOPIC_SECONDS):
                raise ResultError(
                    f"there is no topic {topic!r} at {options.bootstrap_servers} for a result: "
                    'create it, or correct the name; .option("createTopics", "true") lets the '
                    "broker create topics, where its settings allow that"
                ) from None
        except RetriableError:
            missing_since = None
            if loop.time() > deadline:
                raise
        await asyncio.sleep(RETRY_SECONDS)


def _producer(options: SinkOptions, cluster: Cluster) -> Producer:
    return Producer(
        cluster=cluster,
        enable_idempotence=options.idempotence,
        acks="all" if options.acks == "all" else 1,
        compression=options.compression,
        batch_size=options.batch_size,
        linger_ms=options.linger_ms,
        buffer_memory=options.buffer_memory,
        max_block_ms=options.block_ms,
        max_request_size=options.request_max_bytes,
        delivery_timeout_ms=options.delivery_timeout_ms,
    )


def _records(
    batch: pa.RecordBatch, options: SinkOptions, columns: SinkColumns
) -> Iterator[tuple[str, int | None, Any, Any, list[tuple[str, bytes | None]]]]:
    """Topic, partition, key, value and headers of each row that has a record to write."""

    def column(name: str | None, otherwise: Any = None) -> list[Any]:
        if name is None:
            return [otherwise] * batch.num_rows
        return texts(name, batch.column(name))

    keys = column(None) if columns.key is None else raw(batch.column(columns.key))
    topics = column(columns.topic, options.topic)
    if not columns.acknowledges and None in topics:
        raise ResultError(
            "topic is null in some rows: say in each row where it goes, or give the option topic"
        )
    for topic, partition, key, value, headers in zip(
        topics,
        column(columns.partition),
        keys,
        raw(batch.column("value")),
        column(columns.headers),
        strict=True,
    ):
        if topic is not None:
            yield topic, partition, key, value, _pairs(headers)


def _pairs(headers: list[dict[str, Any]] | None) -> list[tuple[str, bytes | None]]:
    return [(one["key"], one["value"]) for one in headers or ()]
