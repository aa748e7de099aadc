"""Who looks at the console: everybody who reaches it, those who have logged in by a password
(``password_logins``) or at an OpenID provider (``oidc_logins``), or those whom a proxy names
(``proxy_logins``)."""

from __future__ import annotations

import hmac
from typing import Protocol

from starlette.requests import Request
from starlette.routing import Route

from sharegroup.console.desk import Desk, Watched
from sharegroup.console.watches import Seats


class NotLoggedIn(Exception):
    """The request has no session, or one that has ended.

    Attributes:
        way: how to log in: by the form of the page (True), at this address of the console, or
            nothing that the page can do (False).
    """

    def __init__(self, text: str = "log in first", way: bool | str = True) -> None:
        super().__init__(text)
        self.way = way


class Session:
    """One viewer from login to logout.

    Attributes:
        user: the name; None: nobody has to log in.
        token: what each act must carry; None: any text.
        may_leave: whether it ends by a logout.
        used_s: when the last request came, by the clock of the event loop.
    """

    def __init__(
        self,
        desk: Desk,
        user: str | None = None,
        token: str | None = None,
        *,
        may_leave: bool = False,
    ) -> None:
        self.desk = desk
        self.user = user
        self.token = token
        self.may_leave = may_leave
        self.used_s = 0.0

    def may_act(self, token: str | None) -> bool:
        """Whether a request with this token comes from the page, not from another site."""
        if token is None or self.token is None:
            return token is not None
        return hmac.compare_digest(token.encode(), self.token.encode())


class Entrance(Protocol):
    """How viewers come to their sessions."""

    def session(self, request: Request) -> Session:
        """The session of a request. Raises NotLoggedIn."""

    def refused(self, request: Request) -> None:
        """The broker no longer knows the user of this request."""

    def routes(self) -> list[Route]:
        """The addresses for login and logout, if there is any."""

    async def end_streams(self) -> None:
        """The console ends: end all event streams."""

    async def close(self) -> None:
        """Close all connections to the broker."""


class OpenToAll:
    """One session for all who reach the console: they see what its own user may see."""

    def __init__(self, broker: Watched) -> None:
        self._session = Session(Desk(broker, Seats()))

    def session(self, request: Request) -> Session:
        """See :class:`Entrance`."""
        return self._session

    def refused(self, request: Request) -> None:
        """See :class:`Entrance`."""

    def routes(self) -> list[Route]:
        """See :class:`Entrance`."""
        return []

    async def end_streams(self) -> None:
        """See :class:`Entrance`."""
        await self._session.desk.end_streams()

    async def close(self) -> None:
        """See :class:`Entrance`."""
        await self._session.desk.close()
