"""Checks of the settings that several clients have; each raises one clear sentence."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import fields
from difflib import get_close_matches
from numbers import Integral
from typing import TYPE_CHECKING, Final

from sharegroup.model.errors import ConfigError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_KINDS: Final[dict[str, tuple[type | tuple[type, ...], str]]] = {
    "int": (Integral, "an int, such as 1000"),
    "bool": (Integral, "True or False"),
    "str": (str, "a str"),
    "str | None": ((str, type(None)), "a str or None"),
}
"""What a setting with this annotation may be. Others have checks of their own."""


def check_kinds(settings: DataclassInstance) -> None:
    """Raises ConfigError: a number, a text or a switch among the settings is of another kind. Found
    only where it is used, the error would not name it."""
    for one in fields(settings):
        check_kind(one.name, getattr(settings, one.name), str(one.type))


def check_kind(name: str, value: object, annotation: str) -> None:
    """Raises ConfigError: the value is not what its annotation says."""
    kinds, words = _KINDS.get(annotation, (object, ""))
    if not isinstance(value, kinds) or (annotation == "int" and isinstance(value, bool)):
        raise ConfigError(f"{name} is {value!r}: write {words}")


def check_positive(name: str, value: int) -> int:
    """The value. Raises ConfigError: it is less than 1."""
    if value < 1:
        raise ConfigError(f"{name} is {value}: it must be at least 1")
    return value


def check_at_least_0(name: str, value: int) -> int:
    """The value. Raises ConfigError: it is less than 0."""
    if value < 0:
        raise ConfigError(f"{name} is {value}: it must be at least 0")
    return value


def check_topics(topics: Iterable[object]) -> None:
    """Raises ConfigError: one of these cannot be the name of a topic."""
    for topic in topics:
        if not isinstance(topic, str):
            raise ConfigError(
                f"{topic!r} is no topic: write the names one after the other ('a', 'b'), or *names"
            )
        if not topic:
            raise ConfigError("the name of a topic is empty")


def check_names(client: str, given: Iterable[str], known: Collection[str]) -> None:
    """Raises TypeError: this client has no setting with one of these names."""
    for name in given:
        if name not in known:
            near = get_close_matches(name, known, 1)
            hint = f". Did you mean {near[0]!r}?" if near else ""
            raise TypeError(
                f"{client}.__init__() got an unexpected keyword argument {name!r}{hint}"
            )
