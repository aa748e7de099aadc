"""``sharegroup spark-report``: shows a Spark query from its checkpoint."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from sharegroup.cli.broker_check import reach
from sharegroup.cli.connecting import broker_of
from sharegroup.cli.options import AsJson, CommandConfig, as_given
from sharegroup.cli.outcome import run
from sharegroup.cli.tables import print_json, print_line, print_table
from sharegroup.client.admin.admin import Admin
from sharegroup.spark.report.checkpoint import Checkpoint, ReportedBatch, read_checkpoint
from sharegroup.spark.report.findings import count, findings, since
from sharegroup.spark.report.picture import check_can_draw, draw
from sharegroup.spark.report.queue import Queue, ask
from sharegroup.spark.report.series import ALL
from sharegroup.spark.report.terminal import COLUMNS, rows

NAME: Final = "spark-report"
EPILOG: Final = """\
Examples:

\b
sharegroup spark-report checkpoint
sharegroup spark-report checkpoint --output report.png -b 127.0.0.1:9092
"""


def add_to(application: typer.Typer) -> None:
    """Add the command."""
    application.command(NAME, epilog=EPILOG)(spark_report)


def spark_report(
    checkpoint: Annotated[
        Path, typer.Argument(metavar="CHECKPOINT", help="The query's checkpointLocation.")
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Also draw a picture into this PNG."),
    ] = None,
    bootstrap_server: Annotated[
        str | None,
        typer.Option(
            "--bootstrap-server",
            "-b",
            metavar="HOST:PORT",
            help="Also show the queue on this broker: waiting records, and who holds records.",
            callback=as_given,
        ),
    ] = None,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Show a Spark query over a share group: its batches, and what slows it down.

    Reads only the files of the checkpoint, unless a broker is given. The query may be running.
    Times are the modification times of the files; a copy must preserve them.
    """

    async def command() -> None:
        if output is not None:
            check_can_draw()
        found = read_checkpoint(checkpoint)
        queues: list[Queue] = []
        if bootstrap_server is not None:
            broker = broker_of(bootstrap_server, command_config)
            await reach(broker)
            async with Admin(broker.servers, **broker.arguments) as admin:
                queues = [await ask(admin, group, found.topics) for group in found.groups]
        now_s = time.time()
        sentences = findings(found, now_s, queues)
        if as_json:
            print_json(_document(found, sentences))
        else:
            _show(found, sentences, now_s)
        if output is not None:
            draw(output, found)

    run(command())


def _show(checkpoint: Checkpoint, sentences: list[str], now_s: float) -> None:
    first, last = checkpoint.batches[0], checkpoint.batches[-1]
    print_line(
        f"query {checkpoint.query_id or '-'} on {', '.join(checkpoint.topics)}, "
        f"group {', '.join(checkpoint.groups)}"
    )
    print_line(
        f"{count(len(checkpoint.batches), 'batch')}, {first.number} to {last.number}, "
        f"the last one planned {since(now_s - last.planned_at)} ago"
    )
    print_table(COLUMNS, rows(checkpoint.batches))
    for sentence in sentences:
        print_line(f"* {sentence}")


def _document(checkpoint: Checkpoint, sentences: list[str]) -> dict[str, Any]:
    return {
        "query": checkpoint.query_id,
        "groups": list(checkpoint.groups),
        "topics": list(checkpoint.topics),
        "batches": [_batch(batch) for batch in checkpoint.batches],
        "findings": sentences,
    }


def _batch(batch: ReportedBatch) -> dict[str, Any]:
    numbers = {f"{s.name}_{s.unit}".rstrip("_"): s.of(batch) for s in ALL}
    return {
        "batch": batch.number,
        "planned_at": batch.planned_at,
        "finished_at": batch.finished_at,
        **numbers,
        "locks": batch.locks,
    }
