"""Redrives the dead letters in a DataFrame."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from sharegroup.model.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from sharegroup.client.core.dead_letter import LettersHandled

PLACE_COLUMNS: Final = ("group_id", "letter_topic", "letter_partition", "letter_offset", "offset")


def redrive(
    letters: DataFrame,
    options: Mapping[str, str],
    *,
    to: str | None = None,
    rate: float | None = None,
) -> LettersHandled:
    """Send the records of exactly these dead letters again, each once, as ``sharegroup groups
    redrive`` does::

        options = {"kafka.bootstrap.servers": "localhost:9092", "deadLettersOf": "billing"}
        letters = spark.read.format("kafka-share").options(**options).load()
        redrive(letters.where("reason LIKE '%timed out%'"), options)

    The program itself redrives, not the executors. Letters that are done by now are passed over. If
    it is interrupted, the next call goes on.

    Args:
        letters: rows of such a read; of the columns, ``group_id``, ``letter_topic``,
            ``letter_partition``, ``letter_offset`` and ``offset`` are needed.
        options: of the read; its ``where`` has no effect, because the rows say what is wanted.
        to: the topic to send to, by key; None: the topic and partition that each record is from.
        rate: letters in a second, at most.

    Returns:
        What became of the letters; ``passed`` and ``others`` count the records of the dead-letter
        topic that were read and not wanted.

    Raises:
        ConfigError: an option is wrong, a column is missing, or a row is a letter of another group
            or topic.
        ProducerFenced: another call has begun to handle letters of the group.
    """
    # The producer and the redrive are loaded by programs that redrive only.
    from sharegroup.spark.letters.redriving import redrive_rows
    from sharegroup.spark.options.letters import parse_letter_options
    from sharegroup.sync.loop_thread import LoopThread

    wanted = parse_letter_options(options)
    for name in PLACE_COLUMNS:
        if name not in letters.columns:
            raise ConfigError(f"the column {name} is missing: keep it in the rows to redrive")
    table = letters.select(*PLACE_COLUMNS).toArrow()
    loop = LoopThread("kafka-share-redrive")  # in a notebook the caller's thread runs a loop too
    try:
        return loop.run(redrive_rows(wanted, table, to=to, rate=rate))
    finally:
        loop.close()
