"""The records of letters without a whole copy, read from the topics that they are from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from sharegroup.client.admin.admin import Admin
from sharegroup.client.admin.descriptions import OffsetSpec
from sharegroup.client.consumer import Consumer
from sharegroup.client.core.dead_letter import DeadLetter
from sharegroup.client.log_reading import LogReading
from sharegroup.client.network.cluster import Cluster
from sharegroup.cooperative.intervals import Interval
from sharegroup.model.errors import UnknownTopicOrPartition
from sharegroup.model.ids import TopicPartition

GAP_MAX: Final = 1_000
"""So many records that nobody wants are read rather than skipped: a skip costs a request."""

LetterPlace = tuple[TopicPartition, int]
"""Where a letter is: its partition of the dead-letter topic, and its offset."""


class Originals:
    """See the module.

    Args:
        fetching: connections for fetches.
    """

    def __init__(self, admin: Admin, fetching: Cluster) -> None:
        self._admin = admin
        self._fetching = fetching

    async def of(self, letters: Iterable[DeadLetter]) -> dict[LetterPlace, DeadLetter]:
        """The letters with the key, value and headers of their records, by the letters' places.
        A letter is left out if its record is gone."""
        wanted: dict[tuple[TopicPartition, int], list[DeadLetter]] = {}
        for letter in letters:
            wanted.setdefault((letter.source, letter.offset), []).append(letter)
        if not wanted:
            return {}
        offsets: dict[TopicPartition, list[int]] = {}
        for source, offset in sorted(wanted):
            offsets.setdefault(source, []).append(offset)
        found = {}
        runs = {at: _runs(own) for at, own in (await self._present(offsets)).items()}
        async with Consumer[bytes, bytes](
            cluster=self._fetching, auto_offset_reset="none", isolation_level="read_uncommitted"
        ) as consumer:
            while runs:
                spans = {at: (own[0][0], own[0][1] + 1) for at, own in runs.items()}
                async for records in LogReading(consumer, spans, ()).consumed():
                    for one in records:
                        for letter in wanted.get((one.topic_partition, one.offset), ()):
                            place = (letter.place, letter.place_offset)
                            found[place] = letter.with_record(one)
                runs = {at: own[1:] for at, own in runs.items() if len(own) > 1}
        return found

    async def _present(
        self, offsets: dict[TopicPartition, list[int]]
    ) -> dict[TopicPartition, list[int]]:
        """The offsets that the partitions still have."""
        there = await self.partitions({at.topic for at in offsets})
        known = [at for at in offsets if at.partition < there.get(at.topic, 0)]
        begins = await self._admin.list_offsets(known, OffsetSpec.EARLIEST)
        ends = await self._admin.list_offsets(known, OffsetSpec.LATEST)
        found = {
            at: [one for one in offsets[at] if begins[at].offset <= one < ends[at].offset]
            for at in known
        }
        return {at: own for at, own in found.items() if own}

    async def partitions(self, topics: Iterable[str]) -> dict[str, int]:
        """The numbers of partitions of those topics that exist."""
        found = {}
        for topic in topics:
            try:
                [described] = (await self._admin.describe_topics(topic)).values()
            except UnknownTopicOrPartition:
                continue
            found[topic] = len(described.partitions)
        return found


def _runs(offsets: Sequence[int]) -> list[Interval]:
    """The ascending offsets as stretches to be read in one go."""
    runs = [(offsets[0], offsets[0])]
    for offset in offsets[1:]:
        if offset - runs[-1][1] <= GAP_MAX:
            runs[-1] = (runs[-1][0], offset)
        else:
            runs.append((offset, offset))
    return runs
