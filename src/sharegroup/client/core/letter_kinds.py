"""Which messages of dead letters say the same of other records."""

from __future__ import annotations

import re
from typing import Final

_MESSAGE_MAX: Final = 160
_VARIABLE: Final = re.compile(r"\b[0-9a-fA-F-]*[0-9][0-9a-fA-F-]{7,}\b|[0-9]+(?:\.[0-9]+)*")
"""What differs between messages of one kind: ids in hexadecimal, and numbers."""


def kind_of(message: str | None) -> str | None:
    """A message without what differs from letter to letter: its first line, with # for numbers."""
    if message is None:
        return None
    line = message.split("\n", 1)[0][:_MESSAGE_MAX]
    return _VARIABLE.sub("#", line)


def letters_of_kind(cause: str | None, kind: str | None) -> str:
    """The expression for letters with this cause and messages of this kind."""
    parts = [] if cause is None else [f"cause == {cause!r}"]
    if kind is not None:
        pattern = "^" + re.escape(kind).replace(r"\#", ".+")
        parts.append(f"message matches {pattern!r}")
    return " and ".join(parts)
