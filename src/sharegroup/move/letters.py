"""Dead letters name the offset of the record that they are about; most have no copy of it. In the
copy of their topic they name the offset in the copy of the record's topic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sharegroup.client.core.dead_letter import OFFSET, PARTITION, TOPIC
from sharegroup.model.ids import TopicPartition
from sharegroup.move.side import Places
from sharegroup.records.pure_codec import Fields

GONE: Final = 10**18 - 1
"""From here down are the offsets of records that the source had no longer: the copy will have
none of them. Each has its own: letters about two such records are not taken for two about one."""

Change = Callable[[Fields], Fields]


def named_by(record: Fields) -> tuple[TopicPartition, int] | None:
    """The record that a letter is about; None: it is no letter."""
    headers = dict(record[4])
    offset, index = headers.get(OFFSET), headers.get(PARTITION)
    topic = headers.get(TOPIC)
    if not (topic and offset and index and offset.isdigit() and index.isdigit()):
        return None
    return TopicPartition(topic.decode(errors="replace"), int(index)), int(offset)


def of_copies(places: Places) -> Change:
    """Changes letters; other records, and letters about topics that have no copy, stay."""

    def change(record: Fields) -> Fields:
        named = named_by(record)
        copy = None if named is None else places.get(named[0])
        if named is None or copy is None:
            return record
        span = copy.span(named[1], named[1])
        now = str(_gone(named[1]) if span is None else span[0]).encode()
        changed = [(name, now if name == OFFSET else data) for name, data in record[4]]
        return (*record[:4], changed)

    return change


def _gone(offset: int) -> int:
    return max(offset, GONE - offset)  # it stays as it is where a second move meets it
