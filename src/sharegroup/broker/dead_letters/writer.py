"""Writes the dead letters of this broker's share partitions, and retries until they are durable.

One task for each share partition with dead records writes their letters in the order of their
offsets, as batches. Letters of one partition of a topic go to one partition of the dead-letter
topic, as in Kafka: its number is that of the source modulo the number of partitions.

A topic that cannot take a letter delays that group's letters only: the records were archived when
they failed, so nothing is held back. Nothing is given up either.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, NamedTuple

from sharegroup.broker.configs.live_configs import LiveConfigs
from sharegroup.broker.coordination.share_state_log import ShareStateLog
from sharegroup.broker.dead_letters.goal import COPY_RECORD, Goal, goal_of
from sharegroup.broker.dead_letters.letter import letter_of
from sharegroup.broker.dead_letters.originals import Originals, Wish
from sharegroup.broker.delivery.unpacking import Unpacking
from sharegroup.broker.event_counters import Counters
from sharegroup.broker.topics import Topics
from sharegroup.model.dead_records import DeadKey, DeadRecords
from sharegroup.model.environment import Clock
from sharegroup.model.errors import KafkaError, MessageTooLarge, NotCoordinator, UnknownTopicId
from sharegroup.model.ids import SharePartitionKey, TopicIdPartition
from sharegroup.wire.batch import HEADER_BYTES
from sharegroup.wire.record import RecordContent, record_batch

logger = logging.getLogger("sharegroup.broker")

RETRY_MIN_S: Final = 0.1
RETRY_MAX_S: Final = 5.0
"""Between two tries at most. Kafka waits up to 30 s, but who has just made the missing topic
watches."""
LETTERS_MAX: Final = 1_000
"""Letters in one batch, which takes some 15 ms to make."""
WRITERS_MAX: Final = 8
"""Share partitions that write at the same moment."""
CLOSE_S: Final = 2.0
"""How long a closing broker waits for letters that are being written: otherwise they would be
written again after the start."""


class _Round(NamedTuple):
    """The letters of one batch, and what of the dead records is left after it."""

    letters: list[RecordContent]
    first: tuple[DeadRecords, int]
    """The dead records and the offset of the first letter."""
    left: dict[DeadKey, Sequence[DeadRecords]]


class _Apart:
    """Dead records of one share partition, each alone, whose letter is too large for the topic."""

    def __init__(self) -> None:
        self.waiting: set[DeadKey] = set()
        """Those that are not tried until the next pause is over."""
        self.logged: set[DeadKey] = set()


class DeadLetterWriter:
    """See the module.

    Args:
        spawn: runs a coroutine in the background and reports its failure.
    """

    def __init__(
        self,
        clock: Clock,
        topics: Topics,
        configs: LiveConfigs,
        state: ShareStateLog,
        unpacking: Unpacking,
        counters: Counters,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self.buried: Callable[[SharePartitionKey], None] = lambda _: None
        """Called when letters of a share partition are written, and their records forgotten."""
        self._clock = clock
        self._topics = topics
        self._configs = configs
        self._state = state
        self._unpacking = unpacking
        self._counters = counters
        self._spawn = spawn
        self._working: set[SharePartitionKey] = set()
        self._turns = asyncio.Semaphore(WRITERS_MAX)
        self._closing = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._said: dict[str, str] = {}
        """Group → the trouble that was logged, until a letter of the group is written."""

    async def resume(self) -> None:
        """Write the letters that an earlier run has left.

        Raises:
            KafkaStorageError: the state cannot be read.
        """
        for key in await self._state.keys_with_dead():
            self.write_letters(key)

    def write_letters(self, key: SharePartitionKey) -> None:
        """Write the letters of a share partition in the background. Call it when dead records have
        become durable."""
        if key in self._working or self._closing.is_set():
            return
        self._working.add(key)
        self._idle.clear()
        self._spawn(self._work(key))

    async def close(self) -> None:
        """Start no more batches, and wait for those that are being written."""
        self._closing.set()
        try:
            async with asyncio.timeout(CLOSE_S):
                await self._idle.wait()
        except TimeoutError:
            logger.warning(
                "dead letters of %d share partitions were being written at the stop; some may be "
                "written twice",
                len(self._working),
            )

    # ---------------------------------------------------------------------------------------

    async def _work(self, key: SharePartitionKey) -> None:
        try:
            await self._write_all(key)
        finally:
            self._working.discard(key)
            if not self._working:
                self._idle.set()

    async def _write_all(self, key: SharePartitionKey) -> None:
        """Write until no dead record of ``key`` is left, or the broker closes."""
        wait_s = RETRY_MIN_S
        apart = _Apart()
        dead: Sequence[DeadRecords] = ()
        while not self._closing.is_set():
            trouble: KafkaError | None = None
            try:
                dead = await self._state.dead(key)
                if not dead:
                    return
                apart.logged.intersection_update(one.key for one in dead)
                ready = [one for one in dead if one.key not in apart.waiting]
                if ready:
                    async with self._turns:
                        if not await self._write_some(key, ready, apart):
                            continue
                    wait_s = RETRY_MIN_S
                    continue
            except NotCoordinator:
                return  # another node has the state, and writes the letters
            except KafkaError as error:  # of the topic, or of the state itself
                trouble = error
            if trouble is not None and dead:
                self._say(key.group_id, sum(one.size for one in dead), trouble)
            apart.waiting.clear()  # after the pause they are tried again
            await self._pause(wait_s)
            wait_s = min(2 * wait_s, RETRY_MAX_S)

    async def _pause(self, seconds: float) -> None:
        """Wait, but not longer than the broker is open."""
        try:
            async with asyncio.timeout(seconds):
                await self._closing.wait()
        except TimeoutError:
            return

    async def _write_some(
        self, key: SharePartitionKey, dead: Sequence[DeadRecords], apart: _Apart
    ) -> bool:
        """Write one batch of letters, and forget their records. Returns False if there was no
        letter to write.

        Raises:
            KafkaError: no letter was written, or it is not known whether they were.
        """
        goal = await goal_of(key.group_id, self._configs, self._topics)
        batch = await self._next_round(key, dead, goal)
        if batch.letters:
            try:
                await self._append(key, goal, batch.letters)
            except MessageTooLarge:
                if len(batch.letters) > 1:
                    raise  # the topic's limit was lowered meanwhile: it is asked again
                await self._set_apart(key, *batch.first, goal, apart)
                return False
            self._wrote(key.group_id, len(batch.letters))
        await self._state.bury(key, batch.left)
        self.buried(key)
        return bool(batch.letters)

    async def _next_round(
        self, key: SharePartitionKey, dead: Sequence[DeadRecords], goal: Goal
    ) -> _Round:
        """The letters that fit into the next batch, at least one unless no record is left."""
        name = self._topics.name_of(key.topic_id)
        originals = self._originals(key, goal)
        letters: list[RecordContent] = []
        first = (dead[0], dead[0].first)
        left: dict[DeadKey, Sequence[DeadRecords]] = {}
        size = HEADER_BYTES
        for one in dead:
            offset = await _next(originals, one, one.first)
            while offset is not None:
                original = None if originals is None else await originals.find(offset)
                letter = letter_of(
                    name or str(key.topic_id), key.partition, key.group_id, offset, one, original
                )
                size += letter.size_max
                if letters and (size > goal.batch_bytes_max or len(letters) == LETTERS_MAX):
                    if offset > one.first:
                        left[one.key] = [one._replace(first=offset)]
                    return _Round(letters, first, left)
                if not letters:
                    first = (one, offset)
                letters.append(letter)
                offset = await _next(originals, one, offset + 1)
            left[one.key] = ()
        return _Round(letters, first, left)

    def _originals(self, key: SharePartitionKey, goal: Goal) -> Originals | None:
        """None: the topic is gone."""
        try:
            log = self._topics.log_by_id(TopicIdPartition(key.topic_id, key.partition))
        except UnknownTopicId:
            return None
        return Originals(log, self._unpacking, Wish(goal.copies, goal.committed))

    async def _append(
        self, key: SharePartitionKey, goal: Goal, letters: Sequence[RecordContent]
    ) -> None:
        """Append the letters as one batch; returns when they are durable."""
        log = self._topics.log(goal.topic, key.partition % goal.partitions)
        batch = record_batch(letters, self._clock.wall_ms())
        how = log.recompression
        if how is not None:
            batch = await self._unpacking.walked(batch, how, log.record_bytes_max)
        appended = await log.append(batch)
        await log.wait_durable(appended.last_offset + 1)

    async def _set_apart(
        self, key: SharePartitionKey, dead: DeadRecords, offset: int, goal: Goal, apart: _Apart
    ) -> None:
        """Let a record whose letter is too large wait by itself, not in the way of the others."""
        self._counters.add("dead_letter_failures", key.group_id)
        alone = dead._replace(first=offset, last=offset)
        if dead.size > 1:
            parts = (
                dead._replace(last=offset - 1),
                alone,
                dead._replace(first=offset + 1),
            )
            await self._state.bury(key, {dead.key: [one for one in parts if one.size > 0]})
        apart.waiting.add(alone.key)
        if alone.key not in apart.logged:
            apart.logged.add(alone.key)
            logger.warning(
                "the dead letter of group %s for offset %d of partition %d of topic %s is too "
                "large for %s and waits: raise the max.message.bytes of %s, or set the group's %s "
                "to false",
                key.group_id,
                offset,
                key.partition,
                self._topics.name_of(key.topic_id) or key.topic_id,
                goal.topic,
                goal.topic,
                COPY_RECORD,
            )

    def _wrote(self, group_id: str, letters: int) -> None:
        self._counters.add("dead_letters", group_id, letters)
        self._counters.add("dead_letter_writes", group_id)
        if self._said.pop(group_id, None) is not None:
            logger.info("dead letters of group %s are written again", group_id)

    def _say(self, group_id: str, waiting: int, trouble: KafkaError) -> None:
        """Count a failure, and log it if it is a new one."""
        self._counters.add("dead_letter_failures", group_id)
        text = trouble.message
        if self._said.get(group_id) != text:
            self._said[group_id] = text
            logger.warning(
                "dead letters of group %s cannot be written, %d records wait and are not lost: %s",
                group_id,
                waiting,
                text,
            )


async def _next(originals: Originals | None, dead: DeadRecords, offset: int) -> int | None:
    """The first of the ``dead`` records from ``offset`` on. Of offsets without a record nothing has
    failed: what an operator gives up, or a member rejects, may have some."""
    if offset > dead.last:
        return None
    if originals is None:
        return offset
    return await originals.first_in(offset, dead.last, delivered=dead.delivery_count > 0)
