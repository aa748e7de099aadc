"""The log of a coordinator, as the runtime sees it: one partition of an internal topic.

``internal_topic`` implements it over local files. A log in another cluster answers later, and only
then knows the offsets; nothing here says that they are known before.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple, Protocol, TypeAlias

from sharegroup.model.errors import MalformedMessage

KeyValue: TypeAlias = tuple[bytes, bytes | None]
"""A record to write; without a value, a tombstone."""


class LoggedRecord(NamedTuple):
    """A record of the log."""

    offset: int
    key: bytes
    value: bytes | None


class Ticket(Protocol):
    """Records on their way into the log."""

    async def durable(self) -> int:
        """Return when these records, and all submitted before them, are durable: the offset of the
        first. Of a ticket without records: an offset that lies above all records submitted before,
        and above none submitted later.

        Raises:
            KafkaStorageError: they never will be.
        """
        ...


class CoordinatorLog(Protocol):
    """One partition of an internal topic."""

    @property
    def name(self) -> str:
        """Topic and partition, for messages."""
        ...

    @property
    def exists(self) -> bool:
        """Whether the topic has been made."""
        ...

    @property
    def start_offset(self) -> int:
        """Where a replay begins."""
        ...

    @property
    def durable_end(self) -> int:
        """The end of what is durable, as far as that is known yet."""
        ...

    @property
    def record_count(self) -> int:
        """About how many records a replay passes over."""
        ...

    async def ensure(self) -> None:
        """Make the topic unless it is there; :meth:`submit` needs it.

        Raises:
            KafkaStorageError: the disk failed.
        """
        ...

    def submit(self, records: Sequence[KeyValue]) -> Ticket:
        """Write records, after all that were submitted before. When a ticket fails, so do all
        later ones until the next :meth:`replay`: no record may follow one that is missing.

        Raises:
            KafkaStorageError: nothing of this was written.
        """
        ...

    def replay(self) -> AsyncIterator[LoggedRecord]:
        """Every record in order, those on their way included, except what is damaged.

        Raises:
            KafkaStorageError: the log cannot be read, or holds what will never be durable.
        """
        ...

    async def delete_before(self, offset: int) -> int:
        """Delete the records below ``offset``, which are durable; the new start offset.

        Raises:
            KafkaStorageError: the disk failed.
        """
        ...

    def leave_out(self, offset: int, error: MalformedMessage) -> None:
        """Say that the record at ``offset`` makes no sense, and is left out like damage."""
        ...
