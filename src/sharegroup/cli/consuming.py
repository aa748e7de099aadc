"""Prints the records of a share group, and acknowledges the records that the reader has read."""

from __future__ import annotations

import asyncio
import math
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from sharegroup.cli.broker_check import admin_of
from sharegroup.cli.confirming import Confirmations
from sharegroup.cli.connecting import BrokerAddress
from sharegroup.cli.outcome import ExitCode, complain, exit_code
from sharegroup.cli.output import Output
from sharegroup.cli.record_format import JSON, renderer
from sharegroup.cli.stopping import Stopping
from sharegroup.cli.tables import count
from sharegroup.cli.value_decoder import ValueDecoder
from sharegroup.client.core.record import Record
from sharegroup.client.share_consumer import ShareConsumer

POLL_MS: Final = 1_000
CLOSE_MS: Final = 5_000
POLL_RECORDS: Final = 500
COMMIT_S: Final = 1.0
"""While a reader is slow, the records that it has read are acknowledged at this interval, in
seconds.
"""


LAST_S: Final = 5.0
"""How long, in seconds, a reader has at the end to confirm the records that it has read."""
OPEN_S: Final = 30.0
"""How much longer, in seconds, a reader has after --timeout if it has the pipe with the
confirmations open: as long as the records' locks last, with default settings."""


class Ack(StrEnum):
    """How a printed record is acknowledged."""

    ACCEPT = "accept"
    RELEASE = "release"
    REJECT = "reject"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumeOptions:
    """The user's options."""

    topics: list[str]
    group: str
    records_max: int | None
    ack: Ack
    template: str | None
    decoder: ValueDecoder | None
    idle_s: float | None
    from_beginning: bool
    confirmed_by: str | None
    broker: BrokerAddress


async def consume_group(wanted: ConsumeOptions) -> int:
    """Print records until a signal, --max, --timeout or the end of the reader. Returns the exit
    status.

    Raises:
        SharegroupError: no broker can be reached, or the broker refuses the group.
    """
    printing = Printing(wanted)
    with ExitStack() as stack:
        if wanted.confirmed_by is not None:
            printing.confirmations = stack.enter_context(Confirmations(wanted.confirmed_by))
        await _prepare(wanted)
        stopping = stack.enter_context(Stopping())
        output = stack.enter_context(Output(until_read=True))
        consumer = ShareConsumer(
            *wanted.topics,
            bootstrap_servers=wanted.broker.servers,
            **wanted.broker.arguments,
            group_id=wanted.group,
            acknowledgement_mode="explicit",
            acquire_mode="record_limit" if wanted.records_max else "batch_optimized",
            max_poll_records=min(POLL_RECORDS, wanted.records_max or POLL_RECORDS),
            renew_locks=True,  # the reader may be a pager, whose user reads slowly
        )
        try:
            await stopping.unless_stopped(consumer.start())
            await printing.run(consumer, stopping, output)
        finally:
            await consumer.close(timeout_ms=CLOSE_MS)
        if not output.closed:
            printing.report()
    return stopping.exit_code or printing.exit_code


async def _prepare(wanted: ConsumeOptions) -> None:
    """Set where a new group begins. A missing topic is reported by the consumer."""
    if not wanted.from_beginning:
        return
    async with admin_of(wanted.broker) as admin:
        if not await admin.begin_group_at(wanted.group, "earliest"):
            complain(f"group {wanted.group} is not new: --from-beginning has no effect")


class Printing:
    """Polls, prints and acknowledges records until there is a reason to stop."""

    def __init__(self, wanted: ConsumeOptions) -> None:
        self._wanted = wanted
        self._render = renderer(
            wanted.template, terminal=sys.stdout.isatty(), decoder=wanted.decoder
        )
        self._printed = 0
        self._committed_at = 0.0
        self.confirmations: Confirmations | None = None
        self._ended = False
        self.exit_code = ExitCode.DONE

    async def run(self, consumer: ShareConsumer, stopping: Stopping, output: Output) -> None:
        """Run until a signal, --max, --timeout or the end of the reader."""
        loop = asyncio.get_running_loop()
        last_s = loop.time()
        while not (self._enough() or stopping.asked() or self._left(output)):
            poll = output.unless_closed(consumer.poll(timeout_ms=self._poll_ms()))
            records = await stopping.unless_stopped(poll)
            if records:
                await self._print(records, consumer, stopping, output)
                last_s = loop.time()
            elif self._wanted.idle_s is not None and loop.time() - last_s >= self._wanted.idle_s:
                return

    def report(self) -> None:
        """Print on stderr how many records were printed."""
        if self._wanted.template != JSON:
            done = f"{self._wanted.ack.removesuffix('e')}ed"
            print(f"{count(self._printed, 'record')} {done}", file=sys.stderr)

    def _left(self, output: Output) -> bool:
        """Whether the reader has left; its last confirmations may not have been read yet."""
        return (
            self._ended
            or output.closed
            or (self.confirmations is not None and self.confirmations.closed)
        )

    def _enough(self) -> bool:
        return self._printed == self._wanted.records_max

    def _poll_ms(self) -> int:
        idle_s = self._wanted.idle_s
        return POLL_MS if idle_s is None else min(POLL_MS, max(1, int(idle_s * 1000)))

    async def _print(
        self, records: list[Record], consumer: ShareConsumer, stopping: Stopping, output: Output
    ) -> None:
        """Print the records; release the records that are beyond --max or were not read."""
        now = asyncio.get_running_loop().time
        self._committed_at = now()
        for at, record in enumerate(records):
            taken = await self._show(record, consumer, stopping, output)
            self._printed += taken
            if not taken or self._enough() or stopping.asked():
                consumer.release(*records[at + taken :])
                break
            if now() - self._committed_at > COMMIT_S:
                await self._commit(consumer)
        if self.confirmations is not None:
            await self._settle(self.confirmations, consumer, stopping, output)
        await self._commit(consumer)

    async def _show(
        self, record: Record, consumer: ShareConsumer, stopping: Stopping, output: Output
    ) -> bool:
        """Print a record. Whether the reader has read it: then it is acknowledged, or is when it is
        confirmed."""
        if self.confirmations is not None:
            self.confirmations.expect(record)
        await stopping.unless_stopped(output.write(self._render(record)))
        taken = output.taken
        if self.confirmations is not None:
            return taken or not self.confirmations.is_without(record)
        if taken:
            self._say(consumer, [record])
        return taken

    async def _settle(
        self,
        confirmations: Confirmations,
        consumer: ShareConsumer,
        stopping: Stopping,
        output: Output,
    ) -> None:
        """Acknowledge the records that the reader confirms. Release the others when it has left, on
        a signal, or when it has confirmed nothing for --timeout. A reader that has closed the pipe
        with the records may confirm until it closes the pipe with the confirmations.
        """
        now = asyncio.get_running_loop().time
        idle_s = math.inf if self._wanted.idle_s is None else self._wanted.idle_s
        last_s = now()
        self._say(consumer, confirmations.take(left=output.closed))
        while confirmations.expected and not (stopping.asked() or confirmations.closed):
            wait = confirmations.wait(min(COMMIT_S, idle_s))
            await stopping.unless_stopped(wait if output.closed else output.unless_closed(wait))
            if confirmed := confirmations.take(left=output.closed):
                self._say(consumer, confirmed)
                last_s = now()
            if now() - self._committed_at > COMMIT_S:
                await self._commit(consumer)
            if now() - last_s >= idle_s:
                self._ended = True
                break
        self._say(consumer, confirmations.take(left=output.closed))  # since the last commit
        if self._ended or stopping.asked():
            output.end()  # the reader sees the end, and confirms its last records
            await confirmations.until_closed(LAST_S, OPEN_S if self._ended else 0.0)
            self._say(consumer, confirmations.take(left=True))
        if left := confirmations.expected:
            consumer.release(*left)
            complain(f"{count(len(left), 'record')} not confirmed, and released")
            self._printed -= len(left)
            self.exit_code = ExitCode.REFUSED

    def _say(self, consumer: ShareConsumer, records: list[Record]) -> None:
        say = {
            Ack.ACCEPT: consumer.accept,
            Ack.RELEASE: consumer.release,
            Ack.REJECT: consumer.reject,
        }[self._wanted.ack]
        if records:
            say(*records)

    async def _commit(self, consumer: ShareConsumer) -> None:
        for partition, error in (await consumer.commit()).items():
            if error is not None:
                complain(error)
                complain(f"the last printed records of {partition} may be delivered again")
                self.exit_code = exit_code(error)
        self._committed_at = asyncio.get_running_loop().time()
