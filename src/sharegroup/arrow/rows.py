"""Rows for Spark and for the client: the one place where Arrow batches are built, so that all of
them have the schema that Spark checks.

Keys, values and headers go from the fetched bytes into Arrow's buffers by Arrow's own copy loop:
the buffer is described as a binary array whose elements are alternately a field and the bytes
before the next field, and every second element is taken. A record costs no Python object.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sharegroup.arrow.hashes import hashes_of
from sharegroup.arrow.records import (
    Bytes,
    EncodedBatch,
    FieldColumns,
    Ints,
    fields_of,
    header_places,
    plain_records,
    select,
    whole_batches,
)
from sharegroup.arrow.schema import arrow_schema
from sharegroup.model.dates import DATE_MAX_MS, DATE_MIN_MS, NO_TIMESTAMP

Column: TypeAlias = Callable[[], Any]


class RowBuilder:
    """Makes record batches of chosen columns from fetched bytes of one partition.

    Args:
        columns: the columns, in order.
        topic, partition: where the records come from.
        ranges: (first, last, delivery count) of the records that are ours, ascending; all others
            are left out.
        keys: the first and last hash of the keys whose records are ours; None: of all keys.
        check_crcs: check the checksum of each batch.
    """

    def __init__(
        self,
        columns: Sequence[str],
        topic: str,
        partition: int,
        ranges: Sequence[tuple[int, int, int]] | Ints,
        *,
        keys: tuple[int, int] | None = None,
        check_crcs: bool = True,
    ) -> None:
        self._keys = keys
        self._schema = arrow_schema(columns)
        self._topic = pa.scalar(topic, pa.string())
        self._partition = pa.scalar(partition, pa.int32())
        self._check_crcs = check_crcs
        table = np.array(ranges, np.int64).reshape(-1, 3)
        self._first, self._last, self._count = (
            table[:, 0].copy(),
            table[:, 1].copy(),
            table[:, 2].copy(),
        )
        self._firsts, self._lasts = self._first.tolist(), self._last.tolist()

    def rows(self, data: memoryview, begin: int = 0) -> Iterator[Any]:
        """The record batches of one Fetch response's bytes.

        Args:
            begin: records at offsets before this one are left out.

        Raises:
            CorruptMessage: the bytes are not whole record batches with good checksums.
        """
        wanted = [
            batch
            for batch in whole_batches(data, check_crcs=self._check_crcs)
            if self._overlaps(batch.header.base_offset, batch.header.last_offset)
        ]
        for plain, batches in plain_records(data, wanted):
            fields = fields_of(plain, batches)
            counts = self._counts_of_whole(batches)
            if counts is None:
                index = np.searchsorted(self._first, fields.offsets, side="right") - 1
                ours = (index >= 0) & (fields.offsets <= self._last[index])
                fields, counts = select(fields, ours), self._count[index[ours]]
            if batches[0].header.base_offset < begin:
                chosen = fields.offsets >= begin
                fields, counts = select(fields, chosen), counts[chosen]
            if self._keys is not None:
                first, last = self._keys
                hashes = hashes_of(fields)
                chosen = (hashes >= first) & (hashes <= last)
                fields, counts = select(fields, chosen), counts[chosen]
            if len(fields):
                yield self._batch(fields, counts)

    def _overlaps(self, first: int, last: int) -> bool:
        at = bisect_left(self._lasts, first)
        return at < len(self._lasts) and self._firsts[at] <= last

    def _counts_of_whole(self, batches: Sequence[EncodedBatch]) -> Ints | None:
        """The delivery counts of all records if every batch lies in one of our ranges, the usual
        case; otherwise None.
        """
        headers = [batch.header for batch in batches]
        index = np.array([bisect_left(self._lasts, header.base_offset) for header in headers])
        if bool((self._first[index] > [header.base_offset for header in headers]).any()) or bool(
            (self._last[index] < [header.last_offset for header in headers]).any()
        ):
            return None
        return np.repeat(self._count[index], [header.record_count for header in headers])

    def _batch(self, fields: FieldColumns, delivery_counts: Ints) -> Any:
        rows = len(fields)
        makers: dict[str, Column] = {
            "key": lambda: binary(fields.data, fields.key_starts, fields.key_lengths),
            "value": lambda: binary(fields.data, fields.value_starts, fields.value_lengths),
            "topic": lambda: pa.repeat(self._topic, rows),
            "partition": lambda: pa.repeat(self._partition, rows),
            "offset": lambda: pa.array(fields.offsets),
            "timestamp": lambda: _times(fields.timestamps_ms, self._type("timestamp")),
            "timestampType": lambda: _timestamp_types(fields),
            "headers": lambda: headers(fields, self._type("headers")),
            "delivery_count": lambda: pa.array(delivery_counts.astype(np.int16)),
        }
        arrays = [makers[name]() for name in self._schema.names]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _type(self, column: str) -> Any:
        return self._schema.field(column).type


def binary(data: Bytes, starts: Ints, lengths: Ints) -> Any:
    """A binary array of ``data[start : start + length]``; a negative length is a null. Starts must
    ascend."""
    count = len(starts)
    bounds = np.empty(2 * count + 1, np.int32)
    bounds[0:-1:2] = starts
    bounds[1::2] = starts + np.maximum(lengths, 0)
    bounds[-1] = bounds[-2] if count else 0
    buffers = [None, pa.py_buffer(bounds), pa.py_buffer(data)]
    both = pa.Array.from_buffers(pa.binary(), 2 * count, buffers)
    fields = both.take(pa.array(np.arange(0, 2 * count, 2, dtype=np.int32)))
    null = lengths < 0
    return _with_nulls(fields, null) if bool(null.any()) else fields


def _with_nulls(fields: Any, null: npt.NDArray[np.bool_]) -> Any:
    valid = pa.py_buffer(np.packbits(~null, bitorder="little"))
    return pa.Array.from_buffers(fields.type, len(fields), [valid, *fields.buffers()[1:]])


def headers(fields: FieldColumns, kind: Any) -> Any:
    """The headers column: per record a list of (key, value), null if it has no headers, as in
    Spark's own Kafka source.
    """
    ends, starts, lengths = header_places(fields)
    keys = _text(binary(fields.data, starts[0], lengths[0]))
    values = binary(fields.data, starts[1], lengths[1])
    pairs = pa.StructArray.from_arrays([keys, values], fields=list(kind.value_type))
    none = pa.array(ends[1:] == ends[:-1])
    return pa.ListArray.from_arrays(pa.array(ends.astype(np.int32)), pairs, type=kind, mask=none)


def _times(timestamps_ms: Ints, kind: pa.DataType) -> Any:
    """The timestamp column: null if a record has no time, or no date can hold its time. A producer
    may have written microseconds, and a wrong date would be believed.
    """
    undatable = (
        (timestamps_ms == NO_TIMESTAMP)
        | (timestamps_ms < DATE_MIN_MS)
        | (timestamps_ms > DATE_MAX_MS)
    )
    mask = undatable if undatable.any() else None
    return pa.array(timestamps_ms * 1_000, mask=mask).view(kind)


def _timestamp_types(fields: FieldColumns) -> Any:
    """The timestampType column: 0 if the producer set a record's time, 1 if the broker did."""
    if fields.appended is None:
        return pa.repeat(pa.scalar(0, pa.int32()), len(fields))
    return pa.array(fields.appended.astype(np.int32))


def _text(keys: Any) -> Any:
    """Header keys as text; bytes that are not UTF-8 become replacement characters, as in Spark's
    source."""
    try:
        return keys.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([key.decode("utf-8", "replace") for key in keys.to_pylist()], pa.string())
