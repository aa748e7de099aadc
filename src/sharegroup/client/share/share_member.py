"""One member of a share group. It does not decide how records are acknowledged.

It joins, sends heartbeats, fetches and acknowledges raw ranges of offsets. ``ShareConsumer`` adds
records and Kafka's acknowledgement rules; the Spark driver uses this class directly.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from sharegroup.client.closing import ended
from sharegroup.client.core.acknowledgements import AcknowledgedRange, AckType
from sharegroup.client.core.fetched import Acknowledged, FetchedPartition
from sharegroup.client.core.membership import MemberState, ShareMembership
from sharegroup.client.core.offset_notes import OffsetNotes
from sharegroup.client.core.record import LeaseView
from sharegroup.client.core.retry import PausesByKey
from sharegroup.client.core.share_session import FetchLimits
from sharegroup.client.network.cluster import Cluster
from sharegroup.client.network.member_loop import new_member_id, now_ms
from sharegroup.client.share.acknowledger import Acknowledger, AckOutcomes, as_outcome
from sharegroup.client.share.heartbeats import Heartbeats
from sharegroup.client.share.metrics import ShareConsumerMetrics
from sharegroup.client.share.node_session import WITHOUT_RECORDS_FEATURE, NodeSession
from sharegroup.client.share.node_sessions import NodeSessions, within
from sharegroup.client.share.node_turns import NodeTurns
from sharegroup.client.share.rounds import Rounds
from sharegroup.model import errors
from sharegroup.model.ids import TopicIdPartition

log = logging.getLogger("sharegroup.client")

MAX_BYTES_DEFAULT: Final = 52_428_800
"""fetch.max.bytes of Kafka's clients."""
OffsetsByPartition = Iterable[tuple[TopicIdPartition, int, int]]


class ShareMember:
    """See the module.

    Args:
        cluster: the connections; the caller starts and closes it.
        group_id: the share group.
        member_id: the member's id; None makes a new one. To replace an old member, pass its id. If
            the old member is still alive, the one of the two that is displaced goes on under a new
            id.
        rack_id: the rack that this client is in.
        subscribed_topics: names of topics, which need not exist yet.
        poll_interval_max_ms: leave the group when :meth:`fetch` is not called for this long; None:
            never.
        on_acknowledged: called with the outcome of every acknowledgement, however it was sent.
        shares_connections: other members use the ``cluster``. Their sessions end with its
            connections, so :meth:`leave` closes none, and waits for a fetch that waits at a broker.
    """

    def __init__(
        self,
        cluster: Cluster,
        group_id: str,
        *,
        member_id: str | None = None,
        rack_id: str | None = None,
        subscribed_topics: Iterable[str] = (),
        poll_interval_max_ms: int | None = None,
        on_acknowledged: Callable[[Acknowledged], None] | None = None,
        shares_connections: bool = False,
    ) -> None:
        self._shares_connections = shares_connections
        self.group_id = group_id
        self.member_id = member_id or new_member_id(cluster)
        self._cluster = cluster
        self._topics = tuple(sorted(set(subscribed_topics)))
        self._membership = ShareMembership(
            group_id, self.member_id, rack_id=rack_id, poll_interval_max_ms=poll_interval_max_ms
        )
        self.metrics = ShareConsumerMetrics(lambda: asyncio.get_running_loop().time())
        """The metrics of this member."""
        self._heartbeats = Heartbeats(cluster, self._membership, self.metrics)
        self.reasons = OffsetNotes[str]()
        """Why records are given back."""
        self.pauses = OffsetNotes[int]()
        """How long released records are to rest, in milliseconds."""
        self._sessions = NodeSessions(
            cluster,
            group_id,
            self.member_id,
            self.metrics,
            self._displaced,
            self.reasons,
            self.pauses,
        )
        self._acknowledger = Acknowledger(
            cluster,
            self._sessions,
            lambda: self.assignment,
            on_acknowledged,
            self.metrics,
            (self.reasons, self.pauses),
        )
        self._checking: asyncio.Task[None] | None = None
        self._turns = NodeTurns()
        self._pauses = PausesByKey[int](cluster.pauses)
        self._rounds = Rounds()

    # --- what is known ----------------------------------------------------------------------------

    @property
    def assignment(self) -> frozenset[TopicIdPartition]:
        """The partitions that the group has given to this member."""
        return self._membership.assignment

    @property
    def state(self) -> MemberState:
        """The member's state."""
        return self._membership.state

    @property
    def overdue(self) -> bool:
        """The application has not polled for ``poll_interval_max_ms``."""
        return self._membership.overdue(now_ms())

    @property
    def topics(self) -> tuple[str, ...]:
        """The subscription."""
        return self._topics

    @property
    def lock_timeout_ms(self) -> int | None:
        """The group's acquisition lock duration, from the last answer; None before the first
        fetch.
        """
        return self._sessions.lock_timeout_ms

    @property
    def can_acquire_without_records(self) -> bool:
        """Whether the broker offers to acquire records without sending them (our extension)."""
        return WITHOUT_RECORDS_FEATURE in self._cluster.features

    @property
    def has_pending_acknowledgements(self) -> bool:
        """Whether acknowledgements are queued and not sent yet."""
        return bool(self._acknowledger)

    # --- life -------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Join the group; heartbeats go on in the background until :meth:`close`. Our own broker
        assigns partitions in its first answer, Apache Kafka a heartbeat later: :meth:`fetch` waits.

        Raises:
            KafkaError: the group refused (authorisation, group full, another group type …).
            RequestTimedOut: no coordinator answered within the request time-out.
        """
        await self._cluster.start()
        self._heartbeats.start()
        self.subscribe(self._topics)
        if not self._topics:
            return
        timeout_ms = self._cluster.request_timeout_ms
        # STALE: it has joined, and left again because no poll came in time. The next poll rejoins.
        joined = await self._heartbeats.wait_for(
            MemberState.STABLE, MemberState.STALE, MemberState.FAILED, timeout_ms=timeout_ms
        )
        self._raise_failure()
        if not joined:
            raise errors.RequestTimedOut(
                f"the group {self.group_id!r} was not joined in {timeout_ms} ms"
            )

    def polled(self) -> None:
        """Note that the application is alive: restart ``poll_interval_max_ms``. :meth:`fetch` calls
        this, too.
        """
        self._membership.polled(now_ms())
        self._heartbeats.wake()

    def subscribe(self, topics: Iterable[str]) -> None:
        """Set the subscription; if it is empty, the member leaves the group."""
        self._topics = tuple(sorted(set(topics)))
        self._forget_check()
        if self._topics:
            self._cluster.watch(self._topics)
            self._membership.subscribe(self._topics, now_ms())
            check = self._cluster.check_topics(self._topics)
            self._checking = asyncio.create_task(check, name="share-topic-check")
            self._checking.add_done_callback(_seen)
        else:
            self._membership.leave(now_ms())
        self._heartbeats.wake()

    async def close(self, release: bool = True, *, timeout_ms: int = 30_000) -> None:
        """Send queued acknowledgements, end the sessions (the broker releases all acquired
        records), leave the group.

        With ``release=False`` nothing is sent: membership and locks stay, as far as the broker
        keeps them after the connection ends. A successor takes over with the same member id.
        """
        if release:
            await self.leave(timeout_ms=timeout_ms)
        else:
            await self._rounds.end()
        await ended(self.cut())

    def cut(self) -> list[asyncio.Task[Any]]:
        """Abort without telling the group; the locks end with the connection. Returns the cancelled
        tasks, which are about to end.
        """
        self._forget_check()
        tasks = [*self._rounds.cut(), *self._acknowledger.sending, *self._heartbeats.cut()]
        for task in tasks:
            task.cancel()
        return tasks

    async def leave(self, *, timeout_ms: int = 30_000) -> None:
        """Send queued acknowledgements, end the sessions (the broker releases all acquired
        records), and leave the group. :meth:`subscribe` joins again.
        """
        limit_ms = min(timeout_ms, self._cluster.request_timeout_ms)
        ends_at = asyncio.get_running_loop().time() + limit_ms / 1000
        self._topics = ()  # a fetch that waits begins no other round
        # A fetch that goes on at a broker would acquire records for nobody.
        if self._shares_connections:
            await self._rounds.end(limit_ms / 2 / 1000)  # the other half is for the rest
        else:
            for node_id in await self._rounds.end():
                self._cluster.disconnect(node_id)
        try:
            async with asyncio.timeout_at(ends_at):
                await self._end_sessions()
                await self._leave(limit_ms)
        except TimeoutError:
            log.warning(
                "%s could not tell %s that it leaves: timeout", self.member_id, self.group_id
            )

    async def _end_sessions(self) -> None:
        open_sessions = [session for session in self._sessions if session.open]
        await asyncio.gather(
            *(self._acknowledger.flush(one.node_id, final=True) for one in open_sessions)
        )
        if self._acknowledger:  # acknowledgements of sessions that are not open
            await self._acknowledger.commit()

    async def _leave(self, timeout_ms: int) -> None:
        self._membership.leave(now_ms())
        self._heartbeats.start()
        self._heartbeats.wake()
        await self._heartbeats.wait_for(
            MemberState.UNSUBSCRIBED, MemberState.FAILED, timeout_ms=timeout_ms
        )

    # --- fetching ---------------------------------------------------------------------------------

    async def fetch(
        self,
        *,
        max_records: int = 500,
        max_bytes: int = MAX_BYTES_DEFAULT,
        max_wait_ms: int = 500,
        min_bytes: int = 1,
        batch_size: int | None = None,
        strict: bool = False,
        without_records: bool = False,
    ) -> list[FetchedPartition]:
        """Acquire records from all assigned partitions; queued acknowledgements ride along.

        Returns as soon as one broker returned something. The next call returns what the other
        brokers send, and also the result of a cancelled call. Empty when nothing came within
        ``max_wait_ms``. A lost connection or session is not an error: it is opened again.

        Args:
            max_records: the approximate number of records; with ``strict`` (needs Apache Kafka 4.2
                or our broker), the maximum.
            batch_size: the broker may cut acquired ranges at this many records; None:
                ``max_records``.
            without_records: acquire records, but do not send them; ignored if the broker does not
                offer that (:attr:`can_acquire_without_records`).

        Raises:
            KafkaError: the group has removed this member for good, or the broker does not know
                ``strict``.
        """
        self.polled()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + max_wait_ms / 1000
        while True:
            self._raise_failure()
            remaining = max(0.0, deadline - loop.time())
            limits = FetchLimits(
                max_records=max_records,
                max_bytes=max_bytes,
                max_wait_ms=int(remaining * 1000),
                min_bytes=min_bytes,
                batch_size=batch_size,
                strict=strict,
                without_records=without_records,
            )
            await self._start_rounds(limits, remaining)
            fetched = await self._harvest(remaining)
            self._turns.brought(bool(fetched))
            if fetched or loop.time() >= deadline:
                return fetched

    async def last_fetched(self, wait_s: float | None = None) -> list[FetchedPartition]:
        """The results of the fetches under way that end within ``wait_s``; None: of all of them.
        Starts no new fetch."""
        return await self._rounds.last(wait_s)

    def arrived(self) -> list[FetchedPartition]:
        """What has come since the last :meth:`fetch`, which the next one would return."""
        return self._rounds.arrived()

    async def _start_rounds(self, limits: FetchLimits, remaining: float) -> None:
        wanted = await self._sessions.to_fetch(self.assignment, remaining)
        if not self._topics:  # the member leaves
            wanted = {}
        if limits.strict and wanted:
            if self._rounds:
                wanted = {}
            else:
                node_id, limits = self._turns.next(wanted, limits)
                wanted = {node_id: wanted[node_id]}
        for node_id in wanted.keys() | self._acknowledger.nodes():
            if node_id not in self._rounds:
                partitions = wanted.get(node_id, [])
                self._rounds.begin(node_id, self._round(node_id, partitions, limits))

    async def _harvest(self, remaining: float) -> list[FetchedPartition]:
        if not self._rounds:
            await within(remaining, self._heartbeats.changed)
            return []
        return await self._rounds.first(remaining)

    async def _round(
        self, node_id: int, wanted: Sequence[TopicIdPartition], limits: FetchLimits
    ) -> list[FetchedPartition]:
        """One node's part of a fetch. After a transient error: a pause and an empty list."""
        session = self._sessions[node_id]
        riding = self._acknowledger.take(node_id) if session.open else {}
        settled = self._acknowledger.carry(node_id)
        try:
            if not riding.keys() <= set(wanted):  # some partitions are not ours any more
                await self._acknowledger.send(session, riding)
                riding = {}
            if not wanted:
                return []
            fetched = await self._fetch_from(session, wanted, riding, limits)
        finally:
            settled()
        if any(isinstance(one.error, errors.RetriableError) for one in fetched):
            await self._recover(node_id)
            fetched = [one for one in fetched if not isinstance(one.error, errors.RetriableError)]
        else:
            self._pauses.reset(node_id)
        return fetched

    async def _fetch_from(
        self,
        session: NodeSession,
        wanted: Sequence[TopicIdPartition],
        riding: Mapping[TopicIdPartition, Sequence[AcknowledgedRange]],
        limits: FetchLimits,
    ) -> list[FetchedPartition]:
        was_open = session.open
        try:
            fetched, outcomes = await session.fetch(wanted, riding, limits)
        except errors.RetriableError as error:
            log.debug("fetch from node %s: %s", session.node_id, error)
            self._acknowledger.complete_all(riding, as_outcome(error))
            self._acknowledger.fail_node(session.node_id)
            if was_open and isinstance(error, errors.ShareSessionNotFound):  # it was restarted
                return await self._fetch_from(session, wanted, {}, limits)
            await self._recover(session.node_id)
            return []
        except BaseException as error:
            reason = error if isinstance(error, errors.KafkaError) else errors.NotLeaderOrFollower()
            self._acknowledger.complete_all(riding, reason)
            raise
        for outcome in outcomes:
            self._acknowledger.complete(outcome)
        return fetched

    async def _recover(self, node_id: int) -> None:
        """After a transient error: refresh the leaders, and pause."""
        await asyncio.sleep(self._pauses.next_ms(node_id) / 1000)
        await self._sessions.refresh()

    # --- acknowledging ----------------------------------------------------------------------------

    def acknowledge(
        self, partition: TopicIdPartition, first: int, last: int, types: bytes | bytearray
    ) -> None:
        """Queue acknowledgements of the offsets ``first`` … ``last``: the next fetch or
        :meth:`commit` carries them. For each offset, the last acknowledgement wins.

        Args:
            types: ``AckType`` values, one byte for all offsets or one per offset.

        Raises:
            ValueError: ``types`` is neither one type nor one per offset.
        """
        self._acknowledger.add(partition, first, last, bytes(types))

    def acknowledge_ranges(
        self,
        partition: TopicIdPartition,
        ranges: Iterable[AcknowledgedRange],
        lease: LeaseView | None = None,
    ) -> None:
        """As :meth:`acknowledge`, for several ranges: while the locks of ``lease`` are there."""
        self._acknowledger.extend(partition, ranges, lease)

    async def acknowledge_alone(
        self, partition: TopicIdPartition, alone: AcknowledgedRange, lease: LeaseView | None
    ) -> None:
        """Acknowledge in a request of its own, while the locks of ``lease`` are there."""
        await self._acknowledger.send_alone(partition, alone, lease)

    def has_moved(self, partition: TopicIdPartition, node_id: int) -> bool:
        """Whether another node leads the partition now: the locks from ``node_id`` are gone."""
        leader = self._sessions.leader(partition)
        return leader is not None and leader != node_id

    def is_served(self, partition: TopicIdPartition) -> bool:
        """As :meth:`NodeSessions.is_served`."""
        return self._sessions.is_served(partition)

    async def commit(self, wait_s: float | None = None) -> AckOutcomes:
        """Send queued acknowledgements and await all outcomes, also of requests under way. None is
        success, RequestTimedOut is an outcome that takes longer than ``wait_s``. If the caller is
        cancelled, no acknowledgement is lost.

        If a session is lost, its acknowledgements fail with NotLeaderOrFollower or a network error:
        their locks are gone, and the records are delivered again.
        """
        return await self._acknowledger.commit(wait_s)

    async def renew(self, ranges: OffsetsByPartition) -> AckOutcomes:
        """Renew the acquisition locks of these offsets.

        Raises:
            UnsupportedVersion: the broker is older than Apache Kafka 4.2.
        """
        return await self._acknowledger.renew(ranges)

    async def release(self, ranges: OffsetsByPartition) -> AckOutcomes:
        """Release these offsets at once, for delivery to other members."""
        for partition, first, last in ranges:
            self.acknowledge(partition, first, last, bytes([AckType.RELEASE]))
        return await self.commit()

    # --- inside -----------------------------------------------------------------------------------

    def _displaced(self) -> None:
        """Another process opened a session under our id: a query on a copy of a checkpoint does so,
        while the original runs. Go on under a new id, because two members with one id would end
        each other's sessions again and again.
        """
        old, self.member_id = self.member_id, new_member_id(self._cluster)
        log.warning(
            "another process goes on as the member %s of %s, and has its locks: this one goes on "
            "as the member %s",
            old,
            self.group_id,
            self.member_id,
        )
        self._sessions.go_on_as(self.member_id)
        self._membership.go_on_as(self.member_id, now_ms())
        self._heartbeats.wake()

    def _raise_failure(self) -> None:
        if self._membership.error is not None:
            raise self._membership.error
        if self._checking is not None and self._checking.done():
            checked, self._checking = self._checking, None
            checked.result()

    def _forget_check(self) -> None:
        if self._checking is not None:
            self._checking.cancel()
            self._checking = None


def _seen(task: asyncio.Task[None]) -> None:
    """Mark the error of the check of topics as seen: the next fetch, if any, raises it."""
    if not task.cancelled() and (error := task.exception()) is not None:
        log.info("subscription: %s", error)
