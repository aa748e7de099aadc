"""The change of a group, and the records of that change."""

from __future__ import annotations

from typing import Generic, TypeVar

from sharegroup.groups.table import FoldedGroup

G = TypeVar("G", bound=FoldedGroup)
R = TypeVar("R")


class Change(Generic[G, R]):
    """The change of a group from one state to the next, record by record."""

    def __init__(self, group: G) -> None:
        self.group = group
        self._records: list[R] = []

    @property
    def records(self) -> tuple[R, ...]:
        """The records that the caller must make durable, in this order."""
        return tuple(self._records)

    def emit(self, record: R) -> None:
        """Apply a record and keep it."""
        self.group.apply(record)
        self._records.append(record)
