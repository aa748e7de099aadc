"""Printing what a share group gives, and acknowledging what its reader has taken."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from sharegroup.cli.outcome import ExitCode, complain, exit_code
from sharegroup.cli.output import Output
from sharegroup.cli.reaching import admin_of
from sharegroup.cli.record_format import JSON, renderer
from sharegroup.cli.stopping import Stopping
from sharegroup.cli.tables import count
from sharegroup.client.consumer import ShareConsumer
from sharegroup.client.record import Record

POLL_MS: Final = 1_000
CLOSE_MS: Final = 5_000
POLL_RECORDS: Final = 500
COMMIT_S: Final = 1.0
"""While a reader is slow, what it has taken is acknowledged this often."""


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
    template: str | None
    idle_s: float | None
    from_beginning: bool
    bootstrap_server: str


async def consume_group(wanted: Wanted) -> int:
    """Until a signal, --max, --timeout, or until nobody reads; the exit status.

    Raises:
        SharegroupError: no broker, or the group refuses.
    """
    printing = Printing(wanted)
    await _prepare(wanted)
    with Stopping() as stopping, Output(until_read=True) as output:
        consumer = ShareConsumer(
            *wanted.topics,
            bootstrap_servers=wanted.bootstrap_server,
            group_id=wanted.group,
            acknowledgement_mode="explicit",
            acquire_mode="record_limit" if wanted.records_max else "batch_optimized",
            max_poll_records=min(POLL_RECORDS, wanted.records_max or POLL_RECORDS),
            renew_locks=True,  # a pager's user takes his time
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
    """Begin the group where it is wanted. That a topic is missing is the consumer's to say."""
    if not wanted.from_beginning:
        return
    async with admin_of(wanted.bootstrap_server) as admin:
        if not await admin.begin_group_at(wanted.group, "earliest"):
            complain(f"group {wanted.group} is not new: it goes on where it is (--from-beginning)")


class Printing:
    """Polls, prints, and acknowledges what was read, until there is a reason to end."""

    def __init__(self, wanted: Wanted) -> None:
        self._wanted = wanted
        self._render = renderer(wanted.template, terminal=sys.stdout.isatty())
        self._printed = 0
        self._committed_at = 0.0
        self.exit_code = ExitCode.DONE

    async def run(self, consumer: ShareConsumer, stopping: Stopping, output: Output) -> None:
        """Until a signal, --max, --timeout, or until nobody reads what is printed."""
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
        """Say on stderr how many there were."""
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
        """Print one record after the other; release those that nobody has read or asked for."""
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
                complain(f"the records of {partition} that were printed last may come again")
                self.exit_code = exit_code(error)
        self._committed_at = asyncio.get_running_loop().time()
