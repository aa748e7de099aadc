"""The records that a table refers to, by partition: its columns topic, partition and offset."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sharegroup.arrow.records import Ints

COLUMNS: Final = ["topic", "partition", "offset"]
_PARTITION_BITS: Final = 0xFFFF_FFFF


class Places(NamedTuple):
    """Records of one partition: their offsets, ascending, and the table's row that has each."""

    topic: str
    partition: int
    offsets: Ints
    rows: Ints | slice


def places_in(table: Any) -> list[Places]:
    """All rows of a table, grouped by partition.

    Args:
        table: an Arrow record batch or table, or an object with ``__arrow_c_stream__``: a frame of
            Polars or pandas, a relation of DuckDB. It may be filtered or sorted and may have other
            columns.

    Raises:
        TypeError: ``table`` is no table.
        ValueError: one of the three columns is missing, of another type, or has nulls.
    """
    topics, partitions, offsets = _columns(table)
    if not len(offsets):
        return []
    names, topic_codes = _topics(topics)
    keys = topic_codes << 32 | partitions & _PARTITION_BITS
    order: Ints | None = None
    if not _ascends(keys, offsets):
        order = np.lexsort((offsets, keys))
        keys, offsets = keys[order], offsets[order]
    bounds = [0, *(np.flatnonzero(np.diff(keys)) + 1).tolist(), len(keys)]
    return [
        Places(
            topic=names[int(keys[start] >> 32)],
            partition=int(keys[start] & _PARTITION_BITS),
            offsets=offsets[start:end],
            rows=slice(start, end) if order is None else order[start:end],
        )
        for start, end in pairwise(bounds)
    ]


def _ascends(keys: Ints, offsets: Ints) -> bool:
    later_key = keys[1:] > keys[:-1]
    return bool((later_key | ((keys[1:] == keys[:-1]) & (offsets[1:] >= offsets[:-1]))).all())


def _columns(table: Any) -> tuple[Any, Ints, Ints]:
    if not isinstance(table, pa.RecordBatch | pa.Table):
        try:
            table = pa.table(table)
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"{type(table).__name__} has no records: pass records, an Arrow batch or table, "
                "or a frame with the columns topic, partition and offset"
            ) from error
    missing = [name for name in COLUMNS if name not in table.schema.names]
    if missing:
        raise ValueError(
            f"there is no column {missing[0]}: keep topic, partition and offset, which say which "
            "records are meant"
        )
    topics, partitions, offsets = (_single(table.column(name), name) for name in COLUMNS)
    return topics, _numbers(partitions), _numbers(offsets)


def _single(column: Any, name: str) -> Any:
    """The column as one array."""
    if column.null_count:
        raise ValueError(f"{name} is null in {column.null_count} rows: leave these rows out")
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _numbers(column: Any) -> Ints:
    found: Ints = column.cast(pa.int64()).to_numpy()
    return found


def _topics(column: Any) -> tuple[list[str], Ints]:
    """The names of topics, and for each row the index of its name. A run of rows with one name
    costs one look-up."""
    if pa.types.is_dictionary(column.type):
        return column.dictionary.to_pylist(), _numbers(column.indices)
    runs = pc.run_end_encode(column.cast(pa.string()))
    names = runs.values.dictionary_encode()
    lengths = np.diff(runs.run_ends.to_numpy(), prepend=0)
    return names.dictionary.to_pylist(), np.repeat(_numbers(names.indices), lengths)
