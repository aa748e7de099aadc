"""An expression that would be large when compiled is refused before it is."""

from __future__ import annotations

import pytest

from sharegroup.model.errors import InvalidRegularExpression
from sharegroup.model.regex import LENGTH_MAX, compile_regex


@pytest.mark.parametrize(
    "regex",
    [
        ".{0,1000}" * 50,
        ".{0,1000}" * 3,
        ".{1000,}" * 3,
        "(.{0,30}){1,30}" * 60,
        r"\pL" * 10_000,
        "(((.{0,10}){0,10}){0,10})" * 20,
        "a" * (LENGTH_MAX + 1),
    ],
)
def test_a_hostile_expression_is_refused(regex: str) -> None:
    with pytest.raises(InvalidRegularExpression, match="too large"):
        compile_regex(regex, "SubscribedTopicRegex")


def test_what_people_write_is_compiled() -> None:
    assert compile_regex("[a-z]+-(jobs|mail)-[0-9]{1,10}", "f")("eu-jobs-12")
    assert compile_regex("|".join(f"topic-{n}" for n in range(1000)), "f")("topic-999")
    assert compile_regex("|".join(f"{n * 7919 % 9973}-of-the-warehouse" for n in range(1000)), "f")
    assert compile_regex(r"[^.]{1,249}", "f")("jobs")
