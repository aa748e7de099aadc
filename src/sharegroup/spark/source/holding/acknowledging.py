"""Sends acknowledgements, whether the broker confirms them or not.

Acknowledgements that the broker does not confirm stay in the :class:`Ledger` as done, and go into
the next offset. When such a record is delivered again, it is acknowledged and not processed.

With them goes what is said beside them: why records are given back, and for how long they are to
rest at the broker (:class:`Notes`). The reasons of unconfirmed acknowledgements are kept as long as
this process lives.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from sharegroup.client.core.acknowledgements import AckType
from sharegroup.client.core.fetched import Acknowledged
from sharegroup.client.share.share_member import ShareMember
from sharegroup.model.errors import InvalidRecordState, KafkaError
from sharegroup.model.ids import TopicIdPartition
from sharegroup.model.limits import PAUSE_MS_MAX
from sharegroup.model.offsets import OFFSET_MAX, OffsetRange
from sharegroup.spark.ranges import Decision, Reason, common, merged, without
from sharegroup.spark.source.holding.encode_acks import worded
from sharegroup.spark.source.holding.ledger import Ledger
from sharegroup.spark.source.offsets import Done

log = logging.getLogger("sharegroup.spark")

ATTEMPTS_PER_PARTITION: Final = 64
"""The most requests per partition to find out which ranges of a refused acknowledgement are still
ours."""

NOTES_BYTES: Final = 1 << 20
"""About how many bytes of notes go with one request."""
NOTE_BYTES: Final = 24
"""Bytes of a note without a text."""

Owed = Mapping[TopicIdPartition, Sequence[Done]]


class Pause(NamedTuple):
    """The records ``first`` … ``last`` rest at the broker for so long before they come again."""

    first: int
    last: int
    pause_ms: int


class Notes(NamedTuple):
    """What is said beside acknowledgements; ascending and disjoint in each partition."""

    reasons: Mapping[TopicIdPartition, Sequence[Reason]] = MappingProxyType({})
    pauses: Mapping[TopicIdPartition, Sequence[Pause]] = MappingProxyType({})


NO_NOTES: Final = Notes()


class Acknowledging:
    """See the module. Not thread-safe; the caller takes turns with other uses of ``member``.

    Args:
        broker_pauses: whether the broker lets released records rest.
    """

    def __init__(
        self, member: ShareMember, ledger: Ledger, broker_pauses: Callable[[], bool]
    ) -> None:
        self._member = member
        self._ledger = ledger
        self._broker_pauses = broker_pauses
        self._reasons: dict[TopicIdPartition, list[Reason]] = {}
        self._unanswered: dict[TopicIdPartition, list[OffsetRange]] = {}
        self._unanswered_since = 0.0
        self._gone_back: dict[TopicIdPartition, list[OffsetRange]] = {}

    @property
    def pause_max_ms(self) -> int:
        """For how long the broker lets a released record rest, at most; 0: it has no pauses, and
        this query holds the record instead."""
        return PAUSE_MS_MAX if self._broker_pauses() else 0

    def note(self, outcome: Acknowledged) -> None:
        """Note an outcome of the member's acknowledgements. With order per key, accepts that follow
        a release of the same key in one request have no effect: their records are delivered again,
        so they stay done in the ledger."""
        if outcome.gone_back:
            self._gone_back.setdefault(outcome.partition, []).extend(outcome.gone_back)

    @property
    def may_repeat(self) -> bool:
        """Whether no broker answered an acknowledgement, and one has answered another request
        since."""
        answered_at = self._member.metrics.answered_at
        if not self._unanswered or answered_at is None:
            return False
        return answered_at >= self._unanswered_since

    async def repeat(self) -> None:
        """Repeat the acknowledgements that no broker answered. The leader may still have the locks,
        for instance after a break of the network. Without this the records would come again only
        when the locks run out, and the group's lag would not fall until then.
        """
        unanswered, self._unanswered = self._unanswered, {}
        done = self._ledger.done()
        await self.acknowledge(
            {p: common(done.get(p, ()), merged(ranges)) for p, ranges in unanswered.items()}
        )

    async def release_due(self, now_ms: int | None = None) -> None:
        """Release the held records that are due, or make them ready for Spark again."""
        due = self._ledger.due(clock_ms() if now_ms is None else now_ms)
        if due:
            await self.acknowledge(due)

    async def acknowledge(self, owed: Owed, notes: Notes = NO_NOTES) -> None:
        """Send acknowledgements, and what is said beside them.

        The broker refuses all acknowledgements of a partition if one record is no longer ours. So
        refused acknowledgements are halved until the valid ones are accepted.
        """
        for partition, reasons in notes.reasons.items():
            kept = without(self._reasons.get(partition, ()), reasons)
            self._reasons[partition] = sorted([*kept, *reasons])
        await self._acknowledge(owed, notes.pauses)
        if self._reasons:  # the others are answered, or never will be
            done = self._ledger.done()
            kept_ones = {p: common(own, done.get(p, ())) for p, own in self._reasons.items()}
            self._reasons = {p: own for p, own in kept_ones.items() if own}

    async def _acknowledge(
        self, owed: Owed, pauses: Mapping[TopicIdPartition, Sequence[Pause]]
    ) -> None:
        parts = {
            partition: portions(ranges, self._reasons.get(partition, ()), pauses.get(partition, ()))
            for partition, ranges in owed.items()
            if ranges
        }
        attempts = {partition: 1 - len(own) for partition, own in parts.items()}
        waiting = [(partition, portion) for partition, own in parts.items() for portion in own]
        while waiting:
            now, rest = self._round(waiting)
            outcomes = await self._send(now, pauses)
            for partition, ranges in now.items():
                attempts[partition] += 1
                error = outcomes.get(partition)
                gone_back = self._gone_back.pop(partition, ())
                if error is None:
                    held = without(ranges, gone_back)
                    self._ledger.confirmed(partition, [(r.first, r.last) for r in held])
                elif isinstance(error, InvalidRecordState) and len(ranges) > 1:
                    if attempts[partition] < ATTEMPTS_PER_PARTITION:
                        middle = len(ranges) // 2
                        rest += [(partition, ranges[:middle]), (partition, ranges[middle:])]
                else:
                    log.info("%s: acknowledgement not confirmed: %s", partition, error)
                    if not isinstance(error, InvalidRecordState):
                        self._not_answered(partition, ranges)
            waiting = rest

    def _not_answered(self, partition: TopicIdPartition, ranges: Sequence[Done]) -> None:
        known = self._unanswered.setdefault(partition, [])
        known += [OffsetRange(one.first, one.last) for one in ranges]
        self._unanswered_since = asyncio.get_running_loop().time()

    def _round(
        self, waiting: Sequence[tuple[TopicIdPartition, list[Done]]]
    ) -> tuple[dict[TopicIdPartition, list[Done]], list[tuple[TopicIdPartition, list[Done]]]]:
        """What to send now, of each partition the first; and the rest. With reasons, as many
        partitions as go into one request."""
        now: dict[TopicIdPartition, list[Done]] = {}
        rest = []
        weight = 0
        for partition, ranges in waiting:
            heavy = sum(map(_weight, common(self._reasons.get(partition, ()), ranges)))
            if partition in now or (now and heavy and weight + heavy > NOTES_BYTES):
                rest.append((partition, ranges))
            else:
                now[partition] = ranges
                weight += heavy
        return now, rest

    async def _send(
        self,
        ranges: Mapping[TopicIdPartition, Sequence[Done]],
        pauses: Mapping[TopicIdPartition, Sequence[Pause]],
    ) -> dict[TopicIdPartition, KafkaError | None]:
        member = self._member
        for partition, ones in ranges.items():
            reasons = common(self._reasons.get(partition, ()), ones)
            member.reasons.note_ranges(partition, reasons)
            member.pauses.note_ranges(partition, common(pauses.get(partition, ()), ones))
            member.acknowledge_ranges(partition, worded(ones))
        return await member.commit()


def pauses_of(decisions: Iterable[Decision], pause_max_ms: int) -> list[Pause]:
    """The pauses that the broker is to give; longer ones are held by the query."""
    return [
        Pause(one.first, one.last, one.delay_ms)
        for one in decisions
        if 0 < one.delay_ms <= pause_max_ms and one.type == AckType.RELEASE
    ]


def portions(
    ranges: Sequence[Done], reasons: Sequence[Reason], pauses: Sequence[Pause]
) -> list[list[Done]]:
    """``ranges`` in as many portions as requests are needed for the notes about them."""
    ends: list[int] = []
    weight = 0
    notes: list[Reason | Pause] = [*common(reasons, ranges), *common(pauses, ranges)]
    for one in sorted(notes, key=_first):
        weight += _weight(one)
        if weight > NOTES_BYTES:
            ends.append(one.first - 1)
            weight = _weight(one)
    if not ends:
        return [list(ranges)]
    cuts = zip([0, *(end + 1 for end in ends)], [*ends, OFFSET_MAX], strict=True)
    return [portion for cut in cuts if cut[0] <= cut[1] and (portion := common(ranges, [cut]))]


def _weight(note: Reason | Pause) -> int:
    return NOTE_BYTES + (len(note.text) if isinstance(note, Reason) else 0)


def _first(note: Reason | Pause) -> int:
    return note.first


def clock_ms() -> int:
    """The time for delays, by the clock of the running loop."""
    return int(asyncio.get_running_loop().time() * 1000)
