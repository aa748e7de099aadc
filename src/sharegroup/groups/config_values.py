"""How values of group configs are read and checked."""

from __future__ import annotations

from sharegroup.groups.offset_reset import OffsetReset, parse_offset_reset
from sharegroup.model.config import ConfigValue
from sharegroup.model.errors import InvalidTopic
from sharegroup.model.limits import HEADER_NAME_BYTES_MAX, WEIGHT_MAX, WEIGHTS_MAX
from sharegroup.model.topic_name import check_topic_name


def whole(value: ConfigValue) -> int:
    """A whole number."""
    return int(str(value))


def fraction(value: ConfigValue) -> float:
    """A number."""
    return float(str(value))


def offset_reset(value: ConfigValue) -> OffsetReset:
    """Where a group begins."""
    return parse_offset_reset(str(value))


def check_offset_reset(value: ConfigValue) -> str | None:
    """What is wrong with a value of ``share.auto.offset.reset``; None: nothing."""
    try:
        parse_offset_reset(str(value))
    except ValueError as error:
        return str(error)
    return None


def check_dead_letter_topic(value: ConfigValue) -> str | None:
    """What is wrong with the name of a dead-letter topic; None: nothing."""
    name = str(value)
    if name.startswith("__"):
        return "the name of a dead-letter topic cannot begin with __"
    try:
        if name:
            check_topic_name(name)
    except InvalidTopic as error:
        return error.message
    return None


def weights(value: ConfigValue) -> tuple[tuple[str, int], ...]:
    """Names with their weights in hundredths, of ``acme=4,free=0.5``.

    Raises:
        ValueError: the text has another form, a name twice, or a weight out of bounds.
    """
    found: dict[str, int] = {}
    for each in filter(None, str(value).split(",")):
        name, equals, number = each.rpartition("=")
        hundredths = round(float(number) * 100) if equals else 0
        if not 1 <= hundredths <= WEIGHT_MAX * 100 or name in found:
            raise ValueError(f"{each!r} is no weight, or a name is there twice")
        found[name] = hundredths
    if len(found) > WEIGHTS_MAX:
        raise ValueError(f"there are more than {WEIGHTS_MAX} weights")
    return tuple(found.items())


def check_weights(value: ConfigValue) -> str | None:
    """What is wrong with weights; None: nothing."""
    try:
        weights(value)
    except (ValueError, OverflowError):
        return (
            f"weights are written as name=weight,name=weight: each from 0.01 to {WEIGHT_MAX}, "
            f"at most {WEIGHTS_MAX}"
        )
    return None


def check_separator(value: ConfigValue) -> str | None:
    """What is wrong with a separator; None: nothing."""
    fine = len(str(value)) <= 1 and str(value).isascii()
    return None if fine else "a separator is one ASCII character"


def check_header(value: ConfigValue) -> str | None:
    """What is wrong with the name of a header, which may be empty; None: nothing."""
    fine = len(str(value).encode()) <= HEADER_NAME_BYTES_MAX
    return None if fine else f"the name of a header has at most {HEADER_NAME_BYTES_MAX} bytes"
