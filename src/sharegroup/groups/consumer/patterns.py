"""Topics by regular expression."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from sharegroup.model import regex as regexes


def compile_regex(regex: str) -> Callable[[str], bool]:
    """Whether a topic's whole name matches.

    Raises:
        InvalidRegularExpression: as :func:`sharegroup.model.regex.compile_regex`.
    """
    return regexes.compile_regex(regex, "SubscribedTopicRegex")


def matching(regex: str, names: Iterable[str]) -> tuple[str, ...]:
    """Those of ``names`` that match, in order.

    Raises:
        InvalidRegularExpression: as :func:`compile_regex`.
    """
    matches = compile_regex(regex)
    return tuple(sorted(name for name in names if matches(name)))
