"""A member that rejects most of its records. It notes what it is about to say of which record, and
of which partitions the broker has confirmed the answers.

Variants: ``confluent`` or ``ours``, which says a reason too.
"""

from __future__ import annotations

from confluent_kafka import AcknowledgeType

from sharegroup import ShareConsumer
from tests.foreign.share_reader import share_consumer
from tests.kills.letters.jobs import GROUP, TOPIC, is_accepted, number_of, reason_of
from tests.kills.working import Work, note_answers, run_member

MOST = 50
"""Records of a poll."""
POLL_S = 0.3


def confluent(work: Work) -> None:
    consumer = share_consumer(work.bootstrap, GROUP, TOPIC, explicit=True, max_poll_records=MOST)
    while not work.stopping:
        messages = [m for m in consumer.poll(POLL_S) if m.error() is None]
        if not messages:
            continue
        numbers = [number_of(message.value()) for message in messages]
        held = zip(messages, numbers, strict=True)
        work.journal.note(
            "answering", records=[(m.partition(), m.offset(), number) for m, number in held]
        )
        for message, number in zip(messages, numbers, strict=True):
            accepts = is_accepted(number)
            kind = AcknowledgeType.ACCEPT if accepts else AcknowledgeType.REJECT
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
            numbers = [number_of(record.value) for record in records]
            held = zip(records, numbers, strict=True)
            work.journal.note(
                "answering", records=[(r.partition, r.offset, number) for r, number in held]
            )
            for record, number in zip(records, numbers, strict=True):
                if is_accepted(number):
                    consumer.accept(record)
                else:
                    consumer.reject(record, reason=reason_of(number))
            errors = await consumer.commit()
            note_answers(work, {place.partition: error for place, error in errors.items()})


if __name__ == "__main__":
    run_member(confluent, ours)
