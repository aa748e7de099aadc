"""What the parts of a round share: names, settings, and which records are accepted."""

from __future__ import annotations

from typing import Final

TOPIC: Final = "jobs"
GROUP: Final = "workers"
LETTERS: Final = "dlq.jobs"
PARTITIONS: Final = 2
ACCEPTED: Final = 10
"""Of so many records one is accepted; all others are rejected."""
GROUP_SETTINGS: Final = {
    "share.auto.offset.reset": "earliest",
    "share.delivery.count.limit": "10",
    "errors.deadletterqueue.topic.name": LETTERS,
    "errors.deadletterqueue.copy.record.enable": "true",
}
"""The delivery limit is so high that no record comes near it."""
NO_REASON: Final = "Offset rejected by client."
"""What a letter says whose consumer gave no reason: Apache Kafka's words, and ours."""
TAKES_LETTERS: Final = "errors.deadletterqueue.group.enable"
"""The config of the dead-letter topic that is off for a while."""


def value_of(number: int) -> bytes:
    """The value of a record, by its number in the input."""
    return b"job %d" % number


def number_of(value: bytes) -> int:
    """The opposite."""
    return int(value.removeprefix(b"job "))


def is_accepted(number: int) -> bool:
    """Whether its consumer accepts it."""
    return number % ACCEPTED == 0


def reason_of(number: int) -> str:
    """Why it is rejected, by a client that can say it."""
    return f"no {number}"
