"""Reads what is left with librdkafka, and judges it by the journals alone.

A program: ``python -m tests.kills.checker BOOTSTRAP FOLDER`` prints what is wrong to
stderr, and ends with status 1 then.
"""

from __future__ import annotations

import sys
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, TopicPartition

from tests.kills.journal import Line, all_lines
from tests.kills.rules import Contents, Final, violations
from tests.kills.working import INPUT, OUTPUT, PARTITIONS, RIVALS
from tests.servers.admin import SILENT

READ_SECONDS = 120
"""Enough on a machine with much other work. A test that hangs is ended by its own limit."""


def read(
    bootstrap: str, topic: str, undecided: list[str], partitions: int = PARTITIONS
) -> Contents:
    """What a committed reader sees of a topic. Adds to ``undecided`` the partitions that it cannot
    read to the end."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "checker",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            **SILENT,
        }
    )
    found: Contents = {}
    try:
        for partition in range(partitions):
            place = TopicPartition(topic, partition, 0)
            _, end = consumer.get_watermark_offsets(place, READ_SECONDS)
            consumer.assign([place])
            records = found.setdefault(partition, [])
            while True:
                message = consumer.poll(READ_SECONDS)
                if message is None:
                    raise TimeoutError(f"{topic}-{partition} gives nothing")
                error = message.error()
                if error is None:
                    records.append((message.offset(), message.value().decode()))
                elif error.code() == KafkaError._PARTITION_EOF:
                    if message.offset() < end:
                        undecided.append(f"{topic}-{partition} at {message.offset()} of {end}")
                    break
    finally:
        consumer.close()
    return found


def committed(bootstrap: str, group: str) -> dict[int, int]:
    """A group's committed offsets in the input; -1 where there is none."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, **SILENT})
    try:
        places = [TopicPartition(INPUT, partition) for partition in range(PARTITIONS)]
        return {p.partition: max(p.offset, -1) for p in consumer.committed(places, READ_SECONDS)}
    finally:
        consumer.close()


def groups_of(lines: list[Line]) -> set[str]:
    """The groups in the journals."""
    return {str(line.more["group"]) for line in lines if "group" in line.more}


def judge(bootstrap: str, folder: Path) -> list[str]:
    """What is wrong with a round."""
    lines = all_lines(folder)
    undecided: list[str] = []
    final = Final(
        input=read(bootstrap, INPUT, undecided),
        output=read(bootstrap, OUTPUT, undecided),
        rivals=read(bootstrap, RIVALS, undecided),
        undecided=undecided,
        committed={group: committed(bootstrap, group) for group in groups_of(lines)},
    )
    sizes = ", ".join(
        f"{name} {sum(map(len, contents.values()))}"
        for name, contents in zip((INPUT, OUTPUT, RIVALS), final, strict=False)
    )
    sys.stdout.write(f"records: {sizes}; lines in journals: {len(lines)}\n")
    return violations(lines, final)


def main(bootstrap: str, folder: str) -> None:
    wrong = judge(bootstrap, Path(folder))
    sys.exit("\n".join(wrong) if wrong else None)


if __name__ == "__main__":
    main(*sys.argv[1:])
