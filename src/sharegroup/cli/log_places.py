"""Places in a log as users write them: ``earliest``, ``latest``, an offset, ``-5``, a time,
``PT15M``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from sharegroup.cli.offset_plan import parse_moment_ms
from sharegroup.cli.outcome import UsageError
from sharegroup.client.admin.admin import Admin
from sharegroup.client.clock import wall_ms
from sharegroup.groups.offset_reset import duration_milliseconds
from sharegroup.model.ids import TopicPartition

_OFFSET: Final = re.compile(r"-?[0-9]{1,18}")


class LogPlace(NamedTuple):
    """A place given by one of the fields; without any: the end of the log."""

    earliest: bool = False
    offset: int | None = None
    """Negative: counted back from the end."""
    time_ms: int | None = None
    """The first record at or after this time."""


def parse_place(option: str, text: str) -> LogPlace:
    """Parse a place.

    Raises:
        UsageError: the text is not a place; the message begins with ``option``.
    """
    word = text.lower()
    if word in ("earliest", "latest"):
        return LogPlace(earliest=word == "earliest")
    if _OFFSET.fullmatch(text):
        return LogPlace(offset=int(text))
    try:
        if word.startswith("p"):
            return LogPlace(time_ms=max(0, wall_ms() - duration_milliseconds(text.upper())))
        return LogPlace(time_ms=max(0, parse_moment_ms(text)))
    except ValueError:
        raise UsageError(
            f"{option} {text}: write earliest, latest, an offset, -5 for five before the end, a "
            "time such as 2026-11-21T08:30:00 (UTC), or a duration such as PT15M for 15 minutes ago"
        ) from None


async def resolved(
    admin: Admin, place: LogPlace, bounds: Mapping[TopicPartition, tuple[int, int]]
) -> dict[TopicPartition, int]:
    """The offset of ``place`` in each partition, limited to its first and end offset."""
    if place.time_ms is not None:
        found = await admin.list_offsets(bounds, place.time_ms)
        return {
            where: end if found[where].offset < 0 else found[where].offset
            for where, (_, end) in bounds.items()
        }
    return {where: _offset(place, first, end) for where, (first, end) in bounds.items()}


def _offset(place: LogPlace, first: int, end: int) -> int:
    if place.offset is None:
        return first if place.earliest else end
    wanted = place.offset if place.offset >= 0 else end + place.offset
    return min(max(wanted, first), end)
