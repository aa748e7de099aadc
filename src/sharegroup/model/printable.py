"""Make untrusted text safe to print: a name with a line end in it must not look like a log line of
ours, and no text may move a terminal's cursor or reverse its direction.

Characters that do not print are written as backslash escapes: control characters (so ANSI sequences
too), line and paragraph separators, zero-width and bidirectional controls, lone surrogates.
Backslashes stay as they are, so that escaping twice has no further effect.
"""

from __future__ import annotations

import logging
import re
import shlex

_ANY = re.compile(r"[^ -~]")


def printable(text: str, *, keep: str = "") -> str:
    """``text`` with characters that do not print escaped, except the characters in ``keep``."""
    if text.isprintable():
        return text
    return _ANY.sub(lambda found: _escaped(found[0], keep), text)


def printable_json(document: str) -> str:
    """A JSON document with characters that do not print as JSON escapes: the meaning is the same.

    Line ends between its lines stay.
    """
    if document.isprintable():
        return document
    return _ANY.sub(lambda found: _escaped_for_json(found[0]), document)


def last_word(name: str) -> str:
    """``name`` as the last word of a command that a message proposes: somebody copies it into a
    shell, where it must be this name and nothing else.
    """
    word = shlex.quote(name)
    if not name.isprintable():
        plain = name.replace("\\", "\\\\").replace("'", "\\'")
        word = "$'" + _ANY.sub(lambda found: _escaped_for_shell(found[0]), plain) + "'"
    return f"-- {word}" if name.startswith("-") else word


def encodable(text: str) -> str:
    """``text`` with its lone surrogates escaped, which UTF-8 cannot hold: they come from names of
    files that are no UTF-8, and from JSON."""
    return text.encode(errors="backslashreplace").decode()


class EscapedLines(logging.Formatter):
    """Writes one line for each log record; the lines of a traceback below it are indented."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  logging's name
        """The line itself."""
        return printable(super().formatMessage(record))

    def formatException(self, ei: object) -> str:  # noqa: N802  logging's name
        """A traceback, none of whose lines begins like a log line."""
        lines = super().formatException(ei).split("\n")  # type: ignore[arg-type]
        return "\n".join("  " + printable(line) for line in lines)


class EscapedMessages(logging.Filter):
    """Escapes a logger's messages, for programs that bring handlers of their own."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Let every record pass, with a message that prints. A message that prints already stays as
        it is: a program that counts messages by their text before names are filled in still can."""
        said = record.getMessage()
        if not said.isprintable():
            record.msg, record.args = printable(said), None
        return True


def _escaped(character: str, keep: str) -> str:
    if character.isprintable() or character in keep:
        return character
    return character.encode("unicode_escape").decode()


def _escaped_for_shell(character: str) -> str:
    if character.isprintable():
        return character
    return "".join(f"\\{byte:03o}" for byte in character.encode(errors="surrogatepass"))


def _escaped_for_json(character: str) -> str:
    if character.isprintable() or character == "\n":
        return character
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
