"""Which dead letters of a group are done: redriven, or purged.

The state is a set of offsets for each partition of the dead-letter topic, in chunks of CHUNK
offsets. Each chunk is a record of a compacted topic, with JSON in key and value::

    {"group": "billing", "topic": "dead", "id": "…", "partition": 0, "chunk": 2}
    {"done": [[20000, 23456], [23460, 23460]]}

A transaction that redrives letters writes the chunks that it changes, so both happen or neither.
"Done" includes the offsets that have no letter of the group: the ranges stay few.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple
from uuid import UUID

from sharegroup.cooperative.intervals import Interval, Intervals, holds, minus, normal, size, union

DONE_TOPIC: Final = "sharegroup.dead-letters.done"
"""One topic of a cluster, for all its groups. Committed offsets of a consumer group cannot be this
memory: they expire a week after the last commit, and a transaction commits one offset for each
partition, no ranges."""
CHUNK: Final = 10_000
"""Offsets in one chunk: in the worst case, where every other letter is done, 70 KB of JSON."""

Mark = tuple[bytes, bytes | None]
"""Key and value of a record of the state's topic; None: the chunk is not needed any more."""


class DoneOf(NamedTuple):
    """Whose letters are meant: a topic that is deleted and made anew has another id."""

    group: str
    topic: str
    topic_id: UUID


class DoneLetters:
    """See the module."""

    def __init__(self, of: DoneOf) -> None:
        self._of = of
        self._name = {"group": of.group, "topic": of.topic, "id": str(of.topic_id)}
        self._chunks: dict[tuple[int, int], Intervals] = {}

    def load(self, mark: Mark) -> None:
        """Take over a record of the state's topic; those of other groups and topics are passed
        over. Records must come in the order of the log.

        Raises:
            ValueError: the record is not one of ours.
        """
        key, value = mark
        try:
            name = json.loads(key)
            at = int(name.pop("partition")), int(name.pop("chunk"))
            if name != self._name:
                return
            if value is None:
                self._chunks.pop(at, None)
            else:
                self._chunks[at] = normal((int(a), int(b)) for a, b in json.loads(value)["done"])
        except (TypeError, KeyError, AttributeError, RecursionError) as error:
            raise ValueError(f"{key[:80]!r} marks no letters as done") from error

    def holds(self, partition: int, offset: int) -> bool:
        """Whether the letter at this offset is done."""
        done = self._chunks.get((partition, offset // CHUNK))
        return done is not None and holds(done, offset)

    def ranges(self, partition: int) -> Intervals:
        """All offsets of a partition that are done."""
        chunks = (done for (number, _), done in self._chunks.items() if number == partition)
        return normal(interval for done in chunks for interval in done)

    def first_open(self, partition: int, begin: int) -> int:
        """The first offset from ``begin`` on that is not done."""
        while True:
            done = self._chunks.get((partition, begin // CHUNK), ())
            last = next((b for a, b in done if a <= begin <= b), None)
            if last is None:
                return begin
            begin = last + 1

    def count_open(self, partition: int, begin: int, end: int) -> int:
        """How many offsets from ``begin`` to before ``end`` are not done."""
        return size(minus([(begin, end - 1)], self.ranges(partition))) if begin < end else 0

    def mark(self, partition: int, ranges: Iterable[Interval]) -> list[Mark]:
        """Count these offsets as done; the records to write."""
        changed: dict[int, list[Interval]] = {}
        for first, last in ranges:
            for chunk, piece in _pieces(first, last):
                changed.setdefault(chunk, []).append(piece)
        marks: list[Mark] = []
        for chunk, pieces in changed.items():
            at = (partition, chunk)
            done = self._chunks[at] = union(self._chunks.get(at, ()), normal(pieces))
            text = json.dumps({"done": done}, separators=(",", ":"))
            marks.append((self._key(at), text.encode()))
        return marks

    def forget_before(self, partition: int, offset: int) -> list[Mark]:
        """Forget the chunks that lie before ``offset`` as a whole, because the topic has deleted
        these letters; the records to write."""
        over = [at for at in self._chunks if at[0] == partition and (at[1] + 1) * CHUNK <= offset]
        for at in over:
            del self._chunks[at]
        return [(self._key(at), None) for at in over]

    def _key(self, at: tuple[int, int]) -> bytes:
        name = {**self._name, "partition": at[0], "chunk": at[1]}
        return json.dumps(name, separators=(",", ":")).encode()


def _pieces(first: int, last: int) -> Iterator[tuple[int, Interval]]:
    while first <= last:
        chunk = first // CHUNK
        end = min(last, (chunk + 1) * CHUNK - 1)
        yield chunk, (first, end)
        first = end + 1
