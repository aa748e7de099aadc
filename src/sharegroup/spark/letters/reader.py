"""``spark.read.format("kafka-share").option("deadLettersOf", GROUP)``: the dead letters of a share
group as rows. They are parsed as ``sharegroup dead list`` parses them.

The driver asks once which letters are not done; Spark keeps the tasks of a DataFrame for all its
actions. A task reads the same letters however often it runs, as long as their topic has them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceReader, InputPartition

from sharegroup.client.core.done_letters import DoneLetters
from sharegroup.client.dead_letters.queue import (
    DeadLetterQueue,
    LetterRecord,
    Span,
    dead_letter_queue,
)
from sharegroup.cooperative.intervals import Interval, Intervals, minus
from sharegroup.model.ids import TopicPartition
from sharegroup.spark.letters.rows import OF_RECORD, check_letter_columns, letter_rows
from sharegroup.spark.options.letters import LetterOptions, parse_letter_options
from sharegroup.spark.task.shipping import shipped
from sharegroup.sync.loop_thread import LoopThread

if TYPE_CHECKING:
    import pyarrow as pa

    from sharegroup.client.core.dead_letter import DeadLetter

ROWS_MAX: Final = 1_000
"""Rows in one Arrow batch: values may be large."""


class LettersTask(InputPartition):
    """What one Spark task reads: offsets of a partition of the dead-letter topic.

    Args:
        begin: the first offset that the topic has.
        open_offsets: ascending; what lies between is done.
    """

    def __init__(self, partition: int, begin: int, open_offsets: Intervals) -> None:
        super().__init__(None)
        self.partition = partition
        self.begin = begin
        self.open_offsets = open_offsets

    def __reduce__(self) -> tuple[Any, ...]:
        """See :mod:`~sharegroup.spark.task.shipping`."""
        return shipped(LettersTask, self.partition, self.begin, self.open_offsets)


class LettersReader(DataSourceReader):
    """One batch read."""

    def __init__(self, options: Mapping[str, str], fields: list[tuple[str, str]]) -> None:
        self._raw_options = options
        self._fields = fields

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle only what made this reader; other processes need nothing else."""
        return shipped(LettersReader, dict(self._raw_options), self._fields)

    def partitions(self) -> Sequence[InputPartition]:
        """The tasks: what is not done now."""
        check_letter_columns(self._fields)
        return asyncio.run(_plan(parse_letter_options(self._raw_options)))

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The rows of one task as Arrow record batches."""
        from sharegroup.spark.task.worker_process import leave_modules_out_of_collections

        if not isinstance(partition, LettersTask):
            return  # nothing to show; Spark makes a task all the same
        options = parse_letter_options(self._raw_options)
        columns = check_letter_columns(self._fields)
        loop = LoopThread("kafka-share-letters")
        batches = _batches(options, partition, columns)
        try:
            while (batch := loop.run(_next(batches))) is not None:
                yield batch
        finally:
            loop.run_to_end(batches.aclose())
            loop.close()
        leave_modules_out_of_collections()


async def _next(batches: AsyncGenerator[pa.RecordBatch, None]) -> pa.RecordBatch | None:
    return await anext(batches, None)


async def _plan(options: LetterOptions) -> list[LettersTask]:
    cluster = options.cluster()
    async with cluster, dead_letter_queue(cluster, options.group_id, options.topic) as queue:
        done = await queue.done()
        spans = await queue.spans(done)
    tasks = []
    for where, span in spans.items():
        whole = [(span.first, span.end - 1)] if span.first < span.end else []
        left = minus(whole, done.ranges(where.partition))
        tasks += [
            LettersTask(where.partition, span.begin, part)
            for part in parts(left, options.max_records_per_partition)
        ]
    return tasks


def parts(offsets: Intervals, most: int | None) -> Iterator[Intervals]:
    """The offsets in parts of at most ``most``."""
    part: list[Interval] = []
    room = most
    for first, last in offsets:
        while room is not None and last - first >= room:
            yield (*part, (first, first + room - 1))
            first, part, room = first + room, [], most
        part.append((first, last))
        room = None if room is None else room - (last - first + 1)
        if room == 0:
            yield tuple(part)
            part, room = [], most
    if part:
        yield tuple(part)


async def _batches(
    options: LetterOptions, task: LettersTask, columns: Sequence[str]
) -> AsyncGenerator[pa.RecordBatch, None]:
    cluster = options.cluster()
    first, end = task.open_offsets[0][0], task.open_offsets[-1][1] + 1
    async with cluster, dead_letter_queue(cluster, options.group_id, options.topic) as queue:
        done = DoneLetters(queue.done_of)
        done.mark(task.partition, minus([(first, end - 1)], task.open_offsets))
        spans = {TopicPartition(queue.topic, task.partition): Span(task.begin, first, end)}
        async with aclosing(queue.records(spans, done, options.where)) as steps:
            async for some in steps:
                for at in range(0, len(some), ROWS_MAX):
                    letters = await _letters(queue, some[at : at + ROWS_MAX], columns)
                    if letters:
                        yield letter_rows(letters, columns)


async def _letters(
    queue: DeadLetterQueue, some: Sequence[LetterRecord], columns: Sequence[str]
) -> list[DeadLetter]:
    """The wanted letters; with their records, if a column asks for those."""
    letters = [one.letter for one in some if one.wanted and one.letter is not None]
    bare = [one for one in letters if not one.is_whole]
    if not bare or OF_RECORD.isdisjoint(columns):
        return letters
    whole = await queue.originals.of(bare)
    return [whole.get((one.place, one.place_offset), one) for one in letters]
