"""Reading a share group with librdkafka's ShareConsumer until an expected number has come."""

from __future__ import annotations

import time

from confluent_kafka import Message, ShareConsumer

from tests.servers.admin import SILENT

RECEIVE_SECONDS = 120


def share_consumer(
    bootstrap: str, group: str, topic: str, *, explicit: bool, **settings: str | int
) -> ShareConsumer:
    """A subscribed share consumer; close it, or use it in a `with`. Underscores in the names of
    `settings` stand for dots."""
    mode = "explicit" if explicit else "implicit"
    consumer = ShareConsumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "share.acknowledgement.mode": mode,
            **{name.replace("_", "."): value for name, value in settings.items()},
            **SILENT,
        }
    )
    consumer.subscribe([topic])
    return consumer


def receive(consumer: ShareConsumer) -> list[Message]:
    """The next non-empty batch; raises AssertionError on an error or when none comes in time."""
    deadline = time.monotonic() + RECEIVE_SECONDS
    while time.monotonic() < deadline:
        messages = list(consumer.poll(0.5))
        for message in messages:
            assert message.error() is None, message.error()
        if messages:
            return messages
    raise AssertionError(f"no record in {RECEIVE_SECONDS} s")


def receive_accepting(consumer: ShareConsumer, count: int) -> list[bytes | None]:
    """The values of at least `count` records, accepted implicitly; all of them committed."""
    values: list[bytes | None] = []
    while len(values) < count:
        values += [message.value() for message in receive(consumer)]
    consumer.commit_sync(RECEIVE_SECONDS)
    return values
