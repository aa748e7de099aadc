"""A member's acknowledgements: queues them, sends them, reports their outcomes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from typing import Any, Final

from sharegroup.client.core.acknowledgements import (
    AcknowledgedRange,
    AcknowledgementQueue,
    AckType,
)
from sharegroup.client.core.fetched import Acknowledged
from sharegroup.client.core.offset_notes import OffsetNotes
from sharegroup.client.core.record import LeaseView
from sharegroup.client.network.cluster import Cluster
from sharegroup.client.network.retrying import pause
from sharegroup.client.share.metrics import ShareConsumerMetrics
from sharegroup.client.share.node_session import NodeSession
from sharegroup.client.share.node_sessions import NodeSessions
from sharegroup.client.share.unanswered import Unanswered
from sharegroup.model import errors
from sharegroup.model.ids import TopicIdPartition

log = logging.getLogger("sharegroup.client")

_LOCKS_GONE: Final = (
    errors.NotLeaderOrFollower,
    errors.FencedLeaderEpoch,
    errors.UnknownTopicOrPartition,
    errors.UnknownTopicId,
)
"""Errors after which a retry is pointless: the leader has changed or is gone, and the locks with
it. After other retriable errors of a partition, the locks still hold.
"""
_SESSION_GONE: Final = (errors.ShareSessionNotFound, errors.InvalidShareSessionEpoch)

AckOutcomes = dict[TopicIdPartition, errors.KafkaError | None]
"""Partition → the error of its acknowledgements; None is success."""
Ranges = Mapping[TopicIdPartition, Sequence[AcknowledgedRange]]


class Acknowledger:
    """One queue per partition. Every queued range is reported once, as :class:`Acknowledged`.

    Args:
        wanted: the partitions to put into a session that is opened only to acknowledge.
        on_acknowledged: called with every outcome.
        notes: what is said beside the acknowledgements, and forgotten with their outcome.
    """

    def __init__(
        self,
        cluster: Cluster,
        sessions: NodeSessions,
        wanted: Callable[[], Collection[TopicIdPartition]],
        on_acknowledged: Callable[[Acknowledged], None] | None,
        metrics: ShareConsumerMetrics,
        notes: Sequence[OffsetNotes[Any]],
    ) -> None:
        self._cluster = cluster
        self._sessions = sessions
        self._metrics = metrics
        self._notes = notes
        self._wanted = wanted
        self._on_acknowledged = on_acknowledged
        self._queues: dict[TopicIdPartition, AcknowledgementQueue] = {}
        self._leases: dict[TopicIdPartition, LeaseView] = {}
        """The locks that a queue is about, where they are known."""
        self._collectors: list[AckOutcomes] = []
        self._carried: dict[int, asyncio.Future[None]] = {}
        self._unanswered = Unanswered()
        self._sending: set[asyncio.Task[Any]] = set()

    def __bool__(self) -> bool:
        return any(self._queues.values())

    @property
    def sending(self) -> list[asyncio.Task[Any]]:
        """The requests under way."""
        return list(self._sending)

    def add(self, partition: TopicIdPartition, first: int, last: int, types: bytes) -> None:
        """Queue one range."""
        self._queues.setdefault(partition, AcknowledgementQueue()).add(first, last, types)

    def extend(
        self,
        partition: TopicIdPartition,
        ranges: Iterable[AcknowledgedRange],
        lease: LeaseView | None = None,
    ) -> None:
        """Queue several ranges. They are not sent without the locks of ``lease``: this member may
        hold other locks of the same records by then."""
        if lease is not None:
            if lease is not self._leases.get(partition):
                self._fail_queue(partition)
            self._leases[partition] = lease
        self._queues.setdefault(partition, AcknowledgementQueue()).extend(ranges)

    def nodes(self) -> set[int]:
        """The nodes with queued acknowledgements."""
        nodes = {self._sessions.leader(p) for p, queue in self._queues.items() if queue}
        return {node_id for node_id in nodes if node_id is not None}

    def take(self, node_id: int) -> dict[TopicIdPartition, list[AcknowledgedRange]]:
        """Take the queued ranges of a node. The caller must report their outcome."""
        self.fail_moved()
        leader = self._sessions.leader
        partitions = [p for p, q in self._queues.items() if q and leader(p) == node_id]
        taken = {partition: self._taken(partition) for partition in partitions}
        for ranges in taken.values():
            self._metrics.acknowledgements_sent(ranges)
        return taken

    def _taken(self, partition: TopicIdPartition) -> list[AcknowledgedRange]:
        self._leases.pop(partition, None)
        queue = self._queues.pop(partition, None)
        ranges = queue.take() if queue else []
        self._unanswered.sent(partition, len(ranges))
        return ranges

    def carry(self, node_id: int) -> Callable[[], None]:
        """Note that a fetch from this node is under way, which may carry acknowledgements. The
        caller must call the returned function when their outcomes are known.
        """
        known = asyncio.get_running_loop().create_future()
        self._carried[node_id] = known

        def done() -> None:
            del self._carried[node_id]
            known.set_result(None)

        return done

    # --- sending ----------------------------------------------------------------------------------

    async def commit(self, wait_s: float | None = None) -> AckOutcomes:
        """Send all queued ranges, and await all outcomes, also of requests under way. An outcome
        that takes longer than ``wait_s`` is RequestTimedOut. Its request goes on, also when the
        caller is cancelled.
        """
        outcomes: AckOutcomes = {}
        queued = {partition for partition, queue in self._queues.items() if queue}
        asked = queued | self._unanswered.partitions
        self._collectors.append(outcomes)
        try:
            in_time = await self._finish([self._flush_all(queued, asked)], wait_s)
        finally:
            self._collectors = [one for one in self._collectors if one is not outcomes]
        for partition in asked:
            open_ = self._queues.get(partition) or partition in self._unanswered
            # In time and without an outcome: its leader has changed before it was sent.
            if partition not in outcomes or (open_ and not in_time):
                late = errors.RequestTimedOut("the acknowledgement was not answered in time")
                outcomes[partition] = outcomes.get(partition) or late
        return outcomes

    async def _flush_all(
        self, queued: Iterable[TopicIdPartition], asked: Iterable[TopicIdPartition]
    ) -> None:
        by_node = await self._sessions.by_node(queued)
        await asyncio.gather(*(self.flush(n) for n in by_node.keys() | self._carried.keys()))
        self.fail_unled()
        self.fail_moved()
        await self._unanswered.wait(asked)

    async def _finish(
        self, work: Iterable[Coroutine[Any, Any, Any]], wait_s: float | None = None
    ) -> list[Any]:
        """Await all coroutines, for at most ``wait_s``. After that they go on in the background:
        abandoning a sent request would cost the session and all its locks.
        """
        tasks = [asyncio.create_task(one) for one in work]
        for task in tasks:
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)
        if not tasks:
            return []
        done, _ = await asyncio.wait(tasks, timeout=wait_s)
        return [task.result() for task in tasks if task in done and not task.cancelled()]

    async def flush(self, node_id: int, *, final: bool = False) -> None:
        """Send the queued ranges of one node, after the requests under way there."""
        session = self._sessions[node_id]
        await self._carried_to(node_id)
        ranges = self.take(node_id)
        if ranges or final:
            await self.send(session, ranges, final=final)

    async def _carried_to(self, node_id: int) -> None:
        if node_id in self._carried:
            await asyncio.shield(self._carried[node_id])

    async def send_alone(
        self, partition: TopicIdPartition, alone: AcknowledgedRange, lease: LeaseView | None
    ) -> None:
        """Send a range in a request of its own, after the requests under way. In the queue, others
        would join it. It is not sent without the locks of ``lease``, if these are known."""
        await self._finish([self._send_alone(partition, alone, lease)])

    async def _send_alone(
        self, partition: TopicIdPartition, alone: AcknowledgedRange, lease: LeaseView | None
    ) -> None:
        node_id = self._sessions.leader(partition) if lease is None else lease.node_id
        if node_id is not None:
            await self._carried_to(node_id)
        self._unanswered.sent(partition, 1)
        if node_id is None or (lease is not None and self._gone(partition, lease)):
            self.complete(Acknowledged(partition, [alone], locks_gone()))
            return
        self._metrics.acknowledgements_sent([alone])
        await self.send(self._sessions[node_id], {partition: [alone]})

    async def send(self, session: NodeSession, ranges: Ranges, *, final: bool = False) -> None:
        """Send these ranges, and retry after transient errors. Reports every range's outcome."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._cluster.request_timeout_ms / 1000
        pauses = self._cluster.pauses()
        left: Ranges = dict(ranges)
        try:
            while True:
                outcomes = await session.acknowledge(left, self._wanted(), final=final)
                again = not final and loop.time() < deadline
                passing = {
                    one.partition: one.ranges
                    for one in outcomes
                    if isinstance(one.error, errors.RetriableError)
                    and not isinstance(one.error, _LOCKS_GONE)
                }
                left = passing if again else {}
                for outcome in outcomes:
                    if outcome.partition not in left:
                        self.complete(outcome)
                if not left:
                    return
                await pause(pauses)
        except errors.KafkaError as error:
            self.complete_all(left, as_outcome(error))
            self.fail_node(session.node_id)
        except BaseException:  # cancelled, or the cluster is closed under a consumer
            self.complete_all(left, errors.NotLeaderOrFollower("the acknowledgement was cut off"))
            raise

    async def renew(self, ranges: Iterable[tuple[TopicIdPartition, int, int]]) -> AckOutcomes:
        """Renew acquisition locks at once, without queueing. Goes on if the caller is cancelled."""
        queues: dict[TopicIdPartition, AcknowledgementQueue] = {}
        for partition, first, last in ranges:
            queue = queues.setdefault(partition, AcknowledgementQueue())
            queue.add(first, last, bytes([AckType.RENEW]))
        taken = {partition: queue.take() for partition, queue in queues.items()}
        outcomes: AckOutcomes = {p: errors.NotLeaderOrFollower(f"{p} has no leader") for p in taken}
        by_node = await self._sessions.by_node(taken)
        results = await self._finish(
            self._renew(node_id, {p: taken[p] for p in ps}) for node_id, ps in by_node.items()
        )
        for result in results:
            outcomes.update({one.partition: one.error for one in result})
        return outcomes

    async def _renew(self, node_id: int, ranges: Ranges) -> list[Acknowledged]:
        for one in ranges.values():
            self._metrics.acknowledgements_sent(one)
        try:
            return await self._sessions[node_id].acknowledge(ranges, self._wanted())
        except errors.RetriableError as error:
            self.fail_node(node_id)
            outcome = as_outcome(error)
            return [Acknowledged(partition, one, outcome) for partition, one in ranges.items()]

    # --- outcomes ---------------------------------------------------------------------------------

    def complete(self, outcome: Acknowledged) -> None:
        """Report an outcome."""
        self._unanswered.answered(outcome.partition, len(outcome.ranges))
        for notes in self._notes:
            notes.forget(outcome.partition, outcome.ranges)
        if outcome.error is not None:
            log.info("acknowledgement of %s failed: %s", outcome.partition, outcome.error)
            self._metrics.acknowledgements_failed(outcome.ranges)
        # The application has not decided about gaps. If their lock has expired, that must not look
        # as if its own acknowledgements had failed, which the broker has taken.
        error = outcome.error
        if error is not None and not any(one.decides for one in outcome.ranges):
            error = None
        for collector in self._collectors:
            if collector.get(outcome.partition) is None:
                collector[outcome.partition] = error
        if self._on_acknowledged is not None:
            self._on_acknowledged(outcome)

    def complete_all(self, ranges: Ranges, error: errors.KafkaError) -> None:
        """Report that all these ranges failed."""
        for partition, one in ranges.items():
            self.complete(Acknowledged(partition, one, error))

    def fail_node(self, node_id: int) -> None:
        """Fail the ranges that are queued for a node whose session is gone."""
        self.complete_all(self.take(node_id), locks_gone())

    def fail_moved(self) -> None:
        """Fail the ranges whose locks are gone, or another node's."""
        for partition, lease in list(self._leases.items()):
            if self._gone(partition, lease):
                self._fail_queue(partition)

    def _gone(self, partition: TopicIdPartition, lease: LeaseView) -> bool:
        return lease.lost or self._sessions.leader(partition) not in (None, lease.node_id)

    def _fail_queue(self, partition: TopicIdPartition) -> None:
        ranges = self._taken(partition)
        if ranges:
            self.complete(Acknowledged(partition, ranges, locks_gone()))

    def fail_unled(self) -> None:
        """Fail the ranges that are queued for partitions without a leader."""
        for partition in list(self._queues):
            if self._sessions.leader(partition) is None:
                ranges = self._taken(partition)
                if ranges:
                    error = errors.NotLeaderOrFollower(f"{partition} has no leader")
                    self.complete(Acknowledged(partition, ranges, error))


def locks_gone() -> errors.KafkaError:
    """The outcome of acknowledgements whose session is gone."""
    return errors.NotLeaderOrFollower("the share session was lost, and its locks with it")


def as_outcome(error: errors.KafkaError) -> errors.KafkaError:
    """The outcome of acknowledgements whose request failed."""
    return locks_gone() if isinstance(error, _SESSION_GONE) else error
