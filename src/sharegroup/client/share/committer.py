"""Carries the application's acknowledgements to the brokers, and the outcomes back."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

from sharegroup.client.core.acknowledgements import AcknowledgedRange, AckType
from sharegroup.client.core.fetched import Acknowledged
from sharegroup.client.core.held_deliveries import Decided, Holdings, Renewals
from sharegroup.client.share.acknowledger import AckOutcomes, locks_gone
from sharegroup.client.share.commit_callback import CommitCallback
from sharegroup.client.share.share_member import ShareMember
from sharegroup.model.errors import KafkaError, RequestTimedOut
from sharegroup.model.ids import TopicIdPartition

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
        self._renewing: dict[asyncio.Task[AckOutcomes], set[TopicIdPartition]] = {}
        """Renewals whose outcome nobody has looked at, and their partitions."""
        self._linger: asyncio.TimerHandle | None = None

    def queue(self, decided: list[Decided]) -> AckOutcomes:
        """Hand these acknowledgements to the member, for its next request. Returns the outcomes of
        the ones that are not sent because their locks are gone.
        """
        outcomes: AckOutcomes = {}
        for one in decided:
            if one.lease.lost or self._member.has_moved(one.partition, one.lease.node_id):
                outcomes[one.partition] = locks_gone()
                self._member.reasons.forget(one.partition, one.ranges)
                self._member.pauses.forget(one.partition, one.ranges)
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
        """Send everything that :meth:`queue_decided` queues, and pending renewals. Returns the
        outcomes: None is success, RequestTimedOut is a request that takes longer than ``wait_s``
        and goes on.

        Raises:
            UnsupportedVersion: as :meth:`renewed`.
        """
        outcomes = self.queue_decided(in_work=in_work)
        self.begin_renewals()
        now = asyncio.get_running_loop().time
        began = now()
        _join(outcomes, await self._member.commit(wait_s))
        left_s = None if wait_s is None else max(0.0, began + wait_s - now())
        _join(outcomes, await self.renewed(left_s))
        return outcomes

    def flush(self, *, soon: bool = False) -> None:
        """Send the queue in the background. With ``soon``, wait a little first: a fetch may carry
        the queued acknowledgements.
        """
        if not self._member.has_pending_acknowledgements:
            return
        if not soon:
            self.later(self._member.commit())
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

    def begin_renewals(self) -> None:
        """Send pending renewals, after the renewals under way."""
        renewals = self._holdings.take_renewals()
        if renewals:
            task = self.later(self._renew(renewals, list(self._renewing)))
            self._renewing[task] = {one.delivery.partition for one in renewals}

    @property
    def renewing(self) -> bool:
        """A renewal is under way."""
        return any(not task.done() for task in self._renewing)

    async def renewed(self, wait_s: float | None) -> AckOutcomes:
        """Wait until no renewal is under way. Returns the outcomes that nobody has got yet:
        RequestTimedOut is a renewal that takes longer than ``wait_s`` and goes on.

        Raises:
            UnsupportedVersion: the broker is older than Apache Kafka 4.2.
        """
        if self._renewing:
            await asyncio.wait(self._renewing, timeout=wait_s)
        outcomes: AckOutcomes = {}
        for task, partitions in list(self._renewing.items()):
            if not task.done():
                late = RequestTimedOut("the renewal was not answered in time")
                _join(outcomes, dict.fromkeys(partitions, late))
                continue
            del self._renewing[task]
            cut = task.cancelled()  # the consumer was closed
            _join(outcomes, dict.fromkeys(partitions, locks_gone()) if cut else task.result())
        return outcomes

    async def _renew(
        self, renewals: list[Renewals], before: list[asyncio.Task[AckOutcomes]]
    ) -> AckOutcomes:
        if before:
            await asyncio.wait(before)
        now = asyncio.get_running_loop().time
        began = now()
        try:
            outcomes = await self._member.renew(
                (one.delivery.partition, *one.offsets) for one in renewals
            )
        except KafkaError as error:
            for one in renewals:
                self._note_renewed(one, error, began)
            raise
        deadline = began + (self._member.lock_timeout_ms or 0) / 1000
        for one in renewals:
            self._note_renewed(one, outcomes[one.delivery.partition], deadline)
        return outcomes

    def _note_renewed(self, one: Renewals, error: KafkaError | None, deadline: float) -> None:
        self._holdings.renewed(one, error, deadline)
        said = AcknowledgedRange(*one.offsets, bytes([AckType.RENEW]))
        self._callback.note(Acknowledged(one.delivery.partition, [said], error))

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


def _join(outcomes: AckOutcomes, more: AckOutcomes) -> None:
    """Add more outcomes. The first error of a partition counts."""
    for partition, error in more.items():
        outcomes[partition] = outcomes.get(partition) or error
