"""A group is about to begin as a copy of another one."""

from __future__ import annotations

import logging

from sharegroup.broker.delivery.parts import DeliveryParts
from sharegroup.model.errors import KafkaError
from sharegroup.model.ids import SharePartitionKey, TopicIdPartition
from sharegroup.model.offsets import UNKNOWN_OFFSET

logger = logging.getLogger("sharegroup.broker")


async def choose_start(parts: DeliveryParts, key: SharePartitionKey) -> None:
    """Choose the start offset of a group in a partition, if that is not chosen yet: its fork would
    choose by its own setting, and miss records that the group will get."""
    if (await parts.state.read_summary(key)).start_offset != UNKNOWN_OFFSET:
        return
    try:
        log = parts.topics.log_by_id(TopicIdPartition(key.topic_id, key.partition))
        await parts.share_partitions.get(key, log)
    except KafkaError as error:  # the group cannot begin here now, nor can its fork
        logger.info("%s is forked before it has begun: %s", key, error)
