"""The crash test of the Spark source for any number of seeds: `make soak-spark`.

Prints a line for each round of seeds. Stops at the first round that fails, and prints the command
that repeats it and the folder with its files.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.apache_kafka.broker import KafkaBroker  # noqa: E402
from tests.servers import family  # noqa: E402
from tests.servers.process import ServerFailed  # noqa: E402
from tests.servers.sharegroup_server import SharegroupServer  # noqa: E402
from tests.spark.crash.round import BROKER_OPTIONS, Round, Stuck  # noqa: E402


def main() -> None:
    """Run the rounds; exit status 1 at the first violation."""
    parser = argparse.ArgumentParser(prog="make soak-spark ARGS=…", description=__doc__)
    parser.add_argument("--first", type=int, default=0, help="the first seed (0)")
    parser.add_argument("--seeds", type=int, default=200, help="how many seeds (200)")
    parser.add_argument("--per-round", type=int, default=5, help="seeds that share a JVM (5)")
    parser.add_argument("--kafka", action="store_true", help="against Apache Kafka")
    arguments = parser.parse_args()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    family.begin()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that nothing is left running
    end = arguments.first + arguments.seeds
    for first in range(arguments.first, end, arguments.per_round):
        seeds = range(first, min(first + arguments.per_round, end))
        if not one_round(seeds, kafka=arguments.kafka):
            sys.exit(1)


def one_round(seeds: range, *, kafka: bool) -> bool:
    """Run one round and print its result; returns whether it succeeded."""
    began = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix=f"soak-{seeds.start}-"))
    kind = KafkaBroker if kafka else SharegroupServer
    with kind(folder / "broker", *BROKER_OPTIONS) as server:
        this = Round(server, folder / "round", seeds)
        try:
            wrong = this.run()
        except (Stuck, ServerFailed, AssertionError) as error:
            wrong = [str(error)]
    strikes = "; ".join(this.killer.log) if this.killer else ""
    taken = time.monotonic() - began
    verdict = "wrong" if wrong else "well"
    print(f"seeds {seeds.start}-{seeds[-1]} {verdict} in {taken:.0f} s: {strikes}", flush=True)
    if not wrong:
        shutil.rmtree(folder)
        return True
    more = " --kafka" if kafka else ""
    again = f"--first {seeds.start} --seeds {len(seeds)} --per-round {len(seeds)}{more}"
    print(
        "\n".join(wrong), f"\nfiles: {folder}", f'again: make soak-spark ARGS="{again}"', sep="\n"
    )
    return False


if __name__ == "__main__":
    main()
