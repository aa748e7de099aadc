"""Random records, transactions, codecs, cleanings and kills against a naive model that remembers
every record: what may be gone, what must be there, and what a committed reader sees.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from sharegroup.storage import DataFolder, LocalPartitionLog
from sharegroup.wire.batch import TRANSACTIONAL, decode_batch, end_offset_of, parse_headers
from sharegroup.wire.compression import GZIP, LZ4, SNAPPY, ZSTD
from sharegroup.wire.markers import MarkerType, aborted_ranges, encode_marker, is_control
from tests.storage.cleaning import COMPACTED, RETENTION_MS, Died, DyingDisk, keyed
from tests.storage.support import StillClock, one_log, open_folder, run

PATH = Path("/data")
SMALL = replace(COMPACTED, segment_bytes=250)
KEYS = st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=1, max_size=4)
BATCHES = st.lists(KEYS, min_size=2, max_size=8)
CODECS = st.sampled_from([0, GZIP, SNAPPY, LZ4, ZSTD])
PRODUCERS = st.integers(0, 3)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), PRODUCERS, BATCHES, CODECS),
        st.tuples(st.just("write"), st.just(0), BATCHES, CODECS),
        st.tuples(st.just("end"), PRODUCERS, st.sampled_from(list(MarkerType))),
        st.tuples(st.just("clean"), st.integers(0, RETENTION_MS), st.sampled_from([60, 10**6])),
        st.tuples(st.just("die"), st.integers(0, 25)),
        st.tuples(st.just("restart")),
    ),
    min_size=5,
    max_size=25,
)


@dataclass
class Fact:
    """What the model knows of one offset."""

    key: bytes | None
    value: bytes | None
    producer: int
    fate: str
    tried_ms: int | None = None
    """When the first cleaning that could have met it began."""


@dataclass
class Naive:
    """All offsets that were ever written."""

    facts: list[Fact] = field(default_factory=list)
    sequences: dict[int, int] = field(default_factory=dict)

    def end(self, producer: int, fate: str) -> None:
        for fact in self.facts:
            if fact.producer == producer and fact.fate == "open":
                fact.fate = fate
        self.facts.append(Fact(None, None, 0, "marker"))

    @property
    def stable(self) -> int:
        fates = [fact.fate for fact in self.facts]
        return fates.index("open") if "open" in fates else len(fates)

    def must_stay(self, first_dirty: int, now_ms: int) -> set[int]:
        """Committed offsets below the last stable one that no cleaning may have removed."""
        last: dict[bytes | None, int] = {}
        kept = set()
        for offset, fact in enumerate(self.facts[: self.stable]):
            if fact.fate == "committed":
                last[fact.key] = offset
                if offset >= first_dirty:
                    kept.add(offset)
        for offset in last.values():
            fact = self.facts[offset]
            early = fact.tried_ms is None or now_ms < fact.tried_ms + RETENTION_MS
            if fact.value is not None or early:
                kept.add(offset)
        return kept


class Play:
    """One run of random steps on the disk in memory."""

    def __init__(self) -> None:
        self.naive = Naive()
        self.clock = StillClock()
        self.disk = DyingDisk()
        self.folder: DataFolder
        self.log: LocalPartitionLog
        self.touched = 0
        """A run that was killed may have cleaned up to here."""

    async def open(self) -> None:
        self.folder = await open_folder(PATH, SMALL, disk=self.disk, clock=self.clock)
        self.log = await one_log(self.folder)
        assert self.folder.recovered.problems == []

    def write(self, producer: int, batches: list[list[tuple[int, bool]]], codec: int) -> None:
        for keys in batches:
            self.write_one(producer, keys, codec)

    def write_one(self, producer: int, keys: list[tuple[int, bool]], codec: int) -> None:
        naive = self.naive
        pairs = [(b"%d" % key, b"%d" % len(naive.facts) * 20 if has else None) for key, has in keys]
        header: dict[str, int] = {}
        if producer:
            sequence = naive.sequences.get(producer, 0)
            naive.sequences[producer] = sequence + len(pairs)
            header = {"producer_id": producer, "producer_epoch": 0, "base_sequence": sequence}
            header["attributes"] = TRANSACTIONAL
        self.log.append_trusted(keyed(pairs, codec, time=self.clock.now_ms, **header))
        fate = "open" if producer else "committed"
        naive.facts += [Fact(key, value, producer, fate) for key, value in pairs]

    def end(self, producer: int, kind: MarkerType) -> None:
        if producer not in {f.producer for f in self.naive.facts if f.fate == "open"}:
            return
        marker = encode_marker(
            kind, producer_id=producer, producer_epoch=0, timestamp_ms=self.clock.now_ms
        )
        self.log.append_trusted(marker)
        self.naive.end(producer, "aborted" if kind is MarkerType.ABORT else "committed")

    async def clean(self, wait_ms: int, keys: int) -> bool:
        await self.log.wait_durable(self.log.log_end_offset)
        self.clock.now_ms += wait_ms
        for fact in self.naive.facts:
            if fact.tried_ms is None:
                fact.tried_ms = self.clock.now_ms
        return await self.folder.clean(self.clock.now_ms, keys * 24)

    async def die(self, changes: int) -> None:
        await self.log.wait_durable(self.log.log_end_offset)
        self.disk.left = changes
        with suppress(Died):
            await self.clean(0, 10**6)
        self.disk.crash()
        await self.open()
        self.touched = max(self.touched, self.log.cleaning.sparse_below)

    async def restart(self) -> None:
        await self.log.wait_durable(self.log.log_end_offset)
        await self.folder.close()
        await self.open()

    async def check(self) -> None:
        log, naive = self.log, self.naive
        await log.wait_durable(log.log_end_offset)
        assert log.log_end_offset == len(naive.facts)
        assert log.last_stable_offset == naive.stable
        seen = await self.committed()
        assert seen == sorted(set(seen))
        may_be_clean = max(log.cleaning.first_dirty, self.touched)
        must = naive.must_stay(may_be_clean, self.clock.now_ms)
        assert must <= set(seen)
        keys = [naive.facts[offset].key for offset in seen if offset < log.cleaning.first_dirty]
        assert len(keys) == len(set(keys))
        log.check_invariants()

    async def committed(self) -> list[int]:
        """The offsets that a committed reader sees; each record is compared with the model's."""
        log, found = self.log, list[int]()
        offset, end = log.log_start_offset, log.last_stable_offset
        while offset < end:
            data = (await log.read(offset, 300, end_offset=end)).data
            assert data
            following = end_offset_of(data)
            void = aborted_ranges(data, await log.aborted_transactions(offset, following))
            at = 0
            for header in parse_headers(data):
                one = data[at : at + header.length]
                at += header.length
                if is_control(header) or any(a <= header.base_offset <= b for a, b in void):
                    continue
                for number, _, key, value in decode_batch(one):
                    fact = self.naive.facts[number]
                    assert (key, value, "committed") == (fact.key, fact.value, fact.fate)
                    found.append(number)
            offset = following
        return found


async def play(steps: list[tuple]) -> None:  # type: ignore[type-arg]
    game = Play()
    await game.open()
    for verb, *details in steps:
        done = getattr(game, verb)(*details)
        if done is not None:
            await done
            await game.check()
    await game.check()
    while await game.clean(0, 10**6):
        await game.check()
    await game.restart()
    await game.check()
    await game.folder.close()


@settings(max_examples=60)
@given(STEPS)
def test_what_cleaning_leaves(steps: list[tuple]) -> None:  # type: ignore[type-arg]
    run(play(steps))
