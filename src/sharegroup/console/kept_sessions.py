"""Sessions that a browser holds by a cookie, from login to logout."""

from __future__ import annotations

import asyncio
import secrets
from functools import partial

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from sharegroup.console.answers import Forged, answered
from sharegroup.console.desk import Desk, Watched
from sharegroup.console.guard import ACT_HEADER
from sharegroup.console.limits import SESSION_IDLE_S, SESSION_S, SESSIONS_MAX
from sharegroup.console.sessions import NotLoggedIn, Session
from sharegroup.console.watches import Seats


class LoginRefused(Exception):
    """The text says why; ``status`` is that of the answer."""

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.status = status


class KeptSessions:
    """See the module.

    Args:
        https: browsers come by https.
        way: how to log in; see :class:`NotLoggedIn`.
    """

    def __init__(self, *, https: bool, way: bool | str = True) -> None:
        self.https = https
        self._way = way
        # With https, browsers take a cookie of this name from this host only.
        self._cookie = "__Host-sharegroup" if https else "sharegroup"
        self._sessions: dict[str, Session] = {}
        self._seats = Seats()
        self._closing: set[asyncio.Task[None]] = set()

    def of(self, request: Request) -> Session:
        """The session of a request. Raises NotLoggedIn."""
        return self.of_key(request.cookies.get(self._cookie, ""))

    def of_key(self, key: str) -> Session:
        """The session that :meth:`begin` has made. Raises NotLoggedIn."""
        session = self._sessions.get(key)
        if session is None:
            raise NotLoggedIn(way=self._way)
        session.used_s = now_s()
        return session

    def check_room(self) -> None:
        """Raises LoginRefused if too many people are logged in."""
        if len(self._sessions) >= SESSIONS_MAX:
            raise LoginRefused(f"{SESSIONS_MAX} people are logged in: log out somewhere", 503)

    async def begin(self, broker: Watched, user: str) -> str:
        """Connect as ``user``, whom ``broker`` logs in. Returns the key of the session.

        Raises:
            LoginRefused: too many people are logged in.
            SharegroupError: the broker refuses the user, or does not answer.
        """
        try:
            self.check_room()
            await broker.asking.start()
        except BaseException:
            await broker.close()
            raise
        key = secrets.token_urlsafe(32)
        token = secrets.token_urlsafe(32)
        session = Session(Desk(broker, self._seats), user, token, may_leave=True)
        session.used_s = now_s()
        self._sessions[key] = session
        asyncio.get_running_loop().call_later(SESSION_S, self.leave, key)
        self._end_when_idle(key)
        return key

    def hand_over(self, key: str, response: Response) -> None:
        """Let the browser keep this session's key."""
        response.set_cookie(
            self._cookie,
            key,
            max_age=SESSION_S,
            secure=self.https,
            httponly=True,
            samesite="strict",
        )

    def logout(self) -> Route:
        """The address for it."""
        return Route("/api/v1/logout", partial(answered, self._logout), methods=["POST"])

    async def _logout(self, request: Request) -> Response:
        session = self.of(request)
        if not session.may_act(request.headers.get(ACT_HEADER)):
            raise Forged
        self.leave_as(request)
        response = JSONResponse({"said": "logged out"})
        response.delete_cookie(self._cookie, secure=self.https, httponly=True, samesite="strict")
        return response

    def leave_as(self, request: Request) -> None:
        """End the session of a request."""
        self.leave(request.cookies.get(self._cookie, ""))

    def leave(self, key: str) -> None:
        """End a session; nothing, if it has ended already."""
        session = self._sessions.pop(key, None)
        if session is not None:
            task = asyncio.create_task(session.desk.close(), name="console logout")
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    async def end_streams(self) -> None:
        """The console ends: end all event streams."""
        for session in [*self._sessions.values()]:
            await session.desk.end_streams()

    async def close(self) -> None:
        """End all sessions."""
        for key in [*self._sessions]:
            self.leave(key)
        await asyncio.gather(*self._closing)

    def _end_when_idle(self, key: str) -> None:
        session = self._sessions.get(key)
        if session is None:
            return
        left_s = session.used_s + SESSION_IDLE_S - now_s()
        if session.desk.watches.viewers:  # somebody looks, without asking for anything
            left_s = SESSION_IDLE_S
        if left_s <= 0:
            self.leave(key)
        else:
            asyncio.get_running_loop().call_later(left_s, self._end_when_idle, key)


def now_s() -> float:
    """By the clock of the event loop."""
    return asyncio.get_running_loop().time()
