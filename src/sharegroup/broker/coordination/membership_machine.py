"""A machine of the runtime for groups with members of their own protocol: share groups and consumer
groups. Wraps the core's machine and encodes its records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

from sharegroup.broker.coordination.log import KeyValue
from sharegroup.groups.topics import TopicsImage

R = TypeVar("R")
"""The records that a change writes: of this type of group, or of the type that a group changes to.
"""
R_co = TypeVar("R_co", covariant=True)
RECORDS_PER_GROUP: Final = 3
RECORDS_PER_MEMBER: Final = 3


class Table(Protocol[R_co]):
    """The groups by id. ``replay`` takes records that :class:`Codec` decoded."""

    def replay(self, record: Any) -> None: ...

    def sizes(self) -> Iterator[tuple[str, int]]: ...

    def group_ids(self) -> Sequence[str]: ...

    def records(self, group_id: str) -> Iterable[R_co]: ...


class MembershipGroups(Protocol[R_co]):
    """All groups of one type, in the core."""

    @property
    def table(self) -> Table[R_co]: ...

    def sessions_restarted(self, now_ms: int) -> None: ...

    def next_deadline_ms(self) -> int | None: ...

    def tick(self, topics: TopicsImage, now_ms: int) -> Sequence[R_co]: ...

    def check_invariants(self) -> None: ...


class Codec(NamedTuple, Generic[R]):
    """The bytes of a type's records, and the prefixes of their keys."""

    key_prefixes: frozenset[bytes]
    decode: Callable[[bytes, bytes | None], R | None]
    encode: Callable[[R], KeyValue]


class MembershipMachine(Generic[R]):
    """Implements ``machine.Machine``. When members are removed because they were silent for too
    long, ``on_expired`` is called with the records that this writes.
    """

    def __init__(
        self,
        membership: MembershipGroups[R],
        codec: Codec[R],
        image: Callable[[], TopicsImage],
        on_expired: Callable[[Sequence[R]], None],
    ) -> None:
        self._membership = membership
        self._codec = codec
        self._image = image
        self._on_expired = on_expired

    def replay(self, offset: int, key: bytes, value: bytes | None) -> bool:
        """Apply a record of this type of group; False for other types."""
        if key[:2] not in self._codec.key_prefixes:
            return False
        record = self._codec.decode(key, value)
        if record is not None:
            self._membership.table.replay(record)
        return True

    def replayed(self, now_ms: int) -> None:
        """Restart the timeouts of every member."""
        self._membership.sessions_restarted(now_ms)

    def next_deadline_ms(self) -> int | None:
        """When the next member's time is up."""
        return self._membership.next_deadline_ms()

    def tick(self, now_ms: int) -> Sequence[R]:
        """Remove members whose time is up."""
        records = self._membership.tick(self._image(), now_ms)
        self._on_expired(records)
        return records

    def encode(self, record: R) -> KeyValue:
        """The bytes of a record."""
        return self._codec.encode(record)

    def durable(self, records: Sequence[R], first_offset: int) -> None:
        """Nothing: groups do not depend on where their records are."""

    def lowest_needed(self, end_offset: int) -> int | None:
        """None: the offset is unknown without a rewrite."""
        return None

    def size(self) -> int:
        """The approximate number of records that :meth:`live_records` yields."""
        sizes = self._membership.table.sizes()
        return sum(RECORDS_PER_GROUP + RECORDS_PER_MEMBER * members for _, members in sizes)

    def live_records(self) -> Iterator[Sequence[R]]:
        """All records of each group."""
        for group_id in self._membership.table.group_ids():
            yield tuple(self._membership.table.records(group_id))

    def check_invariants(self) -> None:
        """Raise AssertionError if a group's state is inconsistent."""
        self._membership.check_invariants()
