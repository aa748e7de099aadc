"""Keeps the locks of all records that a worker holds, and reports the locks that it has lost."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from sharegroup.client.core.held_deliveries import Holdings
from sharegroup.client.core.lock_renewal import RenewalRound, RenewalTimes
from sharegroup.client.network.member_loop import now_ms
from sharegroup.client.share.share_member import ShareMember
from sharegroup.model.errors import KafkaError, UnsupportedVersion
from sharegroup.model.ids import TopicIdPartition
from sharegroup.model.offsets import OffsetRange

log = logging.getLogger("sharegroup.worker")

_LOOK_S: Final = 1.0
"""The most seconds between two looks at the locks."""
_UNKNOWN_LOOK_S: Final = 0.1
"""The same, until the broker has told how long locks last: that may be no longer than _LOOK_S."""


class WorkerLocks:
    """Renews every lock when a third of its time is over, in :meth:`run`.

    One record whose lock is gone makes the broker refuse the renewals of a whole partition. These
    are then cut in halves again and again, until that record stands alone.

    Args:
        holdings, member: the consumer's.
        renewing: the group allows renewals.

    Attributes:
        renewing: locks are being renewed.
    """

    def __init__(self, holdings: Holdings, member: ShareMember, *, renewing: bool) -> None:
        self.renewing = renewing
        self._holdings = holdings
        self._member = member
        self._on_lost: Callable[[TopicIdPartition, int], None] = lambda _partition, _offset: None

    async def run(
        self, on_lost: Callable[[TopicIdPartition, int], None], look: Callable[[], None]
    ) -> None:
        """Keep the locks, for ever.

        Args:
            on_lost: called with each offset whose lock is gone.
            look: called about once a second.
        """
        self._on_lost = on_lost
        times = RenewalTimes(now_ms())
        while True:
            lock_ms = self._member.lock_timeout_ms
            look_s = _UNKNOWN_LOOK_S if lock_ms is None else times.interval_ms(lock_ms) / 1000
            await asyncio.sleep(min(_LOOK_S, look_s))
            self._member.polled()  # all slots may be busy for longer than max_poll_interval_ms
            look()
            if self.renewing and not times.pause_ms(now_ms(), lock_ms):
                times.begin(now_ms())
                await self._renew_all()

    async def _renew_all(self) -> None:
        held: dict[TopicIdPartition, list[OffsetRange]] = {}
        for partition, offsets in self._holdings.undecided():
            held.setdefault(partition, []).append(offsets)
        try:
            await asyncio.gather(*(self._renew(*one) for one in held.items()))
        except UnsupportedVersion as error:
            self.renewing = False
            log.warning(
                "locks are not renewed: %s; if a handler takes longer than the lock, its record "
                "is redelivered",
                error,
            )
        except KafkaError as error:
            log.warning("locks could not be renewed: %s", error)

    async def _renew(self, partition: TopicIdPartition, held: list[OffsetRange]) -> None:
        renewal = RenewalRound({partition: held})
        while asked := renewal.next_request():
            began = asyncio.get_running_loop().time()
            outcomes = await self._member.renew((partition, *one) for one in asked[partition])
            answered = renewal.answered(asked, outcomes)
            for ranges in answered.renewed.values():
                deadline = began + (self._member.lock_timeout_ms or 0) / 1000
                self._holdings.partition_locked_until(partition, ranges, deadline)
            for ranges in answered.lost.values():
                self._on_lost(partition, ranges[0].first)
            # Any other error is transient, or the session is lost: then its lease says so.
