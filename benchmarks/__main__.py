"""`python -m benchmarks`: ours and Apache Kafka side by side, in one table."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks import report
from benchmarks.benchmark import Benchmark, Scale
from benchmarks.registry import BENCHMARKS
from benchmarks.runner import Runner
from benchmarks.systems import IN_FRONT, SYSTEMS
from tests.apache_kafka.jars import KAFKA, KAFKA_WITH_TOOLS, jar_folder
from tests.servers import family

DOCS = Path(__file__).resolve().parent.parent / "docs"
QUICK_FACTOR = 0.1


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--rounds", type=int, help="measured rounds (default 5; 1 with --quick)")
    parser.add_argument("--quick", action="store_true", help="a tenth of the work, to see it run")
    names = [benchmark.name for benchmark in BENCHMARKS]
    parser.add_argument("--only", action="append", choices=names, help="may be repeated")
    parser.add_argument(
        "--system", action="append", choices=[*SYSTEMS, *IN_FRONT], help="may be repeated"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every sample")
    parser.add_argument("--write-docs", action="store_true", help="write docs/benchmarks.md")
    chosen = parser.parse_args()
    if chosen.quick and chosen.write_docs:
        parser.error("--quick is too small a run for the documentation")
    return chosen


def main() -> int:
    """Run the chosen benchmarks. Returns the exit status: 1 if any of them failed, 130 after
    Ctrl-C, which shows what had been measured and writes nothing but the file of `--json`.
    """
    chosen = options()
    family.begin()
    rounds = chosen.rounds or (1 if chosen.quick else 5)
    benchmarks = [b for b in BENCHMARKS if not chosen.only or b.name in chosen.only]
    every = [*SYSTEMS, *IN_FRONT] if chosen.system else [*SYSTEMS]
    systems = [name for name in every if not chosen.system or name in chosen.system]
    scale = Scale(factor=QUICK_FACTOR if chosen.quick else 1.0)
    console = Console()
    with console.status("fetching Apache Kafka"):
        jar_folder(KAFKA)
        jar_folder(KAFKA_WITH_TOOLS)

    with (
        tempfile.TemporaryDirectory(prefix="sharegroup-bench-") as folder,
        Runner(Path(folder), systems, scale) as runner,
    ):
        interrupted = False
        try:
            measure(runner, benchmarks, rounds, console)
        except KeyboardInterrupt:
            interrupted = True

    header, rows = report.lines(benchmarks, runner.results, systems)
    size = "a tenth of the work: not for comparison, " if chosen.quick else ""
    most = "at most " if interrupted else ""
    title = f"median of {most}{rounds}, {size}{report.machine()}"
    console.print(report.rich_table(header, rows, title))
    for failure in runner.results.failures:
        console.print("failed", style="red", end=" ")
        console.print(failure, markup=False, highlight=False)
    if chosen.json:
        report.write_json(chosen.json, runner.results, rounds)
    if interrupted:
        return 130
    if chosen.write_docs:
        report.add_earlier(runner.results, DOCS / "benchmarks.json")
        report.write_json(DOCS / "benchmarks.json", runner.results, rounds)
        page = report.page(BENCHMARKS, tuple(SYSTEMS), DOCS / "benchmarks.json")
        (DOCS / "benchmarks.md").write_text(page)
    return 1 if runner.results.failures else 0


def measure(runner: Runner, benchmarks: list[Benchmark], rounds: int, console: Console) -> None:
    """Run all rounds under a progress bar."""
    columns = (TextColumn("{task.description:<45}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), console=console, refresh_per_second=2) as progress:
        task = progress.add_task("", total=runner.steps(benchmarks, rounds))

        def next_step(name: str) -> None:
            progress.update(task, description=name, advance=1)

        for benchmark in benchmarks:
            runner.run(benchmark, rounds, next_step)


if __name__ == "__main__":
    sys.exit(main())
