"""Carries the application's acknowledgements to the brokers, and the outcomes back."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

from sharegroup.client.core.acknowledgements import AcknowledgedRange, AckType
from sharegroup.client.core.fetched import Acknowledged
from sharegroup.client.core.held_deliveries import Decided, Holdings, Renewals
from sharegroup.client.core.lock_renewal import RenewalTimes
from sharegroup.client.network.member_loop import now_ms
from sharegroup.client.share.acknowledger import AckOutcomes, locks_gone
from sharegroup.client.share.commit_callback import CommitCallback
from sharegroup.client.share.share_member import ShareMember
from sharegroup.model.errors import UnsupportedVersion

log = logging.getLogger("sharegroup.client")

T = TypeVar("T")

_LINGER_S: Final = 0.05
"""How long, in seconds, acknowledgements wait for a fetch to ride on. A quick application fetches
again within this time.
"""


class AcknowledgementCommitter:
    """Takes decided acknowledgements from the holdings, sends them through the member, and tells
    the callback.

    Sending runs in tasks of its own, so that it completes even if the caller is cancelled.
    """

    def __init__(self, holdings: Holdings, member: ShareMember, callback: CommitCallback) -> None:
        self._holdings = holdings
        self._member = member
        self._callback = callback
        callback.watcher = holdings.answered
        self._background: set[asyncio.Task[Any]] = set()
        self._flushes: set[asyncio.Task[AckOutcomes]] = set()
        self._renewing: asyncio.Task[AckOutcomes] | None = None
        self._linger: asyncio.TimerHandle | None = None

    def queue(self, decided: list[Decided]) -> AckOutcomes:
        """Hand these acknowledgements to the member, for its next request. Returns the outcomes of
        the ones that are not sent because their locks are gone.
        """
        outcomes: AckOutcomes = {}
        for one in decided:
            if one.lease.lost or self._member.has_moved(one.partition, one.lease.node_id):
                outcomes[one.partition] = locks_gone()
                self._callback.note(Acknowledged(one.partition, one.ranges, locks_gone()))
            else:
                self._member.acknowledge_ranges(one.partition, one.ranges, one.lease)
        return outcomes

    def queue_decided(self, *, in_work: bool = True) -> AckOutcomes:
        """Queue every acknowledgement that can be sent. In implicit mode, all records given to the
        application are accepted first; ``in_work``: also the one that a loop is working on.
        """
        if self._holdings.implicit:
            self._holdings.accept_given(in_work=in_work)
        return self.queue(self._holdings.take_decided())

    async def commit(self, wait_s: float | None, *, in_work: bool) -> AckOutcomes:
        """Send everything that :meth:`queue_decided` queues. Returns the outcomes: None is success,
        RequestTimedOut is a request that takes longer than ``wait_s`` and goes on.
        """
        outcomes = self.queue_decided(in_work=in_work)
        renewing = self.begin_renewals()
        before = set(self._flushes)
        found_all = [await self._member.commit(wait_s)]
        if before:
            done, _ = await asyncio.wait(before, timeout=wait_s)
            found_all += [one.result() for one in done]
        if renewing is not None:
            await asyncio.wait([renewing])
            found_all.append(renewing.result())
        for found in found_all:
            for partition, error in found.items():
                outcomes[partition] = outcomes.get(partition) or error
        return outcomes

    def flush(self, *, soon: bool = False) -> None:
        """Send the queue in the background. With ``soon``, wait a little first: a fetch may carry
        the queued acknowledgements.
        """
        if not self._member.has_pending_acknowledgements:
            return
        if not soon:
            flush = self.later(self._member.commit())
            self._flushes.add(flush)
            flush.add_done_callback(self._flushes.discard)
        elif self._linger is None:
            loop = asyncio.get_running_loop()
            self._linger = loop.call_later(_LINGER_S, self._end_linger)

    def _end_linger(self) -> None:
        self._linger = None
        self.flush()

    async def finish(self) -> None:
        """Wait for all tasks under way."""
        self._stop_lingering()
        if self._background:
            await asyncio.wait(self._background)

    def cut(self) -> list[asyncio.Task[Any]]:
        """Cancel all tasks under way. Returns them; they are about to end."""
        self._stop_lingering()
        ending = list(self._background)
        for task in ending:
            task.cancel()
        return ending

    def _stop_lingering(self) -> None:
        if self._linger is not None:
            self._linger.cancel()
            self._linger = None

    # --- renewals ---------------------------------------------------------------------------------

    def begin_renewals(self) -> asyncio.Task[AckOutcomes] | None:
        """Send pending renewals, after the requests under way. Returns the sending task, if any."""
        renewals = self._holdings.take_renewals()
        if renewals:
            self._renewing = self.later(self._renew(renewals, self._renewing))
        return self._renewing

    async def renewed(self, wait_s: float) -> bool:
        """Wait until no renewal is under way. Returns False if ``wait_s`` was too short."""
        if self._renewing is not None:
            await asyncio.wait([self._renewing], timeout=wait_s)
            if not self._renewing.done():
                return False
            renewing, self._renewing = self._renewing, None
            renewing.result()
        return True

    async def _renew(
        self, renewals: list[Renewals], before: asyncio.Task[AckOutcomes] | None
    ) -> AckOutcomes:
        if before is not None:
            await asyncio.wait([before])
        now = asyncio.get_running_loop().time
        began = now()
        outcomes = await self._member.renew(
            (one.delivery.partition, *one.offsets) for one in renewals
        )
        deadline = began + (self._member.lock_timeout_ms or 0) / 1000
        for one in renewals:
            partition = one.delivery.partition
            self._holdings.renewed(one, outcomes[partition], deadline)
            said = AcknowledgedRange(*one.offsets, bytes([AckType.RENEW]))
            self._callback.note(Acknowledged(partition, [said], outcomes[partition]))
        return outcomes

    async def keep_locks(self) -> None:
        """Renew all held locks whenever a third of the lock duration is over, for ever."""
        now = asyncio.get_running_loop().time
        times = RenewalTimes(now_ms())
        while True:
            lock_ms = times.lock_ms(self._member.lock_timeout_ms)
            await asyncio.sleep(times.pause_ms(now_ms(), lock_ms) / 1000)
            times.begin(now_ms())
            ranges = self._holdings.undecided()
            if not ranges:
                continue
            began = now()
            try:
                await self._member.renew((partition, *offsets) for partition, offsets in ranges)
            except UnsupportedVersion as error:
                log.warning("renew_locks does nothing: %s", error)
                return
            self._holdings.locked_until(began + lock_ms / 1000)

    def later(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run ``work`` in the background; :meth:`finish` waits for it."""
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._background.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.info("acknowledging in the background: %s", error)
