"""Decisions about records from inside ``foreachBatch``, next to other writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ACK_COLUMNS = ("topic", "partition", "offset", "ack", "delay_ms", "reason")


def acknowledge(df: DataFrame, ack_location: str) -> None:
    """Decide about the records in ``df``::

        def write(batch, batch_id):
            batch.persist()  # or the batch is read once for each of the next lines
            batch.write.mode("append").parquet(...)
            acknowledge(batch.withColumn("ack", lit("accept")), "/shared/acks")

    The decisions take effect when Spark has committed the batch. If the function fails afterwards,
    the batch runs again, and decides again: its earlier decisions do not count then. It may be
    called several times for one batch; if two calls decide about one record, the later call wins.

    Args:
        df: columns ``topic``, ``partition`` and ``offset`` as the source gave them, ``ack``
            (accept, release, reject, renew; or 1, 2, 3, 4), and optionally ``delay_ms`` and
            ``reason``; other columns are ignored.
        ack_location: the source's option ``ackLocation``.

    Raises:
        PySparkException: a column or a value is wrong, or no source reads ``ack_location``; the
            message says what to write.
    """
    columns = [name for name in df.columns if name in ACK_COLUMNS]
    writer = df.select(*columns).write.format("kafka-share").mode("append")
    writer.option("ackLocation", ack_location).save()
