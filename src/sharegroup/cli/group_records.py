"""``sharegroup groups records``: the state of each record in flight, to see what is stuck."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Final

import typer

from sharegroup.cli.options import DEFAULT_BOOTSTRAP_SERVER, AsJson, BootstrapServer, Group
from sharegroup.cli.outcome import ExitCode, UsageError, complain, exit_code, run
from sharegroup.cli.tables import count, print_rows
from sharegroup.client.admin import Admin
from sharegroup.client.descriptions import PartitionRecords, RecordRange
from sharegroup.model.errors import UnknownTopicOrPartition
from sharegroup.model.ids import TopicPartition
from sharegroup.share.record_state import RecordState

COLUMNS: Final = (
    "topic",
    "partition",
    "first",
    "last",
    "records",
    "state",
    "delivery_count",
    "member",
    "lock_ms",
)
STATES: Final = tuple(state.name.lower() for state in RecordState)


def records(
    group: Group,
    topics: Annotated[
        list[str] | None,
        typer.Option("--topic", "-t", metavar="TOPIC", help="Only this one. Repeatable."),
    ] = None,
    states: Annotated[
        list[str] | None,
        typer.Option("--state", metavar="STATE,…", help=f"Only {', '.join(STATES)} ones."),
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", min=1, help="Show at most this many lines.")
    ] = 1_000,
    as_json: AsJson = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
) -> None:
    """Show the records of a share group that are not finished, and those finished behind them.

    A line is a run of records in one state: who holds them, and for how long yet (lock ms). Before
    the first line of a partition all is finished; the last one ends with the log. Nothing is taken
    from the queue. Apache Kafka does not tell which records are acquired: there they show as
    available.
    """

    async def command() -> ExitCode:
        wanted = parse_states(states or [])
        async with Admin(bootstrap_server) as admin:
            known = await admin.describe_record_states(group)
            found = {at: one for at, one in known.items() if not topics or at.topic in topics}
            missing = set(topics or ()) - {at.topic for at in found}
            readable = [at for at, one in found.items() if one.error is None]
            ends = await admin.list_offsets(readable)
        rows = [
            row
            for at in readable
            for row in _rows(at, _to_end(found[at], ends[at].offset))
            if not wanted or row["state"] in wanted
        ]
        print_rows(rows[:limit], COLUMNS, as_json=as_json)
        if len(rows) > limit:
            complain(f"{count(len(rows) - limit, 'more line')} not shown: raise --limit")
        errors = [one.error for one in found.values() if one.error is not None]
        errors += [UnknownTopicOrPartition(f"{group} has no state of {name}") for name in missing]
        for error in errors:
            complain(error)
        return max(map(exit_code, errors), default=ExitCode.DONE)

    run(command())


def parse_states(texts: Sequence[str]) -> frozenset[str]:
    """The states of ``["acquired,Archived", …]``.

    Raises:
        UsageError: a record has no such state.
    """
    states = {state.strip().lower() for text in texts for state in text.split(",")}
    for state in states - set(STATES):
        raise UsageError(f"--state {state}: a record is {', '.join(STATES)}")
    return frozenset(states)


def _to_end(records: PartitionRecords, log_end: int) -> list[RecordRange]:
    """With what nobody was given yet as a last run, up to the end of the log."""
    ranges = list(records.ranges)
    if records.end_offset is not None and records.end_offset < log_end:
        ranges.append(
            RecordRange(
                first=records.end_offset,
                last=log_end - 1,
                state=RecordState.AVAILABLE,
                delivery_count=0,
            )
        )
    return ranges


def _rows(at: TopicPartition, ranges: Sequence[RecordRange]) -> Iterator[dict[str, Any]]:
    for one in ranges:
        yield {
            "topic": at.topic,
            "partition": at.partition,
            "first": one.first,
            "last": one.last,
            "records": one.last - one.first + 1,
            "state": one.state.name.lower(),
            "delivery_count": one.delivery_count,
            "member": one.member_id,
            "lock_ms": one.lock_ms,
        }
