"""``sharegroup console``: a web page that shows the queues of a broker."""

from __future__ import annotations

import logging
import ssl
import sys
from ipaddress import ip_address
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

import typer

from sharegroup.app.addresses import address as parsed_address
from sharegroup.app.console import listening_on, missing
from sharegroup.app.log_lines import set_up
from sharegroup.broker.configs.listeners import is_loopback
from sharegroup.cli.connecting import broker_of
from sharegroup.cli.console_login import by_oidc, by_password, by_proxy, open_to_all
from sharegroup.cli.options import DEFAULT_BOOTSTRAP_SERVER, BootstrapServer, CommandConfig
from sharegroup.cli.outcome import UsageError, run
from sharegroup.cli.serve import CONSOLE_DEFAULT
from sharegroup.cli.tables import print_line
from sharegroup.cli.value_decoder import decoder_named
from sharegroup.client.core.query_report import QUERY_TOPIC
from sharegroup.tls.contexts import server_context
from sharegroup.tls.stores import KeyStore, TrustStore

if TYPE_CHECKING:
    from sharegroup.console.sessions import Entrance

HELP: Final = """\
Show the queues of a broker in the browser: what waits, who holds what, and what failed.

The page is served on HOST:PORT until Ctrl-C.

With --login each viewer logs in with a name and a password of the broker's, and may see and do what
this user may see and do there. --command-config then says how to connect and which sasl.mechanism
to use, and needs no password. On an address that others reach it also needs --tls-certificate.

With --login-oidc they log in at an OpenID provider, whose token logs them in at the broker by
OAUTHBEARER. FILE has issuer=https://…, client.id and client.secret, and if need be scope,
broker.token (access_token or id_token) and ca.location. The provider must know the address
https://NAME/login/back. Needs the extra: pip install 'sharegroup[console-oidc]'.

With --login-header a proxy has logged them in, and names them in this header. They see what the
user of --command-config may see, and with --acts do what it may do; the log says who did an act.

Without a login, who reaches the page may see what the user of --command-config may see at the
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
sharegroup console --login-oidc oidc.properties --bootstrap-server kafka-1:9093
    --command-config tls.properties
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
Decoder = Annotated[
    str | None,
    typer.Option(
        metavar="MODULE:FUNCTION",
        help="Show what this function makes of the bytes of a value.",
        show_default=False,
    ),
]
SparkTopic = Annotated[
    str, typer.Option(metavar="TOPIC", help="Where listeners of Spark tell how queries go.")
]
BehindTls = Annotated[
    bool,
    typer.Option(
        "--behind-tls", help="With a login: a proxy before the console takes care of https."
    ),
]
LoginOidc = Annotated[
    str | None,
    typer.Option(
        "--login-oidc",
        metavar="FILE",
        help="Viewers log in at the OpenID provider of these settings.",
        show_default=False,
    ),
]
LoginHeader = Annotated[
    str | None,
    typer.Option(
        "--login-header",
        metavar="NAME",
        help="A proxy logs viewers in, and names them in this header.",
        show_default=False,
    ),
]
Proxy = Annotated[
    list[str] | None,
    typer.Option(
        "--proxy",
        metavar="IP",
        help="The address of the proxy, by default this machine; repeatable.",
        show_default=False,
    ),
]


def add_to(application: typer.Typer) -> None:
    """Add the command."""
    application.command("console", help=HELP, epilog=EPILOG)(console)


class _Login(NamedTuple):
    """What the options say about logins, once they do not contradict each other."""

    password: bool
    oidc: str | None
    header: str | None
    proxies: list[str]
    https: bool

    @property
    def at_broker(self) -> bool:
        """Whether viewers have users of their own there, who may act if they may there."""
        return self.password or self.oidc is not None

    async def entrance(self, servers: str, config: str | None, query_topic: str) -> Entrance:
        """How viewers come in."""
        if self.password:
            return by_password(servers, config, query_topic, https=self.https)
        if self.oidc is not None:
            return by_oidc(servers, config, query_topic, self.oidc, https=self.https)
        broker = broker_of(servers, config)
        if self.header is not None:
            return await by_proxy(broker, query_topic, self.header, self.proxies)
        return await open_to_all(broker, query_topic)


def console(
    address: Address = CONSOLE_DEFAULT,
    acts: Acts = False,
    allow_host: AllowHost = None,
    login: Login = False,
    login_oidc: LoginOidc = None,
    login_header: LoginHeader = None,
    proxy: Proxy = None,
    without_login: WithoutLogin = False,
    tls_certificate: Certificate = None,
    tls_key: Key = None,
    behind_tls: BehindTls = False,
    decoder: Decoder = None,
    spark_topic: SparkTopic = QUERY_TOPIC,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    command_config: CommandConfig = None,
) -> None:
    """Serve; :data:`HELP` has what the user reads."""

    async def command() -> None:
        host, port = parsed_address("HOST:PORT", address)
        if tls_key is not None and tls_certificate is None:
            raise UsageError("--tls-key needs --tls-certificate")
        if proxy and login_header is None:
            raise UsageError("--proxy needs --login-header")
        https = tls_certificate is not None or behind_tls
        asked = _Login(login, login_oidc, login_header, proxy or ["127.0.0.1", "::1"], https)
        _check(host, asked, without_login=without_login)
        try:
            from sharegroup.console.serving import Serving, serve
        except ImportError as error:
            raise UsageError(missing(error)) from None
        decode = None if decoder is None else decoder_named(decoder)
        set_up("warning", "text")
        logging.getLogger("sharegroup.console.acts").setLevel(logging.INFO)
        tls = None if tls_certificate is None else _https(tls_certificate, tls_key)
        entrance = await asked.entrance(bootstrap_server, command_config, spark_topic)
        try:
            with listening_on(host, port) as listening:
                shown = "{}://[{}]:{}/" if ":" in host else "{}://{}:{}/"
                scheme = "http" if tls is None else "https"
                where = shown.format(scheme, host, listening.getsockname()[1])
                hosts = [host, *(allow_host or ())]
                await serve(
                    Serving(entrance, listening, hosts, acts or asked.at_broker, tls, decode),
                    lambda: _say_ready(where),
                )
        finally:
            await entrance.close()

    run(command())


def _check(host: str, asked: _Login, *, without_login: bool) -> None:
    """Raises UsageError if the options contradict each other, or would be unsafe."""
    given = {
        "--login": asked.password,
        "--login-oidc": asked.oidc is not None,
        "--login-header": asked.header is not None,
        "--without-login": without_login,
    }
    names = [name for name, is_given in given.items() if is_given]
    if len(names) > 1:
        raise UsageError(f"{names[0]} and {names[1]} contradict each other")
    for one in asked.proxies:
        try:
            ip_address(one)
        except ValueError:
            raise UsageError(f"--proxy {one}: write its IP address") from None
    if is_loopback(host):
        return
    if not names:
        raise UsageError(
            f"{host} can be reached by others, and the console has no login: say --login, "
            "listen on 127.0.0.1, or say --without-login"
        )
    if asked.at_broker and not asked.https:
        raise UsageError(
            f"{host} can be reached by others, who would send their passwords in the clear: "
            "give --tls-certificate, or say --behind-tls if a proxy takes care of https"
        )


def _https(certificate: str, key: str | None) -> ssl.SSLContext:
    pem = KeyStore(certificate_location=certificate, key_location=key)
    return server_context(pem, TrustStore())


def _say_ready(where: str) -> None:
    print_line(f"console on {where}, Ctrl-C ends it")
    sys.stdout.flush()  # it may be a pipe, whose reader waits for this line
