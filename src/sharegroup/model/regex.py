"""Regular expressions that clients send. The syntax is RE2's, as in Kafka, whose RE2/J is another
implementation: matching takes time linear in the text, whatever the expression.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

import re2

from sharegroup.model.errors import InvalidRegularExpression

_OPTIONS = re2.Options()
_OPTIONS.log_errors = False
_OPTIONS.max_mem = 1 << 20
"""Bytes of a compiled expression: a thousand names of topics need less, and it takes milliseconds.
RE2's own 8 MiB let 450 bytes of a request cost seconds.
"""

REMEMBERED_MAX: Final = 128
"""Expressions that are remembered, each with 1 MiB at most; as many as the module re2 remembers."""
LENGTH_MAX: Final = 32_767
REPEATS_MAX: Final = 2_000
"""The sum of all counts in braces. RE2 writes each repetition out before it looks at the size."""
CLASSES_MAX: Final = 100
"""Unicode classes, such as ``\\pL``: each is hundreds of ranges."""
_REPEAT: Final = re.compile(r"\{(\d{1,9})(?:,(\d{0,9}))?\}")


def compile_regex(regex: str, field: str) -> Callable[[str], bool]:
    """A function that says whether a whole text matches ``regex``. ``field`` is the request's name
    for the expression, for the error's message.

    Raises:
        InvalidRegularExpression: RE2 refuses the expression, for its syntax or its size.
    """
    repeats = sum(max(int(low), int(high or 0)) for low, high in _REPEAT.findall(regex))
    classes = regex.count("\\p") + regex.count("\\P")
    if len(regex) > LENGTH_MAX or repeats > REPEATS_MAX or classes > CLASSES_MAX:
        raise InvalidRegularExpression(
            f"{field} `{regex}` is not a valid regular expression: too large."
        )
    compiled = _compiled(regex)
    if isinstance(compiled, str):
        raise InvalidRegularExpression(
            f"{field} `{regex}` is not a valid regular expression: {compiled}."
        )
    matches = compiled.fullmatch
    return lambda text: matches(text) is not None


@lru_cache(REMEMBERED_MAX)
def _compiled(regex: str) -> Any:
    """The compiled expression, or, as a text, why it is refused. A refusal is remembered, too: it
    took time as well, and a client that is refused tries again."""
    try:
        return re2.compile(regex, _OPTIONS)
    except re2.error as error:
        reason = error.args[0] if error.args else error
        return reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
