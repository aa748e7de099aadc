"""Clients and a broker killed at random points, for any number of seeds; a checker judges it.

``python scripts/kills.py --seeds 20`` or ``--minutes 30``. Prints a line for each seed. Stops at
the first one that is wrong, and prints what is wrong, the folder with all journals and logs, and
the command that repeats it. With ``--ordering`` the clients are members of a share group with order
per key; with ``--hands`` a share group is paused, forked and purged meanwhile.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
import time
from itertools import count
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.kills.hands.round import HandsRound  # noqa: E402
from tests.kills.ordering.round import OrderedRound  # noqa: E402
from tests.kills.round import Round, Stuck  # noqa: E402
from tests.servers import family  # noqa: E402
from tests.servers.process import ServerFailed  # noqa: E402

BAR = 30
KINDS = {"": (Round, 14), "ordering": (OrderedRound, 50), "hands": (HandsRound, 12)}
"""By option: what plays a seed, and with how many kills or acts."""


def main() -> None:
    """Run the seeds; exit status 1 when one is wrong."""
    parser = argparse.ArgumentParser(prog="scripts/kills.py", description=__doc__)
    parser.add_argument("--first", type=int, default=0, help="the first seed (0)")
    parser.add_argument("--seeds", type=int, help="how many seeds")
    parser.add_argument("--minutes", type=float, help="for how long")
    parser.add_argument(
        "--kills", type=int, help="kills of a seed (14; 50 with --ordering; 12 acts with --hands)"
    )
    kinds = parser.add_mutually_exclusive_group()
    for kind, what in (
        ("ordering", "order per key in a share group"),
        ("hands", "pause, fork and purge of a share group"),
    ):
        kinds.add_argument(f"--{kind}", dest="kind", action="store_const", const=kind, help=what)
    parser.add_argument("--keep-going", action="store_true", help="do not stop at a wrong one")
    arguments = parser.parse_args()
    family.begin()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that nothing is left running
    began = time.monotonic()
    kind = arguments.kind or ""
    kills_each = arguments.kills or KINDS[kind][1]
    seeds = arguments.seeds or (None if arguments.minutes else 10)
    wrong = kills = 0
    for done in count():
        spent = (time.monotonic() - began) / 60
        share = max(done / seeds if seeds else 0, spent / (arguments.minutes or float("inf")))
        if share >= 1:
            break
        seed = arguments.first + done
        if sys.stderr.isatty():
            filled = round(share * BAR)
            bar = f"{'#' * filled}{'.' * (BAR - filled)}"
            print(f"\r[{bar}] seed {seed}, {kills} kills ", end="", file=sys.stderr, flush=True)
        if not one(seed, kills_each, kind):
            wrong += 1
            if not arguments.keep_going:
                break
        kills += kills_each
    print(f"{kills} kills, {wrong} seeds wrong, in {time.monotonic() - began:.0f} s")
    sys.exit(1 if wrong else 0)


def one(seed: int, kills: int, kind: str) -> bool:
    """Run one seed and print its result; whether all is well."""
    began = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix=f"kills-{seed}-"))
    this = KINDS[kind][0](folder, seed, kills)
    try:
        wrong = this.run()
    except (Stuck, ServerFailed) as error:
        wrong = [f"{type(error).__name__}: {error}"]
    verdict = "wrong" if wrong else "well"
    last = this.moments[-1] if this.moments else ""
    print(f"seed {seed} {verdict} in {time.monotonic() - began:.0f} s: {last}", flush=True)
    if not wrong:
        shutil.rmtree(folder)
        return True
    again = f"python scripts/kills.py --first {seed} --seeds 1 --kills {kills}"
    again += f" --{kind}" if kind else ""
    print(*this.moments, *wrong, f"files: {folder}", f"again: {again}", sep="\n", flush=True)
    return False


if __name__ == "__main__":
    main()
