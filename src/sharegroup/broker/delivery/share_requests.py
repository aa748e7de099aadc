"""Checks that every request of a share group member must pass (Kafka class KafkaApis)."""

from __future__ import annotations

from sharegroup.broker.authorization.access import Access
from sharegroup.broker.authorization.resources import Operation
from sharegroup.broker.delivery.parts import DeliveryParts
from sharegroup.model.errors import InvalidRequest
from sharegroup.model.limits import (
    ACKNOWLEDGING_BYTES_FREE,
    ACKNOWLEDGING_BYTES_PER_RECORD,
    MEMBER_ID_LENGTH_MAX,
    SESSION_BYTES_PER_PARTITION,
)
from sharegroup.wire.framing import first_string


def check_acknowledges(parts: DeliveryParts, access: Access, frame: bytes, body: int) -> None:
    """Refuse a ShareFetch or ShareAcknowledge that is too long, before it is decoded.

    The longest sensible request has one range for each record in flight in its group, and the
    session's changes for every partition.

    Args:
        body: where the message starts in the frame; the group's name is its first field.

    Raises:
        InvalidRequest: the request is too long.
        GroupAuthorizationFailed: the client may not read the group, and so not know of its records.
        MalformedMessage: the message does not begin with a string.
    """
    if len(frame) <= ACKNOWLEDGING_BYTES_FREE:
        return
    group_id = first_string(frame, body)
    access.require_group(Operation.READ, group_id)
    led = [one.core for one in parts.share_partitions.all() if one.key.group_id == group_id]
    records = sum(core.end_offset - core.start_offset for core in led)
    partitions = sum(topic.partitions for topic in parts.store.topics.values())
    most = ACKNOWLEDGING_BYTES_FREE + ACKNOWLEDGING_BYTES_PER_RECORD * records
    if len(frame) > most + SESSION_BYTES_PER_PARTITION * partitions:
        raise InvalidRequest(
            f"A request of {len(frame)} bytes is too long for acknowledgements of {records} "
            "records in flight."
        )


def checked_ids(group_id: str | None, member_id: str | None, access: Access) -> tuple[str, str]:
    """Group and member of a ShareFetch or ShareAcknowledge.

    Raises:
        InvalidRequest: an id is missing, or the member id is longer than 36 characters.
        GroupAuthorizationFailed: the client may not read the group.
    """
    if not group_id:
        raise InvalidRequest("Invalid group id in the request.")
    access.require_group(Operation.READ, group_id)
    if not member_id or len(member_id) > MEMBER_ID_LENGTH_MAX:
        raise InvalidRequest("Invalid member id in the request.")
    return group_id, member_id
