"""Runs benchmarks in rounds that alternate the servers, with a warm-up, and keeps every sample.

In each round every server does the same work once, so that a slow minute of the machine affects all
of them. Benchmarks that do not ask for a fresh server share one per system. It runs to the end, and
is idle while another system is measured.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.benchmark import Bench, Benchmark, Scale
from benchmarks.secured_systems import SECURED_SYSTEMS
from benchmarks.systems import IN_FRONT, SYSTEMS

Progress = Callable[[str], None]


@dataclass(slots=True)
class Results:
    """Samples by row key and system, and the failures."""

    samples: dict[str, dict[str, list[float]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(list))
    )
    failures: list[str] = field(default_factory=list)

    def median(self, key: str, system: str) -> float | None:
        values = self.samples[key][system]
        return statistics.median(values) if values else None


class Runner:
    """Runs benchmarks on the chosen systems. Use it in a `with`, which stops its servers."""

    def __init__(self, folder: Path, systems: Sequence[str], scale: Scale) -> None:
        self.folder = folder
        self.systems = tuple(systems)
        self.scale = scale
        self.results = Results()
        self._shared: dict[tuple[str, bool], Bench] = {}
        self._servers = 0

    def steps(self, benchmarks: Sequence[Benchmark], rounds: int) -> int:
        """How often `run` will call its `progress`."""
        total = sum(each.rounds(rounds) + (not each.fresh_server) for each in benchmarks)
        return total * len(self.systems)

    def run(self, benchmark: Benchmark, rounds: int, progress: Progress) -> None:
        """Run all rounds of one benchmark on all systems; skip a system after its first failure."""
        failed: set[str] = set()
        warm_up = not benchmark.fresh_server
        for number in range(benchmark.rounds(rounds) + warm_up):
            for system in self.systems:
                progress(f"{benchmark.name}: {system}")
                if system in failed:
                    continue
                try:
                    values = self._once(benchmark, system)
                except Exception as error:  # noqa: BLE001 - one failure must not lose the others
                    failed.add(system)
                    self._failed(benchmark, system, error)
                    continue
                if number >= warm_up:
                    for key, value in values.items():
                        self.results.samples[key][system].append(value)

    def _once(self, benchmark: Benchmark, system: str) -> dict[str, float]:
        if not benchmark.fresh_server:
            return benchmark.run(self._shared_bench(system, benchmark.secured))
        bench = self._new_bench(system, benchmark.secured)
        try:
            return benchmark.run(bench)
        finally:
            bench.server.kill()

    def _failed(self, benchmark: Benchmark, system: str, error: Exception) -> None:
        what = f"{type(error).__name__}: {error}"
        self.results.failures.append(f"{benchmark.name}, {system}: {what}"[:2000])
        bench = self._shared.pop((system, benchmark.secured), None)
        if bench is not None:
            bench.server.kill()

    def _shared_bench(self, system: str, secured: bool) -> Bench:
        if (system, secured) not in self._shared:
            bench = self._new_bench(system, secured)
            bench.server.prepare()
            bench.server.start()
            self._shared[system, secured] = bench
        return self._shared[system, secured]

    def _new_bench(self, system: str, secured: bool) -> Bench:
        self._servers += 1
        folder = self.folder / f"server-{self._servers}"
        folder.mkdir()
        systems = SECURED_SYSTEMS if secured else SYSTEMS | IN_FRONT
        return Bench(server=systems[system](folder), scale=self.scale)

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *_error: object) -> None:
        for bench in self._shared.values():
            bench.server.kill()
