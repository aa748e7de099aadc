"""Writes to a compacted topic: new values of few keys, tombstones among them, or transactions, of
which some are aborted.

Variants: ``plain`` (idempotent) or ``transactions``. Each value begins with a number that grows.
"""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

from confluent_kafka import Producer

from tests.kills.working import PATIENCE_S, Work, pause

TOPIC = "table"
KEYS = 40
TOMBSTONES = 7
"""Every so many records one has no value."""
ABORTED = 0.3
FILLER = b" " * 120
PACE_S = 0.001
PER_TRANSACTION = 5


def plain(work: Work) -> None:
    def delivered(number: int, error: Any, message: Any) -> None:
        if error is None:
            work.journal.note("acked", number=number, offset=message.offset())

    producer = Producer(work.settings(enable_idempotence=True, linger_ms=1))
    number = 0
    while not work.stopping:
        key = f"{work.journal.who} {work.random.randrange(KEYS)}"
        gone = number % TOMBSTONES == 0
        work.journal.note("sending", number=number, key=key, gone=gone)
        value = None if gone else f"{work.journal.name}.{number}".encode() + FILLER
        done = partial(delivered, number)
        producer.produce(TOPIC, value, key=key.encode(), on_delivery=done)
        producer.poll(PACE_S)
        number += 1
    producer.flush(PATIENCE_S)


def transactions(work: Work) -> None:
    producer = Producer(work.settings(transactional_id=work.journal.who, linger_ms=0))
    producer.init_transactions(PATIENCE_S)
    number = 0
    while not work.stopping:
        aborts = work.random.random() < ABORTED
        producer.begin_transaction()
        numbers = list(range(number, number + PER_TRANSACTION))
        for one in numbers:
            key = f"{work.journal.who} {work.random.randrange(KEYS)}"
            work.journal.note("sending", number=one, key=key, gone=False)
            value = f"{work.journal.name}.{one}".encode() + FILLER
            producer.produce(TOPIC, value, key=key.encode())
        number += PER_TRANSACTION
        producer.flush(PATIENCE_S)
        work.journal.note("ending", numbers=numbers, commit=not aborts)
        if aborts:
            producer.abort_transaction(PATIENCE_S)
        else:
            producer.commit_transaction(PATIENCE_S)
        work.journal.note("ended", numbers=numbers, commit=not aborts)
        pause(PACE_S)


def main() -> None:
    work = Work(*sys.argv[1:])
    work.journal.note("begins")
    plain(work) if work.variant == "plain" else transactions(work)
    work.journal.note("ends")


if __name__ == "__main__":
    main()
