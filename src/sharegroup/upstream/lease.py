"""How long this broker may go on without asking: the lease on what it has in the cluster.

A broker that was paused, or cut off, does not know that another one has taken over. It would hand
out records that the other one hands out, too. So it writes a beat twice a second, and hands out
nothing when the last confirmed beat is two seconds old.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from sharegroup.model import errors
from sharegroup.upstream.state_log import StateLog

logger = logging.getLogger("sharegroup.broker")

BEAT_S: Final = 0.5
LEASE_S: Final = 2.0


class Lease:
    """See the module.

    Args:
        log: where beats are written; this process owns it, or has owned it.
        recover: called when a beat could not be written; returns when the log can be written again.
            Raises KafkaError while it cannot.
        written: called after each beat: the log is longer by one record.

    Attributes:
        taken_over: called when another broker has the log: this one has it never again.
    """

    def __init__(
        self, log: StateLog, recover: Callable[[], Awaitable[None]], written: Callable[[], None]
    ) -> None:
        self._log = log
        self._recover = recover
        self._written = written
        self._asked_s = 0.0
        """When the last confirmed beat was on its way."""
        self.taken_over: Callable[[], None] = lambda: None
        self._task: asyncio.Task[None] | None = None

    @property
    def holds(self) -> bool:
        """Whether this broker may hand out records."""
        return asyncio.get_running_loop().time() - self._asked_s < LEASE_S

    def start(self) -> None:
        """Begin; the log was claimed just now."""
        self._asked_s = asyncio.get_running_loop().time()
        self._task = asyncio.create_task(self._beat(), name="lease on the cluster")

    async def close(self) -> None:
        """Beat no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _beat(self) -> None:
        loop = asyncio.get_running_loop()
        while not self._log.lost:
            asked_s = loop.time()
            try:
                await self._log.beat().durable()
                self._asked_s = asked_s
                self._written()
            except errors.KafkaError:
                await self._recover_quietly()
            await asyncio.sleep(BEAT_S)
        logger.error(
            "another broker in front of the cluster has taken over: this one was silent for too "
            "long. It ends; start it again to stand by"
        )
        self.taken_over()

    async def _recover_quietly(self) -> None:
        try:
            await self._recover()
        except errors.KafkaError as error:
            logger.debug("no beat can be written: %s", error)
