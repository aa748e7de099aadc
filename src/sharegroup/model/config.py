"""Settings as data: one definition per name, used to read, check, show and document it.

A table of :class:`ConfigDef` defines a family of settings (broker, topic, group). Parsing, error
messages, DescribeConfigs responses and ``docs/configuration.md`` all come from it.

Parsing and error messages follow Kafka's class ``ConfigDef``, so that Kafka's tools show their
usual output.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, TypeAlias

from sharegroup.model.errors import InvalidConfig

ConfigValue: TypeAlias = bool | int | float | str | tuple[str, ...] | None

INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1
SHORT_MAX: Final = 2**15 - 1


class ConfigType(IntEnum):
    """What a value is; the numbers are DescribeConfigs' own."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    PASSWORD = 9


_LARGEST: Final = {
    ConfigType.SHORT: SHORT_MAX,
    ConfigType.INT: INT_MAX,
    ConfigType.LONG: LONG_MAX,
}


class ConfigSource(IntEnum):
    """Where an effective value comes from; the numbers are DescribeConfigs' own."""

    DYNAMIC_TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    GROUP = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigDef:
    """One setting: its name, what values it takes, what it does.

    ``check`` sees a parsed value and returns a sentence when it is wrong. ``synonyms`` are the
    broker settings that the default derives from, first match wins. ``departs`` says why the
    default differs from Kafka's, if it does; ``no_effect`` why a setting is accepted and does
    nothing here. ``dynamic`` settings may be altered while the broker runs.
    """

    name: str
    type: ConfigType
    default: ConfigValue
    doc: str
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    check: Callable[[ConfigValue], str | None] | None = None
    synonyms: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    departs: str = ""
    no_effect: str = ""
    dynamic: bool = False

    def parse(self, text: str) -> ConfigValue:
        """The value that ``text`` stands for.

        Raises:
            InvalidConfig: the value is not of the type, is out of bounds or is not among the
                choices; one sentence, in Kafka's words.
        """
        value = self._convert(text.strip())
        reason = self._reason_against(value)
        if reason is not None:
            raise self.error(self._shown(value), reason)
        return value

    def _shown(self, value: ConfigValue) -> str:
        """A wrong value as Kafka's messages show it: of a list its first wrong part."""
        if isinstance(value, tuple):
            wrong = [part for part in value if self.choices and part not in self.choices]
            return wrong[0] if wrong else f"[{', '.join(value)}]"
        return format_value(value)

    def error(self, value: object, reason: str) -> InvalidConfig:
        """The error that ``value`` is wrong for this setting, in Kafka's words."""
        return InvalidConfig(f"Invalid value {value} for configuration {self.name}: {reason}")

    def _convert(self, text: str) -> ConfigValue:
        match self.type:
            case ConfigType.BOOLEAN:
                if text.lower() not in ("true", "false"):
                    raise self.error(text, "Expected value to be either true or false")
                return text.lower() == "true"
            case ConfigType.INT | ConfigType.LONG | ConfigType.SHORT:
                return self._whole_number(text)
            case ConfigType.DOUBLE:
                try:
                    return float(text)
                except ValueError:
                    raise self.error(text, "Not a number of type DOUBLE") from None
            case ConfigType.LIST:
                return self._list(text)
            case _:
                return text

    def _list(self, text: str) -> tuple[str, ...]:
        parts = split_list(text)
        if "" in parts:
            raise InvalidConfig(f"Configuration '{self.name}' values must not be empty.")
        return parts

    def _whole_number(self, text: str) -> int:
        largest = _LARGEST[self.type]
        digits = text.removeprefix("-").removeprefix("+")
        number = int(text) if digits.isascii() and digits.isdigit() else None
        if number is None or not -largest - 1 <= number <= largest:
            raise self.error(text, f"Not a number of type {self.type.name}")
        return number

    def _reason_against(self, value: ConfigValue) -> str | None:
        if isinstance(value, int | float) and not isinstance(value, bool):
            if self.minimum is not None and value < self.minimum:
                return f"Value must be at least {format_value(self.minimum)}"
            if self.maximum is not None and value > self.maximum:
                return f"Value must be no more than {format_value(self.maximum)}"
        if self.choices:
            parts = value if isinstance(value, tuple) else (value,)
            if any(part not in self.choices for part in parts):
                return f"String must be one of: {', '.join(self.choices)}"
        return self.check(value) if self.check is not None else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigSynonym:
    """One of the places a value may come from, in the order in which they are looked at."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigEntry:
    """One line of an answer to DescribeConfigs."""

    name: str
    value: str | None
    source: ConfigSource
    type: ConfigType
    doc: str
    read_only: bool = False
    sensitive: bool = False
    synonyms: tuple[ConfigSynonym, ...] = ()

    @property
    def is_default(self) -> bool:
        """Whether nobody has set the setting."""
        return self.source is ConfigSource.DEFAULT


class ConfigTable(Mapping[str, ConfigDef]):
    """Definitions by name, in the order in which they are documented; aliases are not among the
    keys."""

    def __init__(self, definitions: Iterable[ConfigDef]) -> None:
        self._definitions: dict[str, ConfigDef] = {}
        self._aliases: dict[str, str] = {}
        for definition in definitions:
            self._add(definition)

    def _add(self, definition: ConfigDef) -> None:
        for name in (definition.name, *definition.aliases):
            if name in self._definitions or name in self._aliases:
                raise AssertionError(f"the setting {name} is defined twice")
        self._definitions[definition.name] = definition
        self._aliases.update(dict.fromkeys(definition.aliases, definition.name))

    def __getitem__(self, name: str) -> ConfigDef:
        return self._definitions[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._definitions)

    def __len__(self) -> int:
        return len(self._definitions)

    def today(self, name: str) -> str | None:
        """The current name of a setting that drafts of the KIP called ``name``; None if no setting
        was called so."""
        return self._aliases.get(name)


def split_list(text: str) -> tuple[str, ...]:
    """The values of a list, empty ones too."""
    return tuple(part.strip() for part in text.split(",")) if text.strip() else ()


def format_value(value: ConfigValue) -> str:
    """The text that :meth:`ConfigDef.parse` reads back as ``value``; empty for None."""
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case tuple():
            return ",".join(value)
        case _:
            return str(value)


def nearest_name(name: str, known: Iterable[str]) -> str | None:
    """The known name that a misspelt ``name`` most likely means, or None when nothing is near."""
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.75)
    return near[0] if near else None
