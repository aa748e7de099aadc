"""The Spark data source ``kafka-share``: what Spark calls, in the order of its contract.

Constructors and ``schema()`` run several times in several processes and have no side effects. The
reader's driver side starts on its first call in the source process; executors get a copy of the
reader that only ever runs ``read``.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from sharegroup.arrow.schema import check_columns, ddl
from sharegroup.model.errors import ConfigError
from sharegroup.model.ids import TopicIdPartition
from sharegroup.spark.options.at_load import check_installed, check_secured
from sharegroup.spark.options.stream import KEY, ShareOptions, parse_options
from sharegroup.spark.sink.writer import ShareBatchWriter, ShareStreamWriter
from sharegroup.spark.slices import Slice
from sharegroup.spark.source.offsets import INITIAL, from_json, to_json
from sharegroup.spark.source.planning import plan, plan_by_key
from sharegroup.spark.source.sigterm import source_started, source_stopping
from sharegroup.spark.source.telling import environment
from sharegroup.spark.task.shipping import shipped

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from sharegroup.client.network.addresses import Address
    from sharegroup.spark.letters.reader import LettersReader
    from sharegroup.spark.snapshot.reader import PeekReader
    from sharegroup.spark.source.driver import ShareDriver
    from sharegroup.sync.loop_thread import LoopThread

log = logging.getLogger("sharegroup.spark")

CLOSE_SECONDS = 2.0


class KafkaShareDataSource(DataSource):
    """``spark.readStream.format("kafka-share")``: a share group as a stream of rows.

    Options: see :class:`~sharegroup.spark.options.stream.ShareOptions`.
    """

    @classmethod
    def name(cls) -> str:
        """The name for ``format(…)``."""
        return "kafka-share"

    def __reduce__(self) -> tuple[Any, ...]:
        """Spark ships this object with the tasks, to executors that may lack the package."""
        return shipped(type(self), self.options)

    def schema(self) -> str:
        """The columns. Checks all options, so that a mistake fails at ``load()``. If the user gives
        a ``.schema(…)``, Spark does not call this, and the query's first call checks the options.

        Raises:
            ConfigError: an option is missing, unknown or wrong.
        """
        from sharegroup.spark.options.letters import are_letters, parse_letter_options
        from sharegroup.spark.options.snapshot import is_peek, parse_peek_options

        check_installed()
        if are_letters(self.options):
            from sharegroup.spark.letters.rows import letters_ddl

            check_secured(parse_letter_options(self.options).security)
            return letters_ddl()
        if is_peek(self.options):
            from sharegroup.spark.snapshot.reader import peek_ddl

            look = parse_peek_options(self.options)
            check_secured(look.security)
            return peek_ddl(look)
        options = parse_options(self.options)
        check_secured(options.security)
        return ddl(options.include_headers, options.include_timestamp_type)

    def streamReader(self, schema: StructType) -> ShareStreamReader:
        """The reader. It checks the options on its first call, where Spark shows the full error."""
        return ShareStreamReader(dict(self.options), _fields(schema))

    def streamWriter(self, schema: StructType, overwrite: bool) -> ShareStreamWriter:
        """The sink of a query: see :mod:`sharegroup.spark.sink.columns`.

        Raises:
            ConfigError: columns or options are wrong.
        """
        check_installed()
        return ShareStreamWriter(dict(self.options), _fields(schema), overwrite)

    def writer(self, schema: StructType, overwrite: bool) -> ShareBatchWriter:
        """The sink of a batch DataFrame, also inside ``foreachBatch``.

        Raises:
            ConfigError: columns, options or the mode are wrong.
        """
        check_installed()
        if overwrite:
            raise ConfigError('a topic cannot be overwritten: write .mode("append")')
        return ShareBatchWriter(dict(self.options), _fields(schema))

    def reader(self, schema: StructType) -> PeekReader | LettersReader:
        """The reader that looks at the queue, or at its dead letters. Spark would not tell it
        whether the query succeeded, so it acquires nothing.

        Raises:
            ConfigError: the options are not options of a look.
        """
        from sharegroup.spark.options.letters import are_letters
        from sharegroup.spark.options.snapshot import is_peek

        if are_letters(self.options):
            from sharegroup.spark.letters.reader import LettersReader

            return LettersReader(dict(self.options), _fields(schema))
        if not is_peek(self.options):
            raise ConfigError(
                'spark.read only looks at a queue: write .option("states", "all") for that, or '
                '.option("deadLettersOf", "my-share-group") for what has failed for good; to '
                "work it off and stop, use spark.readStream with .trigger(availableNow=True)"
            )
        from sharegroup.spark.snapshot.reader import PeekReader

        return PeekReader(dict(self.options), _fields(schema))


class ShareTask(InputPartition):
    """The slices that one Spark task reads. Spark pickles them to an executor.

    Args:
        by_key: the brokers are able to send only the records of some keys.
    """

    def __init__(
        self,
        slices: tuple[Slice, ...],
        leaders: Mapping[TopicIdPartition, Address],
        by_key: bool = False,
    ) -> None:
        super().__init__(None)
        self.slices = slices
        self.leaders = dict(leaders)
        self.by_key = by_key

    def __reduce__(self) -> tuple[Any, ...]:
        """See :mod:`~sharegroup.spark.task.shipping`."""
        return shipped(ShareTask, self.slices, self.leaders, self.by_key)


class ShareStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One stream. Spark's calls on the driver go to a :class:`ShareDriver` on a loop thread."""

    def __init__(self, options: Mapping[str, str], fields: list[tuple[str, str]]) -> None:
        self._raw_options = options
        self._fields = fields
        self._loop: LoopThread | None = None
        self._driver: ShareDriver | None = None
        self._parsed: ShareOptions | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle only what made this reader; other processes need nothing else."""
        return shipped(ShareStreamReader, self._raw_options, self._fields)

    # --- on the driver, in the source process -----------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:
        """The offset before the first batch; constant, because Spark asks more than once."""
        return to_json(INITIAL)

    def getDefaultReadLimit(self) -> ReadLimit:
        """``maxOffsetsPerTrigger``, or all available records."""
        rows = self._options.max_offsets_per_trigger
        return ReadAllAvailable() if rows is None else ReadMaxRows(rows)

    def prepareForTriggerAvailableNow(self) -> None:
        """Limit this run to the records that are in the log now."""
        self._run("set_targets")

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Settle the finished batch and acquire the next one; ``start`` if there is no next one."""
        before = from_json(start)
        rows = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        after = self._run("latest_offset", before, rows)
        return start if after is before else to_json(after)

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Numbers for ``lastProgress["sources"][…]["latestOffset"]``."""
        numbers: dict[str, Any] | None = None if self._driver is None else self._run("statistics")
        return numbers

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The tasks of the batch ``end``, from its JSON alone; Spark may call this twice."""
        if start == end:
            return []
        options = self._options
        batch = self._run("replay", from_json(end))
        if options.split_by == KEY:
            tasks = plan_by_key(batch, min_partitions=options.min_partitions)
        else:
            tasks = plan(
                batch,
                min_partitions=options.min_partitions,
                max_records_per_partition=options.max_records_per_partition,
            )
        driver = self._started()
        by_key = driver.fetches_by_key
        return [ShareTask(one, driver.leaders(_partitions(one)), by_key=by_key) for one in tasks]

    def commit(self, end: dict[str, Any]) -> None:
        """Batch ``end`` is committed. Never raises: the batch is done even if the broker refuses
        its acknowledgements."""
        try:
            self._run("settle", from_json(end))
        except Exception:
            log.exception("settling failed; it is tried again with the next batch")

    def stop(self) -> None:
        """The query ends: release the records that Spark was never given."""
        with source_stopping(self):
            driver, self._driver = self._driver, None
            if driver is None or self._loop is None:
                return
            try:
                self._loop.run(driver.close(), CLOSE_SECONDS)
            except Exception:
                log.exception("the source did not close in order; its locks will expire")
            self._loop.close()

    # --- on executors -----------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The rows of one task as Arrow record batches, read with plain Fetch: repeatable."""
        from sharegroup.arrow.rows import RowBuilder
        from sharegroup.spark.task.fetch import SliceReader, fetch_settings
        from sharegroup.spark.task.worker_process import leave_modules_out_of_collections

        assert isinstance(partition, ShareTask)
        settings, columns = fetch_settings(self._options), self._columns()
        for part in partition.slices:
            key = TopicIdPartition(part.topic_id, part.partition)
            rows = RowBuilder(columns, part.topic, part.partition, part.ranges, keys=part.keys)
            leader, by_key = partition.leaders.get(key), partition.by_key
            for chunk in SliceReader(part, leader, settings, by_key=by_key).chunks():
                yield from rows.rows(chunk.data, chunk.offset)
        leave_modules_out_of_collections()

    # --- inside -----------------------------------------------------------------------------------

    @property
    def _options(self) -> ShareOptions:
        if self._parsed is None:
            self._parsed = parse_options(self._raw_options)
        return self._parsed

    def _columns(self) -> tuple[str, ...]:
        return check_columns(self._fields)

    def _run(self, method: str, *arguments: Any) -> Any:
        driver = self._started()
        assert self._loop is not None
        return self._loop.run(getattr(driver, method)(*arguments))

    def _started(self) -> ShareDriver:
        """The driver, created on first use: constructors run in processes that never use it."""
        if self._driver is None:
            from sharegroup.spark.source.driver import ShareDriver
            from sharegroup.sync.loop_thread import LoopThread

            self._columns()
            self._loop = LoopThread("kafka-share")
            self._driver = ShareDriver(self._options)
            source_started(self)
            environment.warn()
        return self._driver


def _partitions(slices: tuple[Slice, ...]) -> list[TopicIdPartition]:
    return [TopicIdPartition(part.topic_id, part.partition) for part in slices]


def _fields(schema: StructType) -> list[tuple[str, str]]:
    return [(field.name, field.dataType.simpleString()) for field in schema.fields]
