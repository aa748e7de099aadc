"""Computes hashes of passwords, a few at a time; addresses take turns."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from sharegroup.broker.authentication.guessing import ClientLeft
from sharegroup.model.limits import PASSWORD_CHECKS_MAX
from sharegroup.sasl.password_hash import PasswordHash


class PasswordChecks:
    """Hashes are computed on threads. They are slow on purpose, so a flood of checks must leave
    processors to other work; and the address that floods waits in a line of its own."""

    def __init__(self) -> None:
        self._free = PASSWORD_CHECKS_MAX
        self._lines: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    async def matches(
        self, kept: PasswordHash, password: str, host: str, left: Callable[[], bool]
    ) -> bool:
        """Whether ``kept`` is the hash of ``password``, which a client at ``host`` claims.

        Raises:
            Left: the client has left meanwhile.
        """
        async with self._turn(host):
            if left():
                raise ClientLeft
            return await asyncio.to_thread(kept.matches, password)

    @asynccontextmanager
    async def _turn(self, host: str) -> AsyncIterator[None]:
        if self._free:
            self._free -= 1
        else:
            mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._lines.setdefault(host, deque()).append(mine)
            await mine
        try:
            yield
        finally:
            self._next()

    def _next(self) -> None:
        """Hand the turn to the address that has waited longest since its last turn."""
        while self._lines:
            host, line = self._lines.popitem(last=False)
            first = line.popleft()
            if line:
                self._lines[host] = line
            if not first.done():  # done: the task that waited was cancelled
                first.set_result(None)
                return
        self._free += 1
