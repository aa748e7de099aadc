"""The sink ``kafka-share``: decides about records of a queue, writes records to a topic, or both.

Spark pickles a writer to executors, where :meth:`write` runs once per task and returns one message.
It makes another writer beside the driver, whose ``commit`` gets the messages of all tasks. A
decision counts only from this ``commit`` on: a task that failed, or whose results are not written,
decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from sharegroup.spark.options.sink import SinkOptions, parse_sink_options
from sharegroup.spark.sink.columns import SinkColumns, check_sink
from sharegroup.spark.task.shipping import shipped
from sharegroup.spark.task.worker_process import leave_modules_out_of_collections

if TYPE_CHECKING:
    import pyarrow as pa

    from sharegroup.spark.sink.decisions import Decisions


@dataclass
class TaskDone(WriterCommitMessage):
    """The decisions of one task, whose results are written."""

    decisions: Decisions | None


class ShareSink:
    """What the streaming writer and the batch writer have in common."""

    def __init__(
        self, options: Mapping[str, str], fields: Sequence[tuple[str, str]], *, complete: bool
    ) -> None:
        self._options: SinkOptions = parse_sink_options(options)
        self._columns: SinkColumns = check_sink(self._options, fields, complete=complete)

    def write(self, batches: Iterator[pa.RecordBatch]) -> TaskDone:
        """One task on an executor: write the results, collect the decisions."""
        from sharegroup.spark.sink.decisions import decisions_in, merged

        decided = []

        def noted() -> Iterator[pa.RecordBatch]:
            for batch in batches:
                if self._columns.acknowledges:
                    decided.append(decisions_in(batch))
                yield batch

        if self._columns.produces:
            from sharegroup.spark.sink.results import write_results

            write_results(noted(), self._options, self._columns)
        else:
            for _ in noted():
                pass
        leave_modules_out_of_collections()
        return TaskDone(merged(decided) if self._columns.acknowledges else None)

    def commit(
        self, messages: Sequence[WriterCommitMessage | None], batch_id: int | None = None
    ) -> None:
        """All tasks are done: write their decisions, which count when the batch is committed.

        Raises:
            DecisionError: two tasks decide differently about one record; then no decision counts.
            ConfigError: no source reads one of the topics through ackLocation.
            FolderTaken: another query answers through this folder.
        """
        from sharegroup.spark.ack_files import AckOutbox
        from sharegroup.spark.folder_lock import Writer
        from sharegroup.spark.locations import commit_file
        from sharegroup.spark.sink.decisions import merged

        parts = [one.decisions for one in messages if isinstance(one, TaskDone) and one.decisions]
        decisions = merged(parts)
        if decisions and self._options.ack_location is not None:
            checkpoint, name = self._options.checkpoint, self._options.query_name
            writer = None if checkpoint is None else Writer(checkpoint, name)
            commit = commit_file(checkpoint, batch_id)
            outbox = AckOutbox(self._options.ack_location)
            outbox.put(decisions.lists(), commit, writer, decisions.reasons)
        leave_modules_out_of_collections()


class ShareStreamWriter(DataSourceStreamArrowWriter):
    """``df.writeStream.format("kafka-share")``.

    Args:
        options: the sink's options.
        fields: name and Spark type of each column.
        complete: output mode complete; else append.
    """

    def __init__(
        self, options: Mapping[str, str], fields: Sequence[tuple[str, str]], complete: bool = False
    ) -> None:
        self._arguments = options, fields, complete
        self._sink = ShareSink(options, fields, complete=complete)

    def __reduce__(self) -> tuple[Any, ...]:
        """Only what was asked for travels to executors."""
        return shipped(ShareStreamWriter, *self._arguments)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """See :meth:`ShareSink.write`."""
        return self._sink.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """See :meth:`ShareSink.commit`."""
        self._sink.commit(messages, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """The batch failed: its decisions were never written. Results that are in their topic stay
        there; the batch runs again and writes them again."""


class ShareBatchWriter(DataSourceArrowWriter):
    """``df.write.format("kafka-share")``, also inside ``foreachBatch``. Its arguments are the same
    as :class:`ShareStreamWriter`'s."""

    def __init__(self, options: Mapping[str, str], fields: Sequence[tuple[str, str]]) -> None:
        self._arguments = options, fields
        self._sink = ShareSink(options, fields, complete=False)

    def __reduce__(self) -> tuple[Any, ...]:
        """Only what was asked for travels to executors."""
        return shipped(ShareBatchWriter, *self._arguments)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """See :meth:`ShareSink.write`."""
        return self._sink.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """See :meth:`ShareSink.commit`."""
        self._sink.commit(messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """The job failed: its decisions were never written; results may be in their topic."""
