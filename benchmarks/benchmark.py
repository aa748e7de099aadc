"""The interface of a benchmark, and the environment it gets."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.apache_kafka.tools import KafkaTools
from tests.servers.admin import Admin
from tests.servers.running import RunningServer


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the table. `target` is the ratio to Apache Kafka, or the value, to reach."""

    key: str
    title: str
    unit: str
    higher_is_better: bool = False
    target: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """How much work one run does. With `--quick` it is a tenth, to test the benchmarks."""

    factor: float = 1.0

    def records(self, count: int) -> int:
        return max(10_000, int(count * self.factor))

    def seconds(self, seconds: float) -> float:
        return max(2.0, seconds * self.factor)


@dataclass(slots=True, kw_only=True)
class Bench:
    """One server under measurement, and what a benchmark needs to use it."""

    server: RunningServer
    scale: Scale
    loaded: dict[tuple[int, int, int], str] = field(default_factory=dict)
    _names: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    @property
    def bootstrap(self) -> str:
        return self.server.bootstrap

    @property
    def tools(self) -> KafkaTools:
        return KafkaTools(self.bootstrap)

    @property
    def admin(self) -> Admin:
        return Admin(self.bootstrap)

    def new_name(self) -> str:
        """A name that no topic and no group has yet."""
        return f"bench-{next(self._names)}"

    def new_topic(self, partitions: int = 4) -> str:
        topic = self.new_name()
        self.admin.create_topic(topic, partitions)
        return topic

    def new_group(self) -> str:
        """The name of a new share group that starts at the first record."""
        group = self.new_name()
        self.admin.start_group_at_earliest(group)
        return group

    def loaded_topic(self, records: int, *, record_bytes: int = 100, partitions: int = 4) -> str:
        """A topic with `records` records, produced once for all rounds."""
        wanted = (records, record_bytes, partitions)
        if wanted not in self.loaded:
            topic = self.new_topic(partitions)
            self.tools.produce(topic, records, record_bytes=record_bytes)
            self.loaded[wanted] = topic
        return self.loaded[wanted]

    @contextmanager
    def cpu_per_record(self, into: dict[str, float], key: str, records: int) -> Iterator[None]:
        """Measure the server's CPU time during the block, in µs per record, into `into[key]`."""
        before = self.server.usage().cpu_seconds
        yield
        used = self.server.usage().cpu_seconds - before
        into[key] = used / records * 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """A named measurement that fills some rows of the table.

    `run` returns a value for each row's key. With `fresh_server` it gets a new server that is not
    started yet. Otherwise it gets one that runs through all rounds; the first round is a warm-up
    that does not count. `rounds_max` is for work that takes minutes, and repeats what it measures
    by itself. With `secured` the servers are those of `secured_systems`.
    """

    name: str
    rows: tuple[Row, ...]
    run: Callable[[Bench], dict[str, float]]
    fresh_server: bool = False
    rounds_max: int | None = None
    secured: bool = False

    def rounds(self, wanted: int) -> int:
        """How many rounds are measured."""
        return wanted if self.rounds_max is None else min(wanted, self.rounds_max)
