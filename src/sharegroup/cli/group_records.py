"""``sharegroup groups records``: the state of each record in flight, to find stuck records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final

import typer

from sharegroup.cli.broker_check import admin_of
from sharegroup.cli.completion import Group, complete_topics
from sharegroup.cli.connecting import broker_of
from sharegroup.cli.options import DEFAULT_BOOTSTRAP_SERVER, AsJson, BootstrapServer, CommandConfig
from sharegroup.cli.outcome import ExitCode, UsageError, complain, exit_code, run
from sharegroup.cli.tables import count, print_rows
from sharegroup.client.admin.descriptions import PartitionRecords, RecordRange
from sharegroup.cooperative.intervals import minus
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
    "reason",
)
DAMAGED: Final = "damaged"
"""Not a state of share groups: the log has lost the record, so it cannot be delivered."""
BLOCKED: Final = "blocked"
"""Available, but waiting for an operator."""
ARCHIVING: Final = "archiving"
"""Archived, but its dead letter is not written yet."""
STATES: Final = (*(state.name.lower() for state in RecordState), DAMAGED, BLOCKED, ARCHIVING)


def records(
    group: Group,
    topics: Annotated[
        list[str] | None,
        typer.Option(
            "--topic",
            "-t",
            metavar="TOPIC",
            help="Only this topic. Repeatable.",
            autocompletion=complete_topics,
        ),
    ] = None,
    states: Annotated[
        list[str] | None,
        typer.Option("--state", metavar="STATE,…", help=f"Only {', '.join(STATES)} records."),
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", min=1, help="Show at most this many lines.")
    ] = 1_000,
    as_json: AsJson = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    command_config: CommandConfig = None,
) -> None:
    """Show the records of a share group from its start offset on, with their states.

    A line is a range of records in one state, with the member that holds them and the time left on
    its lock (lock ms). All records before the first line of a partition are finished; the last line
    ends at the end of the log. Apache Kafka shows acquired records as available.

    Delayed: comes again in lock ms.

    Damaged: the log has lost these records on disk, and the group skips them; those that it has
    skipped already show too.

    Blocked: failed at the delivery limit, in a group with share.ordering.on.failure=block. The
    record's key waits until somebody says release or archive.

    Archiving: archived, but the record's dead letter is not written yet. The reason is what its
    consumer said, or else how it failed. The broker's log says what the letters wait for.

    Archived: not delivered any more. The reason is delivery-limit, rejected, damaged, deleted (by
    retention or DeleteRecords) or retention-cap. The broker remembers the last 200 ranges of each
    partition, also before the start offset, until it restarts; its metrics count all.
    """

    async def command() -> ExitCode:
        wanted = parse_states(states or [])
        async with admin_of(broker_of(bootstrap_server, command_config)) as admin:
            await admin.describe_share_groups([group])  # an error if the group does not exist
            known = await admin.describe_record_states(group)
            found = {at: one for at, one in known.items() if not topics or at.topic in topics}
            missing = set(topics or ()) - {at.topic for at in found}
            readable = [at for at, one in found.items() if one.error is None]
            ends = await admin.list_offsets(readable)
        rows = [
            row
            for at in readable
            for row in _rows(at, found[at], ends[at].offset)
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
        UsageError: there is no such state of a record.
    """
    states = {state.strip().lower() for text in texts for state in text.split(",")}
    for state in states - set(STATES):
        raise UsageError(f"--state {state}: the states of a record are {', '.join(STATES)}")
    return frozenset(states)


def _to_end(records: PartitionRecords, log_end: int) -> list[RecordRange]:
    """The ranges, and a last one up to the end of the log for records that were never delivered."""
    ranges = [*records.given_up, *records.ranges]
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


def _rows(at: TopicPartition, records: PartitionRecords, log_end: int) -> list[dict[str, Any]]:
    ranges = _to_end(records, log_end)
    rows = [
        _row(at, first, last, one)
        for one in ranges
        for first, last in minus([(one.first, one.last)], records.damaged)
    ]
    rows += [_row(at, first, last, None) for first, last in records.damaged]
    return sorted(rows, key=lambda row: int(row["first"]))


def _state(one: RecordRange | None) -> str:
    if one is None:
        return DAMAGED
    if one.blocked:
        return BLOCKED
    return ARCHIVING if one.archiving else one.state.name.lower()


def _row(at: TopicPartition, first: int, last: int, one: RecordRange | None) -> dict[str, Any]:
    """A line of the table; the records are damaged if ``one`` is None."""
    return {
        "topic": at.topic,
        "partition": at.partition,
        "first": first,
        "last": last,
        "records": last - first + 1,
        "state": _state(one),
        "delivery_count": 0 if one is None else one.delivery_count,
        "member": None if one is None else one.member_id,
        "lock_ms": None if one is None else one.lock_ms,
        "reason": None if one is None else one.reason,
    }
