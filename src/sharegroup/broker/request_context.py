"""What a handler knows about a request besides its message."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from sharegroup.broker.authorization.access import Access
from sharegroup.broker.quotas import Mutations
from sharegroup.model.config import INT_MAX


def nothing() -> None:
    """The default of :attr:`RequestContext.give_back`, where no memory is counted."""


class RequestContext(NamedTuple):
    """``connection`` is an opaque key of the TCP connection: share sessions end with it.

    ``access`` is the client's access rights. ``advertised`` is the host and port by which the
    client knows this node. ``answer_bytes_max`` returns how many bytes of records an answer may
    have now.
    """

    version: int
    client_id: str
    client_host: str
    connection: object
    access: Access
    advertised: tuple[str, int]
    answer_bytes_max: Callable[[], int] = lambda: INT_MAX
    mutations: Mutations | None = None
    """How many partitions the request may create and delete; None: any number."""
    give_back: Callable[[], None] = nothing
    """A handler that waits calls this once its request has become state of the broker: from then on
    the bytes of the request no longer count as memory of requests."""
    from_node: bool = False
    """Whether another node of the fleet asks: for what this node knows itself."""
