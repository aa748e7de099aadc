"""Viewers log in with a name and a password of the broker's.

The console logs in at the broker with them, and all that a viewer sees and does goes over
connections of this user: the broker authorises it, and names the user in its audit log. A password
is kept in memory as long as its session lasts, to connect again.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from sharegroup.console.answers import BadRequest, answered, body_of
from sharegroup.console.desk import Watched
from sharegroup.console.kept_sessions import KeptSessions, LoginRefused, now_s
from sharegroup.console.limits import GUESSES_MAX, GUESSES_S, TEXT_MAX
from sharegroup.console.sessions import Session
from sharegroup.model.errors import AuthenticationFailed, ConfigError

LogIn = Callable[[str, str], Watched]
"""Connections of a user with this name and password; they are not connected yet."""


class PasswordLogins:
    """A session for each login. See the module.

    Args:
        log_in: makes the connections of a user.
        https: browsers come by https.
    """

    def __init__(self, log_in: LogIn, *, https: bool) -> None:
        self._log_in = log_in
        self.sessions = KeptSessions(https=https)
        self._tries: dict[str, list[float]] = {}

    def session(self, request: Request) -> Session:
        """See :class:`Entrance`."""
        return self.sessions.of(request)

    def refused(self, request: Request) -> None:
        """See :class:`Entrance`."""
        self.sessions.leave_as(request)

    def routes(self) -> list[Route]:
        """See :class:`Entrance`."""
        login = Route("/api/v1/login", partial(answered, self._login), methods=["POST"])
        return [login, self.sessions.logout()]

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
        self.sessions.hand_over(key, response)
        return response

    async def enter(self, user: str, password: str, host: str) -> str:
        """Log in. Returns the key of the session, for the cookie.

        Raises:
            LoginRefused: the broker refuses the password, there were too many wrong ones from
                ``host``, or too many people are logged in.
            SharegroupError: the broker does not answer.
        """
        tries, at_s = self._tries_of(host), now_s()
        if len(tries) >= GUESSES_MAX:
            raise LoginRefused("too many wrong passwords: wait a minute", 429)
        self.sessions.check_room()
        try:
            broker = self._log_in(user, password)
        except ConfigError as error:
            raise LoginRefused(str(error), 400) from None
        tries.append(at_s)  # wrong until it is right: tries at one time count, too
        try:
            key = await self.sessions.begin(broker, user)
        except AuthenticationFailed as error:
            raise LoginRefused(f"the broker refuses this login: {error}", 401) from None
        except BaseException:
            _forget(tries, at_s)
            raise
        _forget(tries, at_s)
        return key

    async def end_streams(self) -> None:
        """See :class:`Entrance`."""
        await self.sessions.end_streams()

    async def close(self) -> None:
        """See :class:`Entrance`."""
        await self.sessions.close()

    def _tries_of(self, host: str) -> list[float]:
        """When wrong passwords have come from this host of late."""
        since_s = now_s() - GUESSES_S
        for known, times in [*self._tries.items()]:
            times[:] = [one for one in times if one > since_s]
            if not times and known != host:
                del self._tries[known]
        return self._tries.setdefault(host, [])


def _forget(tries: list[float], at_s: float) -> None:
    """This try was no guess. It is gone already if it has taken a minute."""
    if at_s in tries:
        tries.remove(at_s)
