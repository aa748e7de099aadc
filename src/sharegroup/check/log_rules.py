"""The rules of logs: an offset names one record for ever, and a record is written once (S12)."""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left
from collections.abc import Collection, Iterator
from hashlib import blake2b
from itertools import pairwise
from math import inf
from sys import maxsize
from typing import Final

from sharegroup.check.states import Found

_WRITTEN: Final = 1
_ABORTED: Final = 2
_NONE: Final = 0
"""In place of a fingerprint: nothing is known of this offset."""


_RUNS: Final = re.compile(bytes((_WRITTEN,)) + b"+")


class _Log:
    """One partition. Histories are long, so each offset has a fingerprint of its record, not its
    id: 64 bits, of which two of ten million records share one in 370,000 histories."""

    def __init__(self) -> None:
        self.records = array("Q")
        self.known = bytearray()
        """What a producer was told of the record at an offset: nothing (0), _WRITTEN, _ABORTED."""
        self.tops = array("q")
        self.tops_ms = array("d")
        """Offsets, ascending, and when a producer was told of each: then all before it were in the
        log as well."""

    def reach(self, offset: int) -> None:
        """Have room for this offset."""
        missing = offset + 1 - len(self.records)
        if missing > 0:
            self.records.frombytes(bytes(missing * self.records.itemsize))
            self.known.extend(bytes(missing))


class LogRules:
    """What was written, and what was read where."""

    def __init__(self) -> None:
        self._logs: dict[tuple[str, int], _Log] = {}

    def written(
        self,
        topic: str,
        partition: int,
        offset: int,
        record: str,
        now_ms: float,
        *,
        aborted: bool = False,
    ) -> list[Found]:
        """A producer was told that its record is at this offset; or was, in an aborted
        transaction."""
        found = self.read(topic, partition, offset, record)
        log = self._logs[topic, partition]
        log.known[offset] = _ABORTED if aborted else _WRITTEN
        if not log.tops or offset > log.tops[-1]:
            log.tops.append(offset)
            log.tops_ms.append(now_ms)
        return found

    def written_ms(self, topic: str, partition: int, offset: int) -> float:
        """When the record at this offset was in the log for certain; infinity: nobody was told."""
        log = self._logs.get((topic, partition))
        at = bisect_left(log.tops, offset) if log is not None else 0
        return log.tops_ms[at] if log is not None and at < len(log.tops) else inf

    def known(
        self, topic: str, partition: int, first: int = 0, last: int = maxsize - 1
    ) -> list[tuple[int, int]]:
        """The runs among these offsets where a producer knows its records to be, in no aborted
        transaction."""
        log = self._logs.get((topic, partition))
        if log is None:
            return []
        return [(run.start(), run.end() - 1) for run in _RUNS.finditer(log.known, first, last + 1)]

    def aborted(self, topic: str, partition: int, first: int, last: int) -> list[Found]:
        """Records of aborted transactions among these, which nobody may get."""
        log = self._logs.get((topic, partition))
        if log is None:
            return []
        at = log.known.find(_ABORTED, first, last + 1)
        return [] if at < 0 else [Found("S11", at, at, "its transaction was aborted")]

    def read(self, topic: str, partition: int, offset: int, record: str) -> list[Found]:
        """A consumer has got a record from this offset."""
        log = self._logs.setdefault((topic, partition), _Log())
        log.reach(offset)
        seen, now = log.records[offset], _fingerprint(record)
        if seen not in (_NONE, now):
            return [Found("S12", offset, offset, f"is {record}, and was another record before")]
        log.records[offset] = now
        return []

    def twice(self) -> Iterator[tuple[str, int, Found]]:
        """Records that stand at two places of a topic: topic, partition, and the second place."""
        by_topic: dict[str, list[tuple[int, _Log]]] = {}
        for (topic, partition), log in self._logs.items():
            by_topic.setdefault(topic, []).append((partition, log))
        for topic, logs in by_topic.items():
            everything = sorted(one for _, log in logs for one in log.records if one != _NONE)
            again = {a for a, b in pairwise(everything) if a == b}
            if not again:
                continue
            first: dict[int, str] = {}
            for partition, log in logs:
                for offset, one in enumerate(log.records):
                    if one in again:
                        here = f"{topic}:{partition}@{offset}"
                        there = first.setdefault(one, here)
                        if there != here:
                            text = f"the record of {there} stands here, too"
                            yield topic, partition, Found("S12", offset, offset, text)

    def partitions(self, topics: Collection[str]) -> list[tuple[str, int]]:
        """The partitions of these topics of which anything is known."""
        return [one for one in self._logs if one[0] in topics]


def _fingerprint(record: str) -> int:
    return int.from_bytes(blake2b(record.encode(), digest_size=8).digest()) or 1
