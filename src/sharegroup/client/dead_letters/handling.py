"""Redrives or purges the dead letters of a group.

The records and the marks that say which letters are done are written in one transaction. So a
letter is redriven once, whatever is killed when: an open transaction is aborted by the next run,
which has the same transactional id, and reads the marks after that.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Final

from sharegroup.client.core.dead_letter import (
    COPIES_MAX,
    DeadLetter,
    LetterChoice,
    LettersHandled,
    LettersProgress,
    redriven_headers,
)
from sharegroup.client.core.done_letters import DONE_TOPIC, DoneLetters, Mark
from sharegroup.client.core.pace import Pace
from sharegroup.client.dead_letters.done_topic import create_done_topic
from sharegroup.client.dead_letters.queue import DeadLetterQueue, LetterRecord, Span
from sharegroup.client.producer.delivery import Delivery
from sharegroup.client.producer.producer import Producer
from sharegroup.cooperative.intervals import Interval, minus
from sharegroup.model import errors
from sharegroup.model.ids import TopicPartition

log = logging.getLogger("sharegroup.client")

LETTERS_MAX: Final = 10_000
"""Letters in one transaction."""
LETTER_BYTES_MAX: Final = 32 * 1024 * 1024
"""A transaction has one letter more at most when they have so many bytes."""
FAILURES_MAX: Final = 100_000
"""Failures that are remembered: a twin stands some thousand letters behind the first."""
TWINS_WITHIN: Final = 20_000
"""So many offsets before the first letter to handle are read, for the failures of letters that were
done by an earlier call: a broker has 8,000 letters under way at most when it is killed."""
BATCHES_PER_S: Final = 4
"""Transactions in a second, at most, with a rate."""
BATCH_BYTES: Final = 128 * 1024
TRANSACTION_MS: Final = 60_000
CANCELLED_S: Final = 0.5
"""How long a cancelled call waits for a broker that does not answer."""
RECORD_BYTES_MAX: Final = 64 * 1024 * 1024
"""The largest record that can be sent: the topic it is from may allow large ones."""

Told = Callable[[LettersProgress], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Handling:
    """What to do with letters.

    Attributes:
        redrive: send the records again; otherwise letters are marked as done only.
        to: the topic to send to; None: the topic and partition that each record is from.
        where: which letters; None: all.
        rate: letters in a second, at most; None: as many as possible.
        letters_max: handle so many letters, at most; None: all.
        dry_run: only count.
        told: called at each step.
        at_once: letters in one transaction, at most.
    """

    redrive: bool
    to: str | None = None
    where: LetterChoice | None = None
    rate: float | None = None
    letters_max: int | None = None
    dry_run: bool = False
    told: Told | None = None
    at_once: int = LETTERS_MAX


async def handle(queue: DeadLetterQueue, wanted: Handling) -> LettersHandled:
    """Redrive or purge letters. If it is interrupted, the next call goes on.

    Raises:
        ConfigError: the letters would be sent to the dead-letter topic itself.
        UnknownTopicOrPartition: there is no topic ``to``.
        ProducerFenced: another redrive or purge of these letters has begun.
        KafkaError: records or marks were refused; what was done before stays done.
    """
    if wanted.to in (queue.topic, DONE_TOPIC):
        raise errors.ConfigError(f"letters cannot be redriven to {wanted.to}: name another topic")
    if wanted.to is not None:
        await queue.admin.describe_topics(wanted.to)
    if wanted.dry_run:
        return await _Run(queue, wanted, None).done()
    await create_done_topic(queue.admin)
    async with (
        queue.own_cluster() as sending,
        Producer(
            cluster=sending,
            transactional_id=queue.transactional_id,
            transaction_timeout_ms=TRANSACTION_MS,
            batch_size=BATCH_BYTES,
            max_request_size=RECORD_BYTES_MAX,
            buffer_memory=RECORD_BYTES_MAX,
        ) as producer,
    ):
        try:
            return await _Run(queue, wanted, producer).done()
        except asyncio.CancelledError:
            with suppress(errors.SharegroupError):  # whatever is under way is given up
                await producer.close(CANCELLED_S)
            raise


class _Run:
    """One redrive or purge. The producer has fenced all others before the marks are read.

    Args:
        producer: started; None: a dry run.
    """

    def __init__(self, queue: DeadLetterQueue, wanted: Handling, producer: Producer | None) -> None:
        self._queue = queue
        self._wanted = wanted
        self._producer = producer
        self._counts: Counter[str] = Counter()
        """The fields of LettersHandled."""
        self._done = DoneLetters(queue.done_of)
        self._pace = None if wanted.rate is None else Pace(wanted.rate)
        self._at_once = wanted.at_once
        if wanted.rate is not None:
            self._at_once = max(1, min(self._at_once, math.ceil(wanted.rate / BATCHES_PER_S)))
        self._spans: dict[TopicPartition, Span] = {}
        self._through: dict[TopicPartition, int] = {}
        """The offset after the last record that was looked at."""
        self._marked: dict[TopicPartition, int] = {}
        """The offset after the last one whose mark is written, or that is left as it is."""
        self._left: dict[TopicPartition, list[Interval]] = {}
        """Letters from there on that are not done."""
        self._letters: list[DeadLetter] = []
        self._bytes = 0
        self._failures: set[object] = set()
        self._has_twins = False
        """Twins were seen since the last marks."""
        self._topics: dict[str, int] = {}
        self._copies: list[tuple[TopicPartition, int]] = []
        self._read = 0
        self._records = 0

    async def done(self) -> LettersHandled:
        """Handle the letters."""
        queue, wanted = self._queue, self._wanted
        self._done = await queue.done()
        self._spans = await queue.spans(self._done)
        self._records = sum(max(0, span.end - span.first) for span in self._spans.values())
        self._marked = {at: span.first for at, span in self._spans.items()}
        self._left = {at: [] for at in self._spans}
        self._tell("begun")
        spans = {at: _with_done_ones(span) for at, span in self._spans.items()}
        reading = queue.records(spans, self._done, wanted.where, self._is_twin)
        async with aclosing(reading) as steps:
            async for some in steps:
                if not await self._take(some):
                    break
        await self._write()
        return LettersHandled(**self._counts, copies=tuple(self._copies))

    async def _take(self, some: Sequence[LetterRecord]) -> bool:
        """Handle some records; False: no more are wanted."""
        whole = await self._originals(some)
        letters, counts, full = self._letters, self._counts, self._batch_size
        for record, letter, chosen in some:
            if len(letters) >= full or self._bytes >= LETTER_BYTES_MAX:
                await self._write()
                full = self._batch_size
                if not full:
                    return False
            self._read += 1
            self._through[record.topic_partition] = record.offset + 1
            if letter is None:
                counts["others"] += 1
                continue
            if not chosen:
                counts["passed"] += 1
            else:
                if whole:
                    letter = whole.get((letter.place, letter.place_offset), letter)
                if self._can(letter):
                    if self._is_twin(letter):
                        counts["twins"] += 1
                        self._has_twins = True
                    else:
                        letters.append(letter)
                        self._bytes += len(letter.value or b"")
                    continue
            _add(self._left[record.topic_partition], record.offset)
        return True

    @property
    def _batch_size(self) -> int:
        """How many letters the next transaction may have; 0: no more are wanted."""
        most = self._wanted.letters_max
        return self._at_once if most is None else min(self._at_once, most - self._counts["done"])

    async def _originals(
        self, some: Sequence[LetterRecord]
    ) -> dict[tuple[TopicPartition, int], DeadLetter]:
        """Look up what redriving these letters needs: their records, and their topics."""
        if not self._wanted.redrive:
            return {}
        letters = [one.letter for one in some if one.wanted and one.letter is not None]
        if self._wanted.to is None:
            new = {letter.topic for letter in letters} - self._topics.keys()
            self._topics |= dict.fromkeys(new, 0) | await self._queue.originals.partitions(new)
        return await self._queue.originals.of(one for one in letters if not one.is_whole)

    def _can(self, letter: DeadLetter) -> bool:
        """Whether the letter can be handled; if not, it is counted."""
        if not self._wanted.redrive:
            return True
        if self._wanted.to is None and not self._topics[letter.topic]:
            self._counts["homeless"] += 1
            return False
        if not letter.has_copy:
            self._counts["gone"] += 1
            return False
        return True

    def _is_twin(self, letter: DeadLetter) -> bool:
        """Whether a letter about the same failure was seen, by this call or as a done one."""
        failure = letter.failure
        if failure is None:
            return False
        if failure in self._failures:
            return True
        if len(self._failures) >= FAILURES_MAX:
            self._failures.clear()
        self._failures.add(failure)
        return False

    # --- transactions -----------------------------------------------------------------------------

    async def _write(self) -> None:
        """Send the letters and their marks in a transaction. Twins that came behind the last letter
        are marked by it, too."""
        letters = self._letters
        if not letters and not self._has_twins:
            return
        cancelled = False
        if self._producer is not None:
            if self._pace is not None:
                now_s = asyncio.get_running_loop().time()
                await asyncio.sleep(self._pace.wait_s(len(letters), now_s))
            committing = asyncio.create_task(self._commit(self._producer, letters))
            cancelled = await _to_its_end(committing)
        self._counts["done"] += len(letters)
        letters.clear()
        self._has_twins = False
        self._bytes = 0
        self._tell("committed")
        if cancelled:
            raise asyncio.CancelledError

    async def _commit(self, producer: Producer, letters: Sequence[DeadLetter]) -> None:
        sent: list[Delivery] = []
        try:
            async with producer.transaction():
                if self._wanted.redrive:
                    await self._send(producer, letters, sent)
                for key, value in self._marks():
                    await producer.enqueue(DONE_TOPIC, value, key=key)
                self._tell("sent")
        except (errors.MessageTooLarge, errors.RecordListTooLarge, errors.InvalidRecord):
            await self._say_refused(letters, sent)
            raise
        for delivery in sent[: COPIES_MAX - len(self._copies)]:
            one = await delivery  # it is done: the transaction is committed
            self._copies.append((TopicPartition(one.topic, one.partition), one.offset))

    async def _send(
        self, producer: Producer, letters: Iterable[DeadLetter], sent: list[Delivery]
    ) -> None:
        enqueue, to, topics = producer.enqueue, self._wanted.to, self._topics
        for letter in letters:
            topic, partition = letter.source
            delivery = await enqueue(
                to or topic,
                letter.value,
                key=letter.key,
                headers=redriven_headers(letter.headers),
                partition=partition if to is None and partition < topics[topic] else None,
            )
            sent.append(delivery)

    async def _say_refused(self, letters: Sequence[DeadLetter], sent: Sequence[Delivery]) -> None:
        """Log which letter the goal does not take: it ends the redrive, until it is left out."""
        refused = letters[len(sent) :][:1]
        for letter, delivery in zip(letters, sent, strict=False):
            try:
                if delivery.done():
                    await delivery
            except errors.KafkaError:
                refused = [letter]
                break
            except errors.SharegroupError:
                continue  # sent with it, and aborted
        for letter in refused:
            log.error(
                "the record of the letter %d:%d is refused; leave it out: --where 'not (topic == "
                '"%s" and partition == %d and offset == %d)\'',
                letter.place.partition,
                letter.place_offset,
                *letter.source,
                letter.offset,
            )

    def _marks(self) -> list[Mark]:
        """Mark everything as done that was looked at, but not the letters that are left."""
        marks: list[Mark] = []
        for where, through in self._through.items():
            begin, left = self._marked[where], self._left[where]
            number = where.partition
            if begin < through:
                marks += self._done.mark(number, minus([(begin, through - 1)], left))
                self._marked[where] = through
                self._left[where] = []
            marks += self._done.forget_before(number, self._spans[where].begin)
        return marks

    # --- telling ----------------------------------------------------------------------------------

    def _tell(self, step: str) -> None:
        if self._wanted.told is not None:
            progress = LettersProgress(
                step=step,
                done=self._counts["done"],
                records_read=self._read,
                records=self._records,
            )
            self._wanted.told(progress)


async def _to_its_end(committing: asyncio.Task[None]) -> bool:
    """Wait for a transaction. Returns whether this task was cancelled meanwhile: it must end then.
    A transaction is aborted by a second cancellation only: who reads uncommitted records would see
    those of an aborted one, and then once more.
    """
    try:
        await asyncio.shield(committing)
    except asyncio.CancelledError:
        try:
            await asyncio.wait([committing])
        except asyncio.CancelledError:
            committing.add_done_callback(_seen)
            committing.cancel()
            raise
        await committing  # raises its error
        return True
    return False


def _with_done_ones(span: Span) -> Span:
    """The span, and what was done just before it; as it is, if it has nothing to do."""
    if span.first >= span.end:
        return span
    return span._replace(first=max(span.begin, span.first - TWINS_WITHIN))


def _seen(committing: asyncio.Task[None]) -> None:
    """Mark the task's error as seen: nobody waits for it any more."""
    if not committing.cancelled():
        committing.exception()


def _add(intervals: list[Interval], offset: int) -> None:
    """Add an offset behind all of these intervals."""
    if intervals and intervals[-1][1] == offset - 1:
        intervals[-1] = (intervals[-1][0], offset)
    else:
        intervals.append((offset, offset))
