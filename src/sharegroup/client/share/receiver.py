"""One poll: acknowledges the previous records, and gets the next ones."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar

from sharegroup.client.core.held_deliveries import Holdings, Iteration
from sharegroup.client.core.record import HeldDelivery
from sharegroup.client.network.metadata import PartitionNames
from sharegroup.client.share.commit_callback import CommitCallback
from sharegroup.client.share.committer import AcknowledgementCommitter
from sharegroup.client.share.fetcher import ShareFetcher
from sharegroup.client.share.share_member import ShareMember

T = TypeVar("T")

_WAIT_MIN_S = 0.001
"""A fetch waits for whole milliseconds: who waits for less asks again and again."""


class Receiver:
    """See the module. The caller says how to take the next records or Arrow batches.

    Args:
        names: is told the names of fetched partitions.
    """

    def __init__(
        self,
        member: ShareMember,
        fetcher: ShareFetcher,
        holdings: Holdings,
        committer: AcknowledgementCommitter,
        callback: CommitCallback,
        names: PartitionNames,
    ) -> None:
        self._member = member
        self._fetcher = fetcher
        self._holdings = holdings
        self._committer = committer
        self._callback = callback
        self._names = names
        self._asked = 0

    async def receive(
        self, take: Callable[[], T], wait_s: float, asking: Iteration | None = None
    ) -> T | None:
        """The result of ``take`` on the holdings: at once, or after as many fetches as ``wait_s``
        allows; None when there are no records. ``asking``: the loop that asks; None: a poll asks.

        Raises:
            KafkaError, IllegalState, CorruptRecordBatch, RecordDeserializationError: as
                ``ShareConsumer.poll``.
        """
        now = asyncio.get_running_loop().time
        deadline = now() + wait_s
        self._asked += 1
        self._callback.run()
        self._raise_refusal()
        self._committer.queue(self._holdings.settle(asking))
        self._member.polled()
        self._committer.begin_renewals()
        await self._committer.renewed(wait_s)
        if self._committer.renewing:
            return None  # while renewals are under way there are no other records
        taken = self._take(take)
        riding = False  # a prefetch under way carries the queued acknowledgements
        while not taken:
            remaining = max(0.0, deadline - now())
            deliveries = await self._fetcher.fetch(remaining)
            riding = self._fetcher.fetching_ahead
            self._hold(deliveries)
            taken = self._take(take)
            if not taken:
                self._raise_refusal()
                if remaining < _WAIT_MIN_S:
                    break
        if not riding:
            self._committer.flush(soon=self._holdings.has_buffered)
        return taken

    def take_arrived(self) -> None:
        """Hold what has come and nobody has asked for yet, so that its locks are renewed."""
        deliveries = self._fetcher.arrived()
        if deliveries:
            self._hold(deliveries)
            self._committer.flush(soon=True)

    def _hold(self, deliveries: Sequence[HeldDelivery]) -> None:
        self._names.known |= {one.partition: one.topic_partition for one in deliveries}
        self._committer.queue(self._holdings.buffer(deliveries))

    async def give_back(self) -> None:
        """Release the records not given to the application, unless it asks for more meanwhile."""
        asked = self._asked
        self._committer.queue(self._holdings.buffer(await self._fetcher.stop()))
        if asked == self._asked:
            self._committer.queue(self._holdings.give_back())
        self._committer.flush()

    def _take(self, take: Callable[[], T]) -> T:
        try:
            return take()
        finally:
            self._callback.run()

    def _raise_refusal(self) -> None:
        if self._fetcher.errors:
            raise self._fetcher.errors.popleft()
