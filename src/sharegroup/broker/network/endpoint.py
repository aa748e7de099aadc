"""A listener in use."""

from __future__ import annotations

import asyncio
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
    """How clients prove who they are; None: they need no proof."""

    def principal_by_certificate(self, transport: asyncio.BaseTransport) -> str | None:
        """The principal of the client's certificate, or :attr:`principal` if the client shows no
        certificate. None: no rule makes this certificate a principal."""
        tls = transport.get_extra_info("ssl_object") if self.security is not None else None
        certificate = tls.getpeercert(binary_form=True) if tls is not None else None
        if certificate is None or self.security is None:
            return self.principal
        return self.security.principal_of(certificate)
