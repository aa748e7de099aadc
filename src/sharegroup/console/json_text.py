"""JSON as it was written, indented.

No token is changed: a reader that makes values of them and writes these anew shows 1.10 as 1.1,
loses digits of long numbers and all but the last of equal names, and shows escapes as what they
stand for, which may be half of a pair, and no text.
"""

from __future__ import annotations

import json
import re
from typing import Final

_TOKEN: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[\[{]\s*[\]}]|[\[\]{},:]|[^\s\[\]{},:"]+')
"""A string, an empty list or object, a bracket or another sign, a number or a word."""
_STEP: Final = 2


def indented(text: str, characters_max: int) -> str | None:
    """Valid JSON with a line for each value; None: it is none, it is nested too deeply, or it would
    be longer than ``characters_max``."""
    try:
        json.loads(text, parse_int=str, parse_float=str)  # also numbers that are no numbers here
    except (ValueError, RecursionError):
        return None
    parts: list[str] = []
    depth = length = 0
    for found in _TOKEN.finditer(text):
        token = found.group()
        if token in ("[", "{"):
            depth += 1
            token += _line(depth)
        elif token in ("]", "}"):
            depth -= 1
            token = _line(depth) + token
        elif token == ",":
            token += _line(depth)
        elif token == ":":
            token = ": "
        elif token[0] in "[{":
            token = token[0] + token[-1]
        length += len(token)
        if length > characters_max:
            return None
        parts.append(token)
    return "".join(parts)


def _line(depth: int) -> str:
    return "\n" + " " * (_STEP * depth)
