"""Plans of offset resets: parses and prints plans, partitions and times. No I/O.

A plan is a CSV file that a user can review and change between ``--export`` and ``--from-file``::

    group,topic,partition,new-offset
    billing,orders,0,1200

A cell in quotes is taken as it is. Spaces around other cells are dropped, because an editor may
have put them there; so a name with spaces, line ends or quotes in it is written in quotes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Final

from sharegroup.cli.outcome import UsageError
from sharegroup.model.ids import TopicPartition

PLAN_COLUMNS: Final = ("group", "topic", "partition", "new-offset")
_OFFSET_MAX: Final = 2**63 - 1
_PARTITION_MAX: Final = 2**31 - 1
_SHORT_OFFSET: Final = re.compile(r"(?<=\d)([+-]\d\d)$")
_NEEDS_QUOTES: Final = re.compile(r"[^ -~]|[\s,\"]")
_LINE_END: Final = re.compile(r"\r\n|\r|\n")
_CELL: Final = re.compile(
    r'[ \t]*(?:"(?P<quoted>(?:[^"]|"")*)"[ \t]*|(?P<plain>[^,"\r\n]*))(?P<end>,|\r\n|\r|\n|\Z)'
)

Plan = dict[str, dict[TopicPartition, int]]
"""Group → partition → the new start offset."""


def plan_csv(plan: Plan) -> str:
    """The plan as CSV, with a line of column names."""
    rows = [
        (_cell(group), _cell(where.topic), str(where.partition), str(offset))
        for group, offsets in plan.items()
        for where, offset in offsets.items()
    ]
    return "".join(f"{','.join(row)}\n" for row in (PLAN_COLUMNS, *rows))


def parse_plan(text: str) -> Plan:
    """Parse a plan; blank lines are skipped.

    Raises:
        UsageError: a line is invalid, or two lines have the same partition of a group.
    """
    rows = _rows(text.removeprefix("\ufeff"))  # the BOM that spreadsheets write
    if next(rows, (1, ()))[1] != PLAN_COLUMNS:
        raise UsageError(f"the plan's first line must be {','.join(PLAN_COLUMNS)}")
    plan: Plan = {}
    for line, cells in rows:
        if cells == ("",):
            continue
        group, where, offset = _parse_row(line, cells)
        offsets = plan.setdefault(group, {})
        if where in offsets:
            raise UsageError(f"line {line} of the plan repeats {where} of group {group}")
        offsets[where] = offset
    if not plan:
        raise UsageError("the plan is empty")
    return plan


def _cell(name: str) -> str:
    if not _NEEDS_QUOTES.search(name):
        return name
    return '"' + name.replace('"', '""') + '"'


def _rows(text: str) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Each row, with the number of the line where it begins."""
    at, line = 0, 1
    while at < len(text):
        begin, cells, end = at, list[str](), ","
        while end == ",":
            found = _CELL.match(text, at)
            if found is None:
                raise UsageError(f"line {line} of the plan has a quote that is not closed")
            quoted = found["quoted"]
            cells.append(found["plain"].strip() if quoted is None else quoted.replace('""', '"'))
            at, end = found.end(), found["end"]
        yield line, tuple(cells)
        line += len(_LINE_END.findall(text, begin, at))


def _parse_row(line: int, cells: tuple[str, ...]) -> tuple[str, TopicPartition, int]:
    if len(cells) != len(PLAN_COLUMNS) or not cells[0] or not cells[1]:
        raise UsageError(f"line {line} of the plan is not {','.join(PLAN_COLUMNS)}")
    partition = _number(cells[2], _PARTITION_MAX)
    offset = _number(cells[3], _OFFSET_MAX)
    if partition is None or offset is None:
        raise UsageError(f"line {line} of the plan needs a partition's number and an offset")
    return cells[0], TopicPartition(cells[1], partition), offset


def parse_topics(texts: Iterable[str]) -> dict[str, list[int] | None]:
    """Parse ``orders`` (all partitions: None) and ``orders:0,1`` into topic → partitions.

    Raises:
        UsageError: a text has neither form.
    """
    found: dict[str, list[int] | None] = {}
    for text in texts:
        topic, colon, listed = text.partition(":")
        numbers = [_number(one, _PARTITION_MAX) for one in listed.split(",")] if colon else []
        known = [number for number in numbers if number is not None]
        if not topic or len(known) != len(numbers):
            raise UsageError(f"--topic {text}: write a topic, or its partitions as orders:0,1")
        before = found.get(topic, [])
        found[topic] = sorted({*before, *known}) if colon and before is not None else None
    return found


def parse_datetime_ms(text: str) -> int:
    """Milliseconds since 1970 of ``2026-11-21T08:30:00.000+01:00``. Time, fraction and zone are
    optional (without a zone: UTC, as in Kafka's tools).

    Raises:
        UsageError: the text is not a date.
    """
    try:
        return parse_moment_ms(text)
    except ValueError:
        raise UsageError(
            f"--to-datetime {text}: write it as 2026-11-21T08:30:00.000, followed by a zone such "
            "as +01:00 if it is not UTC"
        ) from None


def parse_moment_ms(text: str) -> int:
    """The same as :func:`parse_datetime_ms`, for other options.

    Raises:
        ValueError: the text is not a date.
    """
    moment = datetime.fromisoformat(_SHORT_OFFSET.sub(r"\1:00", text))
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


def partitions_text(partitions: Iterable[TopicPartition]) -> str:
    """``orders:0,1;payments:3``, as Kafka's tools write an assignment."""
    topics: dict[str, list[str]] = {}
    for topic, number in sorted(partitions):
        topics.setdefault(topic, []).append(str(number))
    return ";".join(f"{topic}:{','.join(numbers)}" for topic, numbers in topics.items())


def _number(text: str, maximum: int) -> int | None:
    text = text.strip()
    if not (text.isascii() and text.isdigit()) or len(text) > 20:
        return None
    number = int(text)
    return number if number <= maximum else None
