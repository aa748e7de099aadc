"""336,776 flights through a broker, a share group and Spark, with three kills on the way.

    python examples/flights.py [--quick] [--no-spark] [--cluster] [--data FOLDER] [--output FOLDER]

A broker starts in a fresh folder. All flights that left New York City in 2013 are produced. Six
share consumers divide four partitions among them, while a Spark query works on the same topic
through a share group of its own, with an answer for every flight. Spark is killed (kill -9) and
started again, then one consumer is killed, then the broker, which is started again, and everybody
goes on. At the end all of it is checked. Exit status 0: the check holds.

With --cluster three brokers share the work in front of three of Apache Kafka; one of these and one
of those are killed.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import shutil
import signal
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape

from flights_demo import check, dataset, picture, pool_worker, spark_gate
from flights_demo.journal import read_journals
from flights_demo.processes import Broker, Child, ChildFailed, ConsolePage
from flights_demo.produce import TOPIC, produce
from flights_demo.report import progress_bars, verdict_table
from flights_demo.watch import Watch
from sharegroup import SharegroupError

if TYPE_CHECKING:
    from flights_demo.cluster import Fleet

WORKERS = 6
KILL_SPARK_AT, KILL_WORKER_AT, KILL_BROKER_AT = 0.1, 0.25, 0.5
QUICK_EVERY = 16
PER_BATCH = 40_000  # several batches on purpose, so that the kills hit some
SECONDS_MAX = 600


async def demo(options: argparse.Namespace, console: Console) -> bool:
    """Run everything; return whether the check holds. All child processes have ended by then."""
    flights = list(dataset.flights(QUICK_EVERY if options.quick else 1))
    async with contextlib.AsyncExitStack() as stack:
        progress = stack.enter_context(progress_bars(console))
        broker = brokers(options)
        await stack.enter_async_context(broker)
        page = ConsolePage(broker.address, options.output / "console.log")
        await stack.enter_async_context(page)
        console.print(f"a broker is ready on {broker.address}; watch it on {page.address}")
        bar = progress.add_task("produced", total=len(flights))
        await produce(broker.address, flights, lambda n: progress.update(bar, completed=n))

        groups = [pool_worker.GROUP] + [spark_gate.GROUP] * options.spark
        bars = {name: progress.add_task(name, total=len(flights), start=False) for name in groups}
        watch = Watch(broker, progress, bars)
        spark: Child | None = None
        if options.spark:
            console.print("Spark is starting")
            spark = await stack.enter_async_context(spark_job(broker, options))
            await kill_spark(watch, spark, len(flights))
        console.print(f"{WORKERS} consumers are starting")
        workers = [worker(number, broker, options) for number in range(1, WORKERS + 1)]
        for one in workers:
            await stack.enter_async_context(one)
        await run_pool(watch, broker, workers, len(flights))
        if spark is not None:
            await watch.until(lambda: watch.done[spark_gate.GROUP] == len(flights), spark)
            spark.finish()  # it makes the statistics
            query = spark
            await watch.until(lambda: query.status == 0, query)

        findings = await check.check_broker(broker.address, TOPIC, groups, len(flights))
    batches = read_journals(options.data)
    findings["What the consumers did"] = check.check_pool(flights, batches)
    findings["What the kills left to do again"] = check.check_kills(batches)
    statistics = check.expected_statistics(flights)
    if options.spark:
        rows = check.read_tables(options.output / "gate")
        findings["Spark's tables"] = check.check_tables(flights, rows)
        found = check.read_statistics(options.output / "statistics")
        findings["Spark's statistics"] = check.check_statistics(statistics, found)
        statistics = found
    console.print(verdict_table(findings))
    picture.draw(options.output / "flights.png", statistics, batches, watch)
    return all(one.ok for section in findings.values() for one in section)


def brokers(options: argparse.Namespace) -> Broker | Fleet:
    """What serves, not started."""
    if not options.cluster:
        return Broker(options.data / "broker", options.output / "broker.log")
    from flights_demo.cluster import Fleet  # needs Apache Kafka and its Java

    return Fleet(options.data / "cluster", options.output)


async def kill_spark(watch: Watch, spark: Child, flights: int) -> None:
    """Kill Spark when it has begun, start it again, and wait until it goes on."""

    def done() -> int:
        return watch.done[spark_gate.GROUP]

    await watch.until(lambda: done() >= KILL_SPARK_AT * flights, spark)
    await watch.kill(spark)
    before = done()
    await spark.start()  # with the same checkpoint: the batch in hand runs again
    await watch.until(lambda: done() > before, spark)
    watch.back(spark)


async def run_pool(
    watch: Watch, broker: Broker | Fleet, workers: list[Child], flights: int
) -> None:
    """Let the consumers work, with the two kills, until all is done."""

    def done() -> float:
        return watch.done[pool_worker.GROUP] / flights

    await watch.until(lambda: done() >= KILL_WORKER_AT, *workers)
    victim, *others = workers
    await watch.kill(victim)
    # Nothing else to do: the broker gives the victim's records to the others.

    await watch.until(lambda: done() >= KILL_BROKER_AT, *others)
    for one in broker.victims(watch.leader()):
        await watch.kill(one)
        if broker is not one:  # others take over what it led
            await watch.until(partial(watch.leads_nothing, one), *others)
        await one.start()
        watch.back(one)
    # Nothing else to do: all consumers reconnect by themselves.

    await watch.until(lambda: done() == 1, *others)
    for consumer in others:
        await consumer.stop()  # it leaves the group
        consumer.check(0)


def worker(number: int, broker: Broker | Fleet, options: argparse.Namespace) -> Child:
    """One consumer of the pool."""
    name = f"consumer-{number}"
    return Child(
        name,
        options.output / f"{name}.log",
        *("flights_demo.pool_worker", "--bootstrap", broker.address),
        *("--journal", str(options.data / f"{name}.journal")),
    )


def spark_job(broker: Broker | Fleet, options: argparse.Namespace) -> Child:
    """The Spark query."""
    return Child(
        "Spark",
        options.output / "spark.log",
        *("flights_demo.spark_gate", "--bootstrap", broker.address),
        *("--data", str(options.data / "spark"), "--output", str(options.output)),
        *("--per-batch", str(PER_BATCH // (QUICK_EVERY if options.quick else 1))),
    )


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help=f"every {QUICK_EVERY}th flight only")
    parser.add_argument("--no-spark", dest="spark", action="store_false", help="without the query")
    parser.add_argument(
        "--cluster", action="store_true", help="three brokers in front of three of Apache Kafka"
    )
    parser.add_argument(
        "--data", type=Path, help="empty folder of the broker, kept (default: a temporary one)"
    )
    parser.add_argument(
        "--output", type=Path, default=Path("demo-output"), help="picture, Parquet files, logs"
    )
    options = parser.parse_args()
    if options.data and options.data.exists() and any(options.data.iterdir()):
        parser.error(f"--data {options.data} is not empty")
    return options


async def limited(options: argparse.Namespace, console: Console) -> bool:
    """The demo, ended in order by SIGTERM, Ctrl-C, or after ten minutes."""
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    async with asyncio.timeout(SECONDS_MAX):
        return await demo(options, console)


def fresh_output(folder: Path) -> None:
    """Make the folder, without what an earlier run has left there."""
    folder.mkdir(parents=True, exist_ok=True)
    for table in ("gate", "statistics"):
        shutil.rmtree(folder / table, ignore_errors=True)
    for old in (folder / "flights.png", *folder.glob("*.log")):
        old.unlink(missing_ok=True)


def main() -> int:
    """The exit status: 0 when every flight is where it should be."""
    options = parse_arguments()
    console = Console(highlight=False)
    started = time.monotonic()
    fresh_output(options.output)
    with contextlib.ExitStack() as stack:
        if options.data is None:
            options.data = Path(stack.enter_context(tempfile.TemporaryDirectory("-flights")))
        options.data.mkdir(parents=True, exist_ok=True)
        try:
            holds = asyncio.run(limited(options, console))
        except (KeyboardInterrupt, asyncio.CancelledError):
            console.print("stopped")
            return 130
        except TimeoutError:
            console.print(f"[bold red]✗[/] not done after {SECONDS_MAX} s")
            return 1
        except (ChildFailed, SharegroupError) as error:
            console.print("[bold red]✗[/]", escape(str(error)))
            return 1
    verdict = "[bold green]✓ every flight" if holds else "[bold red]✗ not every flight"
    console.print(f"{verdict} is where it should be[/], in {time.monotonic() - started:.0f} s.")
    console.print(f"The picture: {options.output / 'flights.png'}")
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
