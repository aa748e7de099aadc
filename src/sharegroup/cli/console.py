"""``sharegroup console``: a web page that shows the queues of a broker."""

from __future__ import annotations

import sys
from typing import Annotated, Final

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

HELP: Final = """\
Show the queues of a broker in the browser: what waits, who holds what, and what failed.

The page is served on HOST:PORT until Ctrl-C. It only shows, unless --acts is given: then it can
also pause and resume groups, decide about records, purge, fork and redrive, and asks first. It has
no login: who reaches it may see what the user of --command-config may see at the broker, the values
of records too, and with --acts do what that user may do. So it listens on this machine only, unless
--without-login is given.

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
WithoutLogin = Annotated[
    bool, typer.Option("--without-login", help="Listen on an address that others reach.")
]


def add_to(application: typer.Typer) -> None:
    """Add the command."""
    application.command("console", help=HELP, epilog=EPILOG)(console)


def console(
    address: Address = CONSOLE_DEFAULT,
    acts: Acts = False,
    allow_host: AllowHost = None,
    without_login: WithoutLogin = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    command_config: CommandConfig = None,
) -> None:
    """Serve; :data:`HELP` has what the user reads."""

    async def command() -> None:
        host, port = parsed_address("HOST:PORT", address)
        if not is_loopback(host) and not without_login:
            raise UsageError(
                f"{host} can be reached by others, and the console has no login: listen on "
                "127.0.0.1, or say --without-login"
            )
        try:
            from sharegroup.console.serving import Serving, serve
            from sharegroup.console.site import Watched
        except ImportError as error:
            raise UsageError(missing(error)) from None
        set_up("warning", "text")
        address_of_broker = broker_of(bootstrap_server, command_config)
        broker = Watched(
            _connections(address_of_broker),
            _connections(address_of_broker),
            address_of_broker.servers,
        )
        try:
            await broker.asking.start()  # what is wrong is told here, not in the browser
            with listening_on(host, port) as listening:
                shown = "[{}]:{}" if ":" in host else "{}:{}"
                where = shown.format(host, listening.getsockname()[1])
                await serve(
                    Serving(broker, listening, [host, *(allow_host or ())], acts),
                    lambda: _say_ready(where),
                )
        finally:
            await broker.close()

    run(command())


def _say_ready(where: str) -> None:
    print_line(f"console on http://{where}/, Ctrl-C ends it")
    sys.stdout.flush()  # it may be a pipe, whose reader waits for this line


def _connections(broker: BrokerAddress) -> Cluster:
    return Cluster(
        broker.servers,
        client_id=broker.client_id or "sharegroup-console",
        request_timeout_ms=broker.request_timeout_ms or 30_000,
        allow_auto_create_topics=False,
        security=broker.security,
    )
