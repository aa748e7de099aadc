"""``sasl.jaas.config`` of a broker: the users of PlainLoginModule.

``…PlainLoginModule required username="admin" password="…" user_alice="…" user_bob="…";``
Source: Kafka classes JaasConfig, PlainServerCallbackHandler.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from sharegroup.model.errors import ConfigError

PLAIN_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
_ENTRY: Final = re.compile(
    r"\s*([\w.$]+)\s+(required|requisite|sufficient|optional)\b(.*);\s*", re.S
)
_OPTION: Final = re.compile(
    r"""\s*([\w.$@+-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;"']+))"""
)
_USER: Final = "user_"


def jaas_users(setting: str, text: str) -> Mapping[str, str]:
    """Password by user.

    Raises:
        ConfigError: it cannot be read; the sentence says where, never what.
    """
    entry = _ENTRY.fullmatch(text)
    if entry is None:
        raise ConfigError(
            f'{setting} is not MODULE required OPTION="VALUE" …; (it ends with a semicolon)'
        )
    if entry.group(1) != PLAIN_MODULE:
        raise ConfigError(f"{setting} names {entry.group(1)}; PLAIN has {PLAIN_MODULE}")
    options, position, rest = {}, 0, entry.group(3).rstrip()
    while position < len(rest):
        option = _OPTION.match(rest, position)
        if option is None:
            raise ConfigError(f'{setting} has an option that is not NAME="VALUE"')
        value = next(group for group in option.groups()[1:] if group is not None)
        options[option.group(1)] = re.sub(r"\\(.)", r"\1", value)
        position = option.end()
    return {
        name.removeprefix(_USER): value for name, value in options.items() if name.startswith(_USER)
    }
