"""Viewers log in at an OpenID provider, by its authorization code flow with PKCE.

The provider's token logs the console in at the broker by OAUTHBEARER, and all that a viewer sees
and does goes over connections of this user: the broker authorises it, and names the user in its
audit log. Source: OpenID Connect Core 1.0, section 3.1; RFC 7636.
"""

from __future__ import annotations

import asyncio
import html
import logging
import math
import secrets
import threading
import time
from collections.abc import Callable
from typing import Any, Final

from authlib.integrations.base_client import OAuthError
from authlib.integrations.starlette_client import OAuth
from httpx2 import HTTPError, InvalidURL
from joserfc.errors import JoseError
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from sharegroup.client.security.tokens import expiry_ms
from sharegroup.console.desk import Watched
from sharegroup.console.kept_sessions import KeptSessions, LoginRefused, now_s
from sharegroup.console.limits import LOGIN_S, LOGINS_MAX
from sharegroup.console.oidc_provider import Provider
from sharegroup.console.sessions import Session
from sharegroup.model.errors import AuthenticationFailed, SharegroupError

log = logging.getLogger("sharegroup.console")

LOGIN: Final = "/login"
BACK: Final = "/login/back"
NAMES: Final = ("preferred_username", "email", "sub")
"""Claims that name a viewer, the best first."""
EARLY_S: Final = 30
"""So long before it expires, a token is asked for anew."""
_WRONG: Final = (
    OAuthError, JoseError, HTTPError, InvalidURL, ValueError, KeyError, RuntimeError,
)  # fmt: skip
"""What Authlib raises when the provider is away, or answers something else than it should."""

Token = tuple[str, float]
LogIn = Callable[[Callable[[], Token]], Watched]
"""Connections of the user whose token, and when it expires, a function returns."""


class OidcLogins:
    """A session for each login. See the module.

    Args:
        log_in: makes the connections of a user.
        https: browsers come by https.
    """

    def __init__(self, provider: Provider, log_in: LogIn, *, https: bool) -> None:
        self._provider = provider
        self._log_in = log_in
        self._sessions = KeptSessions(https=https, way=LOGIN)
        self._cookie = "__Host-sharegroup-login" if https else "sharegroup-login"
        self._begun: dict[str, tuple[float, dict[str, Any]]] = {}
        settings: dict[str, Any] = {
            "scope": provider.scope,
            "code_challenge_method": "S256",
            "verify": True if provider.tls is None else provider.tls,
        }
        if provider.client_secret is None:
            settings["token_endpoint_auth_method"] = "none"
        self._app = OAuth().register(
            "sharegroup",
            client_id=provider.client_id,
            client_secret=provider.client_secret,
            server_metadata_url=f"{provider.issuer}/.well-known/openid-configuration",
            client_kwargs=settings,
        )

    def session(self, request: Request) -> Session:
        """See :class:`Entrance`."""
        return self._sessions.of(request)

    def refused(self, request: Request) -> None:
        """See :class:`Entrance`."""
        self._sessions.leave_as(request)

    def routes(self) -> list[Route]:
        """See :class:`Entrance`."""
        return [
            Route(LOGIN, self._login),
            Route(BACK, self._back),
            self._sessions.logout(),
        ]

    async def end_streams(self) -> None:
        """See :class:`Entrance`."""
        await self._sessions.end_streams()

    async def close(self) -> None:
        """See :class:`Entrance`."""
        await self._sessions.close()

    async def _login(self, request: Request) -> Response:
        """To the provider. What is needed when the browser comes back is kept here, by a cookie."""
        key = secrets.token_urlsafe(32)
        begun: dict[str, Any] = {"then": _own_address(request.query_params.get("then", "/"))}
        request.scope["session"] = begun
        scheme = "https" if self._sessions.https else "http"
        back = f"{scheme}://{request.headers['host']}{BACK}"
        try:
            response: RedirectResponse = await self._app.authorize_redirect(request, back)
        except _WRONG as error:
            return self._failed(f"the OpenID provider does not answer as it should: {error}", 502)
        self._keep(key, begun)
        response.set_cookie(
            self._cookie,
            key,
            max_age=LOGIN_S,
            secure=self._sessions.https,
            httponly=True,
            samesite="lax",  # the browser comes back from the provider's site
        )
        return response

    async def _back(self, request: Request) -> Response:
        """From the provider, with a code."""
        at_s, begun = self._begun.pop(request.cookies.get(self._cookie, ""), (0.0, None))
        if begun is None or at_s < now_s() - LOGIN_S:
            return self._failed("this login was not begun here, or too long ago", 400)
        request.scope["session"] = begun
        try:
            token = await self._app.authorize_access_token(request)
            claims = token["userinfo"]
            keeper = _Tokens(self._app, token, self._provider.broker_token)
        except _WRONG as error:
            return self._failed(f"the OpenID provider has not logged you in: {error}", 401)
        user = next(str(claims[name]) for name in NAMES if claims.get(name))
        try:
            key = await self._sessions.begin(self._log_in(keeper.newest), user)
        except LoginRefused as error:
            return self._failed(str(error), error.status)
        except AuthenticationFailed as error:
            return self._failed(f"the broker refuses the provider's token: {error}", 401)
        except SharegroupError as error:
            return self._failed(str(error), 502)
        # A redirect would still belong to the provider's navigation, for which browsers send no
        # strict cookie.
        response = HTMLResponse(
            _page(f'<meta http-equiv="refresh" content="0;url={begun["then"]}">')
        )
        response.delete_cookie(
            self._cookie, secure=self._sessions.https, httponly=True, samesite="lax"
        )
        self._sessions.hand_over(key, response)
        return response

    def _keep(self, key: str, begun: dict[str, Any]) -> None:
        """Until the browser comes back; the oldest are forgotten."""
        oldest = [one for one, (at_s, _) in self._begun.items() if at_s < now_s() - LOGIN_S]
        if not oldest and len(self._begun) >= LOGINS_MAX:
            oldest = [next(iter(self._begun))]
        for one in oldest:
            del self._begun[one]
        self._begun[key] = now_s(), begun

    def _failed(self, text: str, status: int) -> Response:
        log.warning("a login has failed: %s", text.replace("\n", " "))
        shown = f'<p>{html.escape(text)}</p><p><a href="/">Back to the console</a></p>'
        return HTMLResponse(_page("", shown), status)


class _Tokens:
    """The tokens of one viewer. They are renewed as long as the provider does so."""

    def __init__(self, app: Any, token: dict[str, Any], kind: str) -> None:
        self._app = app
        self._kind = kind
        self._lock = threading.Lock()
        self._refresh: str | None = None
        self._take(token)

    def _take(self, token: dict[str, Any]) -> None:
        self._refresh = token.get("refresh_token", self._refresh)
        text = str(token[self._kind])
        said_ms = expiry_ms(text)
        # A token that does not say it is used until the broker refuses it.
        expires_s = token.get("expires_at", math.inf) if said_ms is None else said_ms / 1000
        self._newest = text, expires_s

    def newest(self) -> Token:
        """A token that has not expired, and when it does. Called in threads of the connections.

        Raises:
            RuntimeError: the provider gives none.
        """
        with self._lock:
            if self._newest[1] - EARLY_S < time.time():
                if self._refresh is None:
                    raise RuntimeError("the login has expired")
                try:
                    self._take(asyncio.run(self._renewed()))
                except _WRONG as error:
                    raise RuntimeError(f"the OpenID provider renews no token: {error}") from None
            return self._newest

    async def _renewed(self) -> dict[str, Any]:
        token: dict[str, Any] = await self._app.fetch_access_token(
            grant_type="refresh_token", refresh_token=self._refresh
        )
        return token


def _own_address(text: str) -> str:
    """An address of this console, fit for an attribute of HTML; the first page instead of any
    other."""
    own = text.startswith("/") and not text.startswith("//") and text.isprintable()
    return html.escape(text) if own and "\\" not in text and len(text) <= 4_096 else "/"


def _page(head: str, body: str = "") -> str:
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Log in – sharegroup'
        f'</title><link rel="stylesheet" href="/console.css">{head}</head><body><main>{body}'
        "</main></body></html>"
    )
