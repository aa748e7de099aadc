"""Asks a token endpoint for a token with client credentials; RFC 6749, 4.4."""

from __future__ import annotations

import base64
import json
import ssl
from http.client import HTTPException
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.parse import quote_plus, urlencode
from urllib.request import HTTPRedirectHandler, HTTPSHandler, Request, build_opener

from sharegroup.client.clock import wall_ms
from sharegroup.client.security.settings import Security
from sharegroup.model import errors
from sharegroup.model.limits import TOKEN_RESPONSE_BYTES_MAX
from sharegroup.model.printable import printable

TIMEOUT_S: Final = 4.0
"""How long to wait for the endpoint; two attempts fit into a client's start."""

_LATER: Final = frozenset((408, 425, 429, 500, 502, 503, 504))
"""HTTP statuses after which to try again; as Kafka's clients do (class HttpJwtRetriever)."""


class _NoRedirects(HTTPRedirectHandler):
    """Refuses redirects: one would send the client's secret to another server."""

    def redirect_request(self, *arguments: object) -> None:
        """None: the redirect is an error."""


def ask_for_token(security: Security) -> tuple[str, float | None]:
    """A token, and for how many seconds it is valid, if the endpoint says so. Blocks.

    Raises:
        SaslAuthenticationFailed: the endpoint refuses, or its answer has no token.
        NetworkException: the endpoint cannot be reached, or says that it has no token now.
    """
    url = security.token_endpoint_url or ""
    shown = shown_url(url)
    try:
        with _opener(security).open(_request(url, security), timeout=TIMEOUT_S) as response:
            body = _body(response)
    except HTTPError as error:
        raise _refusal(shown, error) from None
    except (URLError, OSError, HTTPException) as error:
        reason = getattr(error, "reason", error)
        raise errors.NetworkException(
            f"the token endpoint {shown} cannot be reached: {printable(str(reason))}"
        ) from None
    found = _json(body)
    token = found.get("access_token")
    if not isinstance(token, str) or not token:
        raise errors.SaslAuthenticationFailed(
            f"the token endpoint {shown} answered without a token"
        )
    seconds = found.get("expires_in")
    return token, float(seconds) if isinstance(seconds, int | float) else None


def shown_url(url: str) -> str:
    """The URL for messages, with neither a query nor a password in it."""
    return url.partition("?")[0].rpartition("@")[2]


def _body(response: Any) -> bytes:
    """All bytes of an answer, which must end within TIMEOUT_S."""
    body, until_ms = bytearray(), wall_ms() + 1000 * TIMEOUT_S
    while len(body) < TOKEN_RESPONSE_BYTES_MAX and (part := response.read1(1 << 16)):
        body += part
        if wall_ms() > until_ms:
            raise TimeoutError("its answer does not end")
    return bytes(body[:TOKEN_RESPONSE_BYTES_MAX])


def _refusal(shown: str, error: HTTPError) -> errors.KafkaError:
    """Our error for an answer that is an HTTP error."""
    with error:
        if error.code in _LATER:
            return errors.NetworkException(
                f"the token endpoint {shown} gives no token now: HTTP status {error.code}"
            )
        why = _why(error.read(TOKEN_RESPONSE_BYTES_MAX))
    if 300 <= error.code < 400:
        why = ", which leads elsewhere: give the URL that it leads to"
    return errors.SaslAuthenticationFailed(
        f"the token endpoint {shown} refused the client credentials: HTTP status {error.code}{why}"
    )


def _request(url: str, security: Security) -> Request:
    """The request. Client id and secret go into the header, as Kafka's clients send them (class
    HttpJwtRetriever): URL-encoded only if ``urlencode_client`` is set.
    """
    names = (security.client_id or "", security.client_secret or "")
    pair = ":".join(map(quote_plus, names) if security.urlencode_client else names)
    form = {"grant_type": "client_credentials"}
    if security.scope:
        form["scope"] = security.scope
    return Request(
        url,
        data=urlencode(form).encode(),
        headers={
            "Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}",
            "Content-Type": "application/x-www-form-urlencoded",
            "Accept": "application/json",
        },
        method="POST",
    )


def _opener(security: Security) -> Any:
    try:
        context = ssl.create_default_context(cafile=security.token_endpoint_ca_location)
    except OSError as error:
        raise errors.ConfigError(
            f"certificates cannot be read from {security.token_endpoint_ca_location}: "
            f"{error.strerror or 'they are not PEM'}"
        ) from None
    return build_opener(_NoRedirects, HTTPSHandler(context=context))


def _why(body: bytes) -> str:
    """The error in an endpoint's answer (RFC 6749, 5.2), as ``: error, description``."""
    found = _json(body)
    words = [found.get("error"), found.get("error_description")]
    text = ", ".join(word for word in words if isinstance(word, str))
    return f": {printable(text[:300])}" if text else ""


def _json(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
