"""Rejects records while the broker is killed and the dead-letter topic refuses letters for a while.

``python scripts/dead_letter_kills.py`` kills our broker 100 times while 100,000 records are
rejected; ``--system kafka`` does the same to Apache Kafka. Prints what a checker finds that has
only read what the clients wrote down, the input and the letters. docs/queues.md has both results.

With ``--redrive``, 20,000 letters are redriven. The redrive is killed, gets Ctrl-C, or loses the
broker 50 times; each letter must be redriven once.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.apache_kafka.broker import KafkaBroker  # noqa: E402
from tests.kills.letters import redriving  # noqa: E402
from tests.kills.letters.round import LettersRound  # noqa: E402
from tests.kills.round import Stuck  # noqa: E402
from tests.servers import family  # noqa: E402
from tests.servers.process import ServerFailed  # noqa: E402
from tests.servers.running import RunningServer  # noqa: E402
from tests.servers.sharegroup_server import SharegroupServer  # noqa: E402

SYSTEMS: dict[str, Callable[[Path], RunningServer]] = {
    "ours": SharegroupServer,
    "kafka": KafkaBroker,
}


def main() -> int:
    """Play a round. Exit status 1: something is wrong."""
    parser = argparse.ArgumentParser(prog="scripts/dead_letter_kills.py", description=__doc__)
    parser.add_argument("--system", choices=list(SYSTEMS), default="ours")
    parser.add_argument("--redrive", action="store_true", help="interrupt a redrive")
    parser.add_argument("--records", type=int, help="records or letters (100,000; 20,000)")
    parser.add_argument("--kills", type=int, help="kills, or interruptions (100; 50)")
    parser.add_argument(
        "--fault-s", type=float, default=60, help="seconds without a topic for letters (60)"
    )
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    family.begin()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that nothing is left running
    folder = Path(tempfile.mkdtemp(prefix="dead-letter-kills-"))
    server = SYSTEMS[chosen.system](folder / "broker")
    records = chosen.records or (20_000 if chosen.redrive else 100_000)
    kills = chosen.kills or (50 if chosen.redrive else 100)
    began = time.monotonic()
    columns = (TextColumn("kills"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns) as progress:
        bar = progress.add_task("", total=kills)

        def told(done: int) -> None:
            progress.update(bar, completed=done)

        try:
            if chosen.redrive:
                redriven = redriving.play(
                    server,
                    folder,
                    letters=records,
                    interruptions=kills,
                    seed=chosen.seed,
                    told=told,
                )
                wrong = redriven.wrong
                said = f"{records} letters, {kills} interruptions, {redriven.redrives} redrives"
            else:
                verdict = LettersRound(
                    server,
                    folder,
                    records=records,
                    kills=kills,
                    fault_s=chosen.fault_s,
                    seed=chosen.seed,
                    told=told,
                ).run(keeps_reasons=chosen.system == "ours")
                wrong = verdict.wrong
                said = (
                    f"{records} records, {kills} kills, {verdict.letters} letters "
                    f"({verdict.repeated} repeated), {verdict.lost} lost"
                )
        except (Stuck, ServerFailed) as error:
            wrong, said = [str(error)], type(error).__name__
    print(f"{chosen.system}: {said}, in {time.monotonic() - began:.0f} s")
    if not wrong:
        shutil.rmtree(folder)
        return 0
    print(*wrong, f"files: {folder}", sep="\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
