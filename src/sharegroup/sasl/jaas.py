"""``sasl.jaas.config`` of a broker: the users of PlainLoginModule.

``…PlainLoginModule required username="admin" password="…" user_alice="…" "user_a,b"="…";``
Source: Kafka classes JaasConfig, PlainServerCallbackHandler.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sharegroup.model.errors import ConfigError
from sharegroup.sasl.login_module import parse_jaas

PLAIN_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
_USER: Final = "user_"


def jaas_users(setting: str, text: str) -> Mapping[str, str]:
    """Password by user.

    Raises:
        ConfigError: the text cannot be read. The sentence names ``setting``, not the text, which
            has passwords.
    """
    module = parse_jaas(text, setting)
    if module.name != PLAIN_MODULE.rpartition(".")[2]:  # any package, as for a client
        raise ConfigError(f"{setting} names {module.full_name}; PLAIN has {PLAIN_MODULE}")
    return {
        name.removeprefix(_USER): value
        for name, value in module.options.items()
        if name.startswith(_USER)
    }
