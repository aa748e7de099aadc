"""Order per key in a worker (``share.ordering=key``): which record of a key may be handled.

The records of a key that the worker holds stand in line, in the order of the log. The first one is
handled, or rests after it failed; the others wait for its end. When it is released, the broker
takes back those behind it (``docs/keys.md``), so they leave the line without an answer, and so do
those that a fetch has brought in the meantime.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sharegroup.client.core.taken_back import TakenBack

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sharegroup.client.records.record import Record
    from sharegroup.client.share.node_session import Acknowledged
    from sharegroup.client.worker.slots import Work
    from sharegroup.model.ids import TopicIdPartition

BEHIND_MAX: Final = 500
"""Nothing is fetched while so many records stand behind others."""

_Key = tuple["TopicIdPartition", bytes]


class Lines:
    """See the module. Records without a key, and all if there is no order, have no line."""

    def __init__(self, *, ordered: bool) -> None:
        self.ordered = ordered
        self.behind_count = 0
        """Records that are not the first of their line."""
        self._lines: dict[_Key, list[Work]] = {}
        self._taken_back = TakenBack()

    def is_stale(self, record: Record) -> bool:
        """Whether the broker has taken this record back, or will: it was fetched before the release
        of an earlier one of its key took effect."""
        key = self._key(record)
        return key is not None and self._taken_back.is_stale(
            *key, record.offset, record._delivery.request
        )

    def add(self, work: Work) -> bool:
        """Join the line; whether it is the first. The caller has lost what stands behind it."""
        key = self._key(work.record)
        if key is None:
            return True
        line = self._lines.setdefault(key, [])
        line.append(work)
        self.behind_count += len(line) > 1
        return len(line) == 1

    def behind(self, record: Record) -> list[Work]:
        """What stands in line behind this record, which need not be there."""
        key = self._key(record)
        line = [] if key is None else self._lines.get(key, [])
        return [one for one in line if one.record.offset > record.offset]

    def waiting(self) -> list[list[Work]]:
        """What is not the first, line by line."""
        return [line[1:] for line in self._lines.values() if len(line) > 1]

    def remove(self, work: Work) -> Work | None:
        """Leave the line; the one that is the first now, if this one was it."""
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
        """This record is given back."""
        key = self._key(record)
        if key is not None:
            self._taken_back.released(*key, record.offset)

    def answered(self, outcomes: Iterable[Acknowledged]) -> None:
        """What the broker has answered to: releases among it have taken effect."""
        for outcome in outcomes:
            self._taken_back.answered(outcome)

    def _key(self, record: Record) -> _Key | None:
        if not self.ordered or record.key is None:
            return None
        return record._delivery.partition, record.key
