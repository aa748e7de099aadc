"""``sharegroup serve``: the broker.

Its options are parsed by argparse, not by typer as the options of the other commands: typer would
cost a broker start time and memory.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any, Final

from sharegroup.model.errors import ConfigError

SUMMARY: Final = "Run a broker, until SIGTERM or Ctrl-C."
EPILOG: Final = (
    "SIGHUP reads authorizer.acl.file, certificates, keys and users again. "
    "Exit status: 0 after a clean stop, 2 for an invalid setting."
)
USAGE_ERROR: Final = 2
CONSOLE_DEFAULT: Final = "127.0.0.1:8088"


def serve(arguments: Sequence[str]) -> int:
    """Run the broker that ``arguments`` describe. Returns the exit status; 2: invalid setting."""
    options = _parser().parse_args(arguments)
    from sharegroup.app.serve import (
        ServeOptions,
        run,
    )  # after the parser: --help must not load the broker

    try:
        return run(
            ServeOptions(
                listen=options.listen,
                metrics=options.metrics,
                console=options.console,
                console_acts=options.console_acts,
                data=options.data,
                upstream=options.upstream,
                upstream_config=options.upstream_config,
                users=options.users,
                tls_self_signed=options.tls_self_signed,
                insecure=options.insecure,
                config_path=options.config,
                overrides=options.options,
                log_level=options.log_level,
                log_format=options.log_format,
            )
        )
    except ConfigError as error:
        print(f"sharegroup serve: {error}", file=sys.stderr)
        return USAGE_ERROR


class _Once(argparse.Action):
    """An option that is given once: a second value would silently replace the first."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        hint = ""
        if self.dest == "listen":
            hint = "; for several listeners: -o listeners=PLAINTEXT://HOST:PORT,SSL://HOST:PORT"
        if getattr(namespace, self.dest) != self.default:
            parser.error(f"{self.option_strings[0]} is given twice{hint}")
        setattr(namespace, self.dest, values)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="sharegroup serve",
        description=SUMMARY,
        epilog=EPILOG,
        allow_abbrev=False,
    )
    parser.register("action", None, _Once)  # None: the default action
    _add_access(parser)
    parser.add_argument(
        "--upstream",
        metavar="HOST:PORT,…",
        action=_Once,
        help="a Kafka cluster that has the topics; share groups of this broker read them there",
    )
    parser.add_argument(
        "--upstream-config",
        metavar="FILE",
        action=_Once,
        help="properties for connections to that cluster, as of Kafka's clients",
    )
    parser.add_argument(
        "--data",
        metavar="DIR",
        help="folder of logs and state, created if missing (default: ./sharegroup-data)",
    )
    parser.add_argument(
        "--config",
        metavar="FILE",
        help="file of key=value lines; Kafka's server.properties works",
    )
    parser.add_argument(
        "-o",
        "--option",
        dest="options",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="a setting by Kafka's name, such as num.partitions=4; overrides the file; repeatable",
    )
    parser.add_argument(
        "--log-level",
        choices=("debug", "info", "warning", "error"),
        default="info",
        help="log messages of this level and above, on stderr (default: info)",
    )
    parser.add_argument(
        "--log-format",
        choices=("text", "json"),
        default="text",
        help="log lines as text, or as one JSON object per line (default: text)",
    )
    return parser


def _add_access(parser: argparse.ArgumentParser) -> None:
    """Who reaches what, and where."""
    parser.add_argument(
        "--listen",
        metavar="[PROTOCOL://]HOST:PORT",
        help="where to accept connections (default: PLAINTEXT://127.0.0.1:9092). 0.0.0.0, or no "
        "host, is every interface; clients are then told the name of this machine, or "
        "advertised.listeners. The protocol is PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL",
    )
    parser.add_argument(
        "--users",
        metavar="FILE",
        help="users of a SASL listener, from `sharegroup users create NAME --file FILE`",
    )
    parser.add_argument(
        "--tls-self-signed",
        metavar="DIR",
        help="TLS for a try: makes an authority and a certificate in DIR, and prints what clients "
        "need",
    )
    parser.add_argument(
        "--insecure",
        action="store_true",
        help="start although other machines reach a listener that does not authenticate, or the "
        "metrics: the network decides who reaches them",
    )
    parser.add_argument(
        "--metrics",
        metavar="HOST:PORT",
        help="where Prometheus may fetch /metrics, and probes /health/live and /health/ready "
        "(default: nowhere)",
    )
    parser.add_argument(
        "--console",
        metavar="HOST:PORT",
        nargs="?",
        const=CONSOLE_DEFAULT,
        help="show the queues in the browser, on HOST:PORT (127.0.0.1:8088 if the option has no "
        "value). If the broker has users, viewers log in, and may do what their user may",
    )
    parser.add_argument(
        "--console-acts",
        action="store_true",
        help="without a login the page only shows, unless this is given: then it may also pause, "
        "purge, decide about records, redrive; it asks first",
    )
