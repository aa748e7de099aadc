"""Regular expressions that clients send. The syntax is RE2's, as in Kafka, whose RE2/J is another
implementation: matching takes time linear in the text, whatever the expression.
"""

from __future__ import annotations

from collections.abc import Callable

import re2

from sharegroup.model.errors import InvalidRegularExpression

_OPTIONS = re2.Options()
_OPTIONS.log_errors = False


def compile_regex(regex: str, field: str) -> Callable[[str], bool]:
    """Whether a whole text matches. ``field`` is the request's name for it, for the message.

    Raises:
        InvalidRegularExpression: RE2 refuses it, for its syntax or its size.
    """
    try:
        pattern = re2.compile(regex, _OPTIONS)
    except re2.error as error:
        reason = error.args[0] if error.args else error
        text = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise InvalidRegularExpression(
            f"{field} `{regex}` is not a valid regular expression: {text}."
        ) from None
    return lambda text: pattern.fullmatch(text) is not None
