"""A member of the ordered group. It notes what it takes, what it is about to accept, and which
partitions' answers the broker has confirmed.

Variants: ``confluent`` or ``ours``. ``../../foreign/java/OrderedMembers.java`` is the same in Java.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from confluent_kafka import AcknowledgeType

from sharegroup import ShareConsumer
from tests.foreign.share_reader import share_consumer
from tests.kills.ordering.keyed import GROUP, TOPIC
from tests.kills.working import Work, note_answers, pause, run_member

MOST = 10
"""Records of a poll."""
WORK_S = (0.05, 0.3)
RELEASED = 0.02
"""Of the records; and those behind it of the same key, in the same poll."""
POLL_S = 0.3


class Held(NamedTuple):
    """A record, as a client shows it."""

    partition: int
    offset: int
    count: int
    key: bytes | None


class Turn:
    """What is done with the records of one poll."""

    def __init__(self, work: Work, held: list[Held]) -> None:
        self._note = work.journal.note
        self._note("took", records=[[one.partition, one.offset, one.count] for one in held])
        self.work_s = work.random.uniform(*WORK_S)
        released: set[tuple[int, bytes | None]] = set()
        self.accepts: list[bool] = []
        for one in held:
            if work.random.random() < RELEASED:
                released.add((one.partition, one.key))
            self.accepts.append((one.partition, one.key) not in released)
        self._held = held

    def accepting(self) -> None:
        """Before the client knows of it: a fetch of its own accord takes acknowledgements along."""
        accepted = zip(self._held, self.accepts, strict=True)
        self._note(
            "accepting", records=[[one.partition, one.offset] for one, yes in accepted if yes]
        )


def confluent(work: Work) -> None:
    consumer = share_consumer(work.bootstrap, GROUP, TOPIC, explicit=True, max_poll_records=MOST)
    while not work.stopping:
        messages = [m for m in consumer.poll(POLL_S) if m.error() is None]
        if not messages:
            continue
        turn = Turn(work, [Held(m.partition(), m.offset(), m.delivery_count(), m.key())
                           for m in messages])  # fmt: skip
        pause(turn.work_s)
        turn.accepting()
        for message, accept in zip(messages, turn.accepts, strict=True):
            kind = AcknowledgeType.ACCEPT if accept else AcknowledgeType.RELEASE
            consumer.acknowledge(message, kind)
        errors = consumer.commit_sync(20)
        note_answers(work, {place.partition: error for place, error in errors.items()})
    consumer.close()


async def ours(work: Work) -> None:
    async with ShareConsumer(
        TOPIC,
        group_id=GROUP,
        bootstrap_servers=work.bootstrap,
        acknowledgement_mode="explicit",
        max_poll_records=MOST,
    ) as consumer:
        while not work.stopping:
            records = await consumer.poll(round(POLL_S * 1000))
            if not records:
                continue
            turn = Turn(work, [Held(r.partition, r.offset, r.delivery_count, r.key)
                               for r in records])  # fmt: skip
            await asyncio.sleep(turn.work_s)
            turn.accepting()
            for record, accept in zip(records, turn.accepts, strict=True):
                (consumer.accept if accept else consumer.release)(record)
            errors = await consumer.commit()
            note_answers(work, {place.partition: error for place, error in errors.items()})


if __name__ == "__main__":
    run_member(confluent, ours)
