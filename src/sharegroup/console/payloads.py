"""Bytes of a record as a page shows them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from sharegroup.console.json_text import indented
from sharegroup.console.limits import INDENTED_MAX, LINE_TEXT_MAX, SHOWN_BYTES_MAX, TEXT_MAX

_CHARACTER_BYTES_MAX: Final = 4
"""A character has no more in UTF-8."""

Decode = Callable[[bytes], str]
"""A user's function, which makes text of the bytes of a value. It may raise anything."""


async def decoded(value: bytes | None, decode: Decode | None) -> dict[str, Any]:
    """``decoded``: what a user's function makes of a value, as :func:`shown`, or its ``error``;
    None: there is no function, or no value."""
    if decode is None or value is None:
        return {"decoded": None}
    try:
        text = await asyncio.to_thread(decode, value)  # it may take long
    except Exception as error:  # noqa: BLE001  # a user's function may raise anything
        return {"decoded": {"error": f"{type(error).__name__}: {error}"[:TEXT_MAX]}}
    return {"decoded": shown(text.encode(errors="backslashreplace"))}


def shown(data: bytes | None) -> dict[str, Any]:
    """The bytes as ``json`` (indented, if that is not too long), ``text`` or ``hex``, whichever is
    the first that they are; ``form`` says which, ``size`` how many bytes there are, ``cut`` whether
    some are left out."""
    if data is None:
        return {"form": "null", "text": "", "size": 0, "cut": False}
    part, cut = data[:SHOWN_BYTES_MAX], len(data) > SHOWN_BYTES_MAX
    form, text = "hex", part.hex(" ")
    try:
        # A character may be cut in the middle: only what is whole counts then.
        text = part.decode() if not cut else _whole(part)
        form = "text"
    except UnicodeDecodeError:
        return {"form": form, "text": text, "size": len(data), "cut": cut}
    if not cut and text[:1] in ("{", "["):
        lines = indented(text, INDENTED_MAX)
        if lines is not None:  # else it only looks like JSON
            form, text = "json", lines
    return {"form": form, "text": text, "size": len(data), "cut": cut}


def beginning(data: bytes | None) -> dict[str, Any]:
    """The same of what a line has room for, as it was written. Of many records only this is made:
    the console may share its event loop with the broker."""
    if data is None:
        return shown(None)
    part = data[: _CHARACTER_BYTES_MAX * LINE_TEXT_MAX]
    try:
        form, text = "text", part.decode() if len(part) == len(data) else _whole(part)
    except UnicodeDecodeError:
        form, text = "hex", part[:LINE_TEXT_MAX].hex(" ")
    cut = len(part) < len(data) or len(text) > LINE_TEXT_MAX
    return {"form": form, "text": text[:LINE_TEXT_MAX], "size": len(data), "cut": cut}


def _whole(part: bytes) -> str:
    """Text without the character that was cut at its end; raises UnicodeDecodeError."""
    try:
        return part.decode()
    except UnicodeDecodeError as error:
        if error.end < len(part) or error.reason != "unexpected end of data":
            raise
        return part[: error.start].decode()
