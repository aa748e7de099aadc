"""librdkafka's ShareConsumer as the benchmarks use it."""

from __future__ import annotations

from confluent_kafka import KafkaException, Message, ShareConsumer

from tests.servers.admin import SILENT


def share_consumer(bootstrap: str, group: str, topic: str, *, explicit: bool) -> ShareConsumer:
    """A subscribed share consumer; use it in a `with`."""
    consumer = new_share_consumer(bootstrap, group, explicit=explicit)
    consumer.subscribe([topic])
    return consumer


class Stalled(Exception):
    """No record came in time, although there are some."""


def next_records(consumer: ShareConsumer, timeout_s: float = 60) -> list[Message]:
    """The next batch, never empty. Raises KafkaException if one is an error, or Stalled."""
    messages = list(consumer.poll(timeout_s))
    if not messages:
        raise Stalled(f"no record in {timeout_s} s")
    for message in messages:
        error = message.error()
        if error is not None:
            raise KafkaException(error)
    return messages


def new_share_consumer(bootstrap: str, group: str, *, explicit: bool) -> ShareConsumer:
    """A share consumer that is not subscribed yet."""
    mode = "explicit" if explicit else "implicit"
    servers = {"bootstrap.servers": bootstrap, "group.id": group}
    return ShareConsumer({**servers, "share.acknowledgement.mode": mode, **SILENT})
