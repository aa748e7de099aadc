"""What a handler knows of a request besides the request."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestContext:
    """``connection`` is an opaque key of the TCP connection: share sessions end with it."""

    version: int
    client_id: str
    client_host: str
    connection: object
