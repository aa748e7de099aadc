"""Keeps the locks of all records that a consumer holds: ``renew_locks=True``."""

from __future__ import annotations

import asyncio
import logging

from sharegroup.client.core.held_deliveries import Holdings
from sharegroup.client.core.lock_renewal import RenewalRound, RenewalTimes
from sharegroup.client.network.member_loop import now_ms
from sharegroup.client.share.receiver import Receiver
from sharegroup.client.share.share_member import ShareMember
from sharegroup.model.errors import KafkaError, UnsupportedVersion
from sharegroup.model.ids import TopicIdPartition
from sharegroup.model.offsets import OffsetRange

log = logging.getLogger("sharegroup.client")


class LockKeeper:
    """See the module.

    A renewal that the broker refuses changes nothing here: the deadline of these records passes,
    they are not asked for any more, and those that the application was not given are dropped. They
    are not dropped at once, because the broker of a group without renewals refuses all of them.
    """

    def __init__(self, holdings: Holdings, member: ShareMember, receiver: Receiver) -> None:
        self._holdings = holdings
        self._member = member
        self._receiver = receiver

    async def run(self) -> None:
        """Renew all held locks whenever a third of the lock duration is over, for ever; also those
        of records that nobody has asked for yet. None are renewed while the application polls too
        late: it may hang, and others are to get its records.
        """
        times = RenewalTimes(now_ms())
        while True:
            lock_ms = times.lock_ms(self._member.lock_timeout_ms)
            await asyncio.sleep(times.pause_ms(now_ms(), lock_ms) / 1000)
            times.begin(now_ms())
            if self._member.overdue:
                continue
            self._receiver.take_arrived()
            try:
                await self._renew_all()
            except UnsupportedVersion as error:
                log.warning("renew_locks does nothing: %s", error)
                return
            except KafkaError as error:
                log.warning("locks could not be renewed, and are tried again: %s", error)

    async def _renew_all(self) -> None:
        now = asyncio.get_running_loop().time
        now_s = now()
        held: dict[TopicIdPartition, list[OffsetRange]] = {}
        for partition, offsets in self._holdings.undecided(now_s):
            held.setdefault(partition, []).append(offsets)
        renewal = RenewalRound(held, whole=True)  # of 500 lost records, each costs two requests
        while asked := renewal.next_request():
            began = now()
            outcomes = await self._member.renew(
                (partition, *one) for partition, ranges in asked.items() for one in ranges
            )
            deadline = began + (self._member.lock_timeout_ms or 0) / 1000
            for partition, ranges in renewal.answered(asked, outcomes).renewed.items():
                self._holdings.partition_locked_until(partition, ranges, deadline, now_s)
