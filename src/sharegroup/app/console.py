"""The console in the process of the broker: ``sharegroup serve --console``."""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from sharegroup.broker.authentication.listener_security import key_store
from sharegroup.broker.configs.broker import BrokerConfig
from sharegroup.broker.configs.listeners import (
    PLAINTEXT,
    SASL_PROTOCOLS,
    TLS_PROTOCOLS,
    Listener,
    is_loopback,
)
from sharegroup.model.errors import ConfigError
from sharegroup.sasl.mechanisms import PASSWORDS
from sharegroup.tls.contexts import server_context
from sharegroup.tls.stores import TrustStore

if TYPE_CHECKING:
    from sharegroup.client.security.settings import Security
    from sharegroup.console.serving import ConsoleBeside
    from sharegroup.console.sessions import Entrance


class ConsolePlan(NamedTuple):
    """Where the console listens, and how it reaches the broker.

    Attributes:
        listener: the listener of the broker that it goes by.
        login: whether viewers log in, with users of this listener.
        acts: whether the page may change something. With a login, that is for the broker to say.
    """

    host: str
    port: int
    listener: Listener
    login: bool
    acts: bool


def planned(
    address: tuple[str, int], config: BrokerConfig, listeners: Sequence[Listener], *, acts: bool
) -> ConsolePlan:
    """The plan of a console that shows nobody more than the broker would.

    Raises:
        ConfigError: there is none; one sentence with the way out.
    """
    host, port = address
    first = listeners[0]
    has_rules = any(map(config.text, ("authorizer.class.name", "authorizer.acl.file")))
    if config.protocol(first.name) == PLAINTEXT and not has_rules:
        if not is_loopback(host):
            raise ConfigError(
                f"--console on {host} would be open to whoever reaches it, since this broker knows "
                "no users: use 127.0.0.1, or run it apart (sharegroup console --help)"
            )
        return ConsolePlan(host, port, first, login=False, acts=acts)
    listener = next((one for one in listeners if _password_mechanism(config, one)), None)
    if listener is None:
        raise ConfigError(
            "--console lets viewers log in by a password, and this broker has no listener for "
            "that: add one with SASL and SCRAM, or run the console apart, as a user that may see "
            "what it shows (sharegroup console --bootstrap-server HOST:PORT --command-config FILE)"
        )
    if not is_loopback(host) and config.protocol(listener.name) not in TLS_PROTOCOLS:
        raise ConfigError(
            f"--console on {host} would have passwords sent in the clear: use 127.0.0.1, or make "
            f"{listener.name} a SASL_SSL listener, whose certificate the console uses"
        )
    return ConsolePlan(host, port, listener, login=True, acts=True)


def _password_mechanism(config: BrokerConfig, listener: Listener) -> str | None:
    """A mechanism by which people can log in with a password."""
    if config.protocol(listener.name) not in SASL_PROTOCOLS:
        return None
    offered = config.listener(listener.name).names("sasl.enabled.mechanisms")
    return next((one for one in PASSWORDS if one in offered), None)


async def open_console(
    plan: ConsolePlan, bootstrap: str, config: BrokerConfig
) -> tuple[ConsoleBeside, str]:
    """Serve the console. Returns it, and its address.

    Args:
        bootstrap: where clients of the plan's listener reach the broker, which is up.

    Raises:
        ConfigError: a package is missing, or the address cannot be used.
    """
    try:
        from sharegroup.console.serving import ConsoleBeside, Serving
    except ImportError as error:
        raise ConfigError(missing(error)) from None
    host, tls = plan.host, None
    if plan.login and not is_loopback(host):
        tls = _https(config, plan.listener)
    entrance = _entrance(plan, bootstrap, config, https=tls is not None)
    listening = listening_on(host, plan.port)
    opened = await ConsoleBeside.open(Serving(entrance, listening, [host], plan.acts, tls))
    shown = "{}://[{}]:{}/" if ":" in host else "{}://{}:{}/"
    port = listening.getsockname()[1]
    return opened, shown.format("http" if tls is None else "https", host, port)


def _entrance(plan: ConsolePlan, bootstrap: str, config: BrokerConfig, *, https: bool) -> Entrance:
    from sharegroup.client.network.cluster import Cluster
    from sharegroup.console.desk import Watched
    from sharegroup.console.password_logins import PasswordLogins
    from sharegroup.console.sessions import OpenToAll

    def connections(security: Security | None = None) -> Watched:
        asking, reading = (
            Cluster(
                bootstrap,
                client_id="sharegroup-console",
                allow_auto_create_topics=False,
                security=security,
            )
            for _ in range(2)
        )
        return Watched(asking, reading, bootstrap)

    if not plan.login:
        return OpenToAll(connections())
    return PasswordLogins(
        lambda user, password: connections(_security(plan.listener, config, user, password)),
        https=https,
    )


def _security(listener: Listener, config: BrokerConfig, user: str, password: str) -> Security:
    """How the console logs in at the broker that it is part of: of all certificates it trusts this
    listener's own, so it does not matter by which name it connects."""
    from sharegroup.client.security.settings import Security

    trust = None
    if config.protocol(listener.name) in TLS_PROTOCOLS:
        own = key_store(config.listener(listener.name))
        trust = TrustStore(
            type=own.type, location=own.location, text=own.certificate_text, password=own.password
        )
    return Security(
        protocol=config.protocol(listener.name),
        mechanism=_password_mechanism(config, listener),
        username=user,
        password=password,
        truststore=trust,
        check_host=False,
    )


def _https(config: BrokerConfig, listener: Listener) -> ssl.SSLContext:
    return server_context(key_store(config.listener(listener.name)), TrustStore())


def missing(error: ImportError, extra: str = "console") -> str:
    """What to say when the console's packages are not installed."""
    return f"the console needs {error.name}: pip install 'sharegroup[{extra}]'"


def listening_on(host: str, port: int) -> socket.socket:
    """A socket that listens.

    Raises:
        ConfigError: the address cannot be used.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else str(error)
        raise ConfigError(f"cannot serve the console on {host}:{port}: {why}") from None
