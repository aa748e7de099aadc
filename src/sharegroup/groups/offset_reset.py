"""``share.auto.offset.reset``: where a share partition begins that has no start offset yet.

Values: ``earliest``, ``latest``, ``by_duration:<ISO-8601 duration>`` (Kafka class
ShareGroupAutoOffsetResetStrategy). Durations are Java's ``Duration.parse``: days, hours, minutes
and seconds; a day is 24 hours; months and years, whose length depends on the date, are refused,
and so are negative durations.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final, NamedTuple

_DURATION: Final = re.compile(
    r"([-+])?P(?:([-+]?\d+)D)?"
    r"(T(?:([-+]?\d+)H)?(?:([-+]?\d+)M)?(?:([-+]?\d+)(?:[.,](\d{0,9}))?S)?)?",
    re.ASCII | re.IGNORECASE,
)
_BY_DURATION: Final = "by_duration:"


class OffsetResetKind(StrEnum):
    """The three ways to begin."""

    EARLIEST = "earliest"
    LATEST = "latest"
    BY_DURATION = "by_duration"


class OffsetReset(NamedTuple):
    """Where to begin; ``duration_ms`` counts back from now and is 0 unless the kind is
    BY_DURATION.
    """

    kind: OffsetResetKind
    duration_ms: int = 0


LATEST: Final = OffsetReset(OffsetResetKind.LATEST)


def parse_offset_reset(text: str) -> OffsetReset:
    """The strategy that ``text`` names.

    Raises:
        ValueError: ``text`` names no strategy; the message is Kafka's.
    """
    lowered = text.lower()
    if lowered in (OffsetResetKind.EARLIEST, OffsetResetKind.LATEST):
        return OffsetReset(OffsetResetKind(lowered))
    if not lowered.startswith(_BY_DURATION):
        raise ValueError(
            f"Invalid value `{text}` for configuration share.auto.offset.reset. The value must be "
            "either 'earliest', 'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'."
        )
    try:
        duration_ms = duration_milliseconds(text[len(_BY_DURATION) :])
    except ValueError as error:
        raise ValueError(
            f"Unable to parse duration string in by_duration strategy: {error}"
        ) from None
    if duration_ms < 0:
        raise ValueError(f"Negative duration is not supported in by_duration strategy `{text}`")
    return OffsetReset(OffsetResetKind.BY_DURATION, duration_ms)


def duration_milliseconds(text: str) -> int:
    """Milliseconds in an ISO-8601 duration such as ``PT15M`` or ``P2DT3H4.5S``; fractions of a
    millisecond are cut off.

    Raises:
        ValueError: the text is no duration; the message quotes the text.
    """
    match = _DURATION.fullmatch(text)
    if match is None or not any(match.group(2, 4, 5, 6)) or match.group(3) in ("T", "t"):
        raise ValueError(f"`{text}` is not an ISO-8601 duration such as PT15M or P1DT12H")
    sign, days, _, hours, minutes, seconds, fraction = match.groups()
    milliseconds = (
        int(days or 0) * 86_400_000 + int(hours or 0) * 3_600_000 + int(minutes or 0) * 60_000
    ) + int(seconds or 0) * 1000
    part = int((fraction or "").ljust(3, "0")[:3])
    milliseconds += -part if (seconds or "").startswith("-") else part
    return -milliseconds if sign == "-" else milliseconds
