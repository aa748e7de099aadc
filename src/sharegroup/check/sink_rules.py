"""The rule of sinks: each record stands there once (S14)."""

from __future__ import annotations

from sharegroup.check.spans import Spans
from sharegroup.check.states import Found


class SinkRules:
    """What a sink has of one partition.

    Args:
        name: of the sink.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._there: Spans[bool] = Spans(False)

    def sunk(self, offset: int) -> list[Found]:
        """The sink has the record."""
        twice = next(self._there.items(offset, offset))[2]
        self._there.change(offset, offset, lambda _: True)
        text = f"stands in {self._name} more than once"
        return [Found("S14", offset, offset, text)] if twice else []

    def missing(self, first: int, last: int) -> list[Found]:
        """At the end: of these records, the ones that the sink has not."""
        return [
            Found("S14", begin, end, f"is not in {self._name}")
            for begin, end, there in self._there.items(first, last)
            if not there
        ]
