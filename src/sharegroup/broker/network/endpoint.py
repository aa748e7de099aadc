"""A listener in use."""

from __future__ import annotations

from dataclasses import dataclass

from sharegroup.broker.authorization.resources import ANONYMOUS

PLAINTEXT = "PLAINTEXT"
"""Default name of a listener."""


@dataclass(slots=True, kw_only=True)
class Endpoint:
    """``advertised`` is the host and port told to clients; ``principal`` is their identity."""

    name: str = PLAINTEXT
    principal: str = ANONYMOUS
    advertised: tuple[str, int] = ("", 0)
