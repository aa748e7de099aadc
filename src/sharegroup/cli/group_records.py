"""``sharegroup groups records``: the state of each record in flight, to find stuck records and to
decide about them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final, NamedTuple

import typer

from sharegroup.cli.broker_check import admin_of
from sharegroup.cli.completion import Group, OnlyTopics
from sharegroup.cli.confirmation import Yes, confirm
from sharegroup.cli.connecting import broker_of
from sharegroup.cli.group_hands import (
    Accept,
    Archive,
    Deed,
    Extend,
    Offsets,
    Partitions,
    Reason,
    Release,
    deed_of,
    do,
    parse_offsets,
    within,
)
from sharegroup.cli.options import DEFAULT_BOOTSTRAP_SERVER, AsJson, BootstrapServer, CommandConfig
from sharegroup.cli.outcome import ExitCode, UsageError, complain, exit_code, run
from sharegroup.cli.tables import count, print_rows
from sharegroup.client.admin.admin import Admin
from sharegroup.client.admin.descriptions import PartitionRecords, RecordRange
from sharegroup.cooperative.intervals import minus
from sharegroup.model.errors import KafkaError, UnknownTopicOrPartition
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


HELP: Final = """\
Show the records of a share group from its start offset on, with their states; or decide about them.

A line is a range of records in one state, with the member that holds them and the time left on its
lock (lock ms). All records before the first line of a partition are finished; the last line ends at
the end of the log. Apache Kafka shows acquired records as available.

Delayed: comes in lock ms, or comes again then. A record that waits for the time in its header is
shown so once a fetch has passed it.

Damaged: the log has lost these records on disk, and the group skips them; those that it has skipped
already show too.

Blocked: failed at the delivery limit, in a group with share.ordering.on.failure=block. The record's
key waits until somebody says release or archive.

Archiving: archived, but the record's dead letter is not written yet. The reason is what its
consumer said, or else how it failed. The broker's log says what the letters wait for.

Archived: not delivered any more. The reason is delivery-limit, rejected, expired, damaged, deleted
(by retention or DeleteRecords), retention-cap, or purged (groups purge). The broker remembers the
last 200 ranges of each partition until it restarts, also before the start offset;
sharegroup_archived_records_total counts all.

With --accept, --release, --archive or --extend the command decides about the records that it would
show and that are not finished. It asks first, unless --yes is given. Accept finishes the records,
and archive gives them up, also if nobody has got them yet. Release takes records from their
holders, ends their rest, and lets blocked ones go; it archives nothing, since a record at the
delivery limit is delivered once more. Extend lets members keep what they hold for so long from now
on. What a member answers later for a record that was taken from it has no effect, and is counted.
"""


def records(
    group: Group,
    topics: OnlyTopics = None,
    partitions: Partitions = None,
    offsets: Offsets = None,
    states: Annotated[
        list[str] | None,
        typer.Option("--state", metavar="STATE,…", help=f"Only {', '.join(STATES)} records."),
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", min=1, help="Show at most this many lines.")
    ] = 1_000,
    accept: Accept = False,
    release: Release = False,
    archive: Archive = False,
    extend: Extend = None,
    reason: Reason = None,
    yes: Yes = False,
    as_json: AsJson = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    command_config: CommandConfig = None,
) -> None:
    """Show, or decide; :data:`HELP` has what the user reads."""
    deed: Deed | None = None
    rows: list[dict[str, Any]] = []

    async def look() -> ExitCode:
        nonlocal deed
        deed = deed_of(
            accept=accept, release=release, archive=archive, extend=extend, reason=reason
        )
        wanted = _Wanted(topics, partitions, parse_offsets(offsets), parse_states(states or []))
        async with admin_of(broker_of(bootstrap_server, command_config)) as admin:
            found, errors = await _look(admin, group, wanted)
        rows.extend(one for one in found if deed is None or deed.concerns(one))
        if deed is None:
            print_rows(rows[:limit], COLUMNS, as_json=as_json)
            if len(rows) > limit:
                complain(f"{count(len(rows) - limit, 'more line')} not shown: raise --limit")
        elif not rows and not errors:
            complain(f"{group} has no such records to decide about")
            return ExitCode.REFUSED
        for error in errors:
            complain(error)
        return max(map(exit_code, errors), default=ExitCode.DONE)

    async def act(deed: Deed) -> ExitCode:
        async with admin_of(broker_of(bootstrap_server, command_config)) as admin:
            return await do(admin, group, deed, rows, as_json=as_json)

    # The question comes between two event loops: within one, Ctrl-C would not end it.
    try:
        run(look())
    except typer.Exit as ended:
        if ended.exit_code or deed is None:
            raise
    if deed is None:
        return
    size = sum(row["records"] for row in rows)
    confirm(f"{deed.question} {count(size, 'record')} of {group}", yes=yes)
    run(act(deed))


class _Wanted(NamedTuple):
    """Which records are shown; None or nothing: all."""

    topics: list[str] | None
    partitions: list[int] | None
    offsets: tuple[tuple[int, int], ...] | None
    states: frozenset[str]

    def has(self, at: TopicPartition) -> bool:
        """Whether it is about this partition."""
        known = not self.topics or at.topic in self.topics
        return known and (not self.partitions or at.partition in self.partitions)


async def _look(
    admin: Admin, group: str, wanted: _Wanted
) -> tuple[list[dict[str, Any]], list[KafkaError]]:
    """The lines, and what could not be read."""
    await admin.describe_share_groups([group])  # an error if the group does not exist
    known = await admin.describe_record_states(group)
    found = {at: one for at, one in known.items() if wanted.has(at)}
    missing = set(wanted.topics or ()) - {at.topic for at in known}
    readable = [at for at, one in found.items() if one.error is None]
    ends = await admin.list_offsets(readable)
    rows = [
        row
        for at in readable
        for row in _rows(at, found[at], ends[at].offset)
        if not wanted.states or row["state"] in wanted.states
    ]
    errors = [one.error for one in found.values() if one.error is not None]
    errors += [UnknownTopicOrPartition(f"{group} has no state of {name}") for name in missing]
    return within(rows, wanted.offsets), errors


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
