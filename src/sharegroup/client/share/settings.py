"""Checks the settings of a share consumer before it connects."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from sharegroup.client.core.held_deliveries import AcknowledgementMode
from sharegroup.client.records.decode import Decoding
from sharegroup.model.errors import ConfigError

ACQUIRE_MODES = ("batch_optimized", "record_limit")


def check_group(group_id: str) -> None:
    """Raises ConfigError: the group id is empty."""
    if not group_id:
        raise ConfigError("group_id is empty: name the share group")


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


def decoding_of(
    check_crcs: bool,
    key_deserializer: Callable[[bytes], Any] | None,
    value_deserializer: Callable[[bytes], Any] | None,
) -> Decoding:
    """How to read records. Raises ConfigError: a deserializer cannot be called."""
    wanted = {"key_deserializer": key_deserializer, "value_deserializer": value_deserializer}
    for name, one in wanted.items():
        if one is not None and not callable(one):
            raise ConfigError(f"{name} is {one!r}: give a function that takes bytes")
    return Decoding(check_crcs, key_deserializer, value_deserializer)


def is_strict(acquire_mode: str) -> bool:
    """Whether ``max_poll_records`` is never exceeded. Raises ConfigError: there is no such mode."""
    if acquire_mode not in ACQUIRE_MODES:
        raise ConfigError(
            f"acquire_mode is {acquire_mode!r}: write 'batch_optimized' or 'record_limit'"
        )
    return acquire_mode == "record_limit"


def mode_of(text: str) -> AcknowledgementMode:
    """The acknowledgement mode. Raises ConfigError: there is no such mode."""
    try:
        return AcknowledgementMode(text)
    except ValueError:
        raise ConfigError(
            f"acknowledgement_mode is {text!r}: write 'implicit' or 'explicit'"
        ) from None
