"""The newest batch that Spark has, and its end.

A batch is settled when Spark has committed it: then its results are written, and no accepted record
can be processed again. Four callers learn of the commit, each by its own sign: ``latestOffset`` and
``commit`` from Spark, the :class:`CommitWatch` from the checkpoint, and the end of the query, which
looks into the checkpoint a last time. All of them call :meth:`Settlement.settle`, which settles a
batch once.

Decisions about a batch's records come from the sink through the :class:`Inbox`; without an inbox
all records are accepted.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from sharegroup.client.core.acknowledgements import AckType
from sharegroup.client.network.addresses import Address
from sharegroup.model.errors import ConfigError
from sharegroup.model.ids import TopicIdPartition
from sharegroup.spark.ack_files import make_inbox
from sharegroup.spark.options.stream import EXPLICIT, IMPLICIT, ShareOptions
from sharegroup.spark.ranges import Decision, Reason
from sharegroup.spark.source.group_view import GroupQuestions
from sharegroup.spark.source.holding.acknowledging import (
    Acknowledging,
    Notes,
    clock_ms,
    pauses_of,
)
from sharegroup.spark.source.holding.acquiring import Acquirer
from sharegroup.spark.source.holding.claiming import Claimer, make_claims, make_ledger, open_claims
from sharegroup.spark.source.holding.ledger import NOTHING_DECIDED, Decided, waiting
from sharegroup.spark.source.offsets import BatchOffset, Ranges
from sharegroup.spark.source.settling.commit_watch import CommitWatch
from sharegroup.spark.source.settling.delayed_releases import HoldKeeper
from sharegroup.spark.source.settling.lost_locks import still_wanted
from sharegroup.spark.source.settling.unanswered import check_answered
from sharegroup.spark.source.subscription import StreamTopics

log = logging.getLogger("sharegroup.spark")

Leaders = Callable[[Sequence[TopicIdPartition]], Mapping[TopicIdPartition, Address]]


class Settlement:
    """See the module. Not thread-safe; all runs on one loop.

    Attributes:
        ledger: the records that the group's member holds.
        inbox: the sink's decisions; None: all records are accepted.
        claims: the folder of claims; None: the query does not claim.
        turn: the lock that every user of ledger and member holds: Spark's calls, prefetching,
            renewal.
        current: the newest offset that Spark has.
    """

    def __init__(self, options: ShareOptions, subscription: StreamTopics) -> None:
        self.ledger = make_ledger(options)
        self.inbox = make_inbox(options)
        self.claims = make_claims(options)
        self.turn = asyncio.Lock()
        self.current = BatchOffset()
        self._options = options
        self._subscription = subscription
        self._watch = CommitWatch(self.inbox, lambda: subscription.names, self.settle)
        # A batch of another process that runs again here, and the part of it to process.
        self._replayed = BatchOffset(), BatchOffset()
        self._settled = self._inherited = 0
        self._silent: tuple[BatchOffset, Decided] | None = None  # a batch without any answer
        self._parts: tuple[Acquirer, Acknowledging, Claimer | None, HoldKeeper] | None = None

    @property
    def has_settled(self) -> bool:
        """Whether this process has settled a batch."""
        return self._settled > 0

    # --- life -------------------------------------------------------------------------------------

    async def opening(self) -> BatchOffset:
        """The empty first batch of a query in explicit mode: mistakes in the sink show before any
        record is acquired."""
        assert self.inbox is not None
        await self.inbox.open(self._subscription.names)
        self.inbox.discard(self._subscription.names)
        self.current = BatchOffset(sequence=1, group_id=self._options.group_id)
        return self.current

    async def open_inbox(self, batch: BatchOffset | None = None) -> None:
        """Read the answers about the topics of the stream, and of ``batch``, from now on.

        Raises:
            FolderTaken: another query uses ``ackLocation``.
        """
        if self.inbox is not None:
            topics = () if batch is None else batch.topics.values()
            await self.inbox.open({*self._subscription.names, *topics})

    async def load(self, start: BatchOffset) -> BatchOffset:
        """Load the claims that Spark does not have. Returns Spark's newest offset.

        Args:
            start: the offset where Spark begins.

        Raises:
            ConfigError: the checkpoint needs another ``ackMode``, or another folder.
        """
        known = self.current if self.current.sequence else start
        self._check_mode(known)
        await open_claims(self.claims, self.ledger, known)
        return known

    def begin(
        self,
        acquirer: Acquirer,
        acknowledging: Acknowledging,
        claimer: Claimer | None,
        holds: HoldKeeper,
    ) -> None:
        """The group's member is there: from now on batches can be settled."""
        self._parts = acquirer, acknowledging, claimer, holds

    async def end(self) -> None:
        """The query stops: settle its last batch if Spark has committed it by now."""
        self._watch.end()
        await self._watch.check(self.current)

    def close(self) -> None:
        """Release the folders; another query may use them."""
        if self.inbox is not None:
            self.inbox.close()
        if self.claims is not None:
            self.claims.close()

    # --- the newest batch -------------------------------------------------------------------------

    def given(
        self, start: BatchOffset, ranges: Ranges, member_id: str, numbers: Mapping[str, int]
    ) -> BatchOffset:
        """Spark gets the batch after ``start``, with these records. Returns the batch's offset."""
        done = self.ledger.done()
        names = {**self.ledger.topics, **self._subscription.topics}
        ids = {partition.topic_id for partition in (*ranges, *done)}
        self.current = BatchOffset(
            sequence=start.sequence + 1,
            group_id=self._options.group_id,
            member_id=member_id,
            topics={i: names[i] for i in ids if i in names},
            ranges=ranges,
            done=done,
            ack_mode=self._options.ack_mode,
            claims=self.ledger.position,
            numbers=numbers,
        )
        if ranges:
            self._watch.begin(self.current)
        return self.current

    async def replay(self, end: BatchOffset, group: GroupQuestions) -> BatchOffset:
        """Spark runs the batch ``end``, perhaps again. If another process acquired it, take it
        over.

        Returns:
            The part of the batch to process.

        Raises:
            ConfigError: the checkpoint needs another ``ackMode``.
            LostLocks: the group has finished some of its records meanwhile (``onLostLocks`` fail).
        """
        self._check_mode(end)
        await self.open_inbox(end)  # before the batch's sink looks for a source that reads it
        async with self.turn:
            if end.sequence > self.current.sequence:
                if end.group_id == self._options.group_id:
                    policy = self._options.on_lost_locks
                    self._replayed = end, await still_wanted(end, group, policy)
                    if self.inbox is not None:
                        await asyncio.to_thread(self.inbox.begin_again, end.topics.values())
                self._adopt(end)
        replayed, wanted = self._replayed
        return wanted if replayed == end else end

    def _move_to(self, offset: BatchOffset) -> None:
        """Spark goes on from this offset, which is not the newest one that we gave it."""
        if offset.sequence > self.current.sequence:
            self._adopt(offset)
        else:
            self.ledger.take_back()
            self.current = offset

    def _adopt(self, offset: BatchOffset) -> None:
        self.current = offset
        self._inherited = offset.sequence
        self._subscription.topics.update(offset.topics)
        if offset.group_id == self._options.group_id:
            self.ledger.adopt(offset)
            self._warn_of_dropped_topics(offset)
        elif offset.sequence:
            log.warning(
                "the checkpoint is of group %s, the query now reads from group %s: nothing of the "
                "last batch is acknowledged",
                offset.group_id,
                self._options.group_id,
            )

    def _warn_of_dropped_topics(self, offset: BatchOffset) -> None:
        unconfirmed = {partition.topic_id for partition in (*offset.ranges, *offset.done)}
        names = {offset.topics[one] for one in unconfirmed} - set(self._subscription.names)
        if names:
            log.warning(
                "the checkpoint has records of topics that the query does not subscribe to any "
                "more: %s. The group gives them to others meanwhile; the query acknowledges them "
                "when it subscribes to their topic again",
                ", ".join(sorted(names)),
            )

    def _check_mode(self, known: BatchOffset) -> None:
        """Refuse a checkpoint whose newest batch has its answers in a folder that this query does
        not read: to accept all its records would be wrong."""
        is_ours = known.group_id == self._options.group_id
        if known.ack_mode == EXPLICIT and known.ranges and is_ours and self.inbox is None:
            raise ConfigError(
                "the checkpoint was written with ackMode explicit: give its ackLocation, where the "
                "answers about its last batch are. To change the mode, let it end once with "
                "availableNow, then go on with a new checkpointLocation"
            )

    # --- its end ----------------------------------------------------------------------------------

    async def settle(self, finished: BatchOffset, *, is_newest: bool = False) -> None:
        """Spark has committed the batch ``finished``: acknowledge it, once. Does nothing for a
        batch that is settled, or is not the current one. Never raises for lost locks.

        Args:
            is_newest: Spark goes on from this batch, whatever the current one is: an earlier run
                may have made the batch. If we made a later batch, it is lost: its records are ready
                again.
        """
        if is_newest:
            self._watch.end()
        async with self.turn:
            if self._parts is None:
                return
            if finished.sequence != self.current.sequence:
                if not is_newest:
                    return
                self._move_to(finished)
            if finished.sequence <= self._settled or not finished.ranges:
                return
            await self._finish(finished, *self._parts)

    async def _finish(
        self,
        batch: BatchOffset,
        acquirer: Acquirer,
        acknowledging: Acknowledging,
        claimer: Claimer | None,
        holds: HoldKeeper,
    ) -> None:
        """Acknowledge the records as decided, and hold the records that must wait."""
        await acquirer.catch_up()  # first, while the ledger still knows the batch's records
        inherited = batch.sequence == self._inherited
        decided, default, reasons = await self._decisions(batch)
        longest_ms = acknowledging.pause_max_ms
        self._settled = batch.sequence  # a step that fails from here on is not repeated
        if inherited:  # the batch's locks may be lost: no record can be kept waiting
            decided = {p: without_waiting(ones, longest_ms) for p, ones in decided.items()}
        pauses = {p: pauses_of(ones, longest_ms) for p, ones in decided.items()}
        now_ms = clock_ms()
        before = self.ledger.statistics()
        owed = self.ledger.finished(
            decided, default=default, now_ms=now_ms, pause_max_ms=longest_ms
        )
        undecided = self.ledger.statistics().undecided - before.undecided
        await acknowledging.acknowledge(owed, Notes(reasons, pauses))
        await acknowledging.release_due(now_ms)
        if self.inbox is not None and 0 < before.in_batch == undecided:
            self._without_answers(batch, decided, inherited=inherited)
        if claimer is not None:
            await claimer.settled(batch)
        holds.look()

    async def _decisions(
        self, batch: BatchOffset
    ) -> tuple[Decided, AckType, Mapping[TopicIdPartition, Sequence[Reason]]]:
        """The sink's decisions, the acknowledgement type of all other records, and the reasons."""
        if self.inbox is None:
            return NOTHING_DECIDED, AckType.ACCEPT, MappingProxyType({})
        topics = self._subscription.topics
        decided = await asyncio.to_thread(self.inbox.take, topics, batch.sequence)
        if batch.ack_mode == IMPLICIT and not decided and batch != self._replayed[0]:
            # The run before made and finished the batch, and had no ackLocation.
            return decided, AckType.ACCEPT, MappingProxyType({})
        return decided, self.inbox.default, self.inbox.reasons

    def _without_answers(self, batch: BatchOffset, decided: Decided, *, inherited: bool) -> None:
        """No record of the batch has an answer: make Spark's next call fail, unless ``defaultAck``
        is set. A batch of an earlier run only warns: the program may be corrected by now."""
        if self._options.default_ack is not None:
            return
        if inherited:
            log.warning("no record of the last batch of the run before has an answer: released")
        else:
            self._silent = batch, decided

    async def check_answered(self, leaders: Leaders) -> None:
        """Fail if no record of a settled batch had an answer; once.

        Raises:
            Unanswered: the batch has rows, and ``defaultAck`` is not set.
        """
        if self._silent is not None:
            batch, decided = self._silent
            where = leaders(tuple(batch.ranges))
            await asyncio.to_thread(check_answered, batch, decided, where, self._options)
            self._silent = None


def without_waiting(decisions: Sequence[Decision], pause_max_ms: int) -> list[Decision]:
    """The decisions, with renewals, and delayed releases that the query would hold, turned into
    immediate releases. ``pause_max_ms`` as in :meth:`Ledger.finished`."""
    later = set(waiting(decisions, pause_max_ms))
    return [
        Decision(one.first, one.last, AckType.RELEASE) if one in later else one for one in decisions
    ]
