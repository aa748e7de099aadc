"""``sharegroup console``: a web page that shows the queues of a broker."""

from __future__ import annotations

import ipaddress
import os
import socket
from typing import Annotated, Final

import typer

from sharegroup.app.log_lines import set_up
from sharegroup.cli.connecting import broker_of
from sharegroup.cli.options import DEFAULT_BOOTSTRAP_SERVER, BootstrapServer, CommandConfig
from sharegroup.cli.outcome import UsageError, run
from sharegroup.cli.tables import print_line
from sharegroup.client.network.cluster import Cluster

HELP: Final = """\
Show the queues of a broker in the browser: what waits, who holds what, and what failed.

The page is served on HOST:PORT until Ctrl-C. It only shows, and changes nothing. It has no login:
who reaches it sees what the user of --command-config may see at the broker, the values of records
too. So it listens on this machine only, unless --without-login is given.

It works over any broker. Apache Kafka does not tell which records are in flight, delayed or dead,
nor the age of the oldest; the page leaves these out. Needs the extra: pip install
'sharegroup[console]'.
"""
EPILOG: Final = """\
Examples:

\b
sharegroup console
sharegroup console 127.0.0.1:9000 --bootstrap-server kafka-1:9092 --command-config admin.properties
"""
DEFAULT_ADDRESS: Final = "127.0.0.1:8088"
Address = Annotated[
    str, typer.Argument(metavar="HOST:PORT", help="Where to listen; port 0: any free one.")
]
AllowHost = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-host",
        metavar="NAME",
        help="Another name by which browsers know the console; repeatable.",
        show_default=False,
    ),
]
WithoutLogin = Annotated[
    bool, typer.Option("--without-login", help="Listen on an address that others reach.")
]


def add_to(application: typer.Typer) -> None:
    """Add the command."""
    application.command("console", help=HELP, epilog=EPILOG)(console)


def console(
    address: Address = DEFAULT_ADDRESS,
    allow_host: AllowHost = None,
    without_login: WithoutLogin = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    command_config: CommandConfig = None,
) -> None:
    """Serve; :data:`HELP` has what the user reads."""

    async def command() -> None:
        host, port = _parsed(address)
        if not _is_loopback(host) and not without_login:
            raise UsageError(
                f"{host} can be reached by others, and the console has no login: listen on "
                "127.0.0.1, or say --without-login"
            )
        try:
            from sharegroup.console.serving import serve
        except ImportError as error:
            raise UsageError(
                f"the console needs {error.name}: pip install 'sharegroup[console]'"
            ) from None
        set_up("warning", "text")
        broker = broker_of(bootstrap_server, command_config)
        cluster = Cluster(
            broker.servers,
            client_id=broker.client_id or "sharegroup-console",
            request_timeout_ms=broker.request_timeout_ms or 30_000,
            allow_auto_create_topics=False,
            security=broker.security,
        )
        try:
            await cluster.start()  # a wrong address or password is told here, not in the browser
            with _listening(host, port) as listening:
                shown = "[{}]:{}" if ":" in host else "{}:{}"
                where = shown.format(host, listening.getsockname()[1])
                await serve(
                    cluster,
                    broker.servers,
                    listening,
                    hosts=[host, *(allow_host or ())],
                    ready=lambda: print_line(f"console on http://{where}/, Ctrl-C ends it"),
                )
        finally:
            await cluster.close()

    run(command())


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else str(error)
        raise UsageError(f"cannot listen on {host}:{port}: {why}") from None


def _parsed(address: str) -> tuple[str, int]:
    host, colon, port = address.rpartition(":")
    if not colon or not host or not (port.isascii() and port.isdigit()) or int(port) > 65_535:
        raise UsageError(f"{address!r} is no HOST:PORT")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
