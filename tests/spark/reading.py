"""The source as Spark drives it in an availableNow run, without Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql.streaming.datasource import ReadAllAvailable

from sharegroup.arrow.schema import COLUMNS, column_names
from sharegroup.spark.data_source import ShareStreamReader

ALL = ReadAllAvailable()


def reader_of(
    options: Mapping[str, str], columns: Sequence[str] = column_names(include_headers=False)
) -> ShareStreamReader:
    """A reader of these columns."""
    return ShareStreamReader(options, [(name, COLUMNS[name]) for name in columns])


def rows_between(
    reader: ShareStreamReader, start: dict[str, Any], end: dict[str, Any]
) -> list[dict[str, Any]]:
    """The rows of a batch, read by its tasks one after the other."""
    return [
        row
        for task in reader.partitions(start, end)
        for batch in reader.read(task)
        for row in batch.to_pylist()
    ]


def drained(options: Mapping[str, str], *columns: str) -> list[dict[str, Any]]:
    """All rows of one run; every batch is settled."""
    reader = reader_of(options, columns) if columns else reader_of(options)
    rows: list[dict[str, Any]] = []
    try:
        reader.prepareForTriggerAvailableNow()
        start = reader.initialOffset()
        while (end := reader.latestOffset(start, ALL)) != start:
            rows += rows_between(reader, start, end)
            start = end
    finally:
        reader.stop()
    return rows
