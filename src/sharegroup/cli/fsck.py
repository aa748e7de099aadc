"""``sharegroup fsck``: checks a data folder, and repairs it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Final

import typer

from sharegroup.app.environment import local_environment
from sharegroup.app.fsck import CheckOutcome, CheckProgress, fsck
from sharegroup.cli.options import AsJson
from sharegroup.cli.outcome import ExitCode, complain
from sharegroup.cli.tables import count, print_json
from sharegroup.model.errors import ConfigError
from sharegroup.storage.checkup.findings import Finding, Severity

EPILOG: Final = (
    "Exit status: 0 nothing is wrong, or everything is repaired; 1 something is wrong; 2 wrong "
    "usage; 3 the folder cannot be checked: a broker has it open, or it is not a data folder."
)


def add_to(application: typer.Typer) -> None:
    """Add the command."""
    application.command("fsck", epilog=EPILOG)(check)


def check(
    data: Annotated[str, typer.Option("--data", metavar="DIR", help="The broker's data folder.")],
    repair: Annotated[
        bool,
        typer.Option(
            "--repair", help="Rebuild what can be rebuilt, and record what is lost for good."
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check every batch, index, checkpoint and group record of a stopped broker.

    Prints a line for each finding: how bad it is, where, which offsets, how it affects each share
    group, and how to repair it. Without --repair nothing is written.

    error: records or delivery state are lost. warning: wrong, but no record is lost. known: lost
    for good and recorded, so that reads skip it; no longer an error. info: normal after a crash.

    --repair rebuilds indexes, snapshots, checkpoints, meta.properties, partition.metadata and
    catalog.json (without settings: they are lost), and records what cannot be read. It deletes
    nothing: replaced files are kept as NAME.damaged.N.

    --json prints one document: version, folder, repair, sound, topics, partitions,
    share_partitions, size_bytes, lost_records, open, repaired, and findings, each with severity,
    kind, place, message, topic, partition, first_offset, last_offset, records, groups (group,
    passed, in_flight, not_delivered), action and repaired.
    """
    try:
        with _shown(sys.stderr.isatty()) as progress:
            outcome = fsck(local_environment(), data, repair=repair, progress=progress)
    except ConfigError as error:
        complain(error)
        raise typer.Exit(ExitCode.CANNOT_CHECK) from None
    except OSError as error:
        place = f": {error.filename}" if error.filename else ""
        complain(f"data folder {data} cannot be checked: {error.strerror}{place}")
        raise typer.Exit(ExitCode.CANNOT_CHECK) from None
    if as_json:
        print_json(outcome.as_json())
    else:
        for finding in outcome.findings:
            print(line(finding))
        print(summary(outcome))
    raise typer.Exit(ExitCode.DONE if outcome.sound else ExitCode.REFUSED)


def line(finding: Finding) -> str:
    """A finding as a line of text."""
    text = f"{finding.severity:<7}  {finding.place}: {finding.message}"
    if finding.groups:
        text += f" [{'; '.join(str(each) for each in finding.groups)}]"
    if finding.repaired is not None:
        text += f" -- repaired: {finding.repaired}"
    elif finding.action is not None:
        text += f" -- {finding.action}"
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)


def summary(outcome: CheckOutcome) -> str:
    """The last line of the output."""
    checked = (
        f"{count(outcome.topics, 'topic')}, {count(outcome.partitions, 'partition')}, "
        f"{count(outcome.share_partitions, 'share partition')}, {outcome.size_bytes} bytes"
    )
    counts = [
        count(outcome.count(severity), severity.value)
        for severity in (Severity.ERROR, Severity.WARNING)
        if outcome.count(severity)
    ]
    repaired = sum(finding.repaired is not None for finding in outcome.findings)
    if repaired:
        counts.append(f"{repaired} repaired")
    if outcome.lost_records:
        counts.append(f"{count(outcome.lost_records, 'record')} lost")
    return f"{outcome.folder}: {checked}: {', '.join(counts) or 'nothing is wrong'}"


@contextmanager
def _shown(visible: bool) -> Iterator[CheckProgress]:
    """A progress bar over the bytes on stderr, if it is a terminal."""
    if not visible:
        yield CheckProgress(begins=lambda _: None, read=lambda _: None)
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, TimeRemainingColumn, TransferSpeedColumn
    from rich.progress import Progress as Bar

    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)
        yield CheckProgress(
            begins=lambda size: bar.update(task, total=size),
            read=lambda size: bar.advance(task, size),
        )
