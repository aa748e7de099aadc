"""One poll: what it says of the records before, and where the next ones come from."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from sharegroup.client.commit_callback import CommitCallback
from sharegroup.client.committer import Committer
from sharegroup.client.core.holdings import Holdings
from sharegroup.client.fetcher import Fetcher
from sharegroup.client.share_member import ShareMember
from sharegroup.model.ids import TopicIdPartition, TopicPartition

T = TypeVar("T")


class Receiver:
    """See the module. Records or Arrow batches: whoever polls says how to take them.

    Attributes:
        names: of the partitions that something was fetched from.
    """

    def __init__(
        self,
        member: ShareMember,
        fetcher: Fetcher,
        holdings: Holdings,
        committer: Committer,
        callback: CommitCallback,
    ) -> None:
        self._member = member
        self._fetcher = fetcher
        self._holdings = holdings
        self._committer = committer
        self._callback = callback
        self.names: dict[TopicIdPartition, TopicPartition] = {}

    async def receive(self, take: Callable[[], T], wait_s: float) -> T | None:
        """What ``take`` gets out of the holdings: at once, or after as many fetches as ``wait_s``
        allows; None when there is nothing.

        Raises:
            KafkaError, IllegalState, CorruptRecordBatch, RecordDeserializationError: as
                ``ShareConsumer.poll``.
        """
        now = asyncio.get_running_loop().time
        deadline = now() + wait_s
        self._callback.run()
        self._raise_refusal()
        self._committer.queue(self._holdings.settle())
        self._member.polled()
        self._committer.begin_renewals()
        if not await self._committer.renewed(wait_s):
            return None  # while renewals are under way there are no other records
        taken = self._take(take)
        riding = False  # what is queued rides on a fetch ahead
        while not taken:
            remaining = max(0.0, deadline - now())
            deliveries = await self._fetcher.fetch(remaining)
            riding = self._fetcher.fetching_ahead
            self.names.update((one.partition, one.topic_partition) for one in deliveries)
            self._committer.queue(self._holdings.buffer(deliveries))
            taken = self._take(take)
            if not taken:
                self._raise_refusal()
                if remaining <= 0:
                    break
        if not riding:
            self._committer.flush(soon=self._holdings.has_buffered)
        return taken

    def _take(self, take: Callable[[], T]) -> T:
        try:
            return take()
        finally:
            self._callback.run()

    def _raise_refusal(self) -> None:
        if self._fetcher.errors:
            raise self._fetcher.errors.popleft()
