"""``sasl.jaas.config``: the one line of a login module with its options, as Java's clients and
Kafka's brokers have it.

Source: Kafka class JaasConfig, which reads it by java.io.StreamTokenizer: comments, quoted names
and escapes are that class's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from sharegroup.model.errors import ConfigError

_FLAGS: Final = frozenset(("required", "requisite", "sufficient", "optional"))
_TOKEN: Final = re.compile(
    r"""(?:\s|//[^\n]*|/\*.*?\*/)*(?:
        (?P<double>"(?:\\.|[^"\\])*")
      | (?P<single>'(?:\\.|[^'\\])*')
      | (?P<sign>[=;])
      | (?P<word>(?:(?!//|/\*)[^\s=;"'])+)
      | (?P<end>$)
    )""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\([0-3][0-7]{0,2}|[4-7][0-7]?|.)", re.DOTALL)
_CONTROLS: Final = {
    "n": "\n",
    "t": "\t",
    "r": "\r",
    "f": "\f",
    "b": "\b",
    "a": "\a",
    "v": "\v",
}
_SYNTAX: Final = (
    '{} is not a login module with its options: write MODULE required name="value" '
    "…;  with the semicolon at its end"
)


@dataclass(frozen=True, slots=True)
class LoginModule:
    """A login module: the name of its class with the package, and its options, which have
    secrets."""

    full_name: str
    options: dict[str, str] = field(repr=False)

    @property
    def name(self) -> str:
        """The name of the class without the package."""
        return self.full_name.rpartition(".")[2]


def parse_jaas(text: str, setting: str = "sasl.jaas.config") -> LoginModule:
    """The login module that the text of ``setting`` names.

    Raises:
        ConfigError: the text is something else. The message does not repeat it: it has secrets.
    """
    wrong = ConfigError(_SYNTAX.format(setting))
    tokens = list(_tokens(text))
    if len(tokens) < 3 or tokens[-1] != ("sign", ";"):
        raise wrong
    (kind, name), (_, flag), *rest = tokens[:-1]
    if kind != "word" or flag.lower() not in _FLAGS or ("sign", ";") in rest or len(rest) % 3:
        raise wrong
    options: dict[str, str] = {}
    for at in range(0, len(rest), 3):
        (key_kind, key), sign, (value_kind, value) = rest[at : at + 3]
        if key_kind == "sign" or sign != ("sign", "=") or value_kind == "sign":
            raise wrong
        options[key] = value
    return LoginModule(name, options)


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    at, text = 0, text.strip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            yield "wrong", ""
            return
        at = match.end()
        kind = match.lastgroup or ""
        if kind == "end":
            return
        found = match.group(kind)
        if kind in ("double", "single"):
            yield "quoted", _ESCAPE.sub(_unescaped, found[1:-1])
        else:
            yield kind, found


def _unescaped(match: re.Match[str]) -> str:
    escaped = match[1]
    return chr(int(escaped, 8)) if escaped[0] in "01234567" else _CONTROLS.get(escaped, escaped)
