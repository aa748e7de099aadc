"""The check. It knows the flights from the file, and reads their outcomes from the broker, the
journals and the Parquet files. It shares no logic with the workload: the rules for a flight are
written here a second time.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import pyarrow.dataset
import pyarrow.parquet

from flights_demo.dataset import Flight
from flights_demo.journal import Batch, Verdict
from sharegroup import Admin
from sharegroup.model.ids import TopicPartition

VERY_LATE_MINUTES = 300
MEAN_TOLERANCE = 1e-9

Statistics = dict[tuple[str, str, str], tuple[int, float | None]]
"""(origin, carrier, day) → departures, mean delay in minutes (None: all were cancelled)."""


class Finding(NamedTuple):
    """One line of the verdict: a number and its required value (None: any value will do)."""

    what: str
    found: int
    expected: int | None = None

    @property
    def ok(self) -> bool:
        """Whether the number has its required value."""
        return self.expected is None or self.found == self.expected


# --- the broker's own state -----------------------------------------------------------------------


async def check_broker(
    bootstrap: str, topic: str, groups: Iterable[str], flights: int
) -> dict[str, list[Finding]]:
    """Check that the log holds every flight once, and that the groups have finished all of them."""
    async with Admin(bootstrap) as admin:
        described = (await admin.describe_topics(topic))[topic]
        partitions = [TopicPartition(topic, one.partition) for one in described.partitions]
        ends = {where: at.offset for where, at in (await admin.list_offsets(partitions)).items()}
        progress = {group: await admin.list_share_group_offsets(group) for group in groups}
    findings = {"The log": [Finding("records in the topic", sum(ends.values()), flights)]}
    for group, offsets in progress.items():
        at_end = sum(one.start_offset == ends[where] for where, one in offsets.items())
        # A lag that the broker does not know counts as one: it is certainly not zero.
        findings[f"Share group {group}, says the broker"] = [
            Finding("partitions done to their end", at_end, len(ends)),
            Finding("records not done (lag)", sum(_known(one.lag) for one in offsets.values()), 0),
            Finding("records in flight", sum(_known(one.in_flight) for one in offsets.values()), 0),
        ]
    return findings


def _known(number: int | None) -> int:
    return 1 if number is None else number


# --- the pool of consumers ------------------------------------------------------------------------


class Story(NamedTuple):
    """The journals' entries about one flight: final decisions, and confirmed releases."""

    confirmed: list[tuple[Verdict, int]]
    in_doubt: list[tuple[Verdict, int]]
    released: list[int]

    @property
    def end(self) -> tuple[Verdict, int] | None:
        """The final decision, and its delivery count.

        A decision in doubt (its worker or the broker was killed before the answer) counts if no
        other followed: the broker must have had it, or the flight would have come again.
        """
        finals = self.confirmed or self.in_doubt
        return finals[-1] if finals else None

    @property
    def only_in_doubt(self) -> bool:
        """No decision was confirmed, and at least one was sent."""
        return bool(self.in_doubt) and not self.confirmed


def stories(batches: Iterable[Batch]) -> dict[int, Story]:
    """The journals, by flight."""
    found: dict[int, Story] = defaultdict(lambda: Story([], [], []))
    for batch in batches:
        sure = batch.confirmed_at is not None
        for flight, _, verdict, count in batch.decisions:
            story = found[flight]
            if verdict != "release":
                (story.confirmed if sure else story.in_doubt).append((verdict, count))
            elif sure:
                story.released.append(count)
    return found


def check_pool(flights: Collection[Flight], batches: Iterable[Batch]) -> list[Finding]:
    """Every flight was accepted or rejected as it should be, once, and the very late ones only
    after they had been put back.
    """
    told = stories(batches)
    none = Story([], [], [])
    departed = [one.id for one in flights if one.dep_time is not None]
    cancelled = [one.id for one in flights if one.dep_time is None]
    late = {one.id for one in flights if (one.dep_delay or 0) >= VERY_LATE_MINUTES}
    ends = {flight: story.end for flight, story in told.items()}
    verdicts = Counter((flight in late, end) for flight, end in ends.items())
    both = [one for one in told.values() if len({v for v, _ in one.confirmed + one.in_doubt}) > 1]
    return [
        Finding("accepted", _count(ends, departed, "accept"), len(departed)),
        Finding("rejected: cancelled flights", _count(ends, cancelled, "reject"), len(cancelled)),
        Finding("neither", sum(told.get(one.id, none).end is None for one in flights), 0),
        Finding("both", len(both), 0),
        Finding("confirmed twice", sum(len(one.confirmed) > 1 for one in told.values()), 0),
        Finding("very late, and accepted at once", verdicts[True, ("accept", 1)], 0),
        Finding("put back twice", sum(len(one.released) > 1 for one in told.values()), 0),
        Finding("not very late, and put back", _put_back(told, told.keys() - late), 0),
        Finding("put back, came again, accepted", _put_back(told, late)),
    ]


def _count(
    ends: Mapping[int, tuple[Verdict, int] | None], flights: Iterable[int], verdict: Verdict
) -> int:
    found = (ends.get(flight) for flight in flights)
    return sum(end is not None and end[0] == verdict for end in found)


def _put_back(told: Mapping[int, Story], flights: Iterable[int]) -> int:
    return sum(flight in told and bool(told[flight].released) for flight in flights)


def check_kills(batches: Collection[Batch]) -> list[Finding]:
    """The effects of the kills: never a wrong result, but some work was done again."""
    told = stories(batches).values()
    again = sum(one.delivery_count > 1 for batch in batches for one in batch.decisions)
    return [
        Finding("deliveries that were not the first", again),
        Finding("flights with a confirmation lost", sum(bool(one.in_doubt) for one in told)),
        Finding("… done again", sum(bool(one.in_doubt and one.confirmed) for one in told)),
        Finding("… not again: the broker knew", sum(one.only_in_doubt for one in told)),
    ]


# --- Spark ----------------------------------------------------------------------------------------


class Row(NamedTuple):
    """One flight in Spark's tables: the answer that it got, and at which delivery."""

    id: int
    ack: str
    delivery_count: int


def read_tables(folder: Path) -> list[Row]:
    """What Spark has written, of all batches."""
    tables = pyarrow.dataset.dataset(folder, format="parquet", partitioning="hive")
    return [Row(**row) for row in tables.to_table(columns=list(Row._fields)).to_pylist()]


def check_tables(flights: Collection[Flight], rows: Collection[Row]) -> list[Finding]:
    """Every flight is in one table, once; the very late ones are there from a later delivery."""
    found = {row.id: row for row in rows}
    departed = [one.id for one in flights if one.dep_time is not None]
    cancelled = [one.id for one in flights if one.dep_time is None]
    late = [one.id for one in flights if (one.dep_delay or 0) >= VERY_LATE_MINUTES]
    acks = {flight: row.ack for flight, row in found.items()}
    deliveries = [found[flight].delivery_count for flight in late if flight in found]
    return [
        Finding("accepted", sum(acks.get(one) == "accept" for one in departed), len(departed)),
        Finding(
            "rejected: cancelled flights",
            sum(acks.get(one) == "reject" for one in cancelled),
            len(cancelled),
        ),
        Finding("in no table", sum(one.id not in found for one in flights), 0),
        Finding("twice in the tables", len(rows) - len(found), 0),
        Finding("very late, and accepted at once", deliveries.count(1), 0),
        Finding("put back, came again, accepted", len(deliveries) - deliveries.count(1)),
    ]


def expected_statistics(flights: Iterable[Flight]) -> Statistics:
    """From the file alone."""
    delays: dict[tuple[str, str, str], list[int]] = defaultdict(list)
    for one in flights:
        known = [] if one.dep_delay is None else [one.dep_delay]
        delays[one.origin, one.carrier, one.day] += known
    return {
        key: (len(ones), sum(ones) / len(ones) if ones else None) for key, ones in delays.items()
    }


def read_statistics(folder: Path) -> Statistics:
    """What Spark has written."""
    rows = pyarrow.parquet.read_table(folder).to_pylist()
    return {
        (row["origin"], row["carrier"], row["day"].isoformat()): (
            row["departures"],
            row["mean_delay"],
        )
        for row in rows
    }


def check_statistics(expected: Statistics, found: Statistics) -> list[Finding]:
    """Every row is there, and its numbers are those of the file."""
    same = [key for key in expected if key in found and _same(expected[key], found[key])]
    return [
        Finding("rows: origin, carrier, day", len(found), len(expected)),
        Finding("departures", _departures(found), _departures(expected)),
        Finding("rows with equal count and mean delay", len(same), len(expected)),
    ]


def _departures(statistics: Statistics) -> int:
    return sum(count for count, _ in statistics.values())


def _same(one: tuple[int, float | None], other: tuple[int, float | None]) -> bool:
    if one[0] != other[0] or (one[1] is None) != (other[1] is None):
        return False
    return one[1] is None or other[1] is None or abs(one[1] - other[1]) <= MEAN_TOLERANCE
