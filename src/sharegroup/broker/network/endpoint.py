"""A listener in use."""

from __future__ import annotations

from dataclasses import dataclass

from sharegroup.broker.authentication.listener_security import ListenerSecurity
from sharegroup.broker.authorization.resources import ANONYMOUS

PLAINTEXT = "PLAINTEXT"
"""Default name of a listener."""


@dataclass(slots=True, kw_only=True)
class Endpoint:
    """``advertised`` is the host and port told to clients; ``principal`` is their identity,
    unless they prove another."""

    name: str = PLAINTEXT
    principal: str = ANONYMOUS
    advertised: tuple[str, int] = ("", 0)
    security: ListenerSecurity | None = None
    """How clients prove who they are; None: they do not."""
