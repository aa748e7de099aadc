"""Viewers log in with a name and a password of the broker's.

The console logs in at the broker with them, and all that a viewer sees and does goes over
connections of this user: the broker authorises it, and names the user in its audit log. A password
is kept in memory as long as its session lasts, to connect again.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from functools import partial

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from sharegroup.console.answers import BadRequest, Forged, answered, body_of
from sharegroup.console.desk import Desk, Watched
from sharegroup.console.guard import ACT_HEADER
from sharegroup.console.limits import (
    GUESSES_MAX,
    GUESSES_S,
    SESSION_IDLE_S,
    SESSION_S,
    SESSIONS_MAX,
    TEXT_MAX,
)
from sharegroup.console.sessions import NotLoggedIn, Session
from sharegroup.console.watches import Seats
from sharegroup.model.errors import AuthenticationFailed, ConfigError

LogIn = Callable[[str, str], Watched]
"""Connections of a user with this name and password; they are not connected yet."""


class LoginRefused(Exception):
    """The text says why; ``status`` is that of the answer."""

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.status = status


class Logins:
    """A session for each login. See the module.

    Args:
        log_in: makes the connections of a user.
        https: browsers come by https.
    """

    def __init__(self, log_in: LogIn, *, https: bool) -> None:
        self._log_in = log_in
        self._https = https
        # With https, browsers take a cookie of this name from this host only.
        self._cookie = "__Host-sharegroup" if https else "sharegroup"
        self._sessions: dict[str, Session] = {}
        self._seats = Seats()
        self._tries: dict[str, list[float]] = {}
        self._closing: set[asyncio.Task[None]] = set()

    def session(self, request: Request) -> Session:
        """See :class:`Entrance`."""
        return self.session_of(request.cookies.get(self._cookie, ""))

    def session_of(self, key: str) -> Session:
        """The session that :meth:`enter` has made. Raises NotLoggedIn."""
        session = self._sessions.get(key)
        if session is None:
            raise NotLoggedIn
        session.used_s = _now_s()
        return session

    def routes(self) -> list[Route]:
        """See :class:`Entrance`."""
        return [
            Route("/api/v1/login", partial(answered, self._login), methods=["POST"]),
            Route("/api/v1/logout", partial(answered, self._logout), methods=["POST"]),
        ]

    async def _login(self, request: Request) -> Response:
        given = await body_of(request)
        user, password = given.get("user"), given.get("password")
        for name, text in (("user", user), ("password", password)):
            if not isinstance(text, str) or not text or len(text) > TEXT_MAX:
                raise BadRequest(f"{name} is missing, or no text of at most {TEXT_MAX} characters")
        host = request.client.host if request.client is not None else ""
        try:
            key = await self.enter(str(user), str(password), host)
        except LoginRefused as error:
            return JSONResponse({"error": str(error)}, error.status)
        response = JSONResponse({"user": user})
        response.set_cookie(
            self._cookie,
            key,
            max_age=SESSION_S,
            secure=self._https,
            httponly=True,
            samesite="strict",
        )
        return response

    async def _logout(self, request: Request) -> Response:
        session = self.session(request)
        if not session.may_act(request.headers.get(ACT_HEADER)):
            raise Forged
        self.leave(request.cookies.get(self._cookie, ""))
        response = JSONResponse({"said": "logged out"})
        response.delete_cookie(self._cookie, secure=self._https, httponly=True, samesite="strict")
        return response

    async def enter(self, user: str, password: str, host: str) -> str:
        """Log in. Returns the key of the session, for the cookie.

        Raises:
            LoginRefused: the broker refuses the password, there were too many wrong ones from
                ``host``, or too many people are logged in.
            SharegroupError: the broker does not answer.
        """
        tries, now_s = self._tries_of(host), _now_s()
        if len(tries) >= GUESSES_MAX:
            raise LoginRefused("too many wrong passwords: wait a minute", 429)
        if len(self._sessions) >= SESSIONS_MAX:
            raise LoginRefused(f"{SESSIONS_MAX} people are logged in: log out somewhere", 503)
        try:
            broker = self._log_in(user, password)
        except ConfigError as error:
            raise LoginRefused(str(error), 400) from None
        tries.append(now_s)  # wrong until it is right: tries at one time count, too
        try:
            await broker.asking.start()
        except AuthenticationFailed as error:
            await broker.close()
            raise LoginRefused(f"the broker refuses this login: {error}", 401) from None
        except BaseException:
            _forget(tries, now_s)
            await broker.close()
            raise
        _forget(tries, now_s)
        key = secrets.token_urlsafe(32)
        session = Session(Desk(broker, self._seats), user, secrets.token_urlsafe(32))
        session.used_s = _now_s()
        self._sessions[key] = session
        asyncio.get_running_loop().call_later(SESSION_S, self.leave, key)
        self._end_when_idle(key)
        return key

    def leave(self, key: str) -> None:
        """Log out; nothing, if the session has ended already."""
        session = self._sessions.pop(key, None)
        if session is not None:
            task = asyncio.create_task(session.desk.close(), name="console logout")
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    async def end_streams(self) -> None:
        """See :class:`Entrance`."""
        for session in [*self._sessions.values()]:
            await session.desk.end_streams()

    async def close(self) -> None:
        """See :class:`Entrance`."""
        for key in [*self._sessions]:
            self.leave(key)
        await asyncio.gather(*self._closing)

    def _end_when_idle(self, key: str) -> None:
        session = self._sessions.get(key)
        if session is None:
            return
        left_s = session.used_s + SESSION_IDLE_S - _now_s()
        if session.desk.watches.viewers:  # somebody looks, without asking for anything
            left_s = SESSION_IDLE_S
        if left_s <= 0:
            self.leave(key)
        else:
            asyncio.get_running_loop().call_later(left_s, self._end_when_idle, key)

    def _tries_of(self, host: str) -> list[float]:
        """When wrong passwords have come from this host of late."""
        since_s = _now_s() - GUESSES_S
        for known, times in [*self._tries.items()]:
            times[:] = [one for one in times if one > since_s]
            if not times and known != host:
                del self._tries[known]
        return self._tries.setdefault(host, [])


def _forget(tries: list[float], at_s: float) -> None:
    """This try was no guess. It is gone already if it has taken a minute."""
    if at_s in tries:
        tries.remove(at_s)


def _now_s() -> float:
    return asyncio.get_running_loop().time()
