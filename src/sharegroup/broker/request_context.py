"""What a handler knows about a request besides its message."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from sharegroup.broker.authorization.access import Access
from sharegroup.broker.quotas import Mutations
from sharegroup.model.config import INT_MAX


def nothing() -> None:
    """What :attr:`RequestContext.give_back` does where nobody counts."""


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
    """What the request may create and delete; None: any number of partitions."""
    give_back: Callable[[], None] = nothing
    """Called by a handler that waits and whose request has become state: the bytes of the request
    count no longer as those of one that is under way."""
