"""The background task that sends a member's heartbeats; ``core.membership`` decides when."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from sharegroup.client.core.access_errors import error_of_member
from sharegroup.client.core.membership import MemberState, ShareMembership
from sharegroup.client.network.cluster import Cluster
from sharegroup.client.network.member_loop import MemberLoop, now_ms
from sharegroup.client.share.metrics import ShareConsumerMetrics
from sharegroup.model import errors
from sharegroup.wire.apis import SHARE_GROUP_HEARTBEAT
from sharegroup.wire.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)

log = logging.getLogger("sharegroup.client")

LANE: Final = "heartbeats"
"""The lane of heartbeats: if the broker holds back a fetch by a quota, the membership must not
end."""


class Heartbeats(MemberLoop):
    """Runs one membership. After a call on ``membership`` the caller must :meth:`wake` this
    task.
    """

    def __init__(
        self, cluster: Cluster, membership: ShareMembership, metrics: ShareConsumerMetrics
    ) -> None:
        super().__init__("share-group-heartbeats")
        self._cluster = cluster
        self._membership = membership
        self._metrics = metrics
        self._pauses = cluster.pauses()

    async def wait_for(self, *states: MemberState, timeout_ms: int) -> bool:
        """Wait until the membership is in one of ``states``. Returns whether it is."""
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                while self._membership.state not in states:
                    await self.changed()
        except TimeoutError:
            return False
        return True

    def _deadline_ms(self) -> int | None:
        return self._membership.next_deadline_ms()

    async def _step(self) -> bool:
        request = self._membership.heartbeat(now_ms())
        if request is not None:
            await self._send(request)
        return request is not None

    async def _send(self, request: ShareGroupHeartbeatRequest) -> None:
        membership = self._membership
        before = membership.assignment
        self._metrics.heartbeat_sent()
        try:
            response: ShareGroupHeartbeatResponse = await self._cluster.send_to_coordinator(
                membership.group_id, SHARE_GROUP_HEARTBEAT, request, lane=LANE
            )
            self._metrics.heartbeat_answered()
            if response.error_code:
                code, message = response.error_code, response.error_message
                raise error_of_member(code, message, membership.group_id)
        except errors.KafkaError as error:
            if isinstance(error, errors.NotCoordinator | errors.CoordinatorNotAvailable):
                self._cluster.forget_coordinator(membership.group_id)
            gone = isinstance(
                error, errors.NetworkException | errors.RequestTimedOut
            )  # logged elsewhere
            log.log(
                logging.DEBUG if gone else logging.INFO,
                "heartbeat of %s in %s: %s",
                membership.member_id,
                membership.group_id,
                error,
            )
            membership.failed(error, now_ms(), self._pauses.next_ms())
            return
        self._pauses.reset()
        membership.answered(response, now_ms())
        if membership.assignment != before:
            self._metrics.rebalanced()
            names = ", ".join(map(str, sorted(membership.assignment))) or "nothing"
            log.debug("%s in %s holds %s", membership.member_id, membership.group_id, names)
