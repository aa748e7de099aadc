"""The dead letters of one share group, as they stand in its dead-letter topic."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Final, NamedTuple

from sharegroup.client.admin.admin import Admin
from sharegroup.client.admin.descriptions import OffsetSpec, TopicDescription
from sharegroup.client.clock import wall_ms
from sharegroup.client.consumer import Consumer
from sharegroup.client.core.dead_letter import DeadLetter, LetterChoice, LetterReader
from sharegroup.client.core.done_letters import DoneLetters, DoneOf
from sharegroup.client.core.record import ConsumerRecord
from sharegroup.client.dead_letters.done_topic import load_done
from sharegroup.client.dead_letters.originals import Originals
from sharegroup.client.log_reading import LogReading
from sharegroup.client.network.cluster import Cluster
from sharegroup.client.records.decode import not_collecting
from sharegroup.model.errors import ConfigError
from sharegroup.model.ids import TopicPartition

TOPIC_NAME: Final = "errors.deadletterqueue.topic.name"
ISOLATION: Final = "share.isolation.level"
FETCH_BYTES: Final = 8 * 1024 * 1024
RECORDS_AT_ONCE: Final = 10_000
BARE_AT_ONCE: Final = 500
"""The same if there are letters without whole copies: their records may be large."""


Passed = Callable[[DeadLetter], object]
_Read = tuple[ConsumerRecord[bytes, bytes], DeadLetter | None]


class LetterRecord(NamedTuple):
    """A record of the dead-letter topic that is not done.

    Attributes:
        letter: None: it is no letter of the group.
        wanted: it is a letter that ``where`` chooses.
    """

    record: ConsumerRecord[bytes, bytes]
    letter: DeadLetter | None
    wanted: bool


class Span(NamedTuple):
    """What is to be read of a partition: offsets from ``first`` to before ``end``; ``begin`` is the
    first that the topic still has."""

    begin: int
    first: int
    end: int


class DeadLetterQueue:
    """Made by :func:`dead_letter_queue`.

    Args:
        like: the cluster, for further connections.
        fetching: connections for fetches, which would keep other requests waiting.
    """

    def __init__(
        self, like: Cluster, admin: Admin, fetching: Cluster, group: str, topic: TopicDescription
    ) -> None:
        self.group = group
        self.topic = topic.name
        self.admin = admin
        self.done_of = DoneOf(group, topic.name, topic.topic_id)
        self.originals = Originals(admin, fetching)
        self._reader = LetterReader(group)
        self._like = like
        self._fetching = fetching
        self._wheres = [TopicPartition(topic.name, one.partition) for one in topic.partitions]

    @property
    def transactional_id(self) -> str:
        """Whoever handles letters of the group fences those who did before."""
        return f"{self.group}.dead-letters.{self.topic}"

    def own_cluster(self) -> Cluster:
        """New connections to the same brokers; close them."""
        return _like(self._like)

    async def reads_uncommitted(self) -> bool:
        """Whether the group sees records of transactions that are then aborted."""
        setting = (await self.admin.describe_configs("group", self.group)).get(ISOLATION)
        return setting is None or setting.value != "read_committed"

    async def done(self) -> DoneLetters:
        """Which letters are done."""
        found = DoneLetters(self.done_of)
        await load_done(self.admin, self._fetching, found)
        return found

    async def spans(self, done: DoneLetters) -> dict[TopicPartition, Span]:
        """What the topic has now that may not be done. Letters of open transactions are not meant:
        they come with a later call."""
        begins = await self.admin.list_offsets(self._wheres, OffsetSpec.EARLIEST)
        ends = await self.admin.list_offsets(self._wheres, OffsetSpec.LATEST, committed=True)
        return {
            where: Span(begin, done.first_open(where.partition, begin), ends[where].offset)
            for where in self._wheres
            for begin in [begins[where].offset]
        }

    async def records(
        self,
        spans: dict[TopicPartition, Span],
        done: DoneLetters,
        where: LetterChoice | None,
        passed: Passed | None = None,
    ) -> AsyncGenerator[Sequence[LetterRecord], None]:
        """The records that are not done, in steps; in each partition in the order of the log.

        Args:
            passed: called with each letter that is done.
        """
        wanted = {at: (span.first, span.end) for at, span in spans.items()}
        async with Consumer[bytes, bytes](
            cluster=self._fetching,
            auto_offset_reset="none",
            isolation_level="read_committed",
            fetch_max_bytes=FETCH_BYTES,
            max_partition_fetch_bytes=FETCH_BYTES,
            max_poll_records=RECORDS_AT_ONCE,
        ) as consumer:
            async for records in LogReading(consumer, wanted, ()).consumed():
                if passed is not None:
                    self._pass(records, done, passed)
                read = self._read(records, done)
                bare = any(letter is not None and not letter.is_whole for _, letter in read)
                size = BARE_AT_ONCE if bare else RECORDS_AT_ONCE
                for at in range(0, len(read), size):
                    yield await self._chosen(read[at : at + size], where)

    async def letters(
        self, where: LetterChoice | None = None
    ) -> AsyncGenerator[Sequence[LetterRecord], None]:
        """The letters that are not done and that ``where`` chooses, in steps."""
        done = await self.done()
        async with aclosing(self.records(await self.spans(done), done, where)) as steps:
            async for some in steps:
                if chosen := [one for one in some if one.wanted]:
                    yield chosen

    async def letter(self, partition: int, offset: int) -> DeadLetter | None:
        """The letter at this place, also if it is done; None: there is none of the group."""
        at = TopicPartition(self.topic, partition)
        if at not in self._wheres:
            return None
        begin = (await self.admin.list_offsets([at], OffsetSpec.EARLIEST))[at].offset
        end = (await self.admin.list_offsets([at], OffsetSpec.LATEST, committed=True))[at].offset
        if not begin <= offset < end:
            return None
        spans = {at: Span(begin, offset, offset + 1)}
        async with aclosing(self.records(spans, DoneLetters(self.done_of), None)) as steps:
            async for some in steps:
                return some[0].letter
        return None

    def _read(
        self, records: Sequence[ConsumerRecord[bytes, bytes]], done: DoneLetters
    ) -> list[_Read]:
        """The records that are not done, with their letters."""
        letter_in, holds = self._reader.letter_in, done.holds
        with not_collecting():
            return [
                (one, letter_in(one))
                for one in records
                if not holds(one.topic_partition[1], one.offset)
            ]

    def _pass(
        self, records: Sequence[ConsumerRecord[bytes, bytes]], done: DoneLetters, passed: Passed
    ) -> None:
        """Tell the letters that are done."""
        for one in records:
            if done.holds(one.topic_partition[1], one.offset):
                letter = self._reader.letter_in(one)
                if letter is not None:
                    passed(letter)

    async def _chosen(
        self, read: Sequence[_Read], where: LetterChoice | None
    ) -> list[LetterRecord]:
        if where is None:
            return [LetterRecord(one, letter, letter is not None) for one, letter in read]
        if where.needs_record:
            bare = [each for _, each in read if each is not None and not each.is_whole]
            whole = await self.originals.of(bare)
            read = [
                (one, letter and whole.get((letter.place, letter.place_offset), letter))
                for one, letter in read
            ]
        now_ms = wall_ms()
        return [
            LetterRecord(one, letter, letter is not None and where.chooses(letter, now_ms))
            for one, letter in read
        ]


@asynccontextmanager
async def dead_letter_queue(
    like: Cluster, group: str, topic: str | None = None
) -> AsyncIterator[DeadLetterQueue]:
    """The dead letters of a group.

    Args:
        like: the cluster; other connections are used, to the same brokers and with its settings.
        topic: the dead-letter topic; None: the one that the group's config names.

    Raises:
        ConfigError: the group names no dead-letter topic.
        UnknownTopicOrPartition: there is no such topic.
    """
    async with _like(like) as asking, _like(like) as fetching:
        admin = Admin(cluster=asking, request_timeout_ms=like.request_timeout_ms)
        if topic is None:
            setting = (await admin.describe_configs("group", group)).get(TOPIC_NAME)
            topic = None if setting is None else setting.value
        if not topic:
            raise ConfigError(
                f"group {group!r} names no dead-letter topic: say which topic has its letters "
                f"(--dead-letters TOPIC), or set the group's {TOPIC_NAME}"
            )
        [described] = (await admin.describe_topics(topic)).values()
        yield DeadLetterQueue(like, admin, fetching, group, described)


def _like(cluster: Cluster) -> Cluster:
    return Cluster(
        [str(address) for address in cluster.bootstrap],
        client_id=cluster.client_id,
        request_timeout_ms=cluster.request_timeout_ms,
        allow_auto_create_topics=False,
        security=cluster.security,
        jitter=cluster.random,
    )
