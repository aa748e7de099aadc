"""How many dead letters of each queue stand in its dead-letter topic: those that were neither
redriven nor purged.

No letter is read for it: what a look costs must not grow with them. Offsets are counted, from the
topic's first to its end, without those that are done. So the letters of several queues that name
one topic are counted together, and each of these queues has at most so many.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection
from contextlib import suppress
from typing import Any, NamedTuple

from sharegroup.client.admin.admin import Admin
from sharegroup.client.admin.descriptions import OffsetSpec, TopicDescription
from sharegroup.client.core.done_letters import DONE_TOPIC, DoneLetters, DoneOf
from sharegroup.client.dead_letters.done_topic import load_done
from sharegroup.client.network.cluster import Cluster
from sharegroup.console.limits import LOOK_LETTERS
from sharegroup.model.errors import KafkaError, TopicAuthorizationFailed, UnknownTopicOrPartition
from sharegroup.model.ids import TopicPartition

Json = dict[str, Any]
_DONE: TopicPartition = TopicPartition(DONE_TOPIC, 0)


class _Span(NamedTuple):
    """What a topic has of one partition: offsets from ``begin`` to before ``end``."""

    partition: int
    begin: int
    end: int


class LetterCounts:
    """See the module. Of very many queues each look counts the letters of some, in turn.

    Args:
        reading: connections for fetches.
    """

    def __init__(self, admin: Admin, reading: Cluster) -> None:
        self._admin = admin
        self._reading = reading
        self._topics: dict[str, str] = {}
        self._counts: dict[str, int] = {}
        self._done: dict[DoneOf, DoneLetters] = {}
        self._done_end = -1
        self._turn = asyncio.Lock()  # two pages may look at a time

    def named(self, group: str, topic: str | None) -> None:
        """The queue names this topic for its dead letters; None: it names none."""
        if topic:
            if self._topics.get(group) != topic:
                self._counts.pop(group, None)
                self._topics[group] = topic
        else:
            self.forget(group)

    def forget(self, group: str) -> None:
        """The queue is gone, or nothing is known of it any more."""
        self._topics.pop(group, None)
        self._counts.pop(group, None)

    def of(self, group: str) -> Json:
        """``letters``: None if they are not known, or the queue names no topic for them;
        ``letters_shared``: other queues name the topic, too."""
        topic = self._topics.get(group)
        shared = topic is not None and Counter(self._topics.values())[topic] > 1
        return {"letters": self._counts.get(group), "letters_shared": shared}

    def acted(self) -> None:
        """Letters were redriven or purged here: the next look waits for the end of that
        transaction. A coordinator confirms a commit before its markers are written."""
        self._done_end = -1

    async def look(self, there: Collection[str], groups: Collection[str] | None = None) -> None:
        """Count again.

        Args:
            there: all topics.
            groups: count the letters of these queues; None: of those whose turn it is.
        """
        async with self._turn:
            await self._look(there, groups)

    async def _look(self, there: Collection[str], groups: Collection[str] | None) -> None:
        wanted = [*(self._topics if groups is None else self._topics.keys() & groups)]
        turn = wanted[:LOOK_LETTERS]
        for group in turn:  # the others come first in the next look
            self._topics[group] = self._topics.pop(group)
        known = {group: self._topics[group] for group in turn if self._topics[group] in there}
        found: dict[str, int] = {}
        with suppress(TopicAuthorizationFailed):  # without knowing what is done: not known
            any_done = DONE_TOPIC in there or (bool(known) and await self._hidden_done())
            found = await self._counted_as_far_as_may_be(known, any_done)
        for group in turn:
            self._counts.pop(group, None)
        self._counts |= {group: count for group, count in found.items() if group in self._topics}

    async def _hidden_done(self) -> bool:
        """Whether there is a topic of what is done, although no list of topics has had it. Raises
        TopicAuthorizationFailed: the viewer may not know."""
        try:
            await self._admin.describe_topics(DONE_TOPIC)
        except UnknownTopicOrPartition:
            return False
        return True  # it was made just now

    async def _counted_as_far_as_may_be(
        self, known: dict[str, str], any_done: bool
    ) -> dict[str, int]:
        """Without the topics that are gone meanwhile, or that may not be seen: one of them must not
        hide the others."""
        try:
            return await self._counted(known, any_done) if known else {}
        except KafkaError:
            found: dict[str, int] = {}
            for one in known.items() if len(known) > 1 else ():
                found |= await self._counted_as_far_as_may_be(dict([one]), any_done)
            return found

    async def _counted(self, known: dict[str, str], any_done: bool) -> dict[str, int]:
        topics = await self._admin.describe_topics(*sorted(set(known.values())))
        spans = await self._spans([*topics.values()])
        ofs = {group: DoneOf(group, name, topics[name].topic_id) for group, name in known.items()}
        await self._load([*ofs.values()], any_done)
        return {
            group: sum(self._done[of].count_open(*span) for span in spans[of.topic])
            for group, of in ofs.items()
        }

    async def _spans(self, topics: list[TopicDescription]) -> dict[str, list[_Span]]:
        places = [TopicPartition(one.name, p.partition) for one in topics for p in one.partitions]
        begins = await self._admin.list_offsets(places, OffsetSpec.EARLIEST)
        ends = await self._admin.list_offsets(places, OffsetSpec.LATEST, committed=True)
        found: dict[str, list[_Span]] = {one.name: [] for one in topics}
        for at in places:
            found[at.topic].append(_Span(at.partition, begins[at].offset, ends[at].offset))
        return found

    async def _load(self, ofs: list[DoneOf], any_done: bool) -> None:
        """Read which letters are done, if that may have changed."""
        end = 0
        if any_done:
            end = (await self._admin.list_offsets([_DONE], committed=True))[_DONE].offset
        if end == self._done_end:
            news = [of for of in ofs if of not in self._done]
        else:
            self._done, news = {}, ofs
        if news:
            found = {of: DoneLetters(of) for of in news}
            if any_done:
                await load_done(self._admin, self._reading, *found.values())
            self._done |= found
            self._done_end = end
