"""The consumer's calls about offsets: its positions, committed offsets, and offsets in a log."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence

from sharegroup.client.admin.descriptions import ListedOffset
from sharegroup.client.admin.offset_requests import committed_offsets
from sharegroup.client.admin.topic_requests import list_offsets
from sharegroup.client.core.committed_offsets import OffsetAndMetadata, as_commit, as_partition
from sharegroup.client.core.key_ranges import KeyRanges
from sharegroup.client.core.positions import EARLIEST, LATEST, Position, Positions
from sharegroup.client.core.rebalance import MemberIdentity
from sharegroup.client.core.record import ConsumerRecord
from sharegroup.client.errors import IllegalState
from sharegroup.client.group.committer import Committer
from sharegroup.client.group.position_lookup import PositionLookup
from sharegroup.client.group.reader import AnyRecord, Reader
from sharegroup.client.network.cluster import Cluster
from sharegroup.client.network.retrying import retrying
from sharegroup.client.wakeup import WakeupCall
from sharegroup.model.errors import (
    ErrorSource,
    KafkaError,
    RequestTimedOut,
    UnknownTopicOrPartition,
)
from sharegroup.model.ids import TopicPartition

Committed = Mapping[TopicPartition, int | OffsetAndMetadata] | AnyRecord | Sequence[AnyRecord]
"""What can be committed: offsets by partition, a record, or several."""


def _are_records(given: Sequence[object]) -> bool:
    return all(isinstance(one, ConsumerRecord) for one in given)


def _worth_another_try(error: KafkaError) -> bool:
    """Whether a retry may help. If a topic exists and has no such partition, it will not have it
    soon."""
    missing = isinstance(error, UnknownTopicOrPartition) and error.source == ErrorSource.LOCAL
    return error.retriable and not missing


class OffsetCalls(ABC):
    """See the module. The consumer sets the attributes."""

    _cluster: Cluster
    _committer: Committer
    _lookup: PositionLookup
    _news: asyncio.Event
    _positions: Positions
    _read_committed: bool
    _reader: Reader
    _wakeup: WakeupCall

    @property
    def assignment(self) -> list[TopicPartition]:
        """The partitions that are read now, sorted."""
        return sorted(self._positions.assigned)

    @property
    def key_ranges(self) -> dict[TopicPartition, KeyRanges]:
        """Partition → the key ranges that are read of it; without partitions read whole."""
        found = {where: self._positions.key_ranges(where) for where in self.assignment}
        return {where: own for where, own in found.items() if own}

    @abstractmethod
    async def start(self) -> None:
        """Connect."""

    @abstractmethod
    def group_metadata(self) -> MemberIdentity:
        """This member's identity now."""

    @abstractmethod
    def _check_usable(self) -> None:
        """Raises IllegalState: the consumer is closed."""

    @abstractmethod
    def _raise_error(self) -> None:
        """Raise an error of the background tasks, if there is one."""

    # --- positions --------------------------------------------------------------------------------

    def seek(self, topic: str, partition: int, offset: int) -> None:
        """The next record of this partition is the one at ``offset``.

        Raises:
            IllegalState: the partition is not assigned.
            ValueError: the offset is negative.
        """
        if offset < 0:
            raise ValueError(f"the offset {offset} is negative: seek_to_end() goes to the end")
        self._jump([(topic, partition)])
        self._positions.seek(TopicPartition(topic, partition), Position(offset))

    def seek_to_beginning(self, *partitions: tuple[str, int]) -> None:
        """Go on at the first record of these partitions; without arguments, of all partitions."""
        for where in self._jump(partitions or self._positions.assigned):
            self._positions.seek_to(where, EARLIEST)

    def seek_to_end(self, *partitions: tuple[str, int]) -> None:
        """Go on after the last record of these partitions; without arguments, of all partitions."""
        for where in self._jump(partitions or self._positions.assigned):
            self._positions.seek_to(where, LATEST)

    async def position(self, topic: str, partition: int) -> int:
        """The offset of the next record of this partition. Waits until it is known.

        Raises:
            IllegalState: the partition is not assigned.
            RequestTimedOut: the offset is not known after ``request_timeout_ms``.
        """
        where = self._jump([(topic, partition)], moves=False)[0]
        await self.start()
        timeout_ms = self._cluster.request_timeout_ms
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                while (found := self._reader.returned().get(where)) is None:
                    self._news.clear()
                    self._raise_error()
                    self._lookup.begin()
                    await self._news.wait()
        except TimeoutError:
            raise RequestTimedOut(
                f"the position of {where} was not found in {timeout_ms} ms"
            ) from None
        return found.offset

    def current_lag(self, topic: str, partition: int) -> int | None:
        """How many offsets lie between the next record of this partition and its end, as the last
        fetch saw it (Java: currentLag); None: not known yet. Asks no broker.

        Raises:
            IllegalState: the partition is not assigned.
        """
        where = self._jump([(topic, partition)], moves=False)[0]
        return self._reader.lags()[where]

    def pause(self, *partitions: tuple[str, int]) -> None:
        """Return no records of these partitions until :meth:`resume`."""
        self._positions.pause(self._jump(partitions, moves=False), True)

    def resume(self, *partitions: tuple[str, int]) -> None:
        """Return records of these partitions again."""
        self._positions.pause(self._jump(partitions, moves=False), False)

    @property
    def paused(self) -> list[TopicPartition]:
        """The paused partitions, sorted."""
        return sorted(self._positions.paused)

    def _jump(
        self, partitions: Iterable[tuple[str, int]], *, moves: bool = True
    ) -> list[TopicPartition]:
        self._check_usable()
        wheres = [as_partition(where) for where in partitions]
        for where in wheres:
            if where not in self._positions:
                raise IllegalState(f"{where} is not assigned to this consumer")
        if moves:
            self._refuse_turns(wheres, "seek")
            self._reader.forget(wheres)
        return wheres

    def _refuse_turns(self, wheres: Iterable[TopicPartition], what: str) -> None:
        for where in wheres:
            if self._positions.turn(where):
                raise IllegalState(
                    f"cannot {what}: the broker gives the records of {where} to its members in "
                    "turns, and offsets do not ascend (cooperative=True)"
                )

    # --- committed offsets ------------------------------------------------------------------------

    async def commit(
        self,
        offsets: Committed | None = None,
        *,
        timeout_ms: int | None = None,
    ) -> None:
        """Commit, and wait until the group has the offsets.

        Args:
            offsets: offsets by partition; or, with ``key_ranges=True`` or ``cooperative=True``, one
                or several records, in any order. None: the positions after all records that were
                returned; in a loop's body, that includes the record in work.

        Raises:
            IllegalState: single records were given without ``key_ranges=True`` or
                ``cooperative=True``; or offsets by partition with ``cooperative=True``.
            RebalanceInProgress, IllegalGeneration, UnknownMemberId, FencedMemberEpoch: this member
                has lost its partitions, or must give them up: the members that get them begin at
                the offsets that were committed before.
            KafkaError: the broker refuses, or could not be reached within ``timeout_ms``.
        """
        self._check_usable()
        self.group_metadata()
        await self.start()
        async with self._wakeup.answering():
            if isinstance(offsets, ConsumerRecord):
                offsets = [offsets]
            if isinstance(offsets, list | tuple) and _are_records(offsets):
                await self._commit_single(offsets, timeout_ms)
            else:
                what = as_commit(self._reader.returned() if offsets is None else offsets)
                if offsets is not None:
                    self._refuse_turns(what, "commit an offset")
                await self._committer.commit(what, timeout_ms)

    async def _commit_single(self, records: Sequence[AnyRecord], timeout_ms: int | None) -> None:
        by_partition: dict[TopicPartition, list[int]] = {}
        for record in records:
            by_partition.setdefault(record.topic_partition, []).append(record.offset)
        for where in by_partition:
            if where not in self._committer.covered:
                raise IllegalState(
                    f"single records of {where} cannot be committed: write key_ranges=True, or "
                    f"commit({{{tuple(where)}: offset}})"
                    if where in self._positions
                    else f"{where} is not assigned to this consumer"
                )
        await self._committer.commit_single(by_partition, timeout_ms)

    async def committed(
        self, *partitions: tuple[str, int]
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """The group's committed offset in each of these partitions, with the single records that
        are committed after it (``ranges``); None: the group has committed nothing there.
        """
        self._check_usable()
        await self.start()
        wheres = [as_partition(one) for one in partitions] or sorted(self._positions.assigned)
        found = await retrying(
            self._cluster,
            lambda: committed_offsets(
                self._cluster, self.group_metadata(), wheres, with_ranges=True
            ),
            self._cluster.request_timeout_ms,
        )
        return {where: found.get(where) for where in wheres}

    # --- of the log -------------------------------------------------------------------------------

    async def offsets_for_times(
        self, times: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, ListedOffset | None]:
        """The first record of each partition that is not older than this time (ms since 1970);
        None: there is no such record.

        Raises:
            ValueError: a time is negative.
            UnknownTopicOrPartition: there is no such partition.
        """
        found: dict[TopicPartition, ListedOffset | None] = {}
        by_time: dict[int, list[TopicPartition]] = {}
        for where, time in times.items():
            if time < 0:
                raise ValueError(f"the time {time} is negative: write milliseconds since 1970")
            by_time.setdefault(time, []).append(as_partition(where))
        for time, wheres in by_time.items():
            listed = await self._listed(wheres, time)
            found |= {where: one if one.offset >= 0 else None for where, one in listed.items()}
        return found

    async def beginning_offsets(self, *partitions: tuple[str, int]) -> dict[TopicPartition, int]:
        """The offset of each partition's first record; without arguments, of all assigned
        partitions.

        Raises:
            UnknownTopicOrPartition: there is no such partition.
        """
        listed = await self._listed(partitions or self.assignment, EARLIEST)
        return {where: one.offset for where, one in listed.items()}

    async def end_offsets(self, *partitions: tuple[str, int]) -> dict[TopicPartition, int]:
        """The offset after each partition's last record that may be read: with
        ``read_committed``, the last one before the first transaction under way. Without arguments,
        of all assigned partitions.

        Raises:
            UnknownTopicOrPartition: there is no such partition.
        """
        listed = await self._listed(partitions or self.assignment, LATEST)
        return {where: one.offset for where, one in listed.items()}

    async def _listed(
        self, partitions: Iterable[tuple[str, int]], timestamp: int
    ) -> dict[TopicPartition, ListedOffset]:
        await self.start()
        wheres = [as_partition(where) for where in partitions]
        return await retrying(
            self._cluster,
            lambda: list_offsets(self._cluster, wheres, timestamp, committed=self._read_committed),
            self._cluster.request_timeout_ms,
            _worth_another_try,
        )
