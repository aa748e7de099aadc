"""The groups of one type by id."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Generic, Protocol, TypeVar

from sharegroup.groups.modern_group import ModernGroup
from sharegroup.groups.records import Tombstone
from sharegroup.model.errors import GroupIdNotFound


class GroupRecord(Protocol):
    """A record of a group."""

    @property
    def group_id(self) -> str: ...


G = TypeVar("G", bound=ModernGroup[Any])
R = TypeVar("R", bound=GroupRecord)


class GroupTable(Generic[G, R]):
    """Groups of type ``G``, whose records are of type ``R``.

    Args:
        new_group: the class of the groups; makes an empty group with an id.
    """

    def __init__(self, new_group: type[G]) -> None:
        self._new_group = new_group
        self._groups: dict[str, G] = {}

    def __len__(self) -> int:
        return len(self._groups)

    def __contains__(self, group_id: object) -> bool:
        return group_id in self._groups

    def __iter__(self) -> Iterator[G]:
        return iter(self._groups.values())

    def get(self, group_id: str) -> G | None:
        """The group, or None if there is no such group."""
        return self._groups.get(group_id)

    def existing(self, group_id: str) -> G:
        """The group. Raises GroupIdNotFound if there is no such group."""
        group = self._groups.get(group_id)
        if group is None:
            raise GroupIdNotFound(f"Group {group_id} not found.")
        return group

    def get_or_add(self, group_id: str) -> G:
        """The group; a new one if there is no such group."""
        return self._groups.setdefault(group_id, self._new_group(group_id))

    def add(self, group: G) -> None:
        """Add a group that may be here already."""
        self._groups[group.group_id] = group

    def remove(self, group_id: str) -> None:
        """Remove a group that is here."""
        del self._groups[group_id]

    def group_ids(self) -> list[str]:
        """The groups that exist."""
        return list(self._groups)

    def sizes(self) -> Iterator[tuple[str, int]]:
        """Each group's id and number of members."""
        return ((group_id, len(group.members)) for group_id, group in self._groups.items())

    def records(self, group_id: str) -> Iterator[R]:
        """Records that rebuild a group, for a rewritten log; empty for a group that does not
        exist.
        """
        group = self._groups.get(group_id)
        return group.records() if group is not None else iter(())

    def replay(self, record: R) -> None:
        """Apply a record from the log. ``sessions_restarted`` must follow the last record."""
        group_id = record.group_id
        if not isinstance(record, Tombstone):
            self.get_or_add(group_id).apply(record)
        elif record.key_type == self._new_group.kinds.group.key_type:
            self._groups.pop(group_id, None)
        elif group_id in self._groups:
            self._groups[group_id].apply(record)
