"""What a handler knows of a request besides the request."""

from __future__ import annotations

from typing import NamedTuple

from sharegroup.broker.authorization.access import Access


class RequestContext(NamedTuple):
    """``connection`` is an opaque key of the TCP connection: share sessions end with it.

    ``access`` is what the client may do; ``advertised`` the host and port by which it knows this
    node.
    """

    version: int
    client_id: str
    client_host: str
    connection: object
    access: Access
    advertised: tuple[str, int]
