"""A read-only view of all groups of one type, over the machines of all partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Generic, Protocol, TypeVar


class Groups(Protocol):
    """All groups of one type in one partition, in the core."""

    def exists(self, group_id: str) -> bool: ...

    def group_ids(self) -> Sequence[str]: ...

    def list_groups(self) -> Iterable[tuple[str, str]]: ...

    def check_invariants(self) -> None: ...


G = TypeVar("G", bound=Groups)


class GroupsView(Generic[G]):
    """The queries that groups of every type answer. Implements ``group_registry.GroupsOfType``. An
    answer may show changes that are not durable yet.

    Args:
        of: returns the machine that holds a group id.
        machines: returns all machines.
    """

    def __init__(self, of: Callable[[str], G], machines: Callable[[], Sequence[G]]) -> None:
        self._of = of
        self._machines = machines

    def exists(self, group_id: str) -> bool:
        """Whether there is such a group."""
        return self._of(group_id).exists(group_id)

    def group_ids(self) -> list[str]:
        """The groups that exist."""
        return [group_id for groups in self._machines() for group_id in groups.group_ids()]

    def list_groups(self) -> Iterable[tuple[str, str]]:
        """(id, state) of all groups."""
        return (line for groups in self._machines() for line in groups.list_groups())

    def check_invariants(self) -> None:
        """Raise AssertionError if a group's state is inconsistent."""
        for groups in self._machines():
            groups.check_invariants()
