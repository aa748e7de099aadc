"""What the fields of events look like."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

NUMBER_END: Final = 10**15
"""Times and settings are below it: a float has each of their milliseconds."""
OFFSET_END: Final = 2**63
RECORD_END: Final = 10**9
"""Offsets of records whose ids are told: the judge keeps nine bytes for each one up to them."""
RUN_MAX: Final = 10**7
"""So many records are delivered or acknowledged as one run, at most."""
KINDS: Final = "accept", "release", "reject", "renew"


class Shape(NamedTuple):
    """What a field must be.

    Attributes:
        says: the same, in words.
        fits: whether a value is that.
    """

    says: str
    fits: Callable[[Any], bool]


def _is_integer(value: Any) -> bool:
    return type(value) is int


def _is_number(value: Any) -> bool:
    # Not a number is not below anything.
    return type(value) in (int, float) and abs(value) < NUMBER_END


def _is_text(value: Any) -> bool:
    return type(value) is str


def _is_offset(value: Any) -> bool:
    return type(value) is int and 0 <= value < OFFSET_END


def _is_record(value: Any) -> bool:
    return type(value) is int and 0 <= value < RECORD_END


def _are_texts(values: Any) -> bool:
    return type(values) is list and all(map(_is_text, values))


def _are_run(first: Any, last: Any) -> bool:
    return _is_offset(first) and _is_offset(last) and first <= last


def _is_place(row: list[Any]) -> bool:
    return len(row) >= 2 and type(row[0]) is str and type(row[1]) is int and row[1] >= 0


def _is_part(row: list[Any]) -> bool:
    return len(row) == 2 or (len(row) == 4 and _are_run(*row[2:]))


def _is_long_run(row: list[Any]) -> bool:
    return len(row) == 5 and _are_run(*row[2:4]) and row[3] - row[2] < RUN_MAX


def _is_read(row: list[Any]) -> bool:
    if len(row) not in (4, 5) or not _is_record(row[2]) or type(row[3]) is not str:
        return False
    return len(row) == 4 or row[4] is None or type(row[4]) is str


def _rows(says: str, fits: Callable[[list[Any]], bool]) -> Shape:
    """A list of rows that begin with a topic and a partition."""

    def all_fit(rows: Any) -> bool:
        return type(rows) is list and all(
            type(row) is list and _is_place(row) and fits(row) for row in rows
        )

    return Shape(f"a list of {says}", all_fit)


def _are_ranges(rows: Any) -> bool:
    return type(rows) is list and all(
        type(row) is list and len(row) == 2 and _are_run(*row) for row in rows
    )


def _maps(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: type(value) is dict and all(map(fits, value.values()))


TEXT: Final = Shape("text", _is_text)
TEXTS: Final = Shape("a list of text", _are_texts)
INTEGER: Final = Shape("an integer", _is_integer)
NUMBER: Final = Shape("a number below 10^15", _is_number)
MAYBE: Final = Shape("a number below 10^15", lambda value: value is None or _is_number(value))
TRUTH: Final = Shape("true or false", lambda value: type(value) is bool)
PARTITION: Final = Shape("a number of a partition", lambda value: _is_integer(value) and value >= 0)
OFFSET: Final = Shape("an offset, from 0 to 2^63 - 1", _is_offset)
OFFSET_OR_NONE: Final = Shape("an offset, or -1", lambda value: value == -1 or _is_offset(value))
RECORD: Final = Shape(f"an offset, from 0 to {RECORD_END - 1:,}", _is_record)
RECORDS: Final = _rows(
    f"[topic, partition, offset, id], with offsets below {RECORD_END:,}",
    lambda row: len(row) == 4 and _is_read(row),
)
READ: Final = _rows(
    f"[topic, partition, offset, id] and perhaps a key, with offsets below {RECORD_END:,}",
    _is_read,
)
ACQUIRED: Final = _rows(
    f"[topic, partition, first, last, count], with runs of 1 to {RUN_MAX:,} offsets",
    lambda row: _is_long_run(row) and type(row[4]) is int,
)
ACKS: Final = _rows(
    f"[topic, partition, first, last, type], with runs of 1 to {RUN_MAX:,} offsets,"
    f" and types {', '.join(KINDS)}",
    lambda row: _is_long_run(row) and row[4] in KINDS,
)
RUNS: Final = _rows(
    "[topic, partition, first, last]", lambda row: len(row) == 4 and _are_run(*row[2:])
)
PLACES: Final = _rows("[topic, partition]", lambda row: len(row) == 2)
PARTS: Final = _rows("[topic, partition] or [topic, partition, first, last]", _is_part)
RANGES: Final = Shape("a list of [first, last]", _are_ranges)
LEFT: Final = Shape("numbers of records by group", _maps(_is_integer))
SINKS: Final = Shape("lists of topics by sink", _maps(_are_texts))
