"""Which records may be gone from a log: they were deleted, were damaged on the disk, or are in a
compacted topic and a later record of their key is there."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from sys import maxsize

from sharegroup.check.spans import Spans


class Gone:
    """The records of one partition that may be gone. Nobody has to get them."""

    def __init__(self) -> None:
        self._since_ms: Spans[float | None] = Spans(None)
        """Since when nobody gets a record; infinity: it may be gone, or not; None: it is there."""
        self.any = False
        self.whole = False
        """The topic is deleted."""

    def add(self, first: int, last: int, since_ms: float = inf) -> None:
        """These may be gone; since ``since_ms`` they are, for certain.

        Args:
            last: -1: everything, with the topic.
        """
        self.any = True
        self.whole |= last < 0
        last = maxsize - 1 if last < 0 else last
        self._since_ms.change(
            first, last, lambda old: since_ms if old is None else min(old, since_ms)
        )

    def may_be(self, offset: int) -> bool:
        """Whether this record may be gone."""
        return self.any and next(self._since_ms.items(offset, offset))[2] is not None

    def there(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        """The runs among these that are there."""
        for begin, end, since_ms in self._since_ms.items(first, last):
            if since_ms is None:
                yield begin, end

    def before(self, first: int, last: int, asked_ms: float) -> Iterator[tuple[int, int]]:
        """The runs among these that were gone by ``asked_ms``, for certain."""
        for begin, end, since_ms in self._since_ms.items(first, last):
            if since_ms is not None and since_ms < asked_ms:
                yield begin, end


class Compaction:
    """The keys of compacted topics."""

    def __init__(self) -> None:
        self.topics: set[str] = set()
        self._newest: dict[tuple[str, int, str], int] = {}
        self._offsets: dict[tuple[str, str], list[tuple[int, int]]] = {}
        """Topic and key → partition and offset of its records."""
        self._unsure: set[tuple[str, str]] = set()
        """Topics and keys of which a record may be anywhere."""

    def written(self, topic: str, partition: int, offset: int, key: str) -> list[tuple[int, int]]:
        """A record is in the log. Returns the places (partition, offset) of those that may be gone
        by it."""
        if topic not in self.topics:
            return []
        self._offsets.setdefault((topic, key), []).append((partition, offset))
        if (topic, key) in self._unsure:
            return [(partition, offset)]
        newest = self._newest.setdefault((topic, partition, key), offset)
        self._newest[topic, partition, key] = max(newest, offset)
        return [(partition, min(newest, offset))] if newest != offset else []

    def unknown(self, topic: str, key: str) -> list[tuple[int, int]]:
        """A record may be in the log, anywhere. Returns the places that may be gone by it."""
        if topic not in self.topics:
            return []
        self._unsure.add((topic, key))
        return self._offsets.get((topic, key), [])
