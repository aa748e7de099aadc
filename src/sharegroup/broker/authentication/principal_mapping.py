"""``ssl.principal.mapping.rules``: from the name in a certificate to a principal.

Source: Kafka class SslPrincipalMapper.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from sharegroup.model.errors import ConfigError

_RULE: Final = r"(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?).*?|(.*?)"
_SPLITTER: Final = re.compile(rf"\s*({_RULE})\s*(?:,\s*|$)")
_PARSER: Final = re.compile(_RULE)
_GROUP: Final = re.compile(r"\\.|\$(\d)")


@dataclass(frozen=True, slots=True)
class _Rule:
    pattern: re.Pattern[str] | None
    """None: the rule is DEFAULT."""
    replacement: str = ""
    case: str = ""

    def apply(self, name: str) -> str | None:
        if self.pattern is None:
            return name
        match = self.pattern.fullmatch(name)
        if match is None:
            return None
        found = _GROUP.sub(lambda group: _expanded(group, match), self.replacement)
        return {"L": found.lower(), "U": found.upper()}.get(self.case, found)


class PrincipalMapping:
    """The rules, in order; the first that matches wins."""

    def __init__(self, text: str) -> None:
        """Raises:
        ConfigError: a rule cannot be read.
        """
        self._text = text
        self._rules = [_parse(rule) for rule in _split(text)]

    def principal(self, name: str) -> str | None:
        """``User:…`` for the distinguished name; None if no rule matches."""
        for rule in self._rules:
            found = rule.apply(name)
            if found is not None:
                return f"User:{found}"
        return None


def _split(text: str) -> list[str]:
    rules = [match.group(1) for match in _SPLITTER.finditer(text.strip())]
    return [rule for rule in rules if rule]


def _parse(rule: str) -> _Rule:
    match = _PARSER.match(rule)
    if match is None or match.end() != len(rule):
        rest = rule[match.end() :] if match else rule
        raise ConfigError(
            f"ssl.principal.mapping.rules: Invalid rule: `{rule}`, unmatched substring: `{rest}`"
        )
    default, pattern, replacement, case = match.group(1, 2, 3, 4)
    if default:
        return _Rule(None)
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise ConfigError(f"ssl.principal.mapping.rules: `{pattern}`: {error}") from None
    groups = [int(number) for number in re.findall(r"\$(\d)", replacement)]
    if any(group > compiled.groups for group in groups):
        replacement = re.sub(  # as in Kafka, what is no group of the pattern is plain text
            r"\$(\d)",
            lambda each: each[0] if int(each[1]) <= compiled.groups else rf"\{each[0]}",
            replacement,
        )
    return _Rule(compiled, replacement, case)


def _expanded(group: re.Match[str], match: re.Match[str]) -> str:
    if group.group(1) is None:
        return group.group(0)[1:]
    return match.group(int(group.group(1))) or ""
