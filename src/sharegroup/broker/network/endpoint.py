"""A listener in use."""

from __future__ import annotations

from dataclasses import dataclass

from sharegroup.broker.authorization.resources import ANONYMOUS

PLAINTEXT = "PLAINTEXT"
"""Name of the listener that nobody named."""


@dataclass(slots=True, kw_only=True)
class Endpoint:
    """``advertised`` is what its clients are told to connect to, ``principal`` who they are."""

    name: str = PLAINTEXT
    principal: str = ANONYMOUS
    advertised: tuple[str, int] = ("", 0)
