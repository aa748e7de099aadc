"""The acknowledgements of share groups in a transaction, as requests to the leaders of their
partitions (KIP-1289; tagged fields of ShareAcknowledge until Kafka ships its wire)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from sharegroup.client.admin.topic_requests import leaders_of
from sharegroup.client.core.handed_over import HandedOver
from sharegroup.client.core.outbox import ProducerIdentity
from sharegroup.client.network.cluster import Cluster
from sharegroup.model import errors
from sharegroup.model.ids import TopicIdPartition, TopicPartition
from sharegroup.model.offsets import OffsetRange
from sharegroup.model.printable import encodable
from sharegroup.wire import apis
from sharegroup.wire.messages.acknowledgement_notes import Reason
from sharegroup.wire.messages.share_acknowledge import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)

TRANSACTIONAL_ACKS_FEATURE: Final = "share.transactional.acks"
_LOCKS_GONE: Final = (
    errors.NotLeaderOrFollower,
    errors.FencedLeaderEpoch,
    errors.UnknownTopicOrPartition,
    errors.UnknownTopicId,
)
"""Errors of a partition after which a repetition is pointless: the locks are gone."""


def by_member(handed: Iterable[HandedOver]) -> list[list[HandedOver]]:
    """What each member has handed over."""
    found: dict[tuple[str, str], list[HandedOver]] = {}
    for one in handed:
        found.setdefault((one.group_id, one.member_id), []).append(one)
    return list(found.values())


async def acknowledge_in_transaction(
    cluster: Cluster,
    transactional_id: str,
    producer: ProducerIdentity,
    handed: Sequence[HandedOver],
    check: Callable[[int], None],
    lane: str,
) -> None:
    """One attempt to let the transaction hold what one member has handed over. It may be repeated.

    Args:
        check: raises the error of a whole answer, by its code.
        lane: of the connections.

    Raises:
        UnsupportedVersion: the broker cannot acknowledge in transactions.
        InvalidRecordState: the member does not hold a record any more.
        KafkaError: the transaction, or the group, is refused.
    """
    wanted = _wanted(handed)
    for node_id, partitions in (await leaders_of(cluster, wanted)).items():
        connection = await cluster.connection(node_id, lane)
        if TRANSACTIONAL_ACKS_FEATURE not in connection.features:
            raise errors.UnsupportedVersion("the broker acknowledges no records in a transaction")
        request = ShareAcknowledgeRequest(
            group_id=handed[0].group_id,
            member_id=handed[0].member_id,
            topics=[wanted[one] for one in partitions],
            transactional_id=transactional_id,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
        )
        response = await cluster.send(node_id, apis.SHARE_ACKNOWLEDGE, request, lane=lane)
        check(response.error_code)
        for topic in response.responses:
            for one in topic.partitions:
                if one.error_code:
                    raise _error(partitions, one.error_code, one.error_message)


def _wanted(handed: Iterable[HandedOver]) -> dict[TopicPartition, AcknowledgeTopic]:
    """The acknowledgements of each partition, ascending."""
    rows: dict[tuple[TopicPartition, TopicIdPartition], list[tuple[OffsetRange, HandedOver]]] = {}
    for each in handed:
        for names, ranges in each.ranges().items():
            rows.setdefault(names, []).extend((one, each) for one in ranges)
    found: dict[TopicPartition, AcknowledgeTopic] = {}
    for (where, key), own in rows.items():
        own.sort(key=_first)
        partition = AcknowledgePartition(
            where.partition,
            [AcknowledgementBatch(*one, [each.kind]) for one, each in own],
            [Reason(*one, encodable(each.reason)) for one, each in own if each.reason is not None],
        )
        found[where] = AcknowledgeTopic(key.topic_id, [partition])
    return found


def _first(row: tuple[OffsetRange, HandedOver]) -> int:
    return row[0].first


def _error(partitions: Sequence[TopicPartition], code: int, text: str | None) -> errors.KafkaError:
    error = errors.error_from_code(code, text)
    if not isinstance(error, _LOCKS_GONE):
        return error
    names = ", ".join(map(str, partitions))
    return errors.InvalidRecordState(f"the locks of records of {names} are gone: {error}")
