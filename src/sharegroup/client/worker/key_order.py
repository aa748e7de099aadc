"""Order per key in a worker (``share.ordering=key``): which record of a key may be handled.

The records of a key that the worker holds stand in line, in the order of the log. The first one is
handled, or rests after it failed; the others wait for its end. When it is released, the broker
takes back the later records of the line (``docs/keys.md``), so they leave the line without an
answer. So do the later records that a fetch has brought in the meantime.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sharegroup.client.core.record import delivery_of
from sharegroup.client.core.taken_back import TakenBack

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sharegroup.client.core.fetched import Acknowledged
    from sharegroup.client.core.record import Record
    from sharegroup.client.worker.work import Work
    from sharegroup.model.ids import TopicIdPartition

BEHIND_MAX: Final = 500
"""Nothing is fetched while so many records wait for an earlier one of their line."""

_Key = tuple["TopicIdPartition", bytes]


class Lines:
    """See the module. Records without a key have no line; without order per key, no record has."""

    def __init__(self, *, ordered: bool) -> None:
        self.ordered = ordered
        self.behind_count = 0
        """Records that are not the first of their line."""
        self._lines: dict[_Key, list[Work]] = {}
        self._taken_back = TakenBack()

    def is_stale(self, record: Record) -> bool:
        """Whether the broker has taken this record back, or will take it back: it was fetched
        before the release of an earlier record of its key took effect."""
        key = self._key(record)
        return key is not None and self._taken_back.is_stale(
            *key, record.offset, delivery_of(record).request
        )

    def add(self, work: Work) -> bool:
        """Put a record at the end of its line. Returns whether it is the first one. The caller must
        have removed the later records of the line before."""
        key = self._key(work.record)
        if key is None:
            return True
        line = self._lines.setdefault(key, [])
        line.append(work)
        self.behind_count += len(line) > 1
        return len(line) == 1

    def is_free(self, record: Record) -> bool:
        """Whether the worker holds no record of this record's line."""
        return self._key(record) not in self._lines

    def behind(self, record: Record) -> list[Work]:
        """The records of this record's line that come after it. The record itself need not be in
        the line."""
        key = self._key(record)
        line = [] if key is None else self._lines.get(key, [])
        return [one for one in line if one.record.offset > record.offset]

    def waiting(self) -> list[list[Work]]:
        """The records that are not the first of their line, line by line."""
        return [line[1:] for line in self._lines.values() if len(line) > 1]

    def remove(self, work: Work) -> Work | None:
        """Take a record out of its line. If it was the first one, returns the next one, which is
        the first now."""
        key = self._key(work.record)
        line = None if key is None else self._lines.get(key)
        if key is None or line is None or work not in line:
            return None
        was_first = line[0] is work
        line.remove(work)
        if line:
            self.behind_count -= 1
            return line[0] if was_first else None
        del self._lines[key]
        return None

    def released(self, record: Record) -> None:
        """The worker gives this record back."""
        key = self._key(record)
        if key is not None:
            self._taken_back.released(*key, record.offset)

    def answered(self, outcomes: Iterable[Acknowledged]) -> None:
        """The broker has answered these acknowledgements: releases among them have taken effect."""
        for outcome in outcomes:
            self._taken_back.answered(outcome)

    def _key(self, record: Record) -> _Key | None:
        if not self.ordered or record.key is None:
            return None
        return delivery_of(record).partition, record.key
