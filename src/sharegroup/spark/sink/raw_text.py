"""Columns of strings as Spark gives them: they may hold any bytes.

``CAST(value AS STRING)`` does not look at the bytes, and Spark hands them to Arrow unchecked. A
record that is no text must not end the query, which would meet it again at every start.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from sharegroup.model.errors import SharegroupError

SHOWN_MAX: Final = 60


class NotText(SharegroupError):
    """A string of a row is no UTF-8, where only text can be meant."""


def texts(name: str, column: Any) -> list[Any]:
    """The values of a column in which only text can be meant.

    Raises:
        NotText: one of them is no UTF-8; the error names the column.
    """
    try:
        values: list[Any] = column.to_pylist()
    except UnicodeDecodeError as error:
        raise NotText(
            f"the column {name} has {error.object[:SHOWN_MAX]!r}, which is no UTF-8 text: leave "
            "out such rows, or write make_valid_utf8(…)"
        ) from None
    return values


def raw(column: Any) -> list[bytes | None]:
    """The bytes of a column of strings, or of binary."""
    values: list[bytes | None] = column.cast(pa.large_binary()).to_pylist()
    return values


def readable(column: Any) -> list[str | None]:
    """The values of a column of strings; bytes that are no UTF-8 become replacement characters."""
    return [None if one is None else one.decode("utf-8", "replace") for one in raw(column)]
