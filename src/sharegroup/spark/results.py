"""Result records from a Spark task to their topic, all of them confirmed before the task ends."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from sharegroup.client.producer import Producer
from sharegroup.model.errors import SharegroupError

if TYPE_CHECKING:
    import pyarrow as pa

    from sharegroup.spark.sink_columns import SinkColumns
    from sharegroup.spark.sink_options import SinkOptions


class ResultError(SharegroupError):
    """A row does not say where its record goes."""


def write_results(
    batches: Iterable[pa.RecordBatch], options: SinkOptions, columns: SinkColumns
) -> None:
    """Write every row's record, and return when the broker has them all.

    Raises:
        KafkaError: a record was refused, or not confirmed in kafka.delivery.timeout.ms.
        ResultError: a row names no topic.
    """
    asyncio.run(_write(batches, options, columns))


async def _write(
    batches: Iterable[pa.RecordBatch], options: SinkOptions, columns: SinkColumns
) -> None:
    async with _producer(options) as producer:
        for batch in batches:
            for topic, partition, key, value, headers in _records(batch, options, columns):
                await producer.send(topic, value, key=key, headers=headers, partition=partition)
            # The next batch may take minutes to come, and nothing is sent while we wait for it.
            await producer.flush()


def _producer(options: SinkOptions) -> Producer:
    return Producer(
        options.bootstrap_servers or "",
        enable_idempotence=options.idempotence,
        acks="all" if options.acks == "all" else 1,
        compression=options.compression,
        batch_size=options.batch_size,
        linger_ms=options.linger_ms,
        buffer_memory=options.buffer_memory,
        max_block_ms=options.block_ms,
        max_request_size=options.request_max_bytes,
        delivery_timeout_ms=options.delivery_timeout_ms,
        request_timeout_ms=options.request_timeout_ms,
        client_id=options.client_id,
    )


def _records(
    batch: pa.RecordBatch, options: SinkOptions, columns: SinkColumns
) -> Iterator[tuple[str, int | None, Any, Any, list[tuple[str, bytes | None]]]]:
    """Topic, partition, key, value and headers of each row that has a record to write."""

    def column(name: str | None, otherwise: Any) -> list[Any]:
        if name is None:
            return [otherwise] * batch.num_rows
        values: list[Any] = batch.column(name).to_pylist()
        return values

    topics = column(columns.topic, options.topic)
    if not columns.acknowledges and None in topics:
        raise ResultError(
            "topic is null in some rows: say in each row where it goes, or give the option topic"
        )
    for topic, partition, key, value, headers in zip(
        topics,
        column(columns.partition, None),
        column(columns.key, None),
        column("value", None),
        column(columns.headers, None),
        strict=True,
    ):
        if topic is not None:
            yield topic, partition, key, value, _pairs(headers)


def _pairs(headers: list[dict[str, Any]] | None) -> list[tuple[str, bytes | None]]:
    return [(one["key"], one["value"]) for one in headers or ()]
