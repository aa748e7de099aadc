"""Prints the records of a share group, and acknowledges those that the reader has read."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from sharegroup.cli.connecting import Broker
from sharegroup.cli.outcome import ExitCode, complain, exit_code
from sharegroup.cli.output import Output
from sharegroup.cli.reaching import admin_of
from sharegroup.cli.record_format import JSON, renderer
from sharegroup.cli.stopping import Stopping
from sharegroup.cli.tables import count
from sharegroup.client.records.record import Record
from sharegroup.client.share.consumer import ShareConsumer

POLL_MS: Final = 1_000
CLOSE_MS: Final = 5_000
POLL_RECORDS: Final = 500
COMMIT_S: Final = 1.0
"""While a reader is slow, the records that it has read are acknowledged at this interval, in
seconds.
"""


class Ack(StrEnum):
    """How a printed record is acknowledged."""

    ACCEPT = "accept"
    RELEASE = "release"
    REJECT = "reject"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The user's options."""

    topics: list[str]
    group: str
    records_max: int | None
    ack: Ack
    template: str | None
    idle_s: float | None
    from_beginning: bool
    broker: Broker


async def consume_group(wanted: Wanted) -> int:
    """Print records until a signal, --max, --timeout or the end of the reader. Returns the exit
    status.

    Raises:
        SharegroupError: no broker can be reached, or the broker refuses the group.
    """
    printing = Printing(wanted)
    await _prepare(wanted)
    with Stopping() as stopping, Output(until_read=True) as output:
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


async def _prepare(wanted: Wanted) -> None:
    """Set where a new group begins. A missing topic is reported by the consumer."""
    if not wanted.from_beginning:
        return
    async with admin_of(wanted.broker) as admin:
        if not await admin.begin_group_at(wanted.group, "earliest"):
            complain(f"group {wanted.group} is not new: --from-beginning has no effect")


class Printing:
    """Polls, prints and acknowledges records until there is a reason to stop."""

    def __init__(self, wanted: Wanted) -> None:
        self._wanted = wanted
        self._render = renderer(wanted.template, terminal=sys.stdout.isatty())
        self._printed = 0
        self._committed_at = 0.0
        self.exit_code = ExitCode.DONE

    async def run(self, consumer: ShareConsumer, stopping: Stopping, output: Output) -> None:
        """Run until a signal, --max, --timeout or the end of the reader."""
        loop = asyncio.get_running_loop()
        last_s = loop.time()
        while not (self._enough() or stopping.asked() or output.closed):
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

    def _enough(self) -> bool:
        return self._printed == self._wanted.records_max

    def _poll_ms(self) -> int:
        idle_s = self._wanted.idle_s
        return POLL_MS if idle_s is None else min(POLL_MS, max(1, int(idle_s * 1000)))

    async def _print(
        self, records: list[Record], consumer: ShareConsumer, stopping: Stopping, output: Output
    ) -> None:
        """Print the records; release those that are beyond --max or were not read."""
        say = {
            Ack.ACCEPT: consumer.accept,
            Ack.RELEASE: consumer.release,
            Ack.REJECT: consumer.reject,
        }[self._wanted.ack]
        now = asyncio.get_running_loop().time
        self._committed_at = now()
        for at, record in enumerate(records):
            await stopping.unless_stopped(output.write(self._render(record)))
            if output.taken:
                say(record)
                self._printed += 1
            if not output.taken or self._enough() or stopping.asked():
                consumer.release(*records[at + output.taken :])
                break
            if now() - self._committed_at > COMMIT_S:
                await self._commit(consumer)
        await self._commit(consumer)

    async def _commit(self, consumer: ShareConsumer) -> None:
        for partition, error in (await consumer.commit()).items():
            if error is not None:
                complain(error)
                complain(f"the last printed records of {partition} may be delivered again")
                self.exit_code = exit_code(error)
        self._committed_at = asyncio.get_running_loop().time()
