"""TLS and SASL as in Spark's own Kafka source: Java's properties, with ``kafka.`` before each."""

from __future__ import annotations

from collections.abc import Mapping

from sharegroup.client.security.properties import is_security_property, parse_security
from sharegroup.client.security.settings import Security
from sharegroup.model.errors import ConfigError
from sharegroup.spark.options.option_table import KAFKA


def split_security(options: Mapping[str, str]) -> tuple[dict[str, str], Security]:
    """The other options, and the settings of ``kafka.security.…``, ``kafka.sasl.…`` and
    ``kafka.ssl.…``.

    Raises:
        ConfigError: one of these settings is wrong.
    """
    rest: dict[str, str] = {}
    properties: dict[str, str] = {}
    for name, text in options.items():
        plain = name.lower().removeprefix(KAFKA)
        if name.lower().startswith(KAFKA) and is_security_property(plain):
            properties[plain] = text
        else:
            rest[name] = text
    try:
        return rest, parse_security(properties)
    except ConfigError as error:
        raise ConfigError(f"{error} (options of Spark have {KAFKA!r} before the name)") from None
