"""A member of a consumer group that commits after each poll, and before it gives partitions up.

Variants: ``confluent`` or ``ours``, a colon, and the group.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Collection, Iterable
from typing import Any

from confluent_kafka import Consumer, KafkaException

from sharegroup import Consumer as OurConsumer
from sharegroup.model.errors import SharegroupError
from sharegroup.model.ids import TopicPartition
from tests.kills.members import Owning, confluent_member, input_places, our_settings
from tests.kills.working import INPUT, Work, give_up

POLL_S = 0.1
BATCH = 40


class Done:
    """Positions behind what was read and not committed yet."""

    def __init__(self, work: Work) -> None:
        self._note = work.journal.note
        self.behind: dict[int, int] = {}

    def read(self, places: Iterable[tuple[int, int]]) -> None:
        """Note what was read: (partition, offset)."""
        spans: dict[int, list[int]] = {}
        for partition, offset in places:
            spans.setdefault(partition, []).append(offset)
        for partition, offsets in spans.items():
            self._note("read", partition=partition, offsets=[offsets[0], offsets[-1]])
            assert offsets == list(range(offsets[0], offsets[-1] + 1)), offsets
            self.behind[partition] = offsets[-1] + 1

    def take(self, partitions: Collection[int]) -> dict[int, int]:
        """What is to be committed for these; it counts as being committed."""
        wanted = {p: offset for p, offset in self.behind.items() if p in partitions}
        self.behind = {p: offset for p, offset in self.behind.items() if p not in partitions}
        if wanted:
            self._note("committing", offsets=wanted)
        return wanted

    def outcome(self, wanted: dict[int, int], error: object = None) -> None:
        if error is None:
            self._note("committed", offsets=wanted)
        else:
            self._note("not committed", offsets=wanted, reason=str(error))


def confluent(work: Work, group: str) -> None:
    consumer = confluent_member(work, group)
    owning, done = Owning(work), Done(work)

    def commit(partitions: Collection[int]) -> None:
        if wanted := done.take(partitions):
            try:
                answers = consumer.commit(offsets=input_places(wanted), asynchronous=False)
            except KafkaException as error:
                done.outcome(wanted, error)
                return
            errors = [each.error for each in answers or () if each.error is not None]
            done.outcome(wanted, errors or None)

    def revoked(_: Consumer, partitions: list[Any]) -> None:
        commit([each.partition for each in partitions])
        owning.revoked(partitions)

    def lost(_: Consumer, partitions: list[Any]) -> None:
        done.behind.clear()
        owning.lost(partitions)

    consumer.subscribe(
        [INPUT],
        on_assign=lambda _, partitions: owning.assigned(partitions),
        on_revoke=revoked,
        on_lost=lost,
    )
    while not work.stopping:
        messages = [m for m in consumer.consume(BATCH, POLL_S) if m.error() is None]
        done.read((m.partition(), m.offset()) for m in messages)
        commit(list(done.behind))
    consumer.close()


async def ours(work: Work, group: str) -> None:
    owning, done = Owning(work), Done(work)
    consumer = OurConsumer(**our_settings(work, group), max_poll_records=BATCH)

    async def commit(partitions: Collection[int]) -> None:
        if wanted := done.take(partitions):
            try:
                await consumer.commit({TopicPartition(INPUT, p): o for p, o in wanted.items()})
            except SharegroupError as error:
                done.outcome(wanted, error)
            else:
                done.outcome(wanted)

    async def revoked(partitions: Collection[TopicPartition]) -> None:
        await commit([each.partition for each in partitions])
        owning.revoked(partitions)

    def lost(partitions: Collection[TopicPartition]) -> None:
        done.behind.clear()
        owning.lost(partitions)

    consumer.subscribe(INPUT, on_assigned=owning.assigned, on_revoked=revoked, on_lost=lost)
    async with consumer:
        while not work.stopping:
            records = await consumer.poll(round(POLL_S * 1000))
            done.read((r.partition, r.offset) for r in records)
            await commit(list(done.behind))


def main() -> None:
    work = Work(*sys.argv[1:])
    kind, _, group = work.variant.partition(":")
    work.journal.note("begins", group=group)
    try:
        if kind == "ours":
            asyncio.run(ours(work, group))
        else:
            confluent(work, group)
    except (SharegroupError, KafkaException) as error:
        give_up(work, error)
    work.journal.note("ends")


if __name__ == "__main__":
    main()
