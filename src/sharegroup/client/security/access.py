"""What a connection is secured with: a TLS context and a login, made anew for each connection.

Files are read here, and functions of users are called, which may block: the asyncio driver does it
off the event loop's thread.
"""

from __future__ import annotations

import logging
import secrets
import ssl
from typing import NamedTuple

from sharegroup.client.security.settings import PLAINTEXT, Security
from sharegroup.client.security.tokens import TOKEN_S, TokenSource
from sharegroup.model.errors import ConfigError
from sharegroup.sasl.client import Login, OAuthBearerLogin, PlainLogin, ScramLogin
from sharegroup.sasl.mechanisms import OAUTHBEARER, PLAIN
from sharegroup.sasl.scram_keys import ScramMechanism
from sharegroup.tls.contexts import client_context
from sharegroup.tls.stamps import files_stamp

log = logging.getLogger("sharegroup.client")

_NONCE_BYTES = 24  # 192 bits; RFC 5802 leaves the length open, Kafka's clients have 130


class Secured(NamedTuple):
    """The TLS context and the login of one connection; None: it does without."""

    context: ssl.SSLContext | None
    login: Login | None


PLAIN_ACCESS = Secured(None, None)


class ConnectionAccess:
    """Makes the TLS contexts and the logins of one client's connections.

    Args:
        security: the settings.

    Raises:
        ConfigError: the function that gives tokens does not exist.
    """

    def __init__(self, security: Security) -> None:
        self.security = security
        self.asks_for_tokens = security.mechanism == OAUTHBEARER
        """Whether :meth:`login` may block."""
        self._tokens = TokenSource(security)
        self._context: ssl.SSLContext | None = None
        self._stamp: object = None

    def prepare(self, limit_s: float = TOKEN_S) -> Secured:
        """:meth:`tls` and :meth:`login` for a new connection, as far as the settings want them."""
        context = self.tls() if self.security.encrypted else None
        return Secured(context, self.login(limit_s) if self.security.authenticated else None)

    def login(self, limit_s: float = TOKEN_S) -> Login:
        """A login, for a new or an open connection. Waits up to ``limit_s`` seconds for a token.

        Raises:
            SaslAuthenticationFailed: there is no token.
            NetworkException: the token endpoint cannot be reached, or no token came in time.
        """
        security = self.security
        if security.mechanism == OAUTHBEARER:
            return OAuthBearerLogin(self._tokens.token(limit_s).strip(), security.extensions)
        username, password = security.username or "", security.password or ""
        if security.mechanism == PLAIN:
            return PlainLogin(username, password)
        mechanism = next(one for one in ScramMechanism if one.sasl_name == security.mechanism)
        nonce = secrets.token_urlsafe(_NONCE_BYTES)
        return ScramLogin(mechanism, username, password, nonce)

    def tls(self) -> ssl.SSLContext:
        """The TLS context. While the files that it was made from are the same, so is the context.

        Raises:
            ConfigError: a file cannot be read, or is not what it should be. If there is a context
                from before, the error is logged instead and that context stays in use.
        """
        security = self.security
        stamp = files_stamp(security.trust_store, security.key_store)
        if self._context is not None and stamp == self._stamp:
            return self._context
        try:
            self._context = self.context()
        except ConfigError as error:
            if self._context is None:
                raise
            log.error("%s; connections go on with the certificates read before", error)
        self._stamp = stamp
        return self._context

    def context(self) -> ssl.SSLContext:
        """A new TLS context, of the files as they are now.

        Raises:
            ConfigError: a file cannot be read, or is not what it should be.
        """
        security = self.security
        context = client_context(
            security.trust_store,
            security.key_store,
            check_host=security.check_host and security.verify,
            protocols=security.tls_protocols,
            ciphers=security.ciphers,
        )
        if not security.verify:
            context.verify_mode = ssl.CERT_NONE
        return context


_accesses: dict[Security, ConnectionAccess] = {}


def shared_access(security: Security) -> ConnectionAccess | None:
    """One :class:`ConnectionAccess` for all callers in this process with these settings, so that
    tokens and contexts are made once; None: connections need none.
    """
    if security.protocol == PLAINTEXT:
        return None
    return _accesses.setdefault(security, ConnectionAccess(security))
