"""Whose requests are answered, and the headers of each answer.

A browser lets any page of the web send requests to 127.0.0.1. A page of another origin cannot read
the answers, unless its own name resolves to this address (DNS rebinding): so only requests to names
that the console knows are answered.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")
ACT_HEADER: Final = "x-sharegroup-act"
HEADERS: Final = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}


class Guard:
    """See the module.

    Args:
        hosts: the names of this console besides those of loopback, without a port.
        acts: whether requests may change something.
    """

    def __init__(self, app: ASGIApp, hosts: Collection[str] = (), *, acts: bool = False) -> None:
        self._app = app
        self._hosts = {*LOOPBACK, *map(_shown, hosts)}
        self._acts = acts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, text in HEADERS.items():
                    headers[name] = text
            await send(message)

        refused = self._refusal(Headers(scope=scope), scope["method"])
        await (refused or self._app)(scope, receive, guarded)

    def _refusal(self, headers: Headers, method: str) -> JSONResponse | None:
        host = headers.get("host", "").lower()
        name = host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host
        if name not in self._hosts:
            return JSONResponse(
                {"error": "this console is not known by that name: see --allow-host"}, 421
            )
        site = headers.get("sec-fetch-site")
        mode = headers.get("sec-fetch-mode")
        if site in ("cross-site", "same-site") and (mode != "navigate" or method != "GET"):
            return JSONResponse({"error": "requests of other sites are not answered"}, 403)
        if method in ("GET", "HEAD"):
            return None
        if not self._acts:
            return JSONResponse(
                {"error": "this console only shows: start it with --acts (serve: --console-acts)"},
                405,
            )
        if method != "POST":
            return JSONResponse({"error": "acts are POST requests"}, 405)
        if headers.get(ACT_HEADER) is None:
            return JSONResponse({"error": f"an act needs the header {ACT_HEADER}"}, 403)
        return None


def _shown(host: str) -> str:
    """As browsers write it."""
    return f"[{host}]" if ":" in host else host.lower()
