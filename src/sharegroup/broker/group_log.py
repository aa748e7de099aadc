"""``__consumer_offsets`` as the log of share groups: written in the order of decisions, read at
start, and kept as short as the groups are.

When enough records have been written since the last time, a *round* begins: every live group is
written anew, a few at a time, in between everything else. When the last of them is durable, all
that lies before the first is deleted (DeleteRecords). Replay from there gives the same state: what
a group was is in its new records, and what it became while the round went on is there as well. A
crash at any point leaves the old records, or new ones that are complete. Kafka compacts instead;
the formats are the same, so its tools read both.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from typing import Any, Final, NamedTuple

from sharegroup.broker.internal_topic import InternalTopic
from sharegroup.groups.records import CoordinatorRecord
from sharegroup.model.errors import KafkaError
from sharegroup.share_state.partitioning import group_partition
from sharegroup.wire.internal.groups import decode_record, encode_record

logger = logging.getLogger("sharegroup.broker")

ROUND_GROUPS: Final = 32
"""Groups written anew between two turns of the loop: a millisecond or two."""


class Written(NamedTuple):
    """Where records went."""

    partition: int
    end_offset: int


class LiveGroups(NamedTuple):
    """How a round asks for what there is: all groups, and the records that say all of one."""

    ids: Callable[[], Sequence[str]]
    records: Callable[[str], Iterable[CoordinatorRecord]]


class GroupLog:
    """All partitions of the topic.

    Args:
        records_per_round: written records (but at least twice the live ones) after which a round
            begins, asked at each use.
        spawn: runs a coroutine of ours in the background and reports its failure.
    """

    def __init__(
        self,
        topic: InternalTopic,
        live: LiveGroups,
        records_per_round: Callable[[], int],
        spawn: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self._topic = topic
        self._live = live
        self._records_per_round = records_per_round
        self._spawn = spawn
        self._since_round: dict[int, int] = {}
        self._round_size: dict[int, int] = {}
        self._going_round: set[int] = set()
        self._latest: dict[int, Written] = {}
        self._replays = 0

    async def ensure(self) -> None:
        """Make the topic unless it is there: :meth:`write` needs it."""
        await self._topic.ensure()

    def write(self, group_id: str, records: Sequence[CoordinatorRecord]) -> Written:
        """Write records of one group, in line with everything decided before; not yet durable.

        Raises:
            KafkaStorageError: the disk failed.
        """
        partition = self._partition(group_id)
        written = Written(
            partition, self._topic.write(partition, [encode_record(record) for record in records])
        )
        self._latest[partition] = written
        count = self._since_round.get(partition, 0) + len(records)
        self._since_round[partition] = count
        due = max(self._records_per_round(), 2 * self._round_size.get(partition, 0))
        if count >= due and partition not in self._going_round:
            self._going_round.add(partition)
            self._spawn(self._go_round(partition))
        return written

    def latest(self, group_id: str) -> Written | None:
        """The last write to the partition of a group, None when there was none since the start:
        what an answer that needs no record of its own may depend on.
        """
        return self._latest.get(self._partition(group_id))

    async def wait_durable(self, written: Written) -> None:
        """Return when what was written is durable.

        Raises:
            KafkaStorageError: it never will be.
        """
        await self._topic.wait_durable(*written)

    async def replay(self) -> AsyncIterator[CoordinatorRecord]:
        """Every record of ours, oldest first; records of other kinds of group are passed over.

        Raises:
            KafkaStorageError: the disk failed.
        """
        self._replays += 1
        self._latest.clear()
        if not self._topic.exists:
            return
        await self._topic.settle()  # writes on their way must not be forgotten
        for partition in range(self._topic.partition_count):
            count = 0
            async for offset, raw_key, raw_value in self._topic.replay(partition):
                record = None
                with self._topic.passing_over(partition, offset):
                    record = decode_record(raw_key, raw_value)
                if record is not None:
                    count += 1
                    yield record
            self._since_round[partition] = count

    def _partition(self, group_id: str) -> int:
        count = self._topic.partition_count
        return 0 if count == 1 else group_partition(group_id, count)

    async def _go_round(self, partition: int) -> None:
        try:
            await self._rewrite(partition)
        except KafkaError as error:
            logger.warning("groups could not be written anew, the old records stay: %s", error)
        finally:
            self._going_round.discard(partition)

    async def _rewrite(self, partition: int) -> None:
        """One round; see the module. A replay meanwhile ends it: groups are not what they were."""
        self._since_round[partition] = 0
        replays = self._replays
        log = self._topic.log(partition)
        begins_at = log.log_end_offset
        group_ids = [g for g in self._live.ids() if self._partition(g) == partition]
        size = 0
        for at in range(0, len(group_ids), ROUND_GROUPS):
            records = [
                encode_record(record)
                for group_id in group_ids[at : at + ROUND_GROUPS]
                for record in self._live.records(group_id)
            ]
            if records:
                self._topic.write(partition, records)
                size += len(records)
            await asyncio.sleep(0)
            if self._replays != replays:
                return
        self._round_size[partition] = size
        await log.wait_durable(log.log_end_offset)
        if self._replays == replays:
            await log.delete_records(begins_at)
