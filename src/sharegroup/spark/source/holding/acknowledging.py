"""Sends acknowledgements, whether the broker confirms them or not.

Acknowledgements that the broker does not confirm stay in the :class:`Ledger` as done, and go into
the next offset. When such a record is delivered again, it is acknowledged and not processed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Final

from sharegroup.client.core.fetched import Acknowledged
from sharegroup.client.share.share_member import ShareMember
from sharegroup.model.errors import InvalidRecordState, KafkaError
from sharegroup.model.ids import TopicIdPartition
from sharegroup.model.offsets import OffsetRange
from sharegroup.spark.ranges import common, merged, without
from sharegroup.spark.source.holding.encode_acks import worded
from sharegroup.spark.source.holding.ledger import Ledger
from sharegroup.spark.source.offsets import Done

log = logging.getLogger("sharegroup.spark")

ATTEMPTS_PER_PARTITION: Final = 64
"""The most requests per partition to find out which ranges of a refused acknowledgement are still
ours."""

Owed = Mapping[TopicIdPartition, Sequence[Done]]


class Acknowledging:
    """See the module. Not thread-safe; the caller takes turns with other uses of ``member``."""

    def __init__(self, member: ShareMember, ledger: Ledger) -> None:
        self._member = member
        self._ledger = ledger
        self._unanswered: dict[TopicIdPartition, list[OffsetRange]] = {}
        self._unanswered_since = 0.0
        self._gone_back: dict[TopicIdPartition, list[OffsetRange]] = {}

    def note(self, outcome: Acknowledged) -> None:
        """Note an outcome of the member's acknowledgements. With order per key, accepts that follow
        a release of the same key in one request have no effect: their records are delivered again,
        so they stay done in the ledger."""
        if outcome.gone_back:
            self._gone_back.setdefault(outcome.partition, []).extend(outcome.gone_back)

    async def repeat(self) -> None:
        """Repeat the acknowledgements that no broker answered, once a broker has answered another
        request. The leader may still have the locks, for instance after a break of the network.
        Without this the records would come again only when the locks run out, and the group's lag
        would not fall until then.
        """
        answered_at = self._member.metrics.answered_at
        if not self._unanswered or answered_at is None or answered_at < self._unanswered_since:
            return
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

    async def acknowledge(self, owed: Owed) -> None:
        """Send acknowledgements.

        The broker refuses all acknowledgements of a partition if one record is no longer ours. So
        refused acknowledgements are halved until the valid ones are accepted.
        """
        attempts = dict.fromkeys(owed, 0)
        waiting = [(partition, list(ranges)) for partition, ranges in owed.items() if ranges]
        while waiting:
            now = dict(reversed(waiting))
            rest = [(p, ranges) for p, ranges in waiting if now[p] is not ranges]
            outcomes = await self._send(now)
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

    async def _send(
        self, ranges: Mapping[TopicIdPartition, Sequence[Done]]
    ) -> dict[TopicIdPartition, KafkaError | None]:
        member = self._member
        for partition, ones in ranges.items():
            member.acknowledge_ranges(partition, worded(ones))
        return await member.commit()


def clock_ms() -> int:
    """The time for delays, by the clock of the running loop."""
    return int(asyncio.get_running_loop().time() * 1000)
