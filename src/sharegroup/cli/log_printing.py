"""Prints records from the log without a group: ``consume --peek``."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sharegroup.cli.broker_check import reach
from sharegroup.cli.connecting import BrokerAddress
from sharegroup.cli.log_places import LogPlace, parse_place, resolved
from sharegroup.cli.outcome import ExitCode, UsageError, complain
from sharegroup.cli.output import Output
from sharegroup.cli.record_format import Render, renderer
from sharegroup.cli.stopping import Stopping
from sharegroup.cli.value_decoder import ValueDecoder
from sharegroup.client.admin.admin import Admin
from sharegroup.client.admin.descriptions import ListedOffset, OffsetSpec
from sharegroup.client.consumer import Consumer
from sharegroup.client.core.key_ranges import KeyRanges
from sharegroup.client.log_reading import LogReading, LogRecord
from sharegroup.client.network.cluster import Cluster
from sharegroup.model.ids import TopicPartition

COMMITTED: Final = "read_committed"
UNCOMMITTED: Final = "read_uncommitted"
FETCH_BYTES: Final = 8 * 1024 * 1024
RECORDS_AT_ONCE: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The user's options. ``until`` None: never end; no partitions, no key ranges: all."""

    topics: list[str]
    partitions: list[int]
    start: str
    until: str | None
    records_max: int | None
    idle_s: float | None
    template: str | None
    decoder: ValueDecoder | None
    key_ranges: KeyRanges
    committed: bool
    broker: BrokerAddress


async def peek(look: Look) -> int:
    """Print records until a signal, --until, --max, --timeout or the end of the reader. Returns the
    exit status.

    Raises:
        SharegroupError: no broker can be reached, or a topic or partition cannot be read.
    """
    start = parse_place("--from", look.start)
    until = None if look.until is None else parse_place("--until", look.until)
    render = renderer(look.template, terminal=sys.stdout.isatty(), decoder=look.decoder)
    await reach(look.broker)
    cluster = Cluster(look.broker.servers, allow_auto_create_topics=False, **look.broker.arguments)
    with Stopping() as stopping, Output() as output:
        try:
            work = _print(cluster, look, start, until, render, output)
            await stopping.unless_stopped(output.unless_closed(work))
        finally:
            await cluster.close()
    return stopping.exit_code or ExitCode.DONE


async def _print(
    cluster: Cluster,
    look: Look,
    start: LogPlace,
    until: LogPlace | None,
    render: Render,
    output: Output,
) -> None:
    await cluster.start()
    spans = await _spans(cluster, look, start, until)
    async with Consumer[bytes, bytes](
        cluster=cluster,
        auto_offset_reset="none",
        isolation_level=COMMITTED if look.committed else UNCOMMITTED,
        fetch_max_bytes=FETCH_BYTES,
        max_poll_records=RECORDS_AT_ONCE,
    ) as consumer:
        reading = LogReading(consumer, spans, look.key_ranges)
        await _write(reading, look, render, output)


async def _write(reading: LogReading, look: Look, render: Render, output: Output) -> None:
    printed = 0
    async for records in _until_idle(reading, look.idle_s):
        left = None if look.records_max is None else look.records_max - printed
        some = records[:left]
        printed += len(some)
        if not await output.write(b"".join(map(render, some))) or printed == look.records_max:
            return


async def _until_idle(
    reading: LogReading, idle_s: float | None
) -> AsyncIterator[Sequence[LogRecord]]:
    loop = asyncio.get_running_loop()
    last_s = loop.time()
    async for records in reading.records():
        if records:
            yield records
            last_s = loop.time()
        elif idle_s is not None and loop.time() - last_s >= idle_s:
            return


async def _spans(
    cluster: Cluster, look: Look, start: LogPlace, until: LogPlace | None
) -> dict[TopicPartition, tuple[int, int | None]]:
    """The first offset and the end offset to print in each partition."""
    admin = Admin(cluster=cluster)
    wanted: list[TopicPartition] = []
    for name, topic in (await admin.describe_topics(*look.topics)).items():
        there = [one.partition for one in topic.partitions]
        for number in look.partitions:
            if number not in there:
                raise UsageError(f"{name} has {len(there)} partitions, but no partition {number}")
        wanted += [TopicPartition(name, number) for number in look.partitions or there]
    begins = await admin.list_offsets(wanted, OffsetSpec.EARLIEST)
    ends = await admin.list_offsets(wanted, OffsetSpec.LATEST, committed=look.committed)
    if look.committed:
        await _name_open_transactions(admin, ends)
    bounds = {where: (begins[where].offset, ends[where].offset) for where in wanted}
    first = await resolved(admin, start, bounds)
    last = None if until is None else await resolved(admin, until, bounds)
    for where, (begin, end) in bounds.items():
        if start.offset is not None and start.offset >= 0 and first[where] != start.offset:
            complain(f"{where} has offsets {begin} to {end}: beginning at {first[where]}")
    return {where: (first[where], None if last is None else last[where]) for where in wanted}


async def _name_open_transactions(
    admin: Admin, stable: Mapping[TopicPartition, ListedOffset]
) -> None:
    """Say in which partitions records wait for the end of a transaction."""
    ends = await admin.list_offsets(stable, OffsetSpec.LATEST)
    for where, end in ends.items():
        if stable[where].offset < end.offset:
            complain(
                f"a transaction is open in {where}: records from offset {stable[where].offset} on "
                f"are shown when it has ended, and at once with --isolation-level {UNCOMMITTED}"
            )
