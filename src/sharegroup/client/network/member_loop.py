"""The background task of a group's member: sends the requests of its machine when they are due."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import Any
from uuid import UUID

from sharegroup.client.network.cluster import Cluster
from sharegroup.model.ids import topic_id_text


def now_ms() -> int:
    """The event loop's time in milliseconds."""
    return int(asyncio.get_running_loop().time() * 1000)


def new_member_id(cluster: Cluster) -> str:
    """A member id as Kafka's clients make them: 16 random bytes in url-safe base64."""
    return topic_id_text(UUID(bytes=cluster.random.randbytes(16), version=4))


class MemberLoop(ABC):
    """Runs one machine. After a call on the machine the caller must :meth:`wake` this task.

    Args:
        name: the task's name.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._woken = asyncio.Event()
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @abstractmethod
    def _deadline_ms(self) -> int | None:
        """When the machine must be asked again; None: not before it is woken."""

    @abstractmethod
    async def _step(self) -> bool:
        """Send the request that is due. Returns False if none is."""

    def start(self) -> None:
        """Begin, or begin again after an end that nobody asked for: ``asyncio.run`` cancels every
        task when the program's main task ends."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name=self._name)

    def wake(self) -> None:
        """Check again whether something is due."""
        self._woken.set()

    def cut(self) -> list[asyncio.Task[Any]]:
        """Stop sending. Returns the cancelled tasks, which are about to end."""
        task, self._task = self._task, None
        if task is None:
            return []
        task.cancel()
        return [task]

    async def changed(self) -> None:
        """Wait for the next answer or failure of a request."""
        await self._changed.wait()

    def _tell_changed(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def _run(self) -> None:
        while True:
            if await self._step():
                self._tell_changed()
            else:
                await self._wait_until_due()

    async def _wait_until_due(self) -> None:
        deadline_ms = self._deadline_ms()
        loop = asyncio.get_running_loop()
        timer = None
        if deadline_ms is not None:
            timer = loop.call_at((deadline_ms + 1) / 1000, self._woken.set)
        await self._woken.wait()
        self._woken.clear()
        if timer is not None:
            timer.cancel()
