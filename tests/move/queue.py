"""What a share group has done with each record, by the record's value: the same before and after a
move."""

from __future__ import annotations

from typing import NamedTuple

from confluent_kafka import Consumer, TopicPartition

from sharegroup import sync
from sharegroup.client import AckType
from sharegroup.share.record_state import RecordState
from tests.servers.admin import SILENT

READ_SECONDS = 60
FINISHED = (RecordState.ACKNOWLEDGED, RecordState.ARCHIVED)


class Seen(NamedTuple):
    """A committed record of a log; the time is in milliseconds since 1970."""

    value: bytes | None
    key: bytes | None
    time_ms: int
    headers: object


class Done(NamedTuple):
    """What became of a record: it is finished, or was delivered so often, and may rest."""

    finished: bool
    delivered: int
    rests: bool


def records(bootstrap: str, topic: str, partitions: int) -> dict[int, dict[int, Seen]]:
    """All committed records, by partition and offset."""
    found: dict[int, dict[int, Seen]] = {}
    for index in range(partitions):
        settings = {"group.id": "reads", "auto.offset.reset": "earliest", **SILENT}
        settings |= {"isolation.level": "read_committed", "enable.partition.eof": True}
        settings["enable.auto.commit"] = False
        consumer = Consumer({"bootstrap.servers": bootstrap, **settings})
        consumer.assign([TopicPartition(topic, index, 0)])
        own = found[index] = {}
        while (message := consumer.poll(READ_SECONDS)) is not None and message.error() is None:
            offset = message.offset()
            assert offset is not None
            _, time_ms = message.timestamp()
            own[offset] = Seen(message.value(), message.key(), time_ms, message.headers())
        assert message is not None, f"{topic}-{index} does not end"
        consumer.close()
    return found


def states(bootstrap: str, group: str, topic: str, partitions: int) -> dict[bytes | None, Done]:
    """What became of each record."""
    found: dict[bytes | None, Done] = {}
    log = records(bootstrap, topic, partitions)
    with sync.Admin(bootstrap) as admin:
        told = admin.describe_record_states(group)
    for (name, index), one in told.items():
        if name != topic:
            continue
        start = one.start_offset
        of: dict[int, Done] = {}
        for each in one.ranges:
            done = each.state in FINISHED
            rests = each.state is RecordState.DELAYED
            count = 0 if done else each.delivery_count
            of |= dict.fromkeys(range(each.first, each.last + 1), Done(done, count, rests))
        for offset, seen in log[index].items():
            finished = start is not None and offset < start
            found[seen.value] = of.get(offset, Done(finished, 0, False))
    return found


def work(
    bootstrap: str, group: str, topic: str, answers: dict[bytes | None, list[AckType]]
) -> None:
    """Answer these values, as often as said; what else comes is given back."""
    with sync.ShareConsumer(
        topic, group_id=group, bootstrap_servers=bootstrap, acknowledgement_mode="explicit"
    ) as consumer:
        while any(answers.values()):
            for record in consumer.poll(timeout_ms=1_000):
                mine = answers.get(record.value)
                consumer.acknowledge(record, mine.pop(0) if mine else AckType.RELEASE)
            assert set(consumer.commit().values()) <= {None}
