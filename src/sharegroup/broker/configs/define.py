"""Helpers that define settings, for the tables of this package."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from sharegroup.model.config import INT_MAX, ConfigDef, ConfigType, ConfigValue

ARRAY_BYTES_MAX: Final = INT_MAX - 8
"""The longest array that Java makes; Kafka's default of max.decompressed.message.bytes."""


_REPLICA: Final = re.compile(r"\d+:\d+")


def idle(definition: ConfigDef, why: str) -> ConfigDef:
    """The same setting, accepted and without effect here; ``why`` is shown to users."""
    return replace(definition, doc=f"No effect here: {why}.", no_effect=why)


def gzip_level(value: ConfigValue) -> str | None:
    """Why gzip has no such level, in Kafka's words; None if it has."""
    if value == -1 or (isinstance(value, int) and 1 <= value <= 9):
        return None
    return "Value must be between 1 and 9 or equal to -1"


def throttled_replicas(name: str) -> ConfigDef:
    """A list of replicas that are throttled."""

    def check(value: ConfigValue) -> str | None:
        parts = value if isinstance(value, tuple) else ()
        if parts == ("*",) or all(_REPLICA.fullmatch(part) for part in parts):
            return None
        return (
            f"{name} must be the literal '*' or a list of replicas in the following format: "
            "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
        )

    return ConfigDef(name=name, type=ConfigType.LIST, default=(), check=check, doc="")


def share_groups(name: str, maximum: int, doc: str) -> ConfigDef:
    """A list of at most ``maximum`` share groups."""

    def check(value: ConfigValue) -> str | None:
        parts = value if isinstance(value, tuple) else ()
        return f"at most {maximum} groups can be named" if len(parts) > maximum else None

    return ConfigDef(name=name, type=ConfigType.LIST, default=(), check=check, doc=doc)


def short(
    name: str,
    default: int,
    minimum: int,
    doc: str,
    *,
    aliases: tuple[str, ...] = (),
    departs: str = "",
) -> ConfigDef:
    """A 16-bit number."""
    return ConfigDef(
        name=name,
        type=ConfigType.SHORT,
        default=default,
        minimum=minimum,
        doc=doc,
        aliases=aliases,
        departs=departs,
    )


def integer(
    name: str,
    default: int | None,
    minimum: int | None,
    doc: str,
    *,
    maximum: int | None = None,
    synonyms: tuple[str, ...] = (),
    aliases: tuple[str, ...] = (),
    departs: str = "",
    dynamic: bool = False,
) -> ConfigDef:
    """A 32-bit number; None as the default means "not set"."""
    return ConfigDef(
        name=name,
        type=ConfigType.INT,
        default=default,
        minimum=minimum,
        maximum=maximum if maximum is not None else INT_MAX,
        doc=doc,
        synonyms=synonyms,
        aliases=aliases,
        departs=departs,
        dynamic=dynamic,
    )


def long(
    name: str,
    default: int | None,
    minimum: int | None,
    doc: str,
    *,
    synonyms: tuple[str, ...] = (),
    departs: str = "",
    dynamic: bool = False,
) -> ConfigDef:
    """A 64-bit number; None as the default means "not set"."""
    return ConfigDef(
        name=name,
        type=ConfigType.LONG,
        default=default,
        minimum=minimum,
        doc=doc,
        synonyms=synonyms,
        departs=departs,
        dynamic=dynamic,
    )


def flag(
    name: str,
    default: bool,
    doc: str,
    *,
    synonyms: tuple[str, ...] = (),
    dynamic: bool = False,
) -> ConfigDef:
    """True or false."""
    return ConfigDef(
        name=name,
        type=ConfigType.BOOLEAN,
        default=default,
        doc=doc,
        synonyms=synonyms,
        dynamic=dynamic,
    )


def choice(
    name: str,
    default: str,
    choices: tuple[str, ...],
    doc: str,
    *,
    synonyms: tuple[str, ...] = (),
    dynamic: bool = False,
) -> ConfigDef:
    """One of a few words."""
    return ConfigDef(
        name=name,
        type=ConfigType.STRING,
        default=default,
        choices=choices,
        doc=doc,
        synonyms=synonyms,
        dynamic=dynamic,
    )


def text(name: str, default: str | None, doc: str, *, dynamic: bool = False) -> ConfigDef:
    """Any text; None as the default means "not set"."""
    return ConfigDef(name=name, type=ConfigType.STRING, default=default, doc=doc, dynamic=dynamic)


def names(
    name: str,
    default: tuple[str, ...] | None,
    doc: str,
    *,
    choices: tuple[str, ...] = (),
    synonyms: tuple[str, ...] = (),
    departs: str = "",
    dynamic: bool = False,
) -> ConfigDef:
    """A list, separated by commas; None as the default means "not set"."""
    return ConfigDef(
        name=name,
        type=ConfigType.LIST,
        default=default,
        choices=choices,
        doc=doc,
        synonyms=synonyms,
        departs=departs,
        dynamic=dynamic,
    )
