"""``--key-range`` and ``--key-ranges``: a part of the keys."""

from __future__ import annotations

from contextlib import suppress

from sharegroup.cli.outcome import UsageError
from sharegroup.client.core.key_ranges import KeyRange, KeyRanges, ranges_of


def parse_key_ranges(part: str | None, ranges: str | None) -> KeyRanges:
    """The key ranges that the user means; empty: all keys.

    Args:
        part: ``I/N``, the I-th of N equal parts.
        ranges: ``FIRST-LAST[,…]``, hashes of keys.

    Raises:
        UsageError: an option cannot be parsed, or both are given.
    """
    if part is not None and ranges is not None:
        raise UsageError("--key-range and --key-ranges exclude each other")
    if part is not None:
        with suppress(ValueError):
            number, of = map(int, part.split("/"))
            return ranges_of([KeyRange.part(number, of)])
        raise UsageError(f"--key-range {part}: write I/N, such as 1/4 for the first of four parts")
    if ranges is None:
        return ()
    try:
        return ranges_of([_range(one) for one in ranges.split(",")])
    except ValueError as error:
        raise UsageError(f"--key-ranges {ranges}: {error}") from error


def _range(text: str) -> tuple[int, int]:
    first, dash, last = text.partition("-")
    if not dash or not (first.strip().isdecimal() and last.strip().isdecimal()):
        raise ValueError("write FIRST-LAST[,FIRST-LAST…]")
    return int(first), int(last)
