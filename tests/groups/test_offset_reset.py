from __future__ import annotations

import pytest

from sharegroup.groups.offset_reset import (
    LATEST,
    OffsetReset,
    OffsetResetKind,
    duration_milliseconds,
    parse_offset_reset,
)


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("PT15M", 900_000),
        ("P2D", 172_800_000),
        ("P1DT12H", 129_600_000),
        ("P2DT3H4M5.25S", 183_845_250),
        ("pt0.0019s", 1),
        ("PT-1.5S", -1_500),
        ("-PT1H-30M", -1_800_000),
        ("PT0S", 0),
    ],
)
def test_durations(text: str, milliseconds: int) -> None:
    assert duration_milliseconds(text) == milliseconds


@pytest.mark.parametrize(
    "text", ["", "P", "PT", "P1DT", "15M", "P1Y", "P1M", "P1W", "PT1.5H", "PT١S"]
)
def test_invalid_durations(text: str) -> None:
    with pytest.raises(ValueError, match="is not an ISO-8601 duration"):
        duration_milliseconds(text)


def test_strategies() -> None:
    assert parse_offset_reset("latest") == LATEST
    assert parse_offset_reset("EARLIEST") == OffsetReset(OffsetResetKind.EARLIEST)
    assert parse_offset_reset("by_duration:PT1H") == (OffsetResetKind.BY_DURATION, 3_600_000)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("newest", "Invalid value `newest` for configuration share.auto.offset.reset"),
        ("by_duration", "The value must be either 'earliest', 'latest' or of the format"),
        ("by_duration:1h", "Unable to parse duration string"),
        ("by_duration:-PT1H", "Negative duration is not supported"),
    ],
)
def test_no_strategies(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse_offset_reset(text)
