"""Topics by regular expression. The syntax is RE2's, as in Kafka, whose RE2/J is another
implementation: matching takes time linear in the name, whatever the expression.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import re2

from sharegroup.model.errors import InvalidRegularExpression

_OPTIONS = re2.Options()
_OPTIONS.log_errors = False


def compile_regex(regex: str) -> Callable[[str], bool]:
    """Whether a topic's whole name matches.

    Raises:
        InvalidRegularExpression: RE2 refuses it, for its syntax or its size.
    """
    try:
        pattern = re2.compile(regex, _OPTIONS)
    except re2.error as error:
        reason = error.args[0] if error.args else error
        text = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise InvalidRegularExpression(
            f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {text}."
        ) from None
    return lambda name: pattern.fullmatch(name) is not None


def matching(regex: str, names: Iterable[str]) -> tuple[str, ...]:
    """Those of ``names`` that match, in order.

    Raises:
        InvalidRegularExpression: as :func:`compile_regex`.
    """
    matches = compile_regex(regex)
    return tuple(sorted(name for name in names if matches(name)))
