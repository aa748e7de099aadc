"""The background task that sends a member's heartbeats; ``core.membership`` decides when."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from sharegroup.client.core.membership import Membership, MemberState
from sharegroup.client.network.cluster import Cluster
from sharegroup.client.share.metrics import ConsumerMetrics
from sharegroup.model.errors import (
    CoordinatorNotAvailable,
    KafkaError,
    NetworkException,
    NotCoordinator,
    RequestTimedOut,
    error_from_code,
)
from sharegroup.wire.apis import SHARE_GROUP_HEARTBEAT
from sharegroup.wire.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)

log = logging.getLogger("sharegroup.client")


def now_ms() -> int:
    """The event loop's time in milliseconds."""
    return int(asyncio.get_running_loop().time() * 1000)


class Heartbeats:
    """Runs one membership. After a call on ``membership`` the caller must :meth:`wake` this
    task.
    """

    def __init__(self, cluster: Cluster, membership: Membership, metrics: ConsumerMetrics) -> None:
        self._cluster = cluster
        self._membership = membership
        self._metrics = metrics
        self._backoff = cluster.backoff()
        self._woken = asyncio.Event()
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin; does nothing when it has begun."""
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="share-group-heartbeats")

    def wake(self) -> None:
        """Check again whether a heartbeat is due."""
        self._woken.set()

    def cut(self) -> list[asyncio.Task[Any]]:
        """Stop sending. Returns the tasks that end now."""
        task, self._task = self._task, None
        if task is None:
            return []
        task.cancel()
        return [task]

    async def wait_for(self, *states: MemberState, timeout_ms: int) -> bool:
        """Wait until the membership is in one of ``states``. Returns whether it is."""
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                while self._membership.state not in states:
                    await self.changed()
        except TimeoutError:
            return False
        return True

    async def changed(self) -> None:
        """Wait for the next answer or failure of a heartbeat."""
        await self._changed.wait()

    async def _run(self) -> None:
        while True:
            request = self._membership.heartbeat(now_ms())
            if request is None:
                await self._wait_until_due()
                continue
            await self._send(request)
            self._changed.set()
            self._changed = asyncio.Event()

    async def _wait_until_due(self) -> None:
        deadline_ms = self._membership.next_deadline_ms()
        loop = asyncio.get_running_loop()
        timer = None
        if deadline_ms is not None:
            timer = loop.call_at((deadline_ms + 1) / 1000, self._woken.set)
        await self._woken.wait()
        self._woken.clear()
        if timer is not None:
            timer.cancel()

    async def _send(self, request: ShareGroupHeartbeatRequest) -> None:
        membership = self._membership
        before = membership.assignment
        self._metrics.heartbeat_sent()
        try:
            response: ShareGroupHeartbeatResponse = await self._cluster.send_to_coordinator(
                membership.group_id, SHARE_GROUP_HEARTBEAT, request
            )
            self._metrics.heartbeat_answered()
            if response.error_code:
                raise error_from_code(response.error_code, response.error_message)
        except KafkaError as error:
            if isinstance(error, NotCoordinator | CoordinatorNotAvailable):
                self._cluster.forget_coordinator(membership.group_id)
            gone = isinstance(error, NetworkException | RequestTimedOut)  # which is said elsewhere
            log.log(
                logging.DEBUG if gone else logging.INFO,
                "heartbeat of %s in %s: %s",
                membership.member_id,
                membership.group_id,
                error,
            )
            membership.failed(error, now_ms(), self._backoff.next_ms())
            return
        self._backoff.reset()
        membership.answered(response, now_ms())
        if membership.assignment != before:
            self._metrics.rebalanced()
            names = ", ".join(map(str, sorted(membership.assignment))) or "nothing"
            log.debug("%s in %s holds %s", membership.member_id, membership.group_id, names)
