"""Several processes with one transactional id, which take it from each other.

Variants: ``confluent`` or ``ours``. Each transaction writes one record to each partition.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress

from confluent_kafka import KafkaException, Producer

from sharegroup import Producer as OurProducer
from sharegroup.model.errors import SharegroupError
from tests.kills.working import PARTITIONS, PATIENCE_S, RIVALS, Work, pause

PEACE_S = (0.3, 0.9)
"""How long a fenced one waits before it takes the id again."""
PAUSE_S = 0.02
ABORTED = 0.2
TAKINGS_MAX = 10_000


class Taking:
    """One producer, until it is fenced."""

    def __init__(self, work: Work, number: int) -> None:
        self.work = work
        self.name = f"{work.journal.name}.{number}"
        self._count = 0
        work.journal.note("taking", taking=self.name)

    def took(self) -> None:
        self.work.journal.note("took", taking=self.name)

    def begin(self) -> tuple[str, bool]:
        """(the transaction, whether it aborts)."""
        self._count += 1
        name = f"{self.name}.{self._count}"
        self.work.journal.note("begun", transaction=name, taking=self.name)
        return name, self.work.random.random() < ABORTED

    def note(self, what: str, transaction: str, reason: object = "") -> None:
        self.work.journal.note(what, transaction=transaction, reason=str(reason))

    def fenced(self, error: object) -> None:
        self.work.journal.note("fenced", taking=self.name, reason=str(error))


def confluent(taking: Taking) -> None:
    """Returns when SIGTERM comes; raises KafkaException when it is fenced."""
    work = taking.work
    producer = Producer(work.settings(transactional_id=RIVALS, linger_ms=0))
    producer.init_transactions(PATIENCE_S)
    taking.took()
    while not work.stopping:
        name, aborts = taking.begin()
        producer.begin_transaction()
        for partition in range(PARTITIONS):
            producer.produce(RIVALS, name.encode(), partition=partition)
        producer.flush(PATIENCE_S)
        taking.note("ending", name, "abort" if aborts else "commit")
        if aborts:
            producer.abort_transaction(PATIENCE_S)
        else:
            producer.commit_transaction(PATIENCE_S)
        taking.note("abort" if aborts else "commit", name)
        pause(PAUSE_S)


class OnPurpose(Exception):
    """This transaction is aborted."""


async def ours(taking: Taking) -> None:
    """The same; raises SharegroupError."""
    work = taking.work
    async with OurProducer(work.bootstrap, transactional_id=RIVALS) as producer:
        taking.took()
        while not work.stopping:
            name, aborts = taking.begin()
            with suppress(OnPurpose):
                async with producer.transaction():
                    for partition in range(PARTITIONS):
                        await producer.enqueue(RIVALS, name.encode(), partition=partition)
                    await producer.flush()
                    taking.note("ending", name, "abort" if aborts else "commit")
                    if aborts:
                        raise OnPurpose
            taking.note("abort" if aborts else "commit", name)
            await asyncio.sleep(PAUSE_S)


def main() -> None:
    work = Work(*sys.argv[1:])
    work.journal.note("begins")
    for number in range(TAKINGS_MAX):
        if work.stopping:
            break
        taking = Taking(work, number)
        try:
            if work.variant == "ours":
                asyncio.run(ours(taking))
            else:
                confluent(taking)
        except (SharegroupError, KafkaException) as error:
            taking.fenced(error)
            pause(work.random.uniform(*PEACE_S))
    work.journal.note("ends")


if __name__ == "__main__":
    main()
