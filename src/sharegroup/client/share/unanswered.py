"""Which acknowledgements have been sent and have no outcome yet."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable

from sharegroup.model.ids import TopicIdPartition


class Unanswered:
    """Counts the ranges of each partition, in the order of sending."""

    def __init__(self) -> None:
        self._sent = Counter[TopicIdPartition]()
        self._answered = Counter[TopicIdPartition]()
        self._changed = asyncio.Event()

    def __contains__(self, partition: TopicIdPartition) -> bool:
        return self._answered[partition] < self._sent[partition]

    @property
    def partitions(self) -> set[TopicIdPartition]:
        """The partitions with ranges that have no outcome."""
        return {partition for partition in self._sent if partition in self}

    def sent(self, partition: TopicIdPartition, count: int) -> None:
        """So many ranges are on their way; :meth:`answered` must follow for each."""
        self._sent[partition] += count

    def answered(self, partition: TopicIdPartition, count: int) -> None:
        """So many ranges have their outcome."""
        self._answered[partition] += count
        self._changed.set()
        self._changed = asyncio.Event()

    async def wait(self, partitions: Iterable[TopicIdPartition]) -> None:
        """Wait for the outcomes of what is on its way now in these partitions, not of what others
        send later."""
        until = {partition: self._sent[partition] for partition in partitions}
        while any(self._answered[partition] < count for partition, count in until.items()):
            await self._changed.wait()
