"""``sharegroup produce``: sends lines, rows of CSV or records as JSON."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter, deque
from collections.abc import Awaitable
from contextlib import ExitStack, closing, suppress
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, BinaryIO, Final, NamedTuple

import typer

from sharegroup.cli.broker_check import reach
from sharegroup.cli.completion import Topic
from sharegroup.cli.confirming import Confirming, RecordPlace, place_in
from sharegroup.cli.connecting import BrokerAddress, broker_of
from sharegroup.cli.csv_rows import CsvRows
from sharegroup.cli.input import chunks, open_input, size_of
from sharegroup.cli.input_records import (
    LineSplitter,
    Parse,
    parse_headers,
    parser,
    with_message_id,
)
from sharegroup.cli.options import DEFAULT_BOOTSTRAP_SERVER, AsJson, BootstrapServer, CommandConfig
from sharegroup.cli.outcome import ExitCode, UsageError, complain, exit_code, explain, run
from sharegroup.cli.record_json import parse_record_json
from sharegroup.cli.stopping import Stopping
from sharegroup.cli.tables import count, print_json
from sharegroup.client.clock import wall_ms
from sharegroup.client.core.letter_expression import duration_ms
from sharegroup.client.core.record import Headers
from sharegroup.client.producer.delivery import Delivery
from sharegroup.client.producer.producer import Producer
from sharegroup.model.errors import MessageTooLarge, RecordListTooLarge, SharegroupError
from sharegroup.model.printable import printable

if TYPE_CHECKING:
    from rich.progress import Progress

BLOCK_MS: Final = 15_000  # for a missing topic, or a broker that accepts no more records

EPILOG: Final = """\
Examples:

\b
seq 1 1000 | sharegroup produce jobs
sharegroup produce jobs --key-separator : -H source=shell < pairs.txt
sharegroup produce flights flights.csv --format csv --key carrier
sharegroup consume jobs --peek --until latest --format json |
  sharegroup produce copy --format json
"""


class Form(StrEnum):
    """The format of the input."""

    LINES = "lines"
    CSV = "csv"
    JSON = "json"


OPTIONS: Final = {
    Form.LINES: {"--key", "--key-separator", "--message-id"},
    Form.CSV: {"--key", "--value", "--header-column", "--message-id"},
    Form.JSON: set[str](),
}
"""Which options apply to which formats of the input."""


ConfirmTo = Annotated[
    str | None,
    typer.Option(
        metavar="PIPE",
        help="JSON: tell `consume --confirmed-by`, by this named pipe, what is durable.",
    ),
]
MessageId = Annotated[
    str | None,
    typer.Option(
        metavar="FIELD",
        help="The CSV column, or the field of JSON lines, that tells messages apart: a topic "
        "with deduplication.window.ms takes each id once.",
    ),
]
Partition = Annotated[
    int | None,
    typer.Option("--partition", "-p", min=0, help="Send all records to this partition."),
]
ExpiresIn = Annotated[
    str | None,
    typer.Option(
        metavar="DURATION",
        help="The records are worthless after this time, as in 90s, 10m, 2d; for groups with "
        "share.record.expiry.header.enable.",
    ),
]
DeliverIn = Annotated[
    str | None,
    typer.Option(
        "--in",
        metavar="DURATION",
        help="The records are delivered after this time, as in 90s, 10m, 2d; to groups with "
        "share.record.schedule.header.enable.",
    ),
]
Header = Annotated[
    list[str] | None,
    typer.Option(
        "--header", "-H", metavar="NAME=VALUE", help="A header for all records; repeatable."
    ),
]


def add_to(application: typer.Typer) -> None:
    """Add the command."""
    application.command("produce", epilog=EPILOG)(produce)


def produce(
    topic: Topic,
    path: Annotated[str, typer.Argument(metavar="[FILE]", help="The input; - is stdin.")] = "-",
    form: Annotated[
        Form, typer.Option("--format", "-f", help="The format of the input.")
    ] = Form.LINES,
    key: Annotated[
        str | None,
        typer.Option(
            metavar="FIELD", help="The CSV column, or the field of JSON lines, with the key."
        ),
    ] = None,
    key_separator: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="The text between key and value in a line."),
    ] = None,
    value: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="CSV: the column with the value.  [default: the other columns, as JSON]",
        ),
    ] = None,
    header_columns: Annotated[
        list[str] | None,
        typer.Option(
            "--header-column", metavar="COLUMN", help="CSV: a column with a header; repeatable."
        ),
    ] = None,
    header: Header = None,
    message_id: MessageId = None,
    partition: Partition = None,
    expires_in: ExpiresIn = None,
    deliver_in: DeliverIn = None,
    compression: Annotated[str, typer.Option(help="none, gzip, snappy, lz4 or zstd.")] = "none",
    confirm_to: ConfirmTo = None,
    as_json: AsJson = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    command_config: CommandConfig = None,
) -> None:
    """Send each line of a file or of stdin as a record, or each row of CSV, or records as JSON.

    Records with the same key go to the same partition. On Ctrl-C the lines read so far are sent,
    and the number of records that the broker has accepted is printed.

    --format lines: a line is the value; with --key-separator, key and value. With --key FIELD the
    line is a JSON object; the whole line is the value.

    --format csv: the first row has the names of the columns.

    --format json: the output of `consume --format json`. Value, key, headers, partition and
    timestamp (ms) are kept; topic, offset and delivery_count are ignored. With --confirm-to they
    are given back when the record is durable, and `consume --confirmed-by` accepts it then.
    """

    async def command() -> int:
        parse = _parse(form, key, key_separator, value, header_columns or [], message_id)
        headers = parse_headers(header or [])
        times = _times(expires_in, deliver_in)
        sending = ProduceRun(topic, parse, headers, partition, times)
        with ExitStack() as stack:
            if confirm_to is not None:
                sending.confirming = stack.enter_context(closing(_confirming(form, confirm_to)))
            producer = await _producer(broker_of(bootstrap_server, command_config), compression)
            file = stack.enter_context(open_input(path))
            status = await _produce(producer, sending, file)
        _report(sending, as_json=as_json)
        return status

    run(command())


def _milliseconds(option: str, text: str | None) -> int | None:
    found = None if text is None else duration_ms(text)
    if text is not None and found is None:
        raise UsageError(f"{option} is {text!r}: write a duration, as in 90s, 15m, 12h, 2d")
    return found


class _Times(NamedTuple):
    """When records expire and are due: milliseconds after they are sent, if they do or are."""

    expires_in_ms: int | None
    deliver_in_ms: int | None


def _times(expires_in: str | None, deliver_in: str | None) -> _Times:
    expires_ms = _milliseconds("--expires-in", expires_in)
    deliver_ms = _milliseconds("--in", deliver_in)
    if expires_ms is not None and deliver_ms is not None and expires_ms <= deliver_ms:
        raise UsageError("--expires-in must be longer than --in: such records go to nobody")
    return _Times(expires_ms, deliver_ms)


def _confirming(form: Form, pipe: str) -> Confirming:
    if form is not Form.JSON:
        raise UsageError("--confirm-to needs --format json, which says where a record was read")
    return Confirming(pipe)


async def _producer(broker: BrokerAddress, compression: str) -> Producer:
    await reach(broker)
    return Producer(
        broker.servers, compression=compression, max_block_ms=BLOCK_MS, **broker.arguments
    )


def _parse(
    form: Form,
    key: str | None,
    separator: str | None,
    value: str | None,
    headers: list[str],
    message_id: str | None,
) -> Parse:
    """The parser of the input.

    Raises:
        UsageError: an option does not apply to this format.
    """
    given = {"--key": key, "--key-separator": separator, "--value": value}
    given["--message-id"] = message_id
    given["--header-column"] = headers[0] if headers else None
    for option, text in given.items():
        if text is not None and option not in OPTIONS[form]:
            raise UsageError(f"{option} is not for --format {form}")
    if form is Form.CSV:
        return CsvRows(key, value, headers, message_id)
    if form is Form.JSON:
        return parse_record_json
    lines = parser(key, separator)
    return lines if message_id is None else with_message_id(lines, message_id)


def _from_now(after_ms: int | None) -> int | None:
    return None if after_ms is None else wall_ms() + after_ms


class _Sent(NamedTuple):
    line: int
    delivery: Delivery
    place: RecordPlace | None  # where the record was read, if its arrival is to be confirmed


class ProduceRun:
    """The records being sent, and the numbers of accepted and refused records."""

    def __init__(
        self,
        topic: str,
        parse: Parse,
        headers: Headers,
        partition: int | None,
        times: _Times,
    ) -> None:
        self.topic = topic
        self._times = times
        self._headers = headers
        self._partition = partition
        self.delivered: Counter[int] = Counter()  # by partition
        self.refused = 0
        self.repeated = 0  # of the delivered: the topic has had their message id
        self.error: SharegroupError | None = None  # the first one
        self.refused_line = 0  # the line of its record; 0: it is not about a record
        self._parse = parse
        self.lines = 0
        self.confirming: Confirming | None = None
        self._on_their_way: deque[_Sent] = deque()

    async def send(self, producer: Producer, line: bytes) -> None:
        """Queue the record of a line; raises UsageError if the line is invalid."""
        self.lines += 1
        parsed = self._parse(self.lines, line)
        if parsed is not None:
            place = self._place(parsed.document)
            try:
                sent = await producer.enqueue(
                    self.topic,
                    parsed.value,
                    key=parsed.key,
                    headers=[*parsed.headers, *self._headers],
                    partition=parsed.partition if self._partition is None else self._partition,
                    timestamp_ms=parsed.timestamp_ms,
                    expires_at=_from_now(self._times.expires_in_ms),
                    deliver_at=_from_now(self._times.deliver_in_ms),
                )
            except ValueError as error:  # as for a topic whose name no topic can have
                raise UsageError(str(error)) from None
            self._on_their_way.append(_Sent(self.lines, sent, place))

    def end(self) -> None:
        """Note the end of the input; raises UsageError if a row is incomplete."""
        if isinstance(self._parse, CsvRows):
            self._parse.end()

    async def settle(self) -> None:
        """Count the records that the broker has answered, the oldest first."""
        while self._on_their_way and self._on_their_way[0].delivery.done():
            await self._count(self._on_their_way.popleft())

    async def settle_while(self, reading: Awaitable[bytes]) -> bytes | None:
        """The input that is read, or None once a record is refused. Meanwhile answers are counted
        and confirmed: they must not wait for more input, because the other side may send more only
        after it gets confirmations.
        """
        read = asyncio.ensure_future(reading)
        try:
            while not read.done() and self.error is None and self._on_their_way:
                answer = asyncio.ensure_future(self._on_their_way[0].delivery)
                try:
                    await asyncio.wait((read, answer), return_when=asyncio.FIRST_COMPLETED)
                finally:
                    answer.cancel()
                    await asyncio.gather(answer, return_exceptions=True)  # counted by settle()
                await self.settle()
            return None if self.error is not None else await read
        finally:
            read.cancel()
            await asyncio.wait((read,))

    async def settle_all(self, producer: Producer) -> None:
        """Wait for the answers of all records, and count them."""
        with suppress(SharegroupError):  # each record's future has the error too
            await producer.flush()
        while self._on_their_way:
            await self._count(self._on_their_way.popleft())

    async def _count(self, sent: _Sent) -> None:
        try:
            where = await sent.delivery
            self.delivered[where.partition] += 1
            self.repeated += where.repeated
        except SharegroupError as error:
            self.refused += 1
            if self.error is None:
                self.error, self.refused_line = error, sent.line
            return
        if self.confirming is not None and sent.place is not None:
            try:
                await self.confirming.confirm(sent.place)
            except SharegroupError as error:
                self.confirming = None
                self.error = self.error or error

    def _place(self, document: object) -> RecordPlace | None:
        if self.confirming is None:
            return None
        place = place_in(document)
        if place is None:
            raise UsageError(
                f"line {self.lines} has no topic, partition and offset: nothing to confirm"
            )
        return place


async def _produce(producer: Producer, sending: ProduceRun, file: BinaryIO) -> int:
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
        complain(_said_of(sending.error, sending.refused_line))
        return exit_code(sending.error)
    return stopping.exit_code or ExitCode.DONE


def _said_of(error: SharegroupError, line: int) -> str:
    """The error's text, with the line of its record if that record alone is to blame."""
    alone = isinstance(error, MessageTooLarge | RecordListTooLarge)
    return explain(error) + (f" (line {line} of the input)" if alone and line else "")


async def _send_all(
    producer: Producer, sending: ProduceRun, file: BinaryIO, stopping: Stopping
) -> None:
    """Send records until the end of the input, a signal, or the first refused record."""
    splitter = LineSplitter()
    parts = chunks(file)
    with _progress(size_of(file)) as progress:
        while sending.error is None and not stopping.asked():
            chunk = await stopping.unless_stopped(sending.settle_while(anext(parts, b"")))
            if chunk is None:
                return
            for line in splitter.feed(chunk) if chunk else splitter.end():
                if stopping.asked():
                    return
                send = sending.send(producer, line)
                # Only the first send may be interrupted: it waits for the topic. If a later send
                # were interrupted, its record might be in the buffer without being counted.
                await (stopping.unless_stopped(send) if sending.lines == 0 else send)
            if not chunk:
                if not stopping.asked():
                    sending.end()
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


def _report(sending: ProduceRun, *, as_json: bool) -> None:
    sent = sending.delivered.total()
    repeated = {"repeated": sending.repeated} if sending.repeated else {}
    if as_json:
        partitions = {str(partition): n for partition, n in sorted(sending.delivered.items())}
        print_json(
            {
                "topic": sending.topic,
                "sent": sent,
                **repeated,
                "refused": sending.refused,
                "partitions": partitions,
            }
        )
    else:
        refused = f", {sending.refused} refused" if sending.refused else ""
        again = f", {sending.repeated} of them there already" if repeated else ""
        line = f"{count(sent, 'record')} sent to {sending.topic}{again}{refused}"
        print(printable(line), file=sys.stderr)
