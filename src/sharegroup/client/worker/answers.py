"""A worker's answers on their way to the broker."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from sharegroup.client.core.acknowledgements import SENT, AcknowledgedRange, AckType
from sharegroup.client.core.fetched import Acknowledged
from sharegroup.client.core.held_deliveries import Holdings
from sharegroup.client.core.record import Record, delivery_of
from sharegroup.client.share.committer import AcknowledgementCommitter
from sharegroup.client.share.share_member import ShareMember
from sharegroup.model.errors import InvalidRecordState, RetriableError
from sharegroup.model.ids import TopicIdPartition

log = logging.getLogger("sharegroup.worker")

_GATHER_S: Final = 0.02
"""Answers that are given within this time, in seconds, are sent together, or ride on a fetch."""


class _Given(NamedTuple):
    """A record and its answer."""

    record: Record
    kind: AckType
    reason: str | None
    pause_ms: int | None
    """How long the released record is to rest; None: as the group's settings say."""
    due: float
    """When it has rested, by the loop's clock."""


class WorkerAnswers:
    """One answer for each record.

    For each partition, Kafka takes all acknowledgements of a request or none of them. So when one
    lock is gone, all acknowledgements are sent again, each alone.

    With order per key, the broker takes the acknowledgements that it can take, so none is sent
    again: a second answer could meet a later delivery of its record.

    Args:
        holdings, member, committer: the consumer's.
        on_late: called with the number of answers that came too late.

    Attributes:
        ordered: the group has order per key.
        on_answered: called with each outcome.
        on_unconfirmed: called with each answer that the broker has not confirmed, because the
            connection or session was lost: its record, its kind, its reason, and when the pause
            that it asks for is over (None: it asks for none).
    """

    def __init__(
        self,
        holdings: Holdings,
        member: ShareMember,
        committer: AcknowledgementCommitter,
        on_late: Callable[[int], None],
    ) -> None:
        self._holdings = holdings
        self._member = member
        self._committer = committer
        self._on_late = on_late
        self.ordered = False
        self.on_answered: Callable[[Iterable[Acknowledged]], None] = lambda _outcomes: None
        self.on_unconfirmed: Callable[[Record, AckType, str | None, float | None], None] = _ignore
        self._given: dict[TopicIdPartition, dict[int, _Given]] = {}
        """The answers without an outcome."""
        self._timer: asyncio.TimerHandle | None = None
        self._again: set[asyncio.Task[None]] = set()

    def give(
        self,
        record: Record,
        kind: AckType,
        reason: str | None = None,
        pause_ms: int | None = None,
    ) -> bool:
        """Acknowledge the record, and say why, and for how long it is to rest. Returns False if its
        lock is gone with its session; then nothing is sent."""
        delivery = delivery_of(record)
        if delivery.lease.lost:
            return False
        delivery.decide(record.offset, kind)
        loop = asyncio.get_running_loop()
        given = _Given(record, kind, reason, pause_ms, loop.time() + (pause_ms or 0) / 1000)
        self._given.setdefault(delivery.partition, {})[record.offset] = given
        self._note(given)
        if self._timer is None:
            self._timer = loop.call_later(_GATHER_S, self._send)
        return True

    def _note(self, given: _Given) -> None:
        """Say beside the answer what it says more."""
        where = delivery_of(given.record).partition
        if given.reason is not None:
            self._member.reasons.note(where, given.record.offset, given.reason)
        if given.pause_ms is not None:
            self._member.pauses.note(where, given.record.offset, given.pause_ms)

    def forget(self, record: Record) -> None:
        """Drop the record: it gets no acknowledgement."""
        delivery_of(record).mark(record.offset, record.offset, SENT)

    def _send(self) -> None:
        self._timer = None
        self._committer.queue_decided()
        self._committer.flush()

    def outcome(self, outcome: Acknowledged) -> None:
        """Take the broker's outcome of some answers."""
        self.on_answered([outcome])
        if outcome.error is None:
            self._settled(outcome)
            return
        said = _each(outcome)
        mixed = isinstance(outcome.error, InvalidRecordState) and len(said) > 1
        if mixed and not self.ordered:
            given = self._given.get(outcome.partition, {})
            again = [(offset, kind, given.get(offset)) for offset, kind in said]
            task = asyncio.create_task(self._say_again(outcome.partition, again))
            self._again.add(task)
            task.add_done_callback(self._again.discard)
            return
        settled = self._settled(outcome)
        if mixed:
            log.info("some of %d acknowledgements came too late", len(said))
        elif said:
            log.info("%d acknowledgements came too late: %s", len(said), outcome.error)
            if isinstance(outcome.error, RetriableError):
                for one in settled:
                    due = None if one.pause_ms is None else one.due
                    self.on_unconfirmed(one.record, one.kind, one.reason, due)
            self._on_late(len(said))

    def _settled(self, outcome: Acknowledged) -> list[_Given]:
        """The answers that this is the outcome of; they wait for none any more."""
        waiting = self._given.get(outcome.partition, {})
        found = [
            waiting.pop(offset)
            for one in outcome.ranges
            for offset in range(one.first, one.last + 1)
            if offset in waiting
        ]
        if not waiting:
            self._given.pop(outcome.partition, None)
        return found

    async def _say_again(
        self, partition: TopicIdPartition, said: list[tuple[int, int, _Given | None]]
    ) -> None:
        for offset, kind, given in said:
            if self._given.get(partition, {}).get(offset) is not given:
                continue  # a later delivery of the record has an answer of its own
            lease = None  # of a damaged batch it is not known
            if given is not None:
                self._note(given)  # it was forgotten with the outcome
                lease = delivery_of(given.record).lease
            alone = AcknowledgedRange(offset, offset, bytes([kind]))
            await self._member.acknowledge_alone(partition, alone, lease)

    async def finish(self) -> None:
        """Send all decided answers, and wait until no answer has to be sent again."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._committer.queue_decided()
        await self._member.commit()
        while self._again:
            await asyncio.wait(self._again)


def _ignore(_record: Record, _kind: AckType, _reason: str | None, _due: float | None) -> None:
    """Nobody keeps it."""


def _each(outcome: Acknowledged) -> list[tuple[int, int]]:
    """(offset, answer) of each record among the acknowledged offsets."""
    return [
        (first + at, types[at] if len(types) > 1 else types[0])
        for first, last, types in outcome.ranges
        for at in range(last - first + 1)
        if (types[at] if len(types) > 1 else types[0]) != AckType.GAP
    ]
