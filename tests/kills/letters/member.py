"""A member that rejects most of its records. It notes what it is about to say of which record, and
of which partitions the broker has confirmed the answers.

Variants: ``confluent`` or ``ours``, which says a reason too.
"""

from __future__ import annotations

import asyncio
import sys

from confluent_kafka import AcknowledgeType, KafkaException

from sharegroup import ShareConsumer
from sharegroup.model.errors import SharegroupError
from tests.foreign.share_reader import share_consumer
from tests.kills.letters.jobs import GROUP, TOPIC, is_accepted, number_of, reason_of
from tests.kills.working import Work, give_up

MOST = 50
"""Records of a poll."""
POLL_S = 0.3


class Turn:
    """What is said of the records of one poll: (partition, offset, number)."""

    def __init__(self, work: Work, held: list[tuple[int, int, int]]) -> None:
        self._note = work.journal.note
        self._note("answering", records=held)

    def answered(self, errors: dict[int, object]) -> None:
        """``errors``: by partition, None for success."""
        refused = {partition: str(error) for partition, error in errors.items() if error}
        self._note("answered", done=[p for p in errors if p not in refused], refused=refused)


def confluent(work: Work) -> None:
    consumer = share_consumer(work.bootstrap, GROUP, TOPIC, explicit=True, max_poll_records=MOST)
    while not work.stopping:
        messages = [m for m in consumer.poll(POLL_S) if m.error() is None]
        if not messages:
            continue
        numbers = [number_of(message.value()) for message in messages]
        turn = Turn(work, [(m.partition(), m.offset(), number)
                           for m, number in zip(messages, numbers, strict=True)])  # fmt: skip
        for message, number in zip(messages, numbers, strict=True):
            accepts = is_accepted(number)
            kind = AcknowledgeType.ACCEPT if accepts else AcknowledgeType.REJECT
            consumer.acknowledge(message, kind)
        errors = consumer.commit_sync(20)
        turn.answered({place.partition: error for place, error in errors.items()})
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
            numbers = [number_of(record.value) for record in records]
            turn = Turn(work, [(r.partition, r.offset, number)
                               for r, number in zip(records, numbers, strict=True)])  # fmt: skip
            for record, number in zip(records, numbers, strict=True):
                if is_accepted(number):
                    consumer.accept(record)
                else:
                    consumer.reject(record, reason=reason_of(number))
            errors = await consumer.commit()
            turn.answered({place.partition: error for place, error in errors.items()})


def main() -> None:
    work = Work(*sys.argv[1:])
    work.journal.note("begins")
    try:
        if work.variant == "ours":
            asyncio.run(ours(work))
        else:
            confluent(work)
    except (SharegroupError, KafkaException) as error:
        give_up(work, error)
    work.journal.note("ends")


if __name__ == "__main__":
    main()
