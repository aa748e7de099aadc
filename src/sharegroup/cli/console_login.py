"""How viewers of ``sharegroup console`` log in: what its options mean."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING

from sharegroup.app.console import missing
from sharegroup.cli.connecting import BrokerAddress, broker_of, read_config
from sharegroup.cli.outcome import UsageError
from sharegroup.client.network.cluster import Cluster

if TYPE_CHECKING:
    from collections.abc import Callable

    from sharegroup.console.desk import Watched
    from sharegroup.console.sessions import Entrance


async def open_to_all(broker: BrokerAddress, query_topic: str) -> Entrance:
    """Everybody sees what the user of ``broker`` may see."""
    from sharegroup.console.sessions import OpenToAll

    return OpenToAll(await _connected(broker, query_topic))


def by_password(
    servers: str, command_config: str | None, query_topic: str, *, https: bool
) -> Entrance:
    """--login."""
    from sharegroup.console.password_logins import PasswordLogins

    broker = broker_of(servers, command_config, anybody="password")

    def connections(user: str, password: str) -> Watched:
        security = replace(broker.security, username=user, password=password)
        return _watched(replace(broker, security=security), query_topic)

    return PasswordLogins(connections, https=https)


def by_oidc(
    servers: str, command_config: str | None, query_topic: str, file: str, *, https: bool
) -> Entrance:
    """--login-oidc.

    Raises:
        ConfigError: the file cannot be read, or a setting is missing or wrong.
        UsageError: a package is not installed.
    """
    from sharegroup.console.oidc_provider import provider_of

    provider = provider_of(read_config(file), file)
    broker = broker_of(servers, command_config, anybody="token")
    try:
        from sharegroup.console.oidc_logins import OidcLogins
    except ImportError as error:
        raise UsageError(missing(error, "console-oidc")) from None

    def connections(newest: Callable[[], tuple[str, float]]) -> Watched:
        security = replace(broker.security, token=None, token_provider=newest)
        return _watched(replace(broker, security=security), query_topic)

    return OidcLogins(provider, connections, https=https)


async def by_proxy(
    broker: BrokerAddress, query_topic: str, header: str, proxies: Collection[str]
) -> Entrance:
    """--login-header."""
    from sharegroup.console.proxy_logins import ProxyLogins

    return ProxyLogins(await _connected(broker, query_topic), header, proxies)


async def _connected(broker: BrokerAddress, query_topic: str) -> Watched:
    watched = _watched(broker, query_topic)
    try:
        await watched.asking.start()  # what is wrong is told here, not in the browser
    except BaseException:
        await watched.close()
        raise
    return watched


def _watched(broker: BrokerAddress, query_topic: str) -> Watched:
    from sharegroup.console.desk import Watched

    asking, reading = _connections(broker), _connections(broker)
    return Watched(asking, reading, broker.servers, query_topic)


def _connections(broker: BrokerAddress) -> Cluster:
    return Cluster(
        broker.servers,
        client_id=broker.client_id or "sharegroup-console",
        request_timeout_ms=broker.request_timeout_ms or 30_000,
        allow_auto_create_topics=False,
        security=broker.security,
    )
