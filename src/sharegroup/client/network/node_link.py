"""One broker's connection: opened when needed, and reopened when lost, with growing pauses."""

from __future__ import annotations

import asyncio
from typing import Any

from sharegroup.client.closing import result_of
from sharegroup.client.conditions import Conditions
from sharegroup.client.core.retry import Pauses
from sharegroup.client.network.addresses import Address
from sharegroup.client.network.connection import Connection
from sharegroup.client.security.access import ConnectionAccess
from sharegroup.model.errors import AuthenticationFailed, NetworkException


class NodeLink:
    """One broker's address and at most one connection to it.

    Callers that come while the connection is being opened share that attempt's outcome.
    """

    def __init__(
        self,
        address: Address,
        *,
        client_id: str,
        connect_timeout_ms: int,
        pauses: Pauses,
        conditions: Conditions,
        access: ConnectionAccess | None = None,
    ) -> None:
        self.address = address
        self._client_id = client_id
        self._connect_timeout_ms = connect_timeout_ms
        self._pauses = pauses
        self._connection: Connection | None = None
        self._opening: asyncio.Task[Connection] | None = None
        self._not_before = 0.0
        self._conditions = conditions
        self._access = access
        self._reached = False

    @property
    def connected(self) -> bool:
        """A connection is open now."""
        return self._connection is not None and not self._connection.closed

    @property
    def waits(self) -> bool:
        """An answer is awaited, or the connection."""
        return self._opening is not None or (
            self._connection is not None and not self._connection.idle
        )

    async def connection(self) -> Connection:
        """The open connection; a new one when there is none.

        Raises:
            NetworkException, AuthenticationFailed: it cannot be opened; the next call waits before
                it tries again.
            IllegalState: the link was closed meanwhile.
        """
        if self._connection is not None and not self._connection.closed:
            return self._connection
        if self._opening is None:
            self._opening = asyncio.create_task(self._open())
            self._opening.add_done_callback(self._opened)
        return await result_of(self._opening)

    def disconnect(self) -> None:
        """Close the connection, if one is open."""
        if self._connection is not None:
            self._connection.close()

    def close(self) -> list[asyncio.Task[Any]]:
        """Close the connection, or stop opening one. Returns the cancelled tasks, which
        are about to end."""
        self.disconnect()
        if self._opening is None:
            return []
        self._opening.cancel()
        return [self._opening]

    async def _open(self) -> Connection:
        loop = asyncio.get_running_loop()
        pause = self._not_before - loop.time()
        if pause > 0:
            await asyncio.sleep(pause)
        try:
            self._connection = await Connection.open(
                self.address.host,
                self.address.port,
                client_id=self._client_id,
                timeout_ms=self._connect_timeout_ms,
                access=self._access,
            )
        except (NetworkException, AuthenticationFailed) as error:
            self._not_before = loop.time() + self._pauses.next_ms() / 1000
            if self._reached and isinstance(error, NetworkException):
                self._conditions.begins(
                    self.address,
                    "the broker at %s is gone (%s): retrying until it is back; check that it runs "
                    "and can be reached from here",
                    self.address,
                    error,
                )
            raise
        self._reached = True
        self._conditions.ends(self.address, "the broker at %s is back", self.address)
        self._pauses.reset()
        self._not_before = 0.0
        return self._connection

    def _opened(self, task: asyncio.Task[Connection]) -> None:
        self._opening = None
        if not task.cancelled():
            task.exception()  # mark it as seen: a waiting caller has it, or the next call retries
