"""Renews the locks of all held records in the background, however long a batch runs (KIP-1222)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from sharegroup.client.share.share_member import ShareMember
from sharegroup.model.errors import (
    InvalidRecordState,
    KafkaError,
    NetworkException,
    UnsupportedVersion,
)
from sharegroup.model.ids import TopicIdPartition
from sharegroup.model.offsets import OffsetRange
from sharegroup.spark.source.holding.acknowledging import ATTEMPTS_PER_PARTITION
from sharegroup.spark.source.holding.ledger import Ledger

log = logging.getLogger("sharegroup.spark")

LOCK_MS_DEFAULT: Final = 30_000
"""Kafka's group.share.record.lock.duration.ms, used until the broker has said its value."""
RENEWALS_PER_LOCK: Final = 3


class LockKeeper:
    """Renews the locks of one member. Call :meth:`start` when the lock duration is known."""

    def __init__(
        self, member: ShareMember, ledger: Ledger, turn: asyncio.Lock, *, wanted: bool = True
    ) -> None:
        self._member = member
        self._ledger = ledger
        self._turn = turn
        self._task: asyncio.Task[None] | None = None
        self.possible = wanted
        """Whether locks are renewed: the user allows it, and the broker is not known to refuse."""
        self.renewed = 0
        """Renewals of records so far; each renewal of a record counts."""

    def start(self) -> None:
        """Renew from now on, if locks are to be renewed; a second call does nothing."""
        if self._task is None and self.possible:
            self._task = asyncio.create_task(self._keep(), name="share-lock-renewal")

    def stop(self) -> None:
        """Stop renewing."""
        if self._task is not None:
            self._task.cancel()

    async def _keep(self) -> None:
        """Renew all locks three times per lock duration, until the query ends."""
        while True:
            lock_ms = self._member.lock_timeout_ms or LOCK_MS_DEFAULT
            await asyncio.sleep(lock_ms / RENEWALS_PER_LOCK / 1000)
            async with self._turn:
                try:
                    await self._renew()
                except UnsupportedVersion:
                    self.possible = False
                    log.warning(
                        "this broker cannot renew locks (it needs Apache Kafka 4.2 or later): a "
                        "batch that runs for longer than %d ms may be delivered again",
                        lock_ms,
                    )
                    return
                except KafkaError as error:
                    log.warning("locks could not be renewed this time: %s", error)

    async def _renew(self) -> None:
        waiting = [self._ledger.locked()]
        attempts = 0
        while waiting and attempts < ATTEMPTS_PER_PARTITION:
            ranges = waiting.pop()
            attempts += 1
            outcomes = await self._member.renew(
                (p, *one) for p, ones in ranges.items() for one in ones
            )
            for partition, ones in ranges.items():
                error = outcomes.get(partition)
                if error is None:
                    self.renewed += sum(one.size for one in ones)
                elif isinstance(error, InvalidRecordState) and len(ones) > 1:
                    middle = len(ones) // 2
                    waiting += [{partition: ones[:middle]}, {partition: ones[middle:]}]
                elif isinstance(error, NetworkException):
                    # The broker has not said that the locks are lost. The next renewal shows it.
                    log.info("%s: locks could not be renewed this time: %s", partition, error)
                else:
                    self._lost(partition, ones, error)

    def _lost(
        self, partition: TopicIdPartition, ranges: Sequence[OffsetRange], error: KafkaError
    ) -> None:
        log.warning("%s: the locks of %s are lost: %s", partition, ranges, error)
        self._ledger.lost(partition, ranges)
