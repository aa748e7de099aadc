"""The console in the process of the broker: ``sharegroup serve --console``."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

from sharegroup.broker.configs.broker import BrokerConfig
from sharegroup.broker.configs.listeners import PLAINTEXT, Listener, is_loopback
from sharegroup.model.errors import ConfigError

if TYPE_CHECKING:
    from sharegroup.console.serving import ConsoleBeside


def check_console(host: str, config: BrokerConfig, listener: Listener) -> None:
    """Refuse a console that would show more than the broker does, or to more people.

    Args:
        host: where the console would listen.
        listener: the one by which it would reach the broker.

    Raises:
        ConfigError: one sentence with the way out.
    """
    if not is_loopback(host):
        raise ConfigError(
            f"--console on {host} would be open to whoever reaches it, since it has no login: use "
            "127.0.0.1, or run it apart, behind a proxy with a login (sharegroup console --help)"
        )
    if config.protocol(listener.name) != PLAINTEXT or config.text("authorizer.class.name"):
        raise ConfigError(
            "--console has no login, and this broker asks for one, or has ACLs: run the console "
            "apart, as a user that may see what it shows (sharegroup console --bootstrap-server "
            "HOST:PORT --command-config FILE)"
        )


async def open_console(
    host: str, port: int, bootstrap: str, *, acts: bool
) -> tuple[ConsoleBeside, int]:
    """Serve the console. Returns it, and its port.

    Args:
        bootstrap: the broker, which is up.
        acts: whether the page may change something.

    Raises:
        ConfigError: a package is missing, or the address cannot be used.
    """
    try:
        from sharegroup.console.serving import ConsoleBeside, Serving
        from sharegroup.console.site import Watched
    except ImportError as error:
        raise ConfigError(missing(error)) from None
    from sharegroup.client.network.cluster import Cluster

    def connections() -> Cluster:
        return Cluster(bootstrap, client_id="sharegroup-console", allow_auto_create_topics=False)

    listening = listening_on(host, port)
    broker = Watched(connections(), connections(), bootstrap)
    opened = await ConsoleBeside.open(Serving(broker, listening, [host], acts))
    return opened, listening.getsockname()[1]


def missing(error: ImportError) -> str:
    """What to say when the console's packages are not installed."""
    return f"the console needs {error.name}: pip install 'sharegroup[console]'"


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
