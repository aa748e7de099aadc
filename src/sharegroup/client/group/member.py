"""A member of a consumer group: the machine of its protocol, and a task that sends its requests."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Iterable
from typing import Any, Final

from sharegroup.client.admin.offset_requests import LANE, check_commits_ranges
from sharegroup.client.core.classic_membership import ClassicMembership
from sharegroup.client.core.consumer_membership import ConsumerMembership
from sharegroup.client.core.key_ranges import COMMITS_RANGES, GIVES_TURNS
from sharegroup.client.core.rebalance import GroupState, MemberIdentity
from sharegroup.client.group.metrics import GroupConsumerMetrics
from sharegroup.client.group.settings import MemberSettings
from sharegroup.client.network.cluster import Cluster
from sharegroup.client.network.member_loop import MemberLoop, new_member_id, now_ms
from sharegroup.client.network.retrying import pause, retrying
from sharegroup.model import errors
from sharegroup.wire import apis
from sharegroup.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from sharegroup.wire.messages.heartbeat import HeartbeatRequest
from sharegroup.wire.messages.join_group import JoinGroupRequest
from sharegroup.wire.messages.leave_group import LeaveGroupRequest
from sharegroup.wire.messages.sync_group import SyncGroupRequest

log = logging.getLogger("sharegroup.client")

JOIN_LANE: Final = "join"
"""The lane of joins. A join is answered only when all members have joined; on a lane of its own,
commits and heartbeats need not wait for that."""
_JOIN_GRACE_MS: Final = 5_000
_LOOK_UP_AGAIN_MS: Final = 500
_APIS: Final = {
    ConsumerGroupHeartbeatRequest: (apis.CONSUMER_GROUP_HEARTBEAT, LANE),
    JoinGroupRequest: (apis.JOIN_GROUP, JOIN_LANE),
    SyncGroupRequest: (apis.SYNC_GROUP, JOIN_LANE),
    HeartbeatRequest: (apis.HEARTBEAT, LANE),
    LeaveGroupRequest: (apis.LEAVE_GROUP, LANE),
}


class GroupMember(MemberLoop):
    """See the module.

    Args:
        metadata_max_age_ms: how often a pattern is compared with the topics.
        on_news: called after each answer.

    Attributes:
        machine: decides; after a call on it, :meth:`wake` this task.
        runs: the member is in the group, or on its way there.
    """

    def __init__(
        self,
        cluster: Cluster,
        settings: MemberSettings,
        metadata_max_age_ms: int,
        metrics: GroupConsumerMetrics,
        on_news: Callable[[], None],
    ) -> None:
        super().__init__("consumer-group-member")
        self.runs = False
        self.machine: ConsumerMembership | ClassicMembership = (
            self._modern(cluster, settings)
            if settings.protocol == "consumer"
            else self._classic(settings)
        )
        self._cluster = cluster
        self._settings = settings
        self._metadata_max_age_ms = metadata_max_age_ms
        self._metrics = metrics
        self._on_news = on_news
        self._pauses = cluster.pauses()
        self._topics: tuple[str, ...] = ()
        self._pattern: str | re.Pattern[str] | None = None
        self._matched_ms: int | None = None
        self._look_up_ms = 0

    @staticmethod
    def _modern(cluster: Cluster, settings: MemberSettings) -> ConsumerMembership:
        return ConsumerMembership(
            settings.group_id,
            new_member_id(cluster),
            instance_id=settings.instance_id,
            rack_id=settings.rack_id,
            assignor=settings.assignor,
            takes_key_ranges=settings.key_ranges,
            cooperative=settings.cooperative,
            poll_interval_max_ms=settings.max_poll_interval_ms,
        )

    @staticmethod
    def _classic(settings: MemberSettings) -> ClassicMembership:
        return ClassicMembership(
            settings.group_id,
            assignors=settings.assignors,
            instance_id=settings.instance_id,
            rack_id=settings.rack_id,
            takes_key_ranges=settings.key_ranges,
            session_timeout_ms=settings.session_timeout_ms,
            heartbeat_interval_ms=settings.heartbeat_interval_ms,
            poll_interval_max_ms=settings.max_poll_interval_ms,
        )

    @property
    def identity(self) -> MemberIdentity:
        """This member's identity now."""
        return self.machine.identity

    @property
    def protocol(self) -> str:
        """``consumer`` or ``classic``."""
        return "consumer" if isinstance(self.machine, ConsumerMembership) else "classic"

    # --- the consumer's calls ---------------------------------------------------------------------

    async def choose_protocol(self) -> None:
        """Fall back to the classic protocol if the coordinator does not have ``consumer``.

        Raises:
            UnsupportedVersion: this member shares partitions, and the coordinator cannot do that.
            KafkaError: the coordinator cannot be reached.
        """
        group_id, cluster = self._settings.group_id, self._cluster
        timeout_ms = cluster.request_timeout_ms

        async def connect() -> None:
            node_id = await cluster.coordinator(group_id)
            connection = await cluster.connection(node_id, LANE)
            if self._settings.shares:
                level = GIVES_TURNS if self._settings.cooperative else COMMITS_RANGES
                await check_commits_ranges(cluster, group_id, level)
            if isinstance(self.machine, ConsumerMembership):
                connection.version_of(apis.CONSUMER_GROUP_HEARTBEAT)

        try:
            await retrying(cluster, connect, timeout_ms)
        except errors.UnsupportedVersion as error:
            if self._settings.shares:
                raise
            self._fall_back(error)

    def _fall_back(self, error: errors.KafkaError) -> None:
        log.warning(
            "group %r: the broker has no group protocol 'consumer' (%s); going on with 'classic': "
            "write group_protocol='classic' to choose it",
            self._settings.group_id,
            error,
        )
        self.machine = self._classic(self._settings)

    def subscribe(self, topics: Iterable[str], pattern: str | re.Pattern[str] | None) -> None:
        """Replace the subscription."""
        self._topics, self._pattern = tuple(topics), pattern
        self._matched_ms = None
        self._tell_machine(self._topics)
        self.wake()

    def start(self) -> None:
        """Begin to join."""
        super().start()
        self.runs = True

    def polled(self) -> None:
        """The application asks for records."""
        self.machine.polled(now_ms())
        self.wake()

    def told(self) -> None:
        """The application has been told of the machine's change."""
        self.machine.told(now_ms())
        self.wake()

    async def leave(self, timeout_ms: int) -> None:
        """Leave the group, if the group can be told within ``timeout_ms``. Ends this task."""
        self.runs = False
        for task in self.cut():
            await asyncio.wait([task])
        self.machine.leave(now_ms())
        request = self.machine.next_request(now_ms())
        if request is not None and timeout_ms > 0:
            await self._send(request, timeout_ms)
        self._topics, self._pattern = (), None

    # --- the task ---------------------------------------------------------------------------------

    def _deadline_ms(self) -> int | None:
        deadline = self.machine.next_deadline_ms()
        others = [
            at
            for at in (
                self._match_due_ms() if self._matches_here else None,
                self._look_up_ms if self._unnamed else None,
            )
            if at is not None
        ]
        return min([*others, *([] if deadline is None else [deadline])], default=None)

    async def _step(self) -> bool:
        try:
            if await self._chores():
                return True
        except errors.KafkaError as error:
            log.debug("group %r: %s", self._settings.group_id, error)
            await pause(self._pauses)
            return True
        request = self.machine.next_request(now_ms())
        if request is None:
            return False
        await self._send(request, None)
        return True

    async def _chores(self) -> bool:
        """Look up what the machine needs to know of topics. Returns whether it did anything."""
        machine, cluster = self.machine, self._cluster
        if self._matches_here and now_ms() >= (self._match_due_ms() or 0):
            await self._match_topics()
            return True
        if isinstance(machine, ConsumerMembership):
            if self._unnamed and now_ms() >= self._look_up_ms:
                self._look_up_ms = now_ms() + _LOOK_UP_AGAIN_MS
                machine.learn(await cluster.topics_by_id(machine.unnamed))
                self._on_news()
                return True
            return False
        if machine.state is GroupState.LEADING:
            machine.lead(await cluster.partition_counts(machine.group_topics), now_ms())
            return True
        if machine.is_leader:
            known = cluster.metadata.topics
            counts = {
                name: len(known[name].partitions) for name in machine.group_topics & known.keys()
            }
            machine.saw_partitions(counts, now_ms())
        return False

    @property
    def _unnamed(self) -> bool:
        return isinstance(self.machine, ConsumerMembership) and bool(self.machine.unnamed)

    # --- patterns ---------------------------------------------------------------------------------

    @property
    def _matches_here(self) -> bool:
        """The pattern is compared with the topics here, because the broker cannot do it."""
        if self._pattern is None:
            return False
        modern = isinstance(self.machine, ConsumerMembership)
        return not modern or isinstance(self._pattern, re.Pattern)

    def _match_due_ms(self) -> int:
        return 0 if self._matched_ms is None else self._matched_ms + self._metadata_max_age_ms

    async def _match_topics(self) -> None:
        assert self._pattern is not None, "there is no pattern"
        pattern = re.compile(self._pattern)
        names = await self._cluster.topic_names()
        self._matched_ms = now_ms()
        self._tell_machine([name for name in names if pattern.fullmatch(name)])

    def _tell_machine(self, topics: Iterable[str]) -> None:
        machine = self.machine
        if isinstance(machine, ConsumerMembership):
            pattern = self._pattern if isinstance(self._pattern, str) else None
            machine.subscribe(topics, now_ms(), pattern=pattern)
        else:
            machine.subscribe(topics, now_ms())

    # --- one request ------------------------------------------------------------------------------

    async def _send(self, request: Any, timeout_ms: int | None) -> None:
        machine, group_id = self.machine, self._settings.group_id
        api, lane = _APIS[type(request)]
        if timeout_ms is None and lane == JOIN_LANE:
            timeout_ms = max(
                self._settings.max_poll_interval_ms + _JOIN_GRACE_MS,
                self._cluster.request_timeout_ms,
            )
        before = machine.identity, machine.change
        beats = isinstance(request, ConsumerGroupHeartbeatRequest | HeartbeatRequest)
        if beats:
            self._metrics.heartbeat_sent()
        try:
            response = await self._cluster.send_to_coordinator(
                group_id, api, request, timeout_ms=timeout_ms, lane=lane
            )
            self._pauses.reset()
            if beats:
                self._metrics.heartbeat_answered()
            error = machine.answered(response, now_ms(), self._cluster.pauses().next_ms())
        except errors.KafkaError as failure:
            error = failure
            machine.failed(error, now_ms(), self._pauses.next_ms())
        if error is not None and not isinstance(
            error, errors.MemberIdRequired
        ):  # a step of joining
            self._note(error, api.name)
        if machine.change is not None or machine.error is not None:
            self._on_news()
        if (machine.identity, machine.change) != before:
            log.debug("%s", machine.identity)

    def _note(self, error: errors.KafkaError, name: str) -> None:
        group_id, machine = self._settings.group_id, self.machine
        if isinstance(error, errors.NotCoordinator | errors.CoordinatorNotAvailable):
            self._cluster.forget_coordinator(group_id)
        gone = isinstance(
            error, errors.NetworkException | errors.RequestTimedOut
        )  # logged elsewhere
        level = logging.DEBUG if gone else logging.INFO
        log.log(level, "%s of %s in %s: %s", name, machine.identity.member_id, group_id, error)
        if isinstance(error, errors.UnsupportedVersion) and isinstance(machine, ConsumerMembership):
            self._fall_back(error)
            self._tell_machine(self._topics)
