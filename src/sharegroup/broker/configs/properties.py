"""Java's ``.properties`` syntax, in which Kafka's ``server.properties`` is written (class
java.util.Properties).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

_KEY_END: Final = re.compile(r"(?<!\\)(?:\\\\)*([=:\s])")
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_CONTROLS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_properties(text: str) -> dict[str, str]:
    """Keys and values: ``#``/``!`` comments, ``=``, ``:`` or blanks between, ``\\`` continues a
    line, escapes.

    If a key occurs twice, the last value wins, as in Java. A byte order mark, which editors on
    Windows write, belongs to no key.
    """
    return dict(_split(line) for line in _logical_lines(text.removeprefix("\ufeff")))


def _logical_lines(text: str) -> Iterator[str]:
    pending = ""
    for raw in re.split(r"\r\n|\r|\n", text):
        line = raw.lstrip(" \t\f")
        if not pending and (not line or line[0] in "#!"):
            continue
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            pending += line[:-1]
            continue
        yield pending + line
        pending = ""
    if pending:
        yield pending


def _split(line: str) -> tuple[str, str]:
    match = _KEY_END.search(line)
    if match is None:
        return _unescape(line), ""
    key, rest = line[: match.start(1)], line[match.start(1) :].lstrip(" \t\f")
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(" \t\f")
    return _unescape(key), _unescape(rest)


def _unescape(text: str) -> str:
    def replacement(match: re.Match[str]) -> str:
        escaped = match.group(1)
        if len(escaped) == 5:
            return chr(int(escaped[1:], 16))
        return _CONTROLS.get(escaped, escaped)

    return _ESCAPE.sub(replacement, text)
