"""What every request of a share group member must say of itself (Kafka class KafkaApis)."""

from __future__ import annotations

from sharegroup.broker.authorization.access import Access
from sharegroup.broker.authorization.resources import Operation
from sharegroup.model.errors import InvalidRequest
from sharegroup.model.limits import MEMBER_ID_LENGTH_MAX


def checked_ids(group_id: str | None, member_id: str | None, access: Access) -> tuple[str, str]:
    """Group and member of a ShareFetch or ShareAcknowledge.

    Raises:
        InvalidRequest: one is missing, or the member id is longer than 36 characters.
        GroupAuthorizationFailed: the client may not read the group.
    """
    if not group_id:
        raise InvalidRequest("Invalid group id in the request.")
    access.require_group(Operation.READ, group_id)
    if not member_id or len(member_id) > MEMBER_ID_LENGTH_MAX:
        raise InvalidRequest("Invalid member id in the request.")
    return group_id, member_id
