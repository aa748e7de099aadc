"""``sharegroup groups reset-offsets``: makes a plan, shows it, and executes it if told to."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import typer

from sharegroup.cli.broker_check import admin_of
from sharegroup.cli.completion import complete_topics
from sharegroup.cli.connecting import broker_of
from sharegroup.cli.group_choice import AllGroups, Groups, check_choice, described, members_to_stop
from sharegroup.cli.group_kinds import KindOption, Kinds, kinds_of
from sharegroup.cli.input import open_input
from sharegroup.cli.offset_plan import Plan, parse_datetime_ms, parse_plan, parse_topics, plan_csv
from sharegroup.cli.offset_planning import Scope, Target, make_plan, start_offsets
from sharegroup.cli.options import DEFAULT_BOOTSTRAP_SERVER, AsJson, BootstrapServer, CommandConfig
from sharegroup.cli.outcome import ExitCode, UsageError, complain, exit_code, run
from sharegroup.cli.tables import count, print_json, print_line, print_rows
from sharegroup.client.admin.admin import Admin
from sharegroup.client.admin.descriptions import OffsetSpec
from sharegroup.client.clock import wall_ms
from sharegroup.groups.offset_reset import duration_milliseconds
from sharegroup.model.errors import KafkaError, NonEmptyGroup
from sharegroup.model.ids import TopicPartition

COLUMNS: Final = ("group", "topic", "partition", "start_offset", "new_offset")
TARGETS: Final = (
    "--to-earliest, --to-latest, --to-current, --to-datetime, --by-duration, --to-offset, "
    "--shift-by or --from-file"
)


Topics = Annotated[
    list[str] | None,
    typer.Option(
        "--topic", "-t", metavar="TOPIC[:0,1]", help="Repeatable.", autocompletion=complete_topics
    ),
]
ToCurrent = Annotated[
    bool,
    typer.Option("--to-current", help="To the start offset: redelivers records in flight."),
]
ToDatetime = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="To the first record since 2026-11-21T08:30:00 (UTC)."),
]
ShiftBy = Annotated[
    int | None,
    typer.Option(metavar="N", help="By N records from the current offset: -N goes back."),
]


class ResetOutcome(NamedTuple):
    """The result of the reset of one partition; with --dry-run, the result that it would have."""

    group: str
    where: TopicPartition
    start_offset: int | None
    new_offset: int
    error: KafkaError | None

    def row(self) -> dict[str, Any]:
        """The result as columns, for a table or JSON."""
        return {
            "group": self.group,
            "topic": self.where.topic,
            "partition": self.where.partition,
            "start_offset": self.start_offset,
            "new_offset": self.new_offset,
            "error": None if self.error is None else self.error.name,
        }


def reset_offsets(
    groups: Groups = None,
    every: AllGroups = False,
    kind: KindOption = None,
    topic: Topics = None,
    every_topic: Annotated[
        bool, typer.Option("--all-topics", help="All topics that the group has offsets for.")
    ] = False,
    to_earliest: Annotated[
        bool, typer.Option("--to-earliest", help="To the first record.")
    ] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest", help="To the end.")] = False,
    to_current: ToCurrent = False,
    to_datetime: ToDatetime = None,
    by_duration: Annotated[
        str | None, typer.Option(metavar="DURATION", help="To the first record since PT15M ago.")
    ] = None,
    to_offset: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="To this offset, or the nearest one.")
    ] = None,
    shift_by: ShiftBy = None,
    from_file: Annotated[
        str | None, typer.Option(metavar="FILE", help="To the offsets in a plan (- for stdin).")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show.")] = False,
    execute: Annotated[bool, typer.Option("--execute", help="Do it.")] = False,
    export: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the plan as CSV, to review it.")
    ] = None,
    as_json: AsJson = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    command_config: CommandConfig = None,
) -> None:
    """Reset the offsets of groups.

    Every record from the new offset on is delivered again, even if it was finished before. The
    group must have no members. A group that does not exist is created: a share group, or with
    --type consumer a consumer group. Give either --dry-run or --execute.
    """

    async def command() -> ExitCode:
        target = _target(
            earliest=to_earliest,
            latest=to_latest,
            current=to_current,
            moment=to_datetime,
            duration=by_duration,
            offset=to_offset,
            shift=shift_by,
            file=from_file,
        )
        scope = Scope(
            groups=groups or [],
            every_group=every,
            kind=kind,
            topics=parse_topics(topic or []),
            every_topic=every_topic,
        )
        if dry_run == execute:
            raise UsageError("give either --dry-run, to see what would be done, or --execute")
        _check(scope, target)
        async with admin_of(broker_of(bootstrap_server, command_config)) as admin:
            kinds = await kinds_of(admin, kind)
            plan = await make_plan(admin, kinds, scope, target)
            if export is not None:
                _write_plan(export, plan)
            outcome = await _carried_out(admin, kinds, plan, execute=execute)
        return _report(outcome, export, execute=execute, as_json=as_json)

    run(command())


# --- what is asked for ----------------------------------------------------------------------------


def _target(
    *,
    earliest: bool,
    latest: bool,
    current: bool,
    moment: str | None,
    duration: str | None,
    offset: int | None,
    shift: int | None,
    file: str | None,
) -> Target:
    targets = []
    if earliest:
        targets.append(Target(at=OffsetSpec.EARLIEST))
    if latest:
        targets.append(Target(at=OffsetSpec.LATEST))
    if current:
        targets.append(Target())
    if moment is not None:
        targets.append(_since(parse_datetime_ms(moment)))
    if duration is not None:
        targets.append(_since(wall_ms() - _duration_ms(duration)))
    if offset is not None:
        targets.append(Target(offset=offset))
    if shift is not None:
        targets.append(Target(shift=shift))
    if file is not None:
        targets.append(Target(plan=_read_plan(file)))
    if len(targets) != 1:
        raise UsageError(f"choose the new offsets with exactly one of {TARGETS}")
    return targets[0]


def _since(timestamp_ms: int) -> Target:
    # No record is older than 1970, and negative timestamps have special meanings in ListOffsets.
    return Target(at=max(0, timestamp_ms))


def _duration_ms(text: str) -> int:
    try:
        duration_ms = duration_milliseconds(text)
    except ValueError as error:
        raise UsageError(f"--by-duration: {error}") from None
    if duration_ms < 0:
        raise UsageError(f"--by-duration {text} is negative")
    return duration_ms


def _read_plan(path: str) -> Plan:
    with open_input(path) as file:
        try:
            return parse_plan(file.read().decode())
        except UnicodeDecodeError:
            raise UsageError(f"{path} is not UTF-8 text") from None


def _check(scope: Scope, target: Target) -> None:
    chosen = bool(scope.topics) + scope.every_topic
    if target.plan is not None:
        if chosen or scope.groups or scope.every_group:
            raise UsageError("with --from-file the plan names the groups and topics: omit them")
        return
    check_choice(scope.groups, every=scope.every_group)
    if chosen != 1:
        raise UsageError("choose topics with --topic (repeatable) or --all-topics")


def _write_plan(path: Path, plan: Plan) -> None:
    try:
        path.write_text(plan_csv(plan), encoding="utf-8", newline="")
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from None


# --- carrying it out ------------------------------------------------------------------------------


async def _carried_out(
    admin: Admin, kinds: Kinds, plan: Plan, *, execute: bool
) -> list[ResetOutcome]:
    before = {
        group: await start_offsets(admin, kinds, group, offsets) for group, offsets in plan.items()
    }
    await _look_for_members(admin, plan, execute=execute)
    outcomes = []
    for group, offsets in plan.items():
        errors: Mapping[TopicPartition, KafkaError | None] = {}
        if execute and kinds.is_share(group):
            errors = await admin.alter_share_group_offsets(group, offsets)
        elif execute:
            errors = await admin.alter_consumer_group_offsets(group, offsets)
        outcomes += [
            ResetOutcome(group, where, before[group].get(where), offset, errors.get(where))
            for where, offset in offsets.items()
        ]
    return outcomes


async def _look_for_members(admin: Admin, plan: Plan, *, execute: bool) -> None:
    """Check that no group has members, before the first one is reset."""
    for group in plan:
        found = await described(admin, group)
        if found is None and not execute:
            complain(f"there is no group {group}: --execute creates it")
        elif found is not None and found.members:
            if execute:
                raise NonEmptyGroup(members_to_stop(found))
            complain(members_to_stop(found))


def _report(
    outcomes: list[ResetOutcome], export: Path | None, *, execute: bool, as_json: bool
) -> ExitCode:
    refused = [(one, one.error) for one in outcomes if one.error is not None]
    if as_json:
        print_json({"executed": execute, "moves": [one.row() for one in outcomes]})
    else:
        moved = [one.row() for one in outcomes if one.error is None]
        print_rows(moved, COLUMNS)
        done = "moved" if execute else "would be moved by --execute"
        print(f"{count(len(moved), 'partition')} {done}")
        if export is not None:
            print_line(f"plan written to {export}: execute it with --from-file")
    for one, error in refused:
        complain(f"{error.name}: {one.where} of group {one.group}: {error.message}")
    return max((exit_code(error) for _, error in refused), default=ExitCode.DONE)
