"""The clients' connections as they look now."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionView:
    """A client's connection.

    Attributes:
        listener: name of the listener that accepted the connection.
        open_requests: requests that were read and are not answered yet.
        request_bytes: memory that its requests use.
        unread_bytes: bytes of answers that the client has not read.
    """

    host: str
    listener: str
    principal: str
    open_requests: int
    request_bytes: int
    unread_bytes: int


class OpenConnections(Protocol):
    """The open connections. ``request_bytes`` and ``unread_bytes`` are sums over all of them."""

    def __contains__(self, connection: object) -> bool: ...

    def __len__(self) -> int: ...

    @property
    def request_bytes(self) -> int: ...

    @property
    def unread_bytes(self) -> int: ...

    @property
    def unauthenticated(self) -> int: ...

    def views(self) -> list[ConnectionView]:
        """One view for each connection."""
        ...
