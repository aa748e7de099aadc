"""What must hold of a compacted topic, by what its writers were told."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, TopicPartition

from tests.kills.compacting import TOPIC
from tests.kills.journal import Line
from tests.servers.admin import SILENT

READ_SECONDS = 120
"""Enough on a machine with much other work. A test that hangs is ended by its own limit."""


class Row(NamedTuple):
    """A record that a committed reader sees."""

    offset: int
    key: str
    value: str | None
    """The life of its writer and its number."""


class Sent(NamedTuple):
    """A record that a writer has sent."""

    writer: str
    number: int
    key: str
    gone: bool


def rows(bootstrap: str) -> list[Row]:
    """All records, to the end; raises TimeoutError."""
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
    found: list[Row] = []
    try:
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        while True:
            message = consumer.poll(READ_SECONDS)
            if message is None:
                raise TimeoutError("the table gives nothing")
            error = message.error()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                return found
            value = message.value()
            text = None if value is None else value.decode().strip()
            found.append(Row(message.offset(), message.key().decode(), text))
    finally:
        consumer.close()


def wrong(lines: Sequence[Line], found: Sequence[Row]) -> list[str]:
    """Everything that is wrong with a table, in sentences."""
    sent = {
        (f"{line.who}.{line.life}", line.more["number"]): Sent(
            f"{line.who}.{line.life}", line.more["number"], line.more["key"], line.more["gone"]
        )
        for line in lines
        if line.what == "sending"
    }
    offsets = [row.offset for row in found]
    sentences = [] if offsets == sorted(set(offsets)) else ["offsets are not in order"]
    values = [row.value for row in found if row.value is not None]
    if len(values) != len(set(values)):
        sentences.append("a record is there twice")
    return [*sentences, *_not_sent(sent, found), *_against_outcome(lines, sent, found)]


def _not_sent(sent: dict[tuple[str, int], Sent], found: Iterable[Row]) -> Iterator[str]:
    for row in found:
        if row.value is not None:
            writer, _, number = row.value.rpartition(".")
            one = sent.get((writer, int(number)))
            if one is None or one.key != row.key:
                yield f"nobody sent {row}"


class _Told:
    """What writers were told of the outcome of their records."""

    def __init__(self, lines: Iterable[Line], sent: dict[tuple[str, int], Sent]) -> None:
        self.order = {one: at for at, one in enumerate(sent.values())}
        self.last: dict[str, Sent] = {}
        """By key: the last record that was confirmed."""
        self.aborted: set[str] = set()
        self.at_offset: dict[int, Sent] = {}
        for line in lines:
            writer = f"{line.who}.{line.life}"
            if line.what == "acked":
                one = sent[writer, line.more["number"]]
                self._confirmed(one)
                self.at_offset[line.more["offset"]] = one
            elif line.what in ("ending", "ended") and not line.more["commit"]:
                self.aborted |= {f"{writer}.{number}" for number in line.more["numbers"]}
            elif line.what == "ended":
                for number in line.more["numbers"]:
                    self._confirmed(sent[writer, number])

    def _confirmed(self, one: Sent) -> None:
        self.last[one.key] = max(self.last.get(one.key, one), one, key=self.order.__getitem__)


def _against_outcome(
    lines: Iterable[Line], sent: dict[tuple[str, int], Sent], found: Sequence[Row]
) -> Iterator[str]:
    """The last value of a key is the last one confirmed, or one that was sent later."""
    told = _Told(lines, sent)
    order = told.order
    yield from (f"{row} was aborted" for row in found if row.value in told.aborted)
    for row in found:
        there = told.at_offset.get(row.offset)
        if there is not None and (there.key != row.key or there.gone != (row.value is None)):
            yield f"{row} has the place of {there}"
    values = {row.key: row.value for row in found}
    for key, one in told.last.items():
        value = values.get(key)
        if value is not None:
            writer, _, number = value.rpartition(".")
            if order[sent[writer, int(number)]] < order[one]:
                yield f"{one} was confirmed, and {value} is the last one of its key"
        elif not any(
            other.key == key and other.gone and order[other] >= order[one] for other in order
        ):
            yield f"{one} was confirmed, and its key has no value"
