"""A store whose logs are as if in another cluster: every answer comes late, and an offset is known
only once an answer has told it. Nothing is lost.

The records lie in a data folder in memory. A :class:`LateLog` is readable and appendable; what only
a log in this process knows (``model.log.OwnedLog``) it does not have.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any
from uuid import UUID

from sharegroup.model.errors import KafkaError
from sharegroup.model.ids import TopicPartition
from sharegroup.model.log import (
    AbortedTransaction,
    Appended,
    DamagedOffsets,
    LogOffsets,
    MessageIds,
    PartitionLog,
    ProducerStates,
    ReadableLog,
    ReadBatches,
    Recompression,
)
from sharegroup.model.store import Store

LATE_BY = 3
"""Turns of the loop before a request arrives, and before its answer comes."""


async def _travel() -> None:
    for _ in range(LATE_BY):
        await asyncio.sleep(0)


class LateLog:
    """One partition's log, as a node of another cluster sees it; ``log`` is the cluster's."""

    def __init__(self, log: PartitionLog) -> None:
        self._log = log
        self._known = LogOffsets(0, 0, 0, 0)
        self._on_advance: Callable[[ReadableLog], None] | None = None
        self.topic_partition: TopicPartition = log.topic_partition
        self.topic_id: UUID = log.topic_id
        self.failure: KafkaError | None = None
        self.is_followed = True
        self.asked = 0
        """How many answers were awaited."""

    async def _ask(self, answer: Callable[[], Any]) -> Any:
        """The answer, late; with it come the offsets at the time when the request arrived."""
        self.asked += 1
        await _travel()
        try:
            found = answer()
            if asyncio.iscoroutine(found):
                found = await found
        except KafkaError:
            self.failure = self._log.failure
            raise
        told = await self._log.offsets()
        await _travel()
        self._learn(told)
        return found

    def _learn(self, told: LogOffsets) -> None:
        before = self._known.high_watermark
        self._known = LogOffsets(*map(max, self._known, told))
        if self._known.high_watermark > before and self._on_advance is not None:
            self._on_advance(self)

    def forget(self) -> None:
        """Know as little as at the start."""
        self._known = LogOffsets(0, 0, 0, 0)

    # What is known here -----------------------------------------------------------------------

    @property
    def on_advance(self) -> Callable[[ReadableLog], None] | None:
        return self._on_advance

    @on_advance.setter
    def on_advance(self, callback: Callable[[ReadableLog], None] | None) -> None:
        """While it is set, news of the other cluster come by themselves."""
        self._on_advance = callback
        self._log.on_advance = None if callback is None else self._look
        if callback is not None:
            self._look(self._log)

    def _look(self, _log: ReadableLog) -> None:
        self._looking = asyncio.get_running_loop().create_task(self._ask(lambda: None))

    @property
    def log_start_offset(self) -> int:
        return self._known.start

    @property
    def last_stable_offset(self) -> int:
        return self._known.last_stable

    @property
    def high_watermark(self) -> int:
        return self._known.high_watermark

    @property
    def record_bytes_max(self) -> int:
        return self._log.record_bytes_max

    @property
    def recompression(self) -> Recompression | None:
        return self._log.recompression

    @property
    def ids(self) -> MessageIds | None:
        return self._log.ids

    def after_damage(self, offset: int) -> int:
        return self._log.after_damage(offset)

    def damages(self) -> list[DamagedOffsets]:
        return self._log.damages()

    @property
    def producer_states(self) -> ProducerStates:
        return self._log.producer_states

    # What must be asked -----------------------------------------------------------------------

    def follow(self, is_awaited: Callable[[], bool]) -> None:
        """It is followed while :attr:`on_advance` is set."""

    async def offsets(self) -> LogOffsets:
        return await self._ask(self._log.offsets)

    async def read(
        self, offset: int, max_bytes: int, *, end_offset: int | None = None, stored: bool = False
    ) -> ReadBatches:
        return await self._ask(lambda: self._log.read(offset, max_bytes, end_offset=end_offset))

    async def aborted_transactions(
        self, start_offset: int, end_offset: int
    ) -> list[AbortedTransaction]:
        return await self._ask(lambda: self._log.aborted_transactions(start_offset, end_offset))

    async def offset_for_timestamp(self, timestamp_ms: int) -> tuple[int, int] | None:
        return await self._ask(lambda: self._log.offset_for_timestamp(timestamp_ms))

    async def offset_of_max_timestamp(self) -> tuple[int, int] | None:
        return await self._ask(self._log.offset_of_max_timestamp)

    async def append(self, batches: bytes) -> Appended:
        return await self._ask(lambda: self._log.append(batches))

    async def wait_durable(self, end_offset: int) -> None:
        if end_offset > self.high_watermark:
            await self._ask(lambda: self._log.wait_durable(end_offset))

    async def delete_records(self, before_offset: int) -> int:
        return await self._ask(lambda: self._log.delete_records(before_offset))


class LateStore:
    """A store with late logs. Changes of topics and configs are the inner store's, and so are the
    logs that this node owns (:meth:`internal_log`)."""

    def __init__(self, inner: Store) -> None:
        self._inner = inner
        self._late: dict[PartitionLog, LateLog] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    @property
    def on_topic_changed(self) -> Callable[[str], None]:
        return self._inner.on_topic_changed

    @on_topic_changed.setter
    def on_topic_changed(self, callback: Callable[[str], None]) -> None:
        self._inner.on_topic_changed = callback

    @property
    def logs(self) -> Iterable[LateLog]:
        return [self._of(log) for log in self._inner.logs]

    async def look_for(self, topic: str | None) -> None:
        await self._inner.look_for(topic)

    def logs_of(self, topic: str) -> list[LateLog]:
        return [self._of(log) for log in self._inner.logs_of(topic)]

    def log(self, topic: str, partition: int) -> LateLog:
        return self._of(self._inner.log(topic, partition))

    def find_log(self, key: TopicPartition) -> LateLog | None:
        log = self._inner.find_log(key)
        return None if log is None else self._of(log)

    def _of(self, log: PartitionLog) -> LateLog:
        return self._late.setdefault(log, LateLog(log))
