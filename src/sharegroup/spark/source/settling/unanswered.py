"""A batch of a query in explicit mode whose records got no answer at all: almost always a mistake.

Either the call of ``acknowledge`` is missing, or the sink's rows name other records. Every record
would get ``defaultAck`` (release), be delivered again, and be archived at the group's delivery
limit, unnoticed. So the query fails, unless ``defaultAck`` is set. A batch without rows is no
mistake: its offsets are gaps in the log (transaction markers, compacted or deleted records).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sharegroup.client.network.addresses import Address
from sharegroup.model.errors import SharegroupError
from sharegroup.model.ids import TopicIdPartition
from sharegroup.spark.options.stream import ShareOptions
from sharegroup.spark.source.holding.ledger import Decided
from sharegroup.spark.source.offsets import BatchOffset
from sharegroup.spark.source.planning import plan

NAMED_MAX: Final = 3


class Unanswered(SharegroupError):
    """No record of a finished batch has an answer."""


def check_answered(
    batch: BatchOffset,
    decided: Decided,
    leaders: Mapping[TopicIdPartition, Address],
    options: ShareOptions,
) -> None:
    """Fail for a batch whose records got no answer. Reads from the log, so it may block.

    Args:
        decided: the answers, all of them for other records.

    Raises:
        Unanswered: the batch has at least one row.
        KafkaError: the batch cannot be read.
    """
    if not _has_rows(batch, leaders, options):
        return
    came = ""
    if decided:
        others = {key: [(one.first, one.last) for one in ones] for key, ones in decided.items()}
        came = (
            f" Answers came for other records ({_places(batch, others)}): pass on the columns "
            "topic, partition and offset as the source gave them."
        )
    ours = {key: [(one.first, one.last) for one in ones] for key, ones in batch.ranges.items()}
    raise Unanswered(
        f"none of the {batch.records:,} records of a finished batch ({_places(batch, ours)}) has "
        f"an answer. They go back to the queue.{came} Write topic, partition, offset and ack to "
        "the format kafka-share, or call sharegroup.spark.acknowledge in foreachBatch, with "
        f"ackLocation {options.ack_location}. Where a batch may stay without answers, say what "
        'becomes of its records: .option("defaultAck", "release") or "accept"'
    )


def _has_rows(
    batch: BatchOffset, leaders: Mapping[TopicIdPartition, Address], options: ShareOptions
) -> bool:
    from sharegroup.arrow.rows import RowBuilder
    from sharegroup.spark.task.fetch import SliceReader, fetch_settings

    for task in plan(batch, min_partitions=None, max_records_per_partition=None):
        for part in task:
            leader = leaders.get(TopicIdPartition(part.topic_id, part.partition))
            rows = RowBuilder(("offset",), part.topic, part.partition, part.ranges)
            for chunk in SliceReader(part, leader, fetch_settings(options)).chunks():
                if any(True for _ in rows.rows(chunk.data, chunk.offset)):
                    return True
    return False


def _places(batch: BatchOffset, ranges: Mapping[TopicIdPartition, list[tuple[int, int]]]) -> str:
    named = [
        f"{batch.topics.get(key.topic_id, key.topic_id)}-{key.partition} offsets {ones[0][0]} to "
        f"{ones[-1][1]}"
        for key, ones in sorted(ranges.items())
        if ones
    ]
    more = ["…"] if len(named) > NAMED_MAX else []
    return ", ".join([*named[:NAMED_MAX], *more])
