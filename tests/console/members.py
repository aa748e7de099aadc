"""Members of share groups, for tests of the console."""

from __future__ import annotations

from sharegroup import ShareConsumer
from sharegroup.client import Record


def member(bootstrap: str, topic: str, group: str, most: int) -> ShareConsumer:
    """A member that gets so many records at once, at most, and answers each."""
    return ShareConsumer(
        topic,
        group_id=group,
        bootstrap_servers=bootstrap,
        acknowledgement_mode="explicit",
        acquire_mode="record_limit",
        max_poll_records=most,
    )


async def polled(one: ShareConsumer) -> list[Record]:
    """The next records, as soon as there are some."""
    while not (records := await one.poll()):
        continue
    return list(records)
