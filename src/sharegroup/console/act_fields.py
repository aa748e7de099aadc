"""The fields of an act's request, and what an act says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sharegroup.console.limits import TEXT_MAX
from sharegroup.model.offsets import OFFSET_MAX

Given = Mapping[str, Any]


class BadAct(Exception):
    """A field of a request is missing or wrong, or the broker would refuse the act; the text says
    why."""


class Said(NamedTuple):
    """What an act says.

    Attributes:
        said: a sentence.
        warning: what will not work although the broker takes it.
        hint: what may be given.
        nothing: whether there is nothing to do.
        records: the records to look at next: ``topic``, ``partition`` and ``offset`` of each.
        more: how many there are beside these.
    """

    said: str
    warning: str | None = None
    hint: str | None = None
    nothing: bool = False
    records: Sequence[Mapping[str, Any]] = ()
    more: int = 0


def text(given: Given, name: str) -> str:
    """A field of a request. Raises BadAct."""
    found = given.get(name)
    if not isinstance(found, str) or not found or len(found) > TEXT_MAX:
        raise BadAct(f"{name} is missing, or no text of at most {TEXT_MAX} characters")
    return found


def offset(given: Given, name: str) -> int:
    """A number of a request. Raises BadAct."""
    found = given.get(name)
    if type(found) is not int or not 0 <= found <= OFFSET_MAX:
        raise BadAct(f"{name} is missing, or no whole number")
    return found


def optional(given: Given, name: str) -> str | None:
    """A text that may be left out. Raises BadAct."""
    return text(given, name) if given.get(name) else None
