"""A proxy before the console has logged the viewers in, and names them in a header.

All that they see and do goes over the connections of the console's own user, so the broker's audit
log names this user; the console's log says who did an act.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Collection

from starlette.requests import Request
from starlette.routing import Route

from sharegroup.console.desk import Desk, Watched
from sharegroup.console.limits import TEXT_MAX
from sharegroup.console.sessions import NotLoggedIn, Session
from sharegroup.console.watches import Seats


class ProxyLogins:
    """See the module.

    Args:
        header: the header that names the viewer.
        proxies: the addresses from which it is believed.
    """

    def __init__(self, broker: Watched, header: str, proxies: Collection[str]) -> None:
        self._desk = Desk(broker, Seats())
        self._header = header
        self._proxies = frozenset(proxies)
        self._secret = secrets.token_bytes(32)

    def session(self, request: Request) -> Session:
        """See :class:`Entrance`."""
        if request.client is None or request.client.host not in self._proxies:
            raise NotLoggedIn("this console answers its proxy only", way=False)
        named = request.headers.getlist(self._header)
        user = named[0].strip() if len(named) == 1 else ""
        if not user or len(user) > TEXT_MAX:
            raise NotLoggedIn(f"the proxy names nobody in {self._header}", way=False)
        # The same for all requests of a user, and nothing that another site could know.
        token = hmac.digest(self._secret, user.encode("latin-1"), "sha256").hex()
        return Session(self._desk, _text(user), token)

    def refused(self, request: Request) -> None:
        """See :class:`Entrance`."""

    def routes(self) -> list[Route]:
        """See :class:`Entrance`."""
        return []

    async def end_streams(self) -> None:
        """See :class:`Entrance`."""
        await self._desk.end_streams()

    async def close(self) -> None:
        """See :class:`Entrance`."""
        await self._desk.close()


def _text(header: str) -> str:
    """Starlette reads headers as Latin-1; proxies write UTF-8."""
    try:
        return header.encode("latin-1").decode()
    except UnicodeDecodeError:
        return header
