"""`python -m benchmarks.window`: what the in-flight window costs, beside one entry per record.

No server and no socket: the delivery core alone (`sharegroup.share`), CPU time on one core. The
other column is a window that keeps one dictionary entry per record, done well: a heap of what is
available, a set of offsets for each lock. Both say which ranges must be written. Each line is a
window of so many records in flight in such a pattern; 500 more are delivered, one of them accepted,
the rest given back, delivered again and accepted in one range; at the end all locks run out. "All
of a record" is what one record of such a window costs: to deliver it, to answer by the pattern, and
to take back what was not accepted. Our window gets these answers in one request.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from pathlib import Path
from typing import Any, Protocol

from rich.console import Console
from rich.table import Table

from benchmarks.report import machine, markdown_table
from sharegroup.share.acknowledge import AckBatch
from sharegroup.share.partition import SharePartition
from sharegroup.share.record_state import AckType, RecordState
from sharegroup.share.settings import DeliverySettings

SIZES = (200, 2_000, 20_000, 200_000)
PATTERNS = {"whole": 0, "each tenth accepted": 10, "alternate accepted": 2}
"""Pattern → which records are accepted: each so-manieth but the first."""

PORTION = 500
"""What Kafka's consumers poll at once, by default."""

OPERATIONS = (
    "deliver 500",
    "accept 1",
    "give back 499",
    "deliver 499 again",
    "accept 499",
    "expire",
    "all of a record",
)
BUILDS = {200: 100, 2_000: 40, 20_000: 5, 200_000: 2}
REPETITIONS = 3
LOCK_MS = 30_000
LIMIT = 1_000

HEADER = ["in flight", "pattern", *OPERATIONS]
PAGE = Path(__file__).resolve().parent.parent / "docs" / "window.md"
TEXT = """# What the in-flight window costs

Written by `python -m benchmarks.window --write-docs`: do not edit. CPU time in µs on
{machine}: ours / a window
with one dictionary entry per record. The delivery core alone, without server or socket; the
docstring of `benchmarks/window.py` says what is done. Where a single record is answered by itself,
a dictionary is quicker; everything that handles ranges costs the same whatever the size of the
window, and where every record is a piece of its own, the window is one byte for each.

"""


class InFlight(Protocol):
    """A window with the operations measured; offsets are inclusive."""

    def deliver_new(self, first: int, last: int) -> None: ...

    def deliver_again(self, first: int, last: int) -> None: ...

    def acknowledge(self, first: int, last: int, kind: AckType) -> None: ...

    def accept_each(self, step: int, last: int) -> None: ...

    def expire(self) -> None: ...


class Spans:
    """Ours."""

    def __init__(self) -> None:
        self._partition = SharePartition(start_offset=0, state_epoch=0, leader_epoch=0)
        self._settings = DeliverySettings(
            lock_ms=LOCK_MS, delivery_count_limit=LIMIT, record_locks_max=1 << 40
        )

    def deliver_new(self, first: int, last: int) -> None:
        self._acquire(first, last, first)

    def deliver_again(self, first: int, last: int) -> None:
        self._acquire(first, last, self._partition.next_fetch_offset())

    def _acquire(self, first: int, last: int, fetch_offset: int) -> None:
        given = self._partition.acquire(
            "m",
            [(first, last)],
            fetch_offset=fetch_offset,
            records_max=last - first + 1,
            batch_size=500,
            now_ms=0,
            settings=self._settings,
        )
        assert given.records

    def acknowledge(self, first: int, last: int, kind: AckType) -> None:
        self._say((first, last, bytes([kind])))

    def accept_each(self, step: int, last: int) -> None:
        kinds = [AckType.RENEW] * (step - 1) + [AckType.ACCEPT]
        self._say((0, last, bytes(kinds) * ((last + 1) // step)))

    def _say(self, batch: AckBatch) -> None:
        self._partition.acknowledge("m", [batch], now_ms=0, settings=self._settings)

    def expire(self) -> None:
        while (due_ms := self._partition.next_deadline_ms()) is not None:
            self._partition.tick(due_ms, self._settings)


@dataclass(slots=True)
class Entry:
    """One record in flight."""

    state: RecordState
    count: int
    member: str | None


class Entries:
    """One entry per record."""

    def __init__(self) -> None:
        self._start = 0
        self._records: dict[int, Entry] = {}
        self._available: list[int] = []
        self._locks: defaultdict[tuple[str, int], set[int]] = defaultdict(set)

    def deliver_new(self, first: int, last: int) -> None:
        offsets = range(first, last + 1)
        self._records |= {o: Entry(RecordState.ACQUIRED, 1, "m") for o in offsets}
        self._locks["m", LOCK_MS].update(offsets)

    def deliver_again(self, first: int, last: int) -> None:
        held = self._locks["m", LOCK_MS]
        given = []
        while self._available and self._available[0] <= last:
            offset = heappop(self._available)
            record = self._records[offset]
            record.state, record.member = RecordState.ACQUIRED, "m"
            record.count += 1
            held.add(offset)
            given.append(offset)
        assert self._runs(given)

    def acknowledge(self, first: int, last: int, kind: AckType) -> None:
        records, held = self._records, self._locks["m", LOCK_MS]
        offsets = range(first, last + 1)
        assert all(o in records and records[o].member == "m" for o in offsets)
        released = kind is AckType.RELEASE
        state = RecordState.AVAILABLE if released else RecordState.ACKNOWLEDGED
        for offset in offsets:
            record = records[offset]
            record.state, record.member = state, None
            held.discard(offset)
            if released:
                heappush(self._available, offset)
        assert self._runs(offsets)
        while (head := records.get(self._start)) and head.state is RecordState.ACKNOWLEDGED:
            del records[self._start]
            self._start += 1

    def accept_each(self, step: int, last: int) -> None:
        for offset in range(step - 1, last + 1, step):
            self.acknowledge(offset, offset, AckType.ACCEPT)

    def expire(self) -> None:
        for held in self._locks.values():
            offsets = sorted(held)
            for offset in offsets:
                record = self._records[offset]
                record.state, record.member = RecordState.AVAILABLE, None
            self._available += offsets
            held.clear()
            assert self._runs(offsets)
        heapify(self._available)

    def _runs(self, offsets: Iterable[int]) -> list[list[int]]:
        """Adjoining offsets of equal state and count: what is written, or answered."""
        runs: list[list[int]] = []
        for offset in offsets:
            record = self._records[offset]
            if runs and runs[-1][1:] == [offset - 1, record.state, record.count]:
                runs[-1][1] = offset
            else:
                runs.append([offset, offset, record.state, record.count])
        return runs


def built(kind: Callable[[], InFlight], size: int, step: int) -> InFlight:
    """A window of ``size`` records in flight, each ``step``-th accepted."""
    window = kind()
    window.deliver_new(0, size - 1)
    if step:
        window.accept_each(step, size - 1)
    return window


def timed(work: Callable[[], None]) -> float:
    """CPU time in µs."""
    before = time.process_time_ns()
    work()
    return (time.process_time_ns() - before) / 1e3


def measured(kind: Callable[[], InFlight], size: int, step: int) -> dict[str, float]:
    """The median cost of each operation in µs."""
    found: defaultdict[str, list[float]] = defaultdict(list)
    for _ in range(BUILDS[size]):
        found["all of a record"].append(timed(lambda: built(kind, size, step).expire()) / size)
        window = built(kind, size, step)
        for repetition in range(REPETITIONS):
            first = size + repetition * PORTION
            for name, work in steps(window, first, first + PORTION - 1):
                found[name].append(timed(work))
        found["expire"].append(timed(window.expire))
    return {name: statistics.median(values) for name, values in found.items()}


def steps(window: InFlight, first: int, last: int) -> Iterator[tuple[str, Callable[[], None]]]:
    yield "deliver 500", lambda: window.deliver_new(first, last)
    yield "accept 1", lambda: window.acknowledge(first, first, AckType.ACCEPT)
    yield "give back 499", lambda: window.acknowledge(first + 1, last, AckType.RELEASE)
    yield "deliver 499 again", lambda: window.deliver_again(first + 1, last)
    yield "accept 499", lambda: window.acknowledge(first + 1, last, AckType.ACCEPT)


def lines(samples: list[dict[str, Any]]) -> Iterator[list[str]]:
    """Each window's size and pattern, then ours / one entry per record, in µs."""
    for sample in samples:
        cells = [
            f"{_shown(sample, 'ours', n)} / {_shown(sample, 'entries', n)}" for n in OPERATIONS
        ]
        yield [f"{sample['size']:,}", str(sample["pattern"]), *cells]


def _shown(sample: dict[str, Any], label: str, operation: str) -> str:
    digits = 2 if operation == "all of a record" else 0
    return f"{sample[f'{label} {operation}']:,.{digits}f}"


def report(samples: list[dict[str, Any]]) -> Table:
    table = Table(title="CPU µs: ours / one entry per record")
    for number, name in enumerate(HEADER):
        table.add_column(name, justify="left" if number == 1 else "right")
    for line in lines(samples):
        table.add_row(*line)
    return table


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.window", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="up to 2,000 in flight only")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every figure")
    parser.add_argument("--write-docs", action="store_true", help="write docs/window.md")
    chosen = parser.parse_args()
    samples: list[dict[str, Any]] = []
    for size in SIZES[:2] if chosen.quick else SIZES:
        for pattern, step in PATTERNS.items():
            sample: dict[str, Any] = {"size": size, "pattern": pattern}
            for label, kind in (("ours", Spans), ("entries", Entries)):
                for name, value in measured(kind, size, step).items():
                    sample[f"{label} {name}"] = value
            samples.append(sample)
    Console(width=160).print(report(samples))
    if chosen.json:
        chosen.json.write_text(json.dumps(samples, indent=1) + "\n")
    if chosen.write_docs and not chosen.quick:
        table = markdown_table(HEADER, list(lines(samples)))
        PAGE.write_text(f"{TEXT.format(machine=machine())}{table}\n")


if __name__ == "__main__":
    main()
