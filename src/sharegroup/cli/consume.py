"""``sharegroup consume``: a member of a share group that prints what it is given."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final

import typer

from sharegroup.cli.lines import record_json
from sharegroup.cli.options import DEFAULT_BOOTSTRAP_SERVER, AsJson, BootstrapServer
from sharegroup.cli.outcome import ExitCode, complain, exit_code, run
from sharegroup.cli.stopping import Stopping
from sharegroup.cli.tables import count
from sharegroup.client.admin import Admin
from sharegroup.client.consumer import ShareConsumer
from sharegroup.client.record import Record
from sharegroup.model.printable import printable, printable_json

POLL_MS: Final = 1_000
CLOSE_MS: Final = 5_000
POLL_RECORDS: Final = 500


class Ack(StrEnum):
    """What is said of a record once it is printed."""

    ACCEPT = "accept"
    RELEASE = "release"
    REJECT = "reject"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What the user asked for."""

    topics: list[str]
    group: str
    records_max: int | None
    ack: Ack
    as_json: bool
    idle_s: float | None
    bootstrap_server: str


def add_to(application: typer.Typer) -> None:
    """Add the command."""
    application.command("consume")(consume)


def consume(
    topics: Annotated[list[str], typer.Argument(metavar="TOPIC…", help="Topics to subscribe to.")],
    group: Annotated[str, typer.Option("--group", "-g", help="Name of the share group.")],
    records_max: Annotated[
        int | None, typer.Option("--max", "-n", min=1, help="End after this many records.")
    ] = None,
    ack: Annotated[Ack, typer.Option(help="What to say of a printed record.")] = Ack.ACCEPT,
    from_beginning: Annotated[
        bool,
        typer.Option("--from-beginning", help="A group that is new begins at the first record."),
    ] = False,
    idle_s: Annotated[
        float | None,
        typer.Option("--timeout", min=0, help="End when no record came for this many seconds."),
    ] = None,
    as_json: AsJson = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
) -> None:
    """Print the records that a share group gives this member, and acknowledge them.

    One record a line, the value alone, or with --json an object with all there is. A value goes
    into a file or a pipe byte for byte; on a terminal what does not print is escaped. Ctrl-C
    acknowledges what was printed and gives the rest back.
    """
    wanted = Wanted(
        topics=topics,
        group=group,
        records_max=records_max,
        ack=ack,
        as_json=as_json,
        idle_s=idle_s,
        bootstrap_server=bootstrap_server,
    )
    run(_consume(wanted, from_beginning=from_beginning))


async def _consume(wanted: Wanted, *, from_beginning: bool) -> int:
    await _prepare(wanted, from_beginning=from_beginning)
    printing = Printing(wanted)
    with Stopping() as stopping:
        consumer = ShareConsumer(
            *wanted.topics,
            bootstrap_servers=wanted.bootstrap_server,
            group_id=wanted.group,
            acknowledgement_mode="explicit",
            acquire_mode="record_limit" if wanted.records_max else "batch_optimized",
            max_poll_records=min(POLL_RECORDS, wanted.records_max or POLL_RECORDS),
        )
        try:
            await stopping.unless_stopped(consumer.start())
            await printing.run(consumer, stopping)
        finally:
            await consumer.close(timeout_ms=CLOSE_MS)
    printing.report()
    return stopping.exit_code or printing.exit_code


async def _prepare(wanted: Wanted, *, from_beginning: bool) -> None:
    """Begin the group, and say what the user would otherwise wait for without knowing why."""
    async with Admin(wanted.bootstrap_server) as admin:
        there = {topic.name for topic in await admin.list_topics(include_internal=True)}
        for name in wanted.topics:
            if name not in there:
                complain(f"there is no topic {name} that this user sees; waiting for it")
        if from_beginning and not await admin.begin_group_at(wanted.group, "earliest"):
            complain(f"group {wanted.group} is not new: it goes on where it is (--from-beginning)")


class Printing:
    """Polls, prints, and acknowledges what was printed, until there is a reason to end."""

    def __init__(self, wanted: Wanted) -> None:
        self._wanted = wanted
        self._printed = 0
        self.exit_code = ExitCode.DONE

    async def run(self, consumer: ShareConsumer, stopping: Stopping) -> None:
        """Until a signal, --max, --timeout, or until nobody reads what is printed."""
        loop = asyncio.get_running_loop()
        last_s = loop.time()
        while not (self._enough() or stopping.asked()):
            records = await stopping.unless_stopped(consumer.poll(timeout_ms=self._poll_ms()))
            if records is None:
                return
            if records:
                if not self._print(records[: self._left()]):
                    return
                await self._acknowledge(consumer, records)
                last_s = loop.time()
            elif self._wanted.idle_s is not None and loop.time() - last_s >= self._wanted.idle_s:
                return

    def report(self) -> None:
        """Say on stderr how many there were."""
        if not self._wanted.as_json:
            done = f"{self._wanted.ack.removesuffix('e')}ed"
            print(f"{count(self._printed, 'record')} {done}", file=sys.stderr)

    def _left(self) -> int | None:
        maximum = self._wanted.records_max
        return None if maximum is None else maximum - self._printed

    def _enough(self) -> bool:
        return self._left() == 0

    def _poll_ms(self) -> int:
        idle_s = self._wanted.idle_s
        return POLL_MS if idle_s is None else min(POLL_MS, max(1, int(idle_s * 1000)))

    def _print(self, records: list[Record]) -> bool:
        """False when stdout is closed: what nobody can have read is not acknowledged."""
        render = _json_line if self._wanted.as_json else _value_line
        if render is _value_line and sys.stdout.isatty():
            render = _shown_line
        try:
            sys.stdout.buffer.write(b"".join(map(render, records)))
            sys.stdout.buffer.flush()
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the exit's flush
            return False
        return True

    async def _acknowledge(self, consumer: ShareConsumer, records: list[Record]) -> None:
        left = self._left()
        said = {
            Ack.ACCEPT: consumer.accept,
            Ack.RELEASE: consumer.release,
            Ack.REJECT: consumer.reject,
        }[self._wanted.ack]
        for at, record in enumerate(records):
            if left is None or at < left:
                said(record)
                self._printed += 1
            else:
                consumer.release(record)
        for partition, error in (await consumer.commit()).items():
            if error is not None:
                complain(error)
                complain(f"the records of {partition} that were printed last may come again")
                self.exit_code = exit_code(error)


def _value_line(record: Record) -> bytes:
    return (record.value or b"") + b"\n"


def _shown_line(record: Record) -> bytes:
    """A value on a terminal, which would act on control characters; tabs are harmless."""
    text = (record.value or b"").decode(errors="backslashreplace")
    return printable(text, keep="\t").encode() + b"\n"


def _json_line(record: Record) -> bytes:
    return printable_json(json.dumps(record_json(record), ensure_ascii=False)).encode() + b"\n"
