"""Reads the partitions of a fetch that its member reads in turns (KIP-X, "Cooperative Fetch")."""

from __future__ import annotations

from sharegroup.broker.authorization.resources import Operation
from sharegroup.broker.delivery.cooperative_reading import Turn
from sharegroup.broker.parts import BrokerParts
from sharegroup.broker.request_context import RequestContext
from sharegroup.model.errors import InvalidRequest, TopicRangeFetchNotAllowed
from sharegroup.model.log import ReadableLog
from sharegroup.wire.messages.fetch import (
    CooperativeMember,
    FetchPartition,
    PartitionData,
)
from sharegroup.wire.messages.ranges import Range


async def read_turn(
    parts: BrokerParts,
    context: RequestContext,
    member: CooperativeMember | None,
    log: ReadableLog,
    partition: FetchPartition,
    part: PartitionData,
    room: tuple[int, bool],
) -> None:
    """Read into ``part``. Its offsets must be set, and an empty list of aborted transactions if the
    request wants one.

    Args:
        room: bytes left in the answer, and whether the first batch is sent even if it is larger.

    Raises:
        InvalidRequest: the request names no member, or it names key ranges as well.
        GroupAuthorizationFailed: the client may not read the group.
        TopicRangeFetchNotAllowed: the topic is not shared.
        KafkaError: as ``CooperativeReading.read``.
    """
    if member is None or partition.key_ranges or partition.turn < 0:
        raise InvalidRequest("a turn needs a member, and has no key ranges")
    context.access.require_group(Operation.READ, member.group_id)
    if not parts.configs.topic_flag(log.topic_partition.topic, "accept.range.fetch"):
        raise TopicRangeFetchNotAllowed
    turn = Turn(
        member.group_id,
        member.member_id,
        member.member_epoch,
        partition.turn,
        partition.fetch_offset,
        *room,
    )
    committed = part.aborted_transactions is not None
    end = part.last_stable_offset if committed else part.high_watermark
    found = await parts.cooperative_reading.read(turn, log, end, committed=committed)
    part.without_records = [Range(*each) for each in found.holes]
    if not found.given:
        return
    # Of aborted transactions nothing is given, so their list stays empty. With the list a client
    # would need their markers, too, to know where they end.
    part.given = [Range(*each) for each in found.given]
    part.records = bytes(found.data)
    part.read_up_to = found.given[-1][1] + 1
