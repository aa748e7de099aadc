"""How a field of a group's settings says which config it is, with bounds of the broker or not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Any, NamedTuple, TypeAlias

from sharegroup.model.config import ConfigDef, ConfigType, ConfigValue

Limits: TypeAlias = tuple[int, int, int]
"""Default, lowest and highest value of a broker setting."""


class BrokerBounds(NamedTuple):
    """The broker's three settings for a group config, :func:`broker_names`: its default and the
    bounds of its values.
    """

    value: Limits
    minimum: Limits
    maximum: Limits
    doc: str
    aliases: tuple[str, ...]
    """Earlier names of the first setting."""
    maximum_aliases: tuple[str, ...]


def broker_names(name: str) -> tuple[str, str, str]:
    """The broker's settings for the group config ``name``: its default (``group.share.…``), its
    least and its highest value (``group.share.min.…``, ``group.share.max.…``).
    """
    kind, _, rest = name.partition(".")
    return f"group.{name}", f"group.{kind}.min.{rest}", f"group.{kind}.max.{rest}"


def bounded(
    value: Limits,
    minimum: Limits,
    maximum: Limits,
    doc: str,
    *,
    aliases: tuple[str, ...] = (),
    broker_aliases: tuple[str, ...] = (),
    maximum_aliases: tuple[str, ...] = (),
) -> Any:
    """A field for a number that the broker bounds."""

    def define(name: str) -> ConfigDef:
        default, least, most = broker_names(name)
        return ConfigDef(
            name=name,
            type=ConfigType.INT,
            default=value[0],
            minimum=value[1],
            doc=f"{doc} Must lie within {least} and {most}.",
            synonyms=(default,),
            aliases=aliases,
            dynamic=True,
        )

    bounds = BrokerBounds(value, minimum, maximum, doc, broker_aliases, maximum_aliases)
    return field(default=value[0], metadata={"define": define, "bounds": bounds})


def plain(
    default: Any,
    type: ConfigType,  # noqa: A002  as ConfigDef names it
    doc: str,
    *,
    read: Callable[[ConfigValue], Any],
    **more: Any,
) -> Any:
    """A field for a config without bounds. ``default`` is the value in a file; ``read`` makes it
    the field's value."""

    def define(name: str) -> ConfigDef:
        return ConfigDef(name=name, type=type, default=default, doc=doc, dynamic=True, **more)

    return field(default=read(default), metadata={"define": define, "read": read})
