"""Renews the locks of all held records in the background, however long a batch runs (KIP-1222)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from sharegroup.client.core.lock_renewal import RenewalRound, RenewalTimes
from sharegroup.client.network.member_loop import now_ms
from sharegroup.client.share.share_member import ShareMember
from sharegroup.cooperative.intervals import size
from sharegroup.model.errors import KafkaError, NetworkException, UnsupportedVersion
from sharegroup.model.ids import TopicIdPartition
from sharegroup.model.offsets import OffsetRange
from sharegroup.spark.source.holding.acknowledging import ATTEMPTS_PER_PARTITION
from sharegroup.spark.source.holding.ledger import Ledger

log = logging.getLogger("sharegroup.spark")

LOCK_MS_DEFAULT: Final = 30_000
"""Kafka's group.share.record.lock.duration.ms, used until the broker has said its value."""


class LockRenewal:
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
        times = RenewalTimes(now_ms(), LOCK_MS_DEFAULT)
        while True:
            lock_ms = times.lock_ms(self._member.lock_timeout_ms)
            await asyncio.sleep(times.pause_ms(now_ms(), lock_ms) / 1000)
            async with self._turn:
                times.begin(now_ms())
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
        renewal = RenewalRound(
            self._ledger.locked(), requests_max=ATTEMPTS_PER_PARTITION, whole=True
        )
        while asked := renewal.next_request():
            outcomes = await self._member.renew(
                (p, *one) for p, ones in asked.items() for one in ones
            )
            renewed, lost, failed = renewal.answered(asked, outcomes)
            self.renewed += sum(size(ranges) for ranges in renewed.values())
            for partition, ranges in lost.items():
                self._lost(partition, ranges, outcomes[partition])
            for partition, (ranges, error) in failed.items():
                if isinstance(error, NetworkException):
                    # The broker has not said that the locks are lost. The next renewal shows it.
                    log.info("%s: locks could not be renewed this time: %s", partition, error)
                else:
                    self._lost(partition, ranges, error)

    def _lost(
        self, partition: TopicIdPartition, ranges: Sequence[OffsetRange], error: KafkaError | None
    ) -> None:
        log.warning("%s: the locks of %s are lost: %s", partition, ranges, error)
        self._ledger.lost(partition, ranges)
