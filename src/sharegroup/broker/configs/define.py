"""Helpers that define settings, for the tables of this package."""

from __future__ import annotations

from sharegroup.model.config import INT_MAX, ConfigDef, ConfigType


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


def text(name: str, default: str | None, doc: str) -> ConfigDef:
    """Any text; None as the default means "not set"."""
    return ConfigDef(name=name, type=ConfigType.STRING, default=default, doc=doc)


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
