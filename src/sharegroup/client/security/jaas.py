"""``sasl.jaas.config``: the one line of a login module with its options, as Java's clients have it.

Source: Kafka class JaasConfig; Java's syntax of login configuration files.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from sharegroup.model.errors import ConfigError

_FLAGS: Final = frozenset(("required", "requisite", "sufficient", "optional"))
_TOKEN: Final = re.compile(
    r"""\s*(?:
        (?P<double>"(?:\\.|[^"\\])*")
      | (?P<single>'(?:\\.|[^'\\])*')
      | (?P<sign>[=;])
      | (?P<word>[^\s=;"']+)
    )""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_CONTROLS: Final = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "b": "\b"}
_SYNTAX: Final = (
    'sasl.jaas.config is not a login module with its options: write MODULE required name="value" '
    "…;  with the semicolon at its end"
)


@dataclass(frozen=True, slots=True)
class LoginModule:
    """The class's name without its package, and the options, which have secrets."""

    name: str
    options: dict[str, str] = field(repr=False)


def parse_jaas(text: str) -> LoginModule:
    """The login module.

    Raises:
        ConfigError: the text is something else. The message does not repeat it: it has secrets.
    """
    tokens = list(_tokens(text))
    if len(tokens) < 3 or tokens[-1] != ("sign", ";"):
        raise ConfigError(_SYNTAX)
    (kind, name), (_, flag), *rest = tokens[:-1]
    if kind != "word" or flag.lower() not in _FLAGS or ("sign", ";") in rest or len(rest) % 3:
        raise ConfigError(_SYNTAX)
    options: dict[str, str] = {}
    for at in range(0, len(rest), 3):
        (key_kind, key), sign, (value_kind, value) = rest[at : at + 3]
        if key_kind != "word" or sign != ("sign", "=") or value_kind == "sign":
            raise ConfigError(_SYNTAX)
        options[key] = value
    return LoginModule(name.rpartition(".")[2], options)


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    at, text = 0, text.strip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise ConfigError(_SYNTAX)
        at = match.end()
        kind = match.lastgroup or ""
        found = match.group(kind)
        if kind in ("double", "single"):
            yield "quoted", _ESCAPE.sub(_unescaped, found[1:-1])
        else:
            yield kind, found


def _unescaped(match: re.Match[str]) -> str:
    return _CONTROLS.get(match[1], match[1])
