"""``sharegroup console``: a web page that shows the queues of a broker."""

from __future__ import annotations

import ssl
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Final

import typer

from sharegroup.app.addresses import address as parsed_address
from sharegroup.app.console import listening_on, missing
from sharegroup.app.log_lines import set_up
from sharegroup.broker.configs.listeners import is_loopback
from sharegroup.cli.connecting import BrokerAddress, broker_of
from sharegroup.cli.options import DEFAULT_BOOTSTRAP_SERVER, BootstrapServer, CommandConfig
from sharegroup.cli.outcome import UsageError, run
from sharegroup.cli.serve import CONSOLE_DEFAULT
from sharegroup.cli.tables import print_line
from sharegroup.client.network.cluster import Cluster
from sharegroup.tls.contexts import server_context
from sharegroup.tls.stores import KeyStore, TrustStore

if TYPE_CHECKING:
    from sharegroup.console.desk import Watched
    from sharegroup.console.sessions import Entrance

HELP: Final = """\
Show the queues of a broker in the browser: what waits, who holds what, and what failed.

The page is served on HOST:PORT until Ctrl-C.

With --login each viewer logs in with a name and a password of the broker's, and may see and do what
this user may see and do there. --command-config then says how to connect and which sasl.mechanism
to use, and needs no password. On an address that others reach it also needs --tls-certificate.

Without --login, who reaches the page may see what the user of --command-config may see at the
broker, the values of records too. So it listens on this machine only, unless --without-login is
given. It only shows, unless --acts is given: then it can also pause and resume groups, decide about
records, purge, fork and redrive, and asks first.

It works over any broker. Apache Kafka does not tell which records are in flight, delayed or dead,
nor the age of the oldest; the page leaves these out. Needs the extra: pip install
'sharegroup[console]'.
"""
EPILOG: Final = """\
Examples:

\b
sharegroup console
sharegroup console 127.0.0.1:9000 --bootstrap-server kafka-1:9092 --command-config admin.properties
sharegroup console 0.0.0.0:443 --allow-host queues.example.com --login --tls-certificate queues.pem
    --bootstrap-server kafka-1:9093 --command-config tls.properties
"""
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
Acts = Annotated[bool, typer.Option("--acts", help="Let the page change something.")]
Login = Annotated[bool, typer.Option("--login", help="Viewers log in with a user of the broker's.")]
WithoutLogin = Annotated[
    bool,
    typer.Option("--without-login", help="Listen on an address that others reach, without login."),
]
Certificate = Annotated[
    str | None,
    typer.Option(
        "--tls-certificate",
        metavar="FILE",
        help="Serve https with this certificate and its chain (PEM).",
        show_default=False,
    ),
]
Key = Annotated[
    str | None,
    typer.Option(
        "--tls-key",
        metavar="FILE",
        help="The private key, if the file of the certificate does not have it.",
        show_default=False,
    ),
]
BehindTls = Annotated[
    bool,
    typer.Option(
        "--behind-tls", help="With --login: a proxy before the console takes care of https."
    ),
]


def add_to(application: typer.Typer) -> None:
    """Add the command."""
    application.command("console", help=HELP, epilog=EPILOG)(console)


def console(
    address: Address = CONSOLE_DEFAULT,
    acts: Acts = False,
    allow_host: AllowHost = None,
    login: Login = False,
    without_login: WithoutLogin = False,
    tls_certificate: Certificate = None,
    tls_key: Key = None,
    behind_tls: BehindTls = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    command_config: CommandConfig = None,
) -> None:
    """Serve; :data:`HELP` has what the user reads."""

    async def command() -> None:
        host, port = parsed_address("HOST:PORT", address)
        if login and without_login:
            raise UsageError("--login and --without-login contradict each other")
        if not is_loopback(host) and not login and not without_login:
            raise UsageError(
                f"{host} can be reached by others, and the console has no login: say --login, "
                "listen on 127.0.0.1, or say --without-login"
            )
        if login and not is_loopback(host) and tls_certificate is None and not behind_tls:
            raise UsageError(
                f"{host} can be reached by others, who would send their passwords in the clear: "
                "give --tls-certificate, or say --behind-tls if a proxy takes care of https"
            )
        if tls_key is not None and tls_certificate is None:
            raise UsageError("--tls-key needs --tls-certificate")
        try:
            from sharegroup.console.serving import Serving, serve
        except ImportError as error:
            raise UsageError(missing(error)) from None
        set_up("warning", "text")
        tls = None if tls_certificate is None else _https(tls_certificate, tls_key)
        if login:
            https = tls is not None or behind_tls
            entrance: Entrance = _logins(bootstrap_server, command_config, https=https)
        else:
            entrance = await _open_to_all(broker_of(bootstrap_server, command_config))
        try:
            with listening_on(host, port) as listening:
                shown = "{}://[{}]:{}/" if ":" in host else "{}://{}:{}/"
                scheme = "http" if tls is None else "https"
                where = shown.format(scheme, host, listening.getsockname()[1])
                hosts = [host, *(allow_host or ())]
                await serve(
                    Serving(entrance, listening, hosts, acts or login, tls),
                    lambda: _say_ready(where),
                )
        finally:
            await entrance.close()

    run(command())


async def _open_to_all(broker: BrokerAddress) -> Entrance:
    from sharegroup.console.sessions import OpenToAll

    watched = _watched(broker)
    try:
        await watched.asking.start()  # what is wrong is told here, not in the browser
    except BaseException:
        await watched.close()
        raise
    return OpenToAll(watched)


def _logins(bootstrap_server: str, command_config: str | None, *, https: bool) -> Entrance:
    from sharegroup.console.logins import Logins

    broker = broker_of(bootstrap_server, command_config, anybody=True)

    def connections(user: str, password: str) -> Watched:
        security = replace(broker.security, username=user, password=password)
        return _watched(replace(broker, security=security))

    return Logins(connections, https=https)


def _https(certificate: str, key: str | None) -> ssl.SSLContext:
    pem = KeyStore(certificate_location=certificate, key_location=key)
    return server_context(pem, TrustStore())


def _watched(broker: BrokerAddress) -> Watched:
    from sharegroup.console.desk import Watched

    return Watched(_connections(broker), _connections(broker), broker.servers)


def _say_ready(where: str) -> None:
    print_line(f"console on {where}, Ctrl-C ends it")
    sys.stdout.flush()  # it may be a pipe, whose reader waits for this line


def _connections(broker: BrokerAddress) -> Cluster:
    return Cluster(
        broker.servers,
        client_id=broker.client_id or "sharegroup-console",
        request_timeout_ms=broker.request_timeout_ms or 30_000,
        allow_auto_create_topics=False,
        security=broker.security,
    )
