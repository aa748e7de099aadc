"""``sharegroup serve``: the broker.

Its options are parsed by argparse, not by typer as those of the other commands: typer would cost a
broker start time and memory.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Final

from sharegroup.model.errors import ConfigError

SUMMARY: Final = "Run a broker, until SIGTERM or Ctrl-C."
USAGE_ERROR: Final = 2


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
                data=options.data,
                config_path=options.config,
                overrides=options.options,
                log_level=options.log_level,
                log_format=options.log_format,
            )
        )
    except ConfigError as error:
        print(f"sharegroup serve: {error}", file=sys.stderr)
        return USAGE_ERROR


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="sharegroup serve",
        description=SUMMARY,
        epilog="SIGHUP reads authorizer.acl.file again. "
        "Exit status: 0 after a clean stop, 2 for an invalid setting.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--listen",
        metavar="HOST:PORT",
        help="where to accept connections (default: 127.0.0.1:9092). 0.0.0.0, or no host, is every "
        "interface; clients are then told the name of this machine, or advertised.listeners",
    )
    parser.add_argument(
        "--metrics",
        metavar="HOST:PORT",
        help="where Prometheus may fetch /metrics, and probes /health/live and /health/ready "
        "(default: nowhere)",
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
