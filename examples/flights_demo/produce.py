"""All flights into a topic: JSON values, keyed by carrier."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from flights_demo.dataset import Flight
from sharegroup import Admin, Producer

TOPIC = "flights"
PARTITIONS = 4
REPORT_EVERY = 1_000


async def produce(
    bootstrap: str, flights: Iterable[Flight], progress: Callable[[int], None]
) -> int:
    """Create the topic and fill it; the number of records that the broker has confirmed."""
    async with Admin(bootstrap) as admin:
        await admin.create_topics(TOPIC, partitions=PARTITIONS)
    count = 0
    async with Producer(bootstrap, compression="lz4", linger_ms=5) as producer:
        for count, flight in enumerate(flights, start=1):
            # enqueue() returns when the record is in the producer's buffer, and waits when that is
            # full. One key always goes to one partition, so each carrier's flights stay in order.
            await producer.enqueue(TOPIC, flight.to_json(), key=flight.carrier)
            if count % REPORT_EVERY == 0:
                progress(count)
        await producer.flush()  # raises if a single record did not get through
    progress(count)
    return count
