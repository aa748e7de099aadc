"""Options and their value types, shared by the stream, the batch read and the sink.

Spark passes option names in lower case, so names are compared without case. A wrong option fails
with an error that says what to write; no option is ignored.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from sharegroup.client.network.addresses import parse_addresses, without_protocol
from sharegroup.model.errors import ConfigError

INT_MAX: Final = 2**31 - 1
FORMAT: Final = "kafka-share"
KAFKA: Final = "kafka."
CLOSE: Final = 0.7
"""Similarity from 0 to 1 above which one name counts as a misspelling of another."""

Parse = Callable[[str, str], object]
"""(the option's name, its text) → its value; raises ConfigError."""


@dataclass(frozen=True, slots=True)
class Option:
    """One option: the name that users write, and the field that gets its value."""

    name: str
    field: str
    """Two options may have the same field, if they are names for the same thing."""
    parse: Parse
    meaning: str
    spark: str = ""
    """The name of the same option in Spark's own Kafka source or sink; empty if it has no such
    option."""
    advised: str = ""
    """An example, shown when the option is needed and missing."""


class OptionTable:
    """All options of one way to use ``kafka-share``.

    Args:
        options: the supported options.
        refused: unsupported options that users may expect (from Spark's own Kafka source, say),
            with the reason and the replacement.
    """

    def __init__(self, options: Iterable[Option], refused: Mapping[str, str]) -> None:
        self.options = tuple(options)
        self.refused = dict(refused)
        self._by_name = {option.name.lower(): option for option in self.options}
        self._reasons = {name.lower(): reason for name, reason in refused.items()}

    def values(self, given: Mapping[str, str]) -> dict[str, Any]:
        """Field → value of the given options.

        Raises:
            ConfigError: an option is unknown, refused or missing, or has an invalid value.
        """
        values: dict[str, Any] = {}
        for key, text in given.items():
            option = self._by_name.get(key.lower())
            if option is None:
                raise ConfigError(self._refusal(key))
            value = option.parse(option.name, text)
            if values.setdefault(option.field, value) != value:
                raise ConfigError(f"{option.name} is given twice, with different values")
        for option in self.options:
            if option.advised and option.field not in values:
                raise ConfigError(
                    f'{option.name} is missing: write .option("{option.name}", "{option.advised}")'
                )
        return values

    def _refusal(self, key: str) -> str:
        reason = self._reasons.get(key.lower())
        if reason is not None:
            return f"{key} is not available in {FORMAT}: {reason}"
        guess = self._guess(key)
        if guess is None:
            names = [option.name for option in self.options]
            kafkas = [name for name in names if name.startswith(KAFKA)]
            known = kafkas if key.lower().startswith(KAFKA) else names
            return f"{key} is not an option of {FORMAT}: options are {', '.join(known)}"
        reason = self._reasons.get(guess.lower())
        why = "" if reason is None else f" It is not available here: {reason}"
        return f"{key} is not an option of {FORMAT}: did you mean {guess}?{why}"

    def _guess(self, key: str) -> str | None:
        """The supported or refused option that the user probably meant. The prefix ``kafka.`` is
        left out of the comparison: with it, all of Kafka's settings look alike."""
        names = {
            name.lower().removeprefix(KAFKA): name
            for name in (*self.refused, *(option.name for option in self.options))
        }
        given = key.lower().removeprefix(KAFKA)
        near = difflib.get_close_matches(given, names, n=1, cutoff=CLOSE)
        containing = sorted((name for name in names if given in name), key=len)
        return next((names[name] for name in (*near, *containing)), None)


_PORT: Final = re.compile(r"^(\[.*\]|[^:]*):\d+$")


def servers(name: str, text: str) -> str:
    """host:port, separated by commas. The port is required, as in Spark's own source."""
    plain = [without_protocol(part.strip()) for part in text.split(",") if part.strip()]
    for part in plain:
        if "]:" not in part and part.count(":") != 1:
            host = f"[{part.strip('[]')}]" if ":" in part else part
            raise ConfigError(f"{name} is {text!r}, which has no port: write {host}:9092")
    try:
        parse_addresses(text)
        complete = all(map(_PORT.search, plain))
    except ConfigError:
        complete = False
    if not complete:
        raise ConfigError(f"{name} is {text!r}: write host:port, or host:port,host:port")
    return text


def text(name: str, given: str) -> str:
    """Any text that is not empty."""
    if not given.strip():
        raise ConfigError(f"{name} is empty")
    return given.strip()


def group(name: str, given: str) -> str:
    """The id of a group, unchanged: blanks belong to it, as in Spark's Kafka source."""
    text(name, given)
    return given


def topics(name: str, text: str) -> tuple[str, ...]:
    """Names, separated by commas."""
    names = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not names:
        raise ConfigError(f"{name} is empty: write a topic, or topics with commas between them")
    return names


def pattern(name: str, text: str) -> str:
    """A regular expression."""
    try:
        re.compile(text)
    except re.error as error:
        raise ConfigError(f"{name} is {text!r}, no regular expression: {error}") from None
    if not text:
        raise ConfigError(f'{name} is empty: write a regular expression, such as "orders-.*"')
    return text


def word(*words: str) -> Parse:
    """One of these words, in upper or lower case."""

    def parse(name: str, text: str) -> str:
        value = text.strip().lower()
        if value not in words:
            raise ConfigError(f"{name} is {text!r}: write {' or '.join(words)}")
        return value

    return parse


def flag(name: str, text: str) -> bool:
    """true or false."""
    return word("true", "false")(name, text) == "true"


def count(minimum: int, maximum: int = 2**63 - 1) -> Parse:
    """A whole number."""

    def parse(name: str, text: str) -> int:
        digits = text.strip()
        if not (digits.isascii() and digits.isdigit()) or not minimum <= int(digits) <= maximum:
            bounds = (
                f"from {minimum} to {maximum}" if maximum <= INT_MAX else f"of {minimum} or more"
            )
            raise ConfigError(f"{name} is {text!r}: write a whole number {bounds}")
        return int(digits)

    return parse


def instant(name: str, text: str) -> int:
    """Milliseconds since 1970."""
    digits = text.strip()
    if digits.isascii() and digits.isdigit() and int(digits) < 2**63:
        return int(digits)
    wanted = "milliseconds since 1970"
    with suppress(ValueError, OverflowError):
        time = datetime.fromisoformat(digits)
        given = time if time.tzinfo else time.replace(tzinfo=UTC)
        zone = "" if time.tzinfo else ", if it is a time in UTC"
        wanted = f"{round(given.timestamp() * 1000)}, which are {wanted}{zone}"
    raise ConfigError(f"{name} is {text!r}: write {wanted}")


_UNIT_MS: Final = {"": 1, "ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION: Final = re.compile(r"(\d+)\s*(ms|s|m|h|d|)", re.ASCII)


def duration(name: str, text: str) -> int:
    """Milliseconds, or a number with a unit: 30s, 5m, 1h."""
    match = _DURATION.fullmatch(text.strip().lower())
    if match is None:
        raise ConfigError(f"{name} is {text!r}: write milliseconds, or a time such as 30s or 5m")
    return int(match[1]) * _UNIT_MS[match[2]]
