"""Checks of the settings that several clients have; each raises one clear sentence."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from difflib import get_close_matches

from sharegroup.model.errors import ConfigError


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
