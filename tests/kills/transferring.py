"""Reads the input, writes each record twice, and commits: all in one transaction. Some transactions
are aborted on purpose, and their records are read again.

Variants: ``confluent`` or ``ours``, a colon, and the group. The transactional id is the name of the
worker, the same in each life.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Collection
from contextlib import suppress
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

from sharegroup import Consumer as OurConsumer
from sharegroup import Producer as OurProducer
from sharegroup.model.errors import SharegroupError
from sharegroup.model.ids import TopicPartition
from tests.kills.members import Owning, confluent_member, input_places, our_settings
from tests.kills.working import INPUT, OUTPUT, PARTITIONS, PATIENCE_S, Work, give_up

COPIES = 2
ABORTED = 0.15
"""Of all transactions."""
BATCH = 25
POLL_S = 0.1


class Plan(NamedTuple):
    """One transaction."""

    name: str
    first: dict[int, int]
    """By partition of the input: the first offset in it."""
    behind: dict[int, int]
    aborts: bool

    def records(self) -> list[tuple[int, bytes]]:
        """(partition of the output, value)."""
        return [
            ((partition + copy) % PARTITIONS, f"{self.name}|{partition}|{offset}|{copy}".encode())
            for partition, first in self.first.items()
            for offset in range(first, self.behind[partition])
            for copy in range(COPIES)
        ]


class Plans:
    """The transactions of one life, and what is noted of them."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._number = 0

    def begin(self, places: Collection[tuple[int, int]]) -> Plan:
        """A transaction for these (partition, offset), which lie side by side."""
        first: dict[int, int] = {}
        behind: dict[int, int] = {}
        for partition, offset in places:
            first.setdefault(partition, offset)
            assert offset == behind.get(partition, offset), places
            behind[partition] = offset + 1
        self._number += 1
        name = f"{self._work.journal.name}.{self._number}"
        plan = Plan(name, first, behind, self._work.random.random() < ABORTED)
        self._work.journal.note("begun", transaction=name, first=first, behind=behind)
        return plan

    def note(self, what: str, plan: Plan, reason: object = "") -> None:
        self._work.journal.note(what, transaction=plan.name, reason=str(reason))


def confluent(work: Work, group: str) -> None:
    owning, plans = Owning(work), Plans(work)
    consumer = confluent_member(work, group, isolation_level="read_committed")
    producer = Producer(work.settings(transactional_id=work.journal.who, linger_ms=0))
    producer.init_transactions(PATIENCE_S)
    consumer.subscribe(
        [INPUT],
        on_assign=lambda _, partitions: owning.assigned(partitions),
        on_revoke=lambda _, partitions: owning.revoked(partitions),
        on_lost=lambda _, partitions: owning.lost(partitions),
    )
    while not work.stopping:
        messages = [m for m in consumer.consume(BATCH, POLL_S) if m.error() is None]
        if messages:
            plan = plans.begin([(m.partition(), m.offset()) for m in messages])
            if not _confluent_transaction(producer, consumer, plan, plans):
                _back(consumer, plan)
    consumer.close()


def _confluent_transaction(
    producer: Producer, consumer: Consumer, plan: Plan, plans: Plans
) -> bool:
    """Whether it was committed; raises KafkaException when the producer cannot go on."""
    producer.begin_transaction()
    try:
        for partition, value in plan.records():
            producer.produce(OUTPUT, value, partition=partition)
        producer.flush(PATIENCE_S)
        plans.note("wrote", plan)
        group = consumer.consumer_group_metadata()
        producer.send_offsets_to_transaction(input_places(plan.behind), group, PATIENCE_S)
        plans.note("sent offsets", plan)
        if not plan.aborts:
            plans.note("ending", plan, "commit")
            producer.commit_transaction(PATIENCE_S)
            plans.note("commit", plan)
            return True
        reason: object = "on purpose"
    except KafkaException as error:
        if not error.args[0].txn_requires_abort():
            raise
        reason = error
    plans.note("ending", plan, "abort")
    producer.abort_transaction(PATIENCE_S)
    plans.note("abort", plan, reason)
    return False


def _back(consumer: Consumer, plan: Plan) -> None:
    mine = {each.partition for each in consumer.assignment()}
    for place in input_places({p: first for p, first in plan.first.items() if p in mine}):
        try:
            consumer.seek(place)
        except KafkaException as error:
            if error.args[0].code() != KafkaError._STATE:  # it was taken away meanwhile
                raise


class OnPurpose(Exception):
    """This transaction is aborted."""


async def ours(work: Work, group: str) -> None:
    owning, plans = Owning(work), Plans(work)
    settings = our_settings(work, group)
    consumer = OurConsumer(**settings, isolation_level="read_committed", max_poll_records=BATCH)
    consumer.subscribe(
        INPUT, on_assigned=owning.assigned, on_revoked=owning.revoked, on_lost=owning.lost
    )
    name = work.journal.who
    async with OurProducer(work.bootstrap, transactional_id=name) as producer, consumer:
        while not work.stopping:
            records = await consumer.poll(round(POLL_S * 1000))
            if not records:
                continue
            plan = plans.begin([(r.partition, r.offset) for r in records])
            with suppress(OnPurpose):
                await _our_transaction(producer, consumer, plan, plans)
                plans.note("commit", plan)
                continue
            plans.note("abort", plan, "on purpose")
            for partition, first in plan.first.items():
                if TopicPartition(INPUT, partition) in consumer.assignment:
                    consumer.seek(INPUT, partition, first)


async def _our_transaction(
    producer: OurProducer, consumer: OurConsumer, plan: Plan, plans: Plans
) -> None:
    async with producer.transaction():
        for partition, value in plan.records():
            await producer.enqueue(OUTPUT, value, partition=partition)
        await producer.flush()
        plans.note("wrote", plan)
        behind = {TopicPartition(INPUT, p): offset for p, offset in plan.behind.items()}
        await producer.send_offsets(behind, consumer.group_metadata())
        plans.note("sent offsets", plan)
        plans.note("ending", plan, "abort" if plan.aborts else "commit")
        if plan.aborts:
            raise OnPurpose


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
