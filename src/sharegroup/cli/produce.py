"""``sharegroup produce``: each line of a file or of stdin becomes a record."""

from __future__ import annotations

import sys
from collections import Counter, deque
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, BinaryIO, Final

import typer

from sharegroup.cli.input import chunks, open_input, size_of
from sharegroup.cli.lines import LineSplitter, Parse, parser
from sharegroup.cli.options import DEFAULT_BOOTSTRAP_SERVER, AsJson, BootstrapServer
from sharegroup.cli.outcome import ExitCode, complain, exit_code, run
from sharegroup.cli.stopping import Stopping
from sharegroup.cli.tables import count, print_json
from sharegroup.client.producer import Producer, SentRecord
from sharegroup.model.errors import KafkaError, SharegroupError
from sharegroup.model.printable import printable

if TYPE_CHECKING:
    from rich.progress import Progress

BLOCK_MS: Final = 15_000  # for a topic that is not there, or a broker that takes no more


def add_to(application: typer.Typer) -> None:
    """Add the command."""
    application.command("produce")(produce)


def produce(
    topic: Annotated[str, typer.Argument(metavar="TOPIC")],
    path: Annotated[str, typer.Argument(metavar="[FILE]", help="What to read; - is stdin.")] = "-",
    key: Annotated[
        str | None,
        typer.Option(metavar="FIELD", help="Lines are JSON objects; this field is the key."),
    ] = None,
    key_separator: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="A line is a key, this text, and the value."),
    ] = None,
    compression: Annotated[str, typer.Option(help="none, gzip, snappy, lz4 or zstd.")] = "none",
    as_json: AsJson = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
) -> None:
    """Send each line of a file, or of stdin, as a record.

    Records with the same key go to the same partition. Ctrl-C sends what was read and says how
    many the broker has.
    """

    async def command() -> int:
        sending = Sending(topic, parser(key, key_separator))
        producer = Producer(bootstrap_server, compression=compression, max_block_ms=BLOCK_MS)
        with open_input(path) as file:
            status = await _produce(producer, sending, file)
        _report(sending, as_json=as_json)
        return status

    run(command())


class Sending:
    """Lines on their way, and what became of them."""

    def __init__(self, topic: str, parse: Parse) -> None:
        self.topic = topic
        self.delivered: Counter[int] = Counter()  # by partition
        self.refused = 0
        self.error: SharegroupError | None = None  # the first one
        self._parse = parse
        self.lines = 0
        self._on_their_way: deque[SentRecord] = deque()

    async def send(self, producer: Producer, line: bytes) -> None:
        """Queue one line; raises UsageError when it cannot be a record."""
        self.lines += 1
        parsed = self._parse(self.lines, line)
        if parsed is not None:
            sent = await producer.send(self.topic, parsed.value, key=parsed.key)
            self._on_their_way.append(sent)

    async def settle(self) -> None:
        """Count those that the broker has answered for, from the oldest on."""
        while self._on_their_way and self._on_their_way[0].done():
            await self._count(self._on_their_way.popleft())

    async def settle_all(self, producer: Producer) -> None:
        """Wait for all that are on their way, and count them."""
        with suppress(KafkaError):  # each record says it again
            await producer.flush()
        while self._on_their_way:
            await self._count(self._on_their_way.popleft())

    async def _count(self, sent: SentRecord) -> None:
        try:
            self.delivered[(await sent).partition] += 1
        except SharegroupError as error:
            self.refused += 1
            self.error = self.error or error


async def _produce(producer: Producer, sending: Sending, file: BinaryIO) -> int:
    with Stopping() as stopping:
        try:
            await stopping.unless_stopped(producer.start())
            await _send_all(producer, sending, file, stopping)
        except SharegroupError as error:
            sending.error = error
        finally:
            await sending.settle_all(producer)
            await producer.close()
    if sending.error is not None:
        complain(sending.error)
        return exit_code(sending.error)
    return stopping.exit_code or ExitCode.DONE


async def _send_all(
    producer: Producer, sending: Sending, file: BinaryIO, stopping: Stopping
) -> None:
    """Until the end of the input, a signal, or the first record that is refused."""
    splitter = LineSplitter()
    parts = chunks(file)
    with _progress(size_of(file)) as progress:
        while sending.error is None and not stopping.asked():
            chunk = await stopping.unless_stopped(anext(parts, b""))
            for line in splitter.feed(chunk) if chunk else splitter.end():
                if stopping.asked():
                    return
                send = sending.send(producer, line)
                # The first one waits for the topic. Any later one, interrupted, might be in the
                # buffer without being counted.
                await (stopping.unless_stopped(send) if sending.lines == 0 else send)
            if not chunk:
                return
            await sending.settle()
            progress.advance(progress.task_ids[0], len(chunk))


def _progress(size: int | None) -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (BarColumn(), DownloadColumn(), TimeRemainingColumn())
    shown = console.is_terminal and not sys.stdin.isatty()
    progress = Progress(*columns, console=console, transient=True, disable=not shown)
    progress.add_task("", total=size)
    return progress


def _report(sending: Sending, *, as_json: bool) -> None:
    sent = sending.delivered.total()
    if as_json:
        partitions = {str(partition): n for partition, n in sorted(sending.delivered.items())}
        print_json(
            {
                "topic": sending.topic,
                "sent": sent,
                "refused": sending.refused,
                "partitions": partitions,
            }
        )
    else:
        refused = f", {sending.refused} refused" if sending.refused else ""
        line = f"{count(sent, 'record')} sent to {sending.topic}{refused}"
        print(printable(line), file=sys.stderr)
