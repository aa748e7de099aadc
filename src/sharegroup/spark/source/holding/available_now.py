"""Decides when a run with Trigger.AvailableNow has read all records that were there at its start.

Other members may hold unfinished records. A dead member keeps its partitions until its session
ends, and its records until their locks expire. A live member may hold both for as long as it likes,
or release them. So after its last record the run waits for as long as a dead member could hold
partitions or records. Then it ends, with a warning that counts the records left, if there are any.

A member that still has a partition when a session's time has passed is alive: the group removes
members that send no heartbeats for so long. Records that become free in that partition go to that
member, not to the run, so the run does not wait for locks there. Once the run has been declared
over, it stays so until Spark gets records again: it ends with an empty batch, and does not wait
again after that batch.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping
from typing import Final

from sharegroup.client.share.share_member import ShareMember
from sharegroup.cooperative.intervals import size
from sharegroup.model.errors import KafkaError
from sharegroup.model.ids import TopicIdPartition, TopicPartition
from sharegroup.spark.source.group_view import GroupQuestions, Offsets, Unfinished
from sharegroup.spark.source.holding.ledger import Ledger
from sharegroup.spark.source.holding.lock_renewal import LOCK_MS_DEFAULT
from sharegroup.spark.source.subscription import StreamTopics

log = logging.getLogger("sharegroup.spark")

ARRIVAL_SECONDS: Final = 5.0
"""How long a run without an end waits for its first records, where they take time to come: Apache
Kafka assigns partitions in a later heartbeat, and then loads the states of their records. Members
send early heartbeats meanwhile."""
START_SECONDS: Final = 60.0
"""How long Apache Kafka may take to give the first records of a partition that is new to the group:
it creates an internal topic and loads states meanwhile."""
LATEST_START_SECONDS: Final = 2.0
"""The same time if the group begins at the end, so that no records will come; the group gets a
position only with the first record."""
MARGIN_SECONDS: Final = 2.0
TOLD_SECONDS: Final = 5.0
"""After this time the log says what the run waits for."""
NAMED_MAX: Final = 5


class AvailableNow:
    """One run, which reads the records before ``targets``.

    Attributes:
        targets: end offset per partition; None: the run has no end.
        untold: the run has given Spark a batch, and no progress has shown yet that it is settled.
    """

    def __init__(
        self,
        targets: Offsets | None,
        member: ShareMember,
        ledger: Ledger,
        group: GroupQuestions,
        subscription: StreamTopics,
    ) -> None:
        self.targets = targets
        self.untold = False
        self._member = member
        self._ledger = ledger
        self._group = group
        self._subscription = subscription
        self._assigned: Collection[TopicIdPartition] = ()
        self._changed_at = 0.0
        self._told = False
        self._has_arrived = False
        self._is_over = False  # kept, so that the call after the closing batch need not wait again

    def given(self, *, has_records: bool) -> None:
        """Spark gets a batch. A batch without records closes the run: its progress shows that the
        batches before it are settled."""
        self.untold = self.targets is not None and has_records
        if has_records:
            self._is_over = False
            self._has_arrived = True

    async def is_over(self, idle_s: float) -> bool:
        """Whether to tell Spark that there are no more records: after ``idle_s`` without records,
        no more will come before the targets. Records that are held for later, or rest at the
        broker, are not waited for. In a run without an end, the answer is yes once its first
        records have had the time to come."""
        if self.targets is None:
            self._has_arrived = self._has_arrived or not self._may_arrive()
            return self._has_arrived
        if not self.targets or self._is_over:
            return True
        self._is_over = await self._has_ended(self.targets, idle_s)
        return self._is_over

    def _may_arrive(self) -> bool:
        """Whether the member has joined so lately that its first records may be on their way."""
        at_once = self._group.gives_at_once and self._member.assignment
        since_s = self._since_assigned()
        return bool(self._member.topics) and not at_once and since_s < ARRIVAL_SECONDS

    async def _has_ended(self, targets: Offsets, idle_s: float) -> bool:
        held = {partition: size(ranges) for partition, ranges in self._ledger.held().items()}
        idle_s = min(idle_s, self._since_assigned())  # a new assignment may bring records
        try:
            left = await self._group.left(self._subscription.topics, targets, held)
            latest = await self._group.begins_at_latest()
            waits = await self._waits(left, latest, idle_s)
        except KafkaError as error:
            log.info("whether all is read is not known yet: %s", error)
            return idle_s > START_SECONDS + self._lock_s
        missing = {key: one for key, one in left.items() if idle_s <= waits[key]}
        if missing:
            if idle_s > TOLD_SECONDS and not self._told:
                self._told = True
                await self._tell_waiting(missing, max(waits[key] for key in missing))
            return False
        if latest:  # the group does not read the records that are there now
            left = {key: one for key, one in left.items() if one.begun}
        if left:
            await self._tell_left(left, idle_s)
        return True

    def _since_assigned(self) -> float:
        """Seconds since our assignment last changed."""
        now = asyncio.get_running_loop().time()
        if self._assigned != self._member.assignment:
            self._assigned = self._member.assignment
            self._changed_at = now
        return now - self._changed_at

    @property
    def _lock_s(self) -> float:
        return (self._member.lock_timeout_ms or LOCK_MS_DEFAULT) / 1000

    async def _waits(
        self, left: Mapping[TopicIdPartition, Unfinished], latest: bool, idle_s: float
    ) -> dict[TopicIdPartition, float]:
        """How long records may still take to come, by partition."""
        session_s, alive = 0.0, set[TopicIdPartition]()
        if any(key not in self._member.assignment for key in left):
            session_s = await self._group.session_timeout_s()
            if idle_s > session_s + MARGIN_SECONDS:
                alive = await self._with_live_members(left)
        waits = {}
        for key, one in left.items():
            wait_s = self._lock_s + MARGIN_SECONDS
            if key not in self._member.assignment:
                wait_s += session_s
            if not one.begun:
                wait_s = LATEST_START_SECONDS if latest else max(START_SECONDS, wait_s)
            waits[key] = 0.0 if key in alive else wait_s
        return waits

    async def _with_live_members(
        self, partitions: Collection[TopicIdPartition]
    ) -> set[TopicIdPartition]:
        """The partitions that the group has given to other members only. Called after a session's
        time without records for us, when the group does not name dead members any more."""
        owners = await self._group.owners()
        found = set()
        for key in partitions:
            name = self._subscription.topics.get(key.topic_id, "")
            members = {one.member_id for one in owners.get(TopicPartition(name, key.partition), ())}
            if members and self._member.member_id not in members:
                found.add(key)
        return found

    # --- what the log says ------------------------------------------------------------------------

    async def _tell_waiting(
        self, missing: Mapping[TopicIdPartition, Unfinished], wait_s: float
    ) -> None:
        log.warning(
            "records that this run is to read have not come: %s. A member that died keeps its "
            "partitions until its session ends, and its records until their locks end; the run "
            "waits until %.0f s have passed since the last record came, or less if the member is "
            "alive after its session timeout",
            await self._listed(missing),
            wait_s,
        )

    async def _tell_left(self, left: Mapping[TopicIdPartition, Unfinished], idle_s: float) -> None:
        log.warning(
            "the run ends, and %d records that it was to read are not done, after %.0f s without a "
            "record: %s. Another member has them; what it does not finish comes with the next run",
            sum(one.records for one in left.values()),
            idle_s,
            await self._listed(left),
        )

    async def _listed(self, left: Mapping[TopicIdPartition, Unfinished]) -> str:
        """``jobs-1: 75 (with member x of 10.0.0.7), …``."""
        try:
            owners = await self._group.owners()
        except KafkaError as error:
            log.info("who owns the partitions is not known: %s", error)
            owners = {}
        named = []
        for key, one in sorted(left.items()):
            name = self._subscription.topics.get(key.topic_id, str(key.topic_id))
            others = [
                f"member {member.member_id} at {member.client_host.lstrip('/')}"
                for member in owners.get(TopicPartition(name, key.partition), ())
                if member.member_id != self._member.member_id
            ]
            with_whom = f" (with {', '.join(others)})" if others else ""
            named.append(f"{name}-{key.partition}: {one.records}{with_whom}")
        more = len(named) - NAMED_MAX
        return ", ".join([*named[:NAMED_MAX], *([f"{more} more"] if more > 0 else [])])
