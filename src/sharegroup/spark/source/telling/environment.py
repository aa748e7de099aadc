"""Checks the Spark settings that our process can see, and warns about slow ones."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import Final

log = logging.getLogger("sharegroup.spark")

UNIX_SOCKETS: Final = "spark.python.unix.domain.socket.enabled"
_SOCKET_PATH: Final = "PYTHON_WORKER_FACTORY_SOCK_PATH"
_SOCKET_PORT: Final = "PYTHON_WORKER_FACTORY_PORT"


def warn(environment: Mapping[str, str] = os.environ) -> None:
    """Log a sentence for each setting that slows the query down. The source calls this once in each
    run of a query.

    Args:
        environment: the variables of a process that Spark started; PySpark's ``worker_util`` finds
            the JVM by the same variables.
    """
    if _SOCKET_PORT in environment and _SOCKET_PATH not in environment:
        log.warning(
            '%s is not true, and each batch takes longer for it: add .config("%s", "true") where '
            "the session is built, see docs/spark.md#settings-you-must-know",
            UNIX_SOCKETS,
            UNIX_SOCKETS,
        )
