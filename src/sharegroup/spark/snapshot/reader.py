"""``spark.read.format("kafka-share")``: a queue as rows, each with its state. The read acquires no
record and counts as no delivery: it asks for the states once, and reads the records with plain
Fetch.

The columns are the stream's columns, and ``state``, ``member_id`` (the holder of the record) and
``lock_ms`` (the time left on its lock when the read was planned). ``delivery_count`` is 0 for
records that were never delivered, and for finished records, whose count the broker forgets.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceReader, InputPartition

from sharegroup.arrow.schema import arrow_schema, check_columns, ddl
from sharegroup.model.ids import TopicIdPartition
from sharegroup.spark.options.snapshot import PeekOptions, parse_peek_options
from sharegroup.spark.slices import Slice
from sharegroup.spark.snapshot.queue_snapshot import Seen, SnapshotRuns, look
from sharegroup.spark.source.planning import plan
from sharegroup.spark.task.shipping import shipped

if TYPE_CHECKING:
    import pyarrow as pa

    from sharegroup.client.network.addresses import Address

OFFSET: Final = "offset"
STATE_COLUMNS: Final = {"state": "string", "member_id": "string", "lock_ms": "bigint"}


def peek_ddl(options: PeekOptions) -> str:
    """The schema as DDL text."""
    ours = ", ".join(f"{name} {kind}" for name, kind in STATE_COLUMNS.items())
    return f"{ddl(options.include_headers, options.include_timestamp_type)}, {ours}"


class PeekTask(InputPartition):
    """The slices that one Spark task reads, and the state of each of their records."""

    def __init__(
        self,
        slices: tuple[Slice, ...],
        seen: Mapping[TopicIdPartition, tuple[Seen, ...]],
        leaders: Mapping[TopicIdPartition, Address],
    ) -> None:
        super().__init__(None)
        self.slices = slices
        self.seen = dict(seen)
        self.leaders = dict(leaders)

    def __reduce__(self) -> tuple[Any, ...]:
        """See :mod:`~sharegroup.spark.task.shipping`."""
        return shipped(PeekTask, self.slices, self.seen, self.leaders)


class PeekReader(DataSourceReader):
    """One batch read."""

    def __init__(self, options: Mapping[str, str], fields: list[tuple[str, str]]) -> None:
        self._raw_options = options
        self._fields = fields

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle only what made this reader; other processes need nothing else."""
        return shipped(PeekReader, dict(self._raw_options), self._fields)

    def partitions(self) -> Sequence[InputPartition]:
        """The tasks, from the present state at the broker."""
        options = parse_peek_options(self._raw_options)
        self._own_columns()  # a column that is not ours is refused before any work
        seen = asyncio.run(look(options))
        tasks = plan(
            seen.as_batch(),
            min_partitions=options.min_partitions,
            max_records_per_partition=options.max_records_per_partition,
        )
        return [_task(slices, seen) for slices in tasks]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The rows of one task as Arrow record batches."""
        from sharegroup.arrow.rows import RowBuilder
        from sharegroup.spark.task.fetch import SliceReader

        if not isinstance(partition, PeekTask):
            return  # nothing to show; Spark makes a task all the same
        settings = _fetch_settings(parse_peek_options(self._raw_options))
        for part in partition.slices:
            key = TopicIdPartition(part.topic_id, part.partition)
            rows = RowBuilder(self._own_columns(), part.topic, part.partition, part.ranges)
            states = States(partition.seen[key], [name for name, _ in self._fields])
            for chunk in SliceReader(part, partition.leaders.get(key), settings).chunks():
                for batch in rows.rows(chunk.data, chunk.offset):
                    yield states.added(batch)

    def _own_columns(self) -> tuple[str, ...]:
        """The columns that come from the records, ``offset`` among them."""
        fields = [(name, kind) for name, kind in self._fields if STATE_COLUMNS.get(name) != kind]
        columns = check_columns(fields)
        return columns if OFFSET in columns else (*columns, OFFSET)


class States:
    """Adds the columns of the states to record batches.

    Args:
        seen: ascending runs that hold all offsets of the batches.
        columns: all columns of the result, in order.
    """

    def __init__(self, seen: Sequence[Seen], columns: Sequence[str]) -> None:
        import numpy as np
        import pyarrow as pa

        self._columns = columns
        self._firsts = np.array([one.first for one in seen], np.int64)
        self._values = {
            "state": pa.array([one.state for one in seen], pa.string()),
            "member_id": pa.array([one.member_id for one in seen], pa.string()),
            "lock_ms": pa.array([one.lock_ms for one in seen], pa.int64()),
        }

    def added(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch with the columns of the states."""
        import pyarrow as pa

        run = self._firsts.searchsorted(batch.column(OFFSET).to_numpy(), side="right") - 1
        run = pa.array(run)
        arrays = [
            self._values[name].take(run) if name in self._values else batch.column(name)
            for name in self._columns
        ]
        own = [name for name in self._columns if name not in self._values]
        fields = {field.name: field for field in arrow_schema(own)}
        fields |= {name: pa.field(name, values.type) for name, values in self._values.items()}
        schema = pa.schema([fields[name] for name in self._columns])
        return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _task(slices: tuple[Slice, ...], look: SnapshotRuns) -> PeekTask:
    keys = [TopicIdPartition(part.topic_id, part.partition) for part in slices]
    return PeekTask(
        slices,
        {
            key: _within(look.seen[key], part.ranges[0].first, part.ranges[-1].last)
            for key, part in zip(keys, slices, strict=True)
        },
        {key: look.leaders[key] for key in keys if key in look.leaders},
    )


def _within(seen: Sequence[Seen], first: int, last: int) -> tuple[Seen, ...]:
    """The runs that hold any of these offsets. ``seen`` ascends."""
    start = bisect_left(seen, first, key=attrgetter("last"))
    end = bisect_right(seen, last, key=attrgetter("first"))
    return tuple(seen[start:end])


def _fetch_settings(options: PeekOptions) -> Any:
    from sharegroup.spark.task.fetch import TaskFetchSettings

    return TaskFetchSettings(
        bootstrap_servers=options.bootstrap_servers,
        client_id=options.client_id,
        request_timeout_ms=options.request_timeout_ms,
        poll_timeout_ms=options.executor_poll_timeout_ms,
        fail_on_data_loss=options.fail_on_data_loss,
        security=options.security,
    )
