"""librdkafka's ShareConsumer as the benchmarks use it."""

from __future__ import annotations

from confluent_kafka import ShareConsumer

from tests.servers.admin import SILENT


def share_consumer(bootstrap: str, group: str, topic: str, *, explicit: bool) -> ShareConsumer:
    """A subscribed share consumer; use it in a `with`."""
    consumer = new_share_consumer(bootstrap, group, explicit=explicit)
    consumer.subscribe([topic])
    return consumer


def new_share_consumer(bootstrap: str, group: str, *, explicit: bool) -> ShareConsumer:
    """A share consumer that is not subscribed yet."""
    mode = "explicit" if explicit else "implicit"
    servers = {"bootstrap.servers": bootstrap, "group.id": group}
    return ShareConsumer({**servers, "share.acknowledgement.mode": mode, **SILENT})
