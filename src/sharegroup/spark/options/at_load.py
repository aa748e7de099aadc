"""The checks of ``load()`` beyond the options, on the driver's host, before anything runs.

Executors never call them: a task checks what it needs where it runs.
"""

from __future__ import annotations

import logging
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from sharegroup.client.security.access import ConnectionAccess
from sharegroup.model.errors import ConfigError

if TYPE_CHECKING:
    from sharegroup.client.security.settings import Security

log = logging.getLogger("sharegroup.spark")

_NEEDED: Final = ("numpy", "pyarrow")


def check_installed() -> None:
    """Check the packages. Spark runs this in the Python that will run the query's source.

    Raises:
        ConfigError: this Python lacks a package that every query needs.
    """
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        raise ConfigError(
            f"kafka-share needs {' and '.join(missing)}, which {sys.executable} lacks: "
            f"{sys.executable} -m pip install 'sharegroup[spark]'"
        )


def check_secured(security: Security) -> None:
    """Read the files of keys and certificates, and warn of a key that Spark may print.

    Raises:
        ConfigError: a file is not there, or is not what it should be.
    """
    if security.encrypted:
        ConnectionAccess(security).context()
    if any("PRIVATE KEY-" in (text or "") for text in _texts(security)):
        if security.key_store.key_password:
            return
        log.warning(
            "a private key is given as text, and Spark prints the options of a query, in "
            "explain(True) say: put it into a file and name that one (kafka.ssl.keystore.location, "
            "or kafka.ssl.key.location), or set spark.redaction.regex as docs/spark.md#security "
            "does"
        )


def _texts(security: Security) -> tuple[str | None, ...]:
    store = security.key_store
    return store.key_text, store.certificate_text
