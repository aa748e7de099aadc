"""The offsets of a consumer: its positions, committed offsets, and offsets in a log.

Each method does what the verb of the same name of ``Consumer`` says.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

from sharegroup.client.admin.descriptions import ListedOffset
from sharegroup.client.admin.offset_requests import committed_offsets
from sharegroup.client.admin.topic_requests import list_offsets
from sharegroup.client.core.committed_offsets import OffsetAndMetadata, as_commit, as_partition
from sharegroup.client.core.positions import EARLIEST, LATEST, Position
from sharegroup.client.core.record import ConsumerRecord
from sharegroup.client.errors import IllegalState
from sharegroup.client.group.committer import log_left_out
from sharegroup.client.group.life import Life
from sharegroup.client.group.parts import ConsumerParts
from sharegroup.client.group.polling import Polling
from sharegroup.client.group.reader import AnyRecord
from sharegroup.client.network.retrying import retrying
from sharegroup.model import errors
from sharegroup.model.ids import TopicPartition

Committed = Mapping[TopicPartition, int | OffsetAndMetadata] | AnyRecord | Sequence[AnyRecord]
"""What can be committed: offsets by partition, a record, or several."""


def _are_records(given: Sequence[object]) -> bool:
    return all(isinstance(one, ConsumerRecord) for one in given)


def _worth_another_try(error: errors.KafkaError) -> bool:
    """Whether a retry may help. If a topic exists and has no such partition, it will not have it
    soon."""
    missing = (
        isinstance(error, errors.UnknownTopicOrPartition)
        and error.source == errors.ErrorSource.LOCAL
    )
    return error.retriable and not missing


class ConsumerOffsets:
    """See the module."""

    def __init__(self, parts: ConsumerParts, life: Life, polling: Polling[Any, Any]) -> None:
        self._parts = parts
        self._life = life
        self._polling = polling
        self._cluster = parts.cluster
        self._positions = parts.positions
        self._reader = parts.reader
        self._committer = parts.committer

    # --- positions --------------------------------------------------------------------------------

    def seek(self, topic: str, partition: int, offset: int) -> None:
        """As ``Consumer.seek``."""
        if offset < 0:
            raise ValueError(f"the offset {offset} is negative: seek_to_end() goes to the end")
        at = self._reader.returned().get(TopicPartition(topic, partition))
        forward = at is not None and at.offset <= offset
        for where in self._jump([(topic, partition)], target=offset):
            self._positions.seek(where, Position(offset), forward=forward)

    def seek_to_beginning(self, *partitions: tuple[str, int]) -> None:
        """As ``Consumer.seek_to_beginning``."""
        for where in self._jump(partitions or self._positions.assigned):
            self._positions.seek_to(where, EARLIEST)

    def seek_to_end(self, *partitions: tuple[str, int]) -> None:
        """As ``Consumer.seek_to_end``."""
        for where in self._jump(partitions or self._positions.assigned):
            self._positions.seek_to(where, LATEST)

    async def position(self, topic: str, partition: int) -> int:
        """As ``Consumer.position``."""
        where = self._jump([(topic, partition)], moves=False)[0]
        await self._life.start()
        timeout_ms = self._cluster.request_timeout_ms
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                while (found := self._reader.returned().get(where)) is None:
                    self._parts.news.clear()
                    self._parts.state.check_usable()
                    self._polling.raise_error()
                    self._parts.lookup.begin()
                    await self._parts.news.wait()
        except TimeoutError:
            raise errors.RequestTimedOut(
                f"the position of {where} was not found in {timeout_ms} ms"
            ) from None
        return found.offset

    def current_lag(self, topic: str, partition: int) -> int | None:
        """As ``Consumer.current_lag``."""
        where = self._jump([(topic, partition)], moves=False)[0]
        return self._reader.lags()[where]

    def pause(self, *partitions: tuple[str, int]) -> None:
        """As ``Consumer.pause``."""
        self._positions.pause(self._jump(partitions, moves=False), True)

    def resume(self, *partitions: tuple[str, int]) -> None:
        """As ``Consumer.resume``."""
        self._positions.pause(self._jump(partitions, moves=False), False)

    @property
    def paused(self) -> list[TopicPartition]:
        """As ``Consumer.paused``."""
        return sorted(self._positions.paused)

    def _jump(
        self,
        partitions: Iterable[tuple[str, int]],
        *,
        moves: bool = True,
        target: int | None = None,
    ) -> list[TopicPartition]:
        self._parts.state.check_usable()
        wheres = [as_partition(where) for where in partitions]
        for where in wheres:
            if where not in self._positions:
                raise IllegalState(f"{where} is not assigned to this consumer")
        if moves:
            self._refuse_turns(wheres, "seek")
            self._reader.jump(wheres, target)
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
        """As ``Consumer.commit``."""
        self._parts.state.check_usable()
        self._parts.identity.known()
        await self._life.start()
        async with self._parts.wakeup.answering():
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
        topic_ids: dict[str, UUID] = {}
        gone: set[str] = set()
        for record in records:
            now, own = self._positions.topic_id(record.topic_partition), record.topic_id
            if own is not None:
                if own != now is not None:
                    gone.add(record.topic)
                    continue
                topic_ids[record.topic] = own
            by_partition.setdefault(record.topic_partition, []).append(record.offset)
        log_left_out(gone)
        for where in by_partition:
            if where not in self._committer.covered:
                raise IllegalState(
                    f"single records of {where} cannot be committed: write key_ranges=True, or "
                    f"commit({{{tuple(where)}: offset}})"
                    if where in self._positions
                    else f"{where} is not assigned to this consumer"
                )
        await self._committer.commit_single(by_partition, topic_ids, timeout_ms)

    async def committed(
        self, *partitions: tuple[str, int]
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """As ``Consumer.committed``."""
        self._parts.state.check_usable()
        await self._life.start()
        wheres = [as_partition(one) for one in partitions] or sorted(self._positions.assigned)
        found = await retrying(
            self._cluster,
            lambda: committed_offsets(
                self._cluster, self._parts.identity.known(), wheres, with_ranges=True
            ),
            self._cluster.request_timeout_ms,
        )
        return {where: found.get(where) for where in wheres}

    # --- of the log -------------------------------------------------------------------------------

    async def offsets_for_times(
        self, times: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, ListedOffset | None]:
        """As ``Consumer.offsets_for_times``."""
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
        """As ``Consumer.beginning_offsets``."""
        listed = await self._listed(partitions or sorted(self._positions.assigned), EARLIEST)
        return {where: one.offset for where, one in listed.items()}

    async def end_offsets(self, *partitions: tuple[str, int]) -> dict[TopicPartition, int]:
        """As ``Consumer.end_offsets``."""
        listed = await self._listed(partitions or sorted(self._positions.assigned), LATEST)
        return {where: one.offset for where, one in listed.items()}

    async def _listed(
        self, partitions: Iterable[tuple[str, int]], timestamp: int
    ) -> dict[TopicPartition, ListedOffset]:
        await self._life.start()
        wheres = [as_partition(where) for where in partitions]
        committed = self._parts.settings.committed_only
        return await retrying(
            self._cluster,
            lambda: list_offsets(self._cluster, wheres, timestamp, committed=committed),
            self._cluster.request_timeout_ms,
            _worth_another_try,
        )
