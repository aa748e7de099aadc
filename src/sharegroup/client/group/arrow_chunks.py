"""The records of one partition that one fetch brought, as Arrow batches. Needs NumPy and PyArrow
(``pip install 'sharegroup[arrow]'``).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from sharegroup.arrow.rows import RowBuilder
from sharegroup.arrow.schema import column_names
from sharegroup.client.core.positions import NO_EPOCH, Position
from sharegroup.client.core.setting_checks import check_positive
from sharegroup.client.errors import CorruptRecordBatch
from sharegroup.client.group.chunks import (
    FetchedBytes,
    epochs_of,
    passed_over,
    past_damage,
)
from sharegroup.client.records.decode import Decoding
from sharegroup.client.records.hidden import hidden_ranges
from sharegroup.cooperative.intervals import Interval, Intervals
from sharegroup.model.errors import ConfigError, CorruptMessage, SharegroupError
from sharegroup.records.batches import Bounds, end_offset, place

RecordBatch: TypeAlias = Any
"""pyarrow.RecordBatch."""


class ArrowChunkForm:
    """The form of the batches of one ``arrow_batches()``.

    Raises:
        ConfigError: ``max_records`` is less than 1, or there are deserializers.
    """

    def __init__(self, max_records: int, include_headers: bool, decoding: Decoding) -> None:
        if not decoding.plain:
            raise ConfigError(
                "Arrow batches hold keys and values as bytes: leave key_deserializer and "
                "value_deserializer out"
            )
        self.max_records = check_positive("max_records", max_records)
        self.columns = tuple(n for n in column_names(include_headers) if n != "delivery_count")
        self.check_crcs = decoding.check_crcs
        self.name = "Arrow batches" + (" with headers" if include_headers else "")


class ArrowChunk:
    """Rows that wait for the application; as :class:`~sharegroup.client.group.chunks.Chunk`.

    Attributes:
        holes: as ``Chunk.holes``.
    """

    def __init__(self, fetched: FetchedBytes, form: ArrowChunkForm) -> None:
        self.where = fetched.where
        self.version = fetched.version
        self.error: SharegroupError | None = None
        self.end = fetched.position
        self._max_records = form.max_records
        self._rows: deque[RecordBatch] = deque()
        self._lost: list[Interval] = []
        hidden, data = hidden_ranges(fetched.data, fetched.aborted, form.check_crcs)
        left_out = [*hidden, *fetched.done]
        ranges = _others(fetched.position.offset, left_out, fetched.high_watermark - 1)
        if ranges:
            builder = RowBuilder(form.columns, *fetched.where, ranges, check_crcs=form.check_crcs)
            self._read(fetched, builder, memoryview(data))
        epoch = epochs_of(data)
        last_epoch = max(epoch.items())[1] if epoch else NO_EPOCH
        ends = self.end.offset, fetched.position.offset, self._behind(fetched, data)
        self.end = Position(max(ends), last_epoch)
        self.holes = passed_over(fetched, [*hidden, *self._lost], self.end)

    def intervals(self) -> Intervals:
        """The offsets of the rows."""
        if not self._rows:
            return ()
        offsets = np.concatenate([rows.column("offset").to_numpy() for rows in self._rows])
        ends = np.flatnonzero(np.diff(offsets) != 1)
        firsts = offsets[np.concatenate([[0], ends + 1])].tolist()
        lasts = offsets[np.concatenate([ends, [len(offsets) - 1]])].tolist()
        return tuple(zip(firsts, lasts, strict=True))

    @property
    def empty(self) -> bool:
        """No rows are left. The error may be left."""
        return not self._rows

    def take(self) -> tuple[RecordBatch | None, Position]:
        """The next rows, and the position after them."""
        if not self._rows:
            return None, self.end
        rows = self._rows.popleft()
        if rows.num_rows > self._max_records:
            self._rows.appendleft(rows.slice(self._max_records))
            rows = rows.slice(0, self._max_records)
        if not self._rows:
            return rows, self.end
        return rows, Position(rows.column("offset")[-1].as_py() + 1, self.end.leader_epoch)

    def _behind(self, fetched: FetchedBytes, data: bytes) -> int:
        """The least offset after the fetch; -1 if not all of it was read."""
        return fetched.behind if self.error is None and len(data) == len(fetched.data) else -1

    def _read(self, fetched: FetchedBytes, builder: RowBuilder, data: memoryview) -> None:
        try:
            self._rows.extend(builder.rows(data))
            self.end = Position(min(end_offset(data) or 0, fetched.high_watermark))
        except CorruptMessage:
            self._read_until_damage(fetched, builder, data)

    def _read_until_damage(
        self, fetched: FetchedBytes, builder: RowBuilder, data: memoryview
    ) -> None:
        def read(one: Bounds) -> list[RecordBatch]:
            return list(builder.rows(one.batch))

        self._rows.clear()
        placed = place(data, fetched.high_watermark - 1, read)
        for piece in placed.pieces:
            self.end = Position(piece.last + 1)
            if piece.damage is not None:
                self.error = CorruptRecordBatch(fetched.where, piece.first, str(piece.damage))
                self.end = Position(past_damage(piece.last, fetched))
                self._lost = [(piece.first, self.end.offset - 1)]
                return
            self._rows.extend(piece.value or ())
        if placed.cut is not None and not placed.pieces:
            self.error = CorruptRecordBatch(fetched.where, self.end.offset, str(placed.cut))


def _others(first: int, hidden: Sequence[tuple[int, int]], last: int) -> list[tuple[int, int, int]]:
    """The ranges from ``first`` to ``last`` without the ``hidden`` ones, for a RowBuilder."""
    found = []
    for begin, end in sorted(hidden):
        if first < begin:
            found.append((first, begin - 1, 0))
        first = max(first, end + 1)
    return [*found, (first, last, 0)] if first <= last else found
