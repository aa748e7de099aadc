"""The topic that remembers which dead letters are done."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from sharegroup.client.admin.admin import Admin
from sharegroup.client.admin.descriptions import OffsetSpec
from sharegroup.client.consumer import Consumer
from sharegroup.client.core.done_letters import DONE_TOPIC, DoneLetters
from sharegroup.client.log_reading import LogReading
from sharegroup.client.network.cluster import Cluster
from sharegroup.model.errors import (
    TopicAlreadyExists,
    TopicAuthorizationFailed,
    UnknownTopicOrPartition,
)
from sharegroup.model.ids import TopicPartition

log = logging.getLogger("sharegroup.client")

_CONFIGS: Final = {"cleanup.policy": "compact"}


async def create_done_topic(admin: Admin) -> None:
    """Create the topic, if it is missing.

    Raises:
        TopicAuthorizationFailed, ClusterAuthorizationFailed …: it cannot be created.
    """
    try:
        await admin.describe_topics(DONE_TOPIC)
    except UnknownTopicOrPartition:
        try:
            await admin.create_topics(DONE_TOPIC, partitions=1, configs=_CONFIGS)
        except TopicAlreadyExists:
            return  # another redrive has just created it


async def load_done(admin: Admin, cluster: Cluster, *done: DoneLetters) -> None:
    """Read the topic as it is now; without the topic, nothing is done. Waits for the end of
    transactions that are open in it: marks may lie behind them.

    Args:
        cluster: connections for the fetches.
        done: which letters of a group are done, of one group or several.

    Raises:
        TopicAuthorizationFailed: the topic may not be read, if there is one: that is told to those
            alone who may see it.
    """
    try:
        await _load(admin, cluster, done)
    except TopicAuthorizationFailed as error:
        raise TopicAuthorizationFailed(
            f"not authorised to read the topic {DONE_TOPIC}, which says which letters are done: to "
            "see letters needs READ on it, too, also before there is one"
        ) from error


async def _load(admin: Admin, cluster: Cluster, done: Sequence[DoneLetters]) -> None:
    try:
        [topic] = (await admin.describe_topics(DONE_TOPIC)).values()
    except UnknownTopicOrPartition:
        return
    wheres = [TopicPartition(DONE_TOPIC, one.partition) for one in topic.partitions]
    begins = await admin.list_offsets(wheres, OffsetSpec.EARLIEST)
    ends = await admin.list_offsets(wheres, OffsetSpec.LATEST)
    spans = {where: (begins[where].offset, ends[where].offset) for where in wheres}
    async with Consumer[bytes, bytes](
        cluster=cluster, auto_offset_reset="none", isolation_level="read_committed"
    ) as consumer:
        async for records in LogReading(consumer, spans, ()).records():
            for record in records:
                try:
                    for one in done:
                        one.load((record.key or b"", record.value))
                except ValueError as error:
                    log.warning("%s@%d: %s", DONE_TOPIC, record.offset, error)
