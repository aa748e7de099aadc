"""Random transactions against a naive model that remembers every record: what a committed reader
sees, wherever it begins and however little it reads at once, also after clean ends and crashes.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from sharegroup.storage import DataFolder, LocalPartitionLog, LogSettings
from sharegroup.wire.batch import TRANSACTIONAL, end_offset_of, parse_headers
from sharegroup.wire.markers import MarkerType, aborted_ranges, encode_marker, is_control
from tests.storage.support import NOW_MS, abandon, batch, one_log, open_folder, run

SMALL = LogSettings(segment_bytes=700, index_interval_bytes=150)
PRODUCERS = 3
END, CLEAN, CRASH = "end", "clean end", "crash"

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(0, PRODUCERS), st.integers(1, 3)),
        st.tuples(st.just(END), st.integers(1, PRODUCERS), st.sampled_from(list(MarkerType))),
        st.tuples(st.sampled_from([CLEAN, CRASH]), st.just(0), st.just(0)),
    ),
    max_size=30,
)


@dataclass
class Naive:
    """Every offset: who wrote it, and what became of it."""

    owners: list[int | None] = field(default_factory=list)
    """The producer (0 outside transactions); None for a marker."""
    fates: list[str] = field(default_factory=list)
    sequences: dict[int, int] = field(default_factory=dict)

    def write(self, producer: int, count: int) -> None:
        self.owners += [producer] * count
        self.fates += ["open" if producer else "committed"] * count
        self.sequences[producer] = self.sequences.get(producer, 0) + count

    def end(self, producer: int, marker: MarkerType) -> None:
        fate = "aborted" if marker is MarkerType.ABORT else "committed"
        for offset, owner in enumerate(self.owners):
            if owner == producer and self.fates[offset] == "open":
                self.fates[offset] = fate
        self.owners.append(None)
        self.fates.append("marker")

    @property
    def stable(self) -> int:
        return self.fates.index("open") if "open" in self.fates else len(self.fates)

    def committed(self, start: int) -> list[int]:
        return [n for n in range(start, self.stable) if self.fates[n] == "committed"]


def write(log: LocalPartitionLog, naive: Naive, producer: int, count: int) -> None:
    header: dict[str, int] = {}
    if producer:
        sequence = naive.sequences.get(producer, 0)
        header = {
            "producer_id": producer,
            "producer_epoch": 0,
            "base_sequence": sequence,
            "attributes": TRANSACTIONAL,
        }
    log.append_trusted(batch(*[b"v" * 30] * count, **header))
    naive.write(producer, count)


async def committed_offsets(log: LocalPartitionLog, start: int, max_bytes: int) -> list[int]:
    """What a committed reader sees from ``start`` on, reading about ``max_bytes`` at once."""
    offsets: list[int] = []
    offset, end = start, log.last_stable_offset
    while offset < end:
        data = (await log.read(offset, max_bytes, end_offset=end)).data
        if not data:
            break
        next_offset = end_offset_of(data)
        void = aborted_ranges(data, await log.aborted_transactions(offset, next_offset))
        for header in parse_headers(data):
            whole = (header.base_offset, header.last_offset)
            if not is_control(header) and not any(a <= whole[0] <= b for a, b in void):
                offsets += [n for n in range(whole[0], whole[1] + 1) if n >= offset]
        offset = next_offset
    return offsets


async def check(log: LocalPartitionLog, naive: Naive) -> None:
    await log.wait_durable(log.log_end_offset)
    assert log.last_stable_offset == naive.stable
    for start in range(0, naive.stable, 3):
        for max_bytes in (1, 400, 1 << 20):
            assert await committed_offsets(log, start, max_bytes) == naive.committed(start)
    log.check_invariants()


async def play(path: Path, steps: list[tuple[str, int, int]]) -> None:
    naive = Naive()
    folder: DataFolder = await open_folder(path, SMALL)
    for verb, producer, detail in steps:
        log = await one_log(folder)
        if verb == "write":
            write(log, naive, producer, detail)
        elif verb == END:
            marker = MarkerType(detail)
            log.append_trusted(
                encode_marker(marker, producer_id=producer, producer_epoch=0, timestamp_ms=NOW_MS)
            )
            naive.end(producer, marker)
        else:
            await log.wait_durable(log.log_end_offset)
            await (folder.close() if verb == CLEAN else abandon(folder))
            folder = await open_folder(path, SMALL)
    await check(await one_log(folder), naive)
    await folder.close()


@settings(max_examples=25, deadline=None)
@given(steps=STEPS)
def test_a_committed_reader_sees_what_was_committed(steps: list[tuple[str, int, int]]) -> None:
    with tempfile.TemporaryDirectory() as path:
        run(play(Path(path), steps))
