"""Lets a real broker die at each write, sync and change of a name in its data folder, and judges
what its clients saw: ``python scripts/failpoints.py``.

The broker is the one that users run. A library that the loader puts before it counts what it does
to its files, and kills it at the n-th: before it, after it, or in the middle of a write; with a
power loss what was not synced is gone as well. Then it starts again, and its clients go on.

    python scripts/failpoints.py                         # each point, some minutes
    python scripts/failpoints.py --every 7 --transactional
    python scripts/failpoints.py --only "sync before 12 power"
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.failpoints.round import Died, Point, PointRound, compiled  # noqa: E402
from tests.servers import family  # noqa: E402

MOMENTS: Final = {
    "write": ("before", "torn", "after"),
    "sync": ("before", "after"),
    "change": ("before", "after"),
}


def points(counted: Mapping[str, int], every: int) -> Iterator[Point]:
    """Each n-th point, at the moments by turns, with a power loss and without."""
    at = 0
    for kind, many in counted.items():
        for number in range(1, many + 1):
            for moment in MOMENTS[kind]:
                for power in (False, True):
                    if at % every == 0:
                        yield Point(kind, number, moment, power)
                    at += 1


def play(folder: Path, library: Path, transactional: bool, point: Point) -> tuple[Point, Died]:
    """One point, in a process of its own."""
    logging.getLogger("sharegroup").setLevel(logging.CRITICAL)
    family.begin()
    place = folder / str(point).replace(" ", "-")
    return point, PointRound(place, library, transactional=transactional).die(point)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--every", type=int, default=1, help="each so many-th point (1)")
    parser.add_argument("--transactional", action="store_true", help="producers use transactions")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--only", metavar="POINT", help="as it is printed")
    parser.add_argument("--folder", help="where the data is left; else it is removed")
    given = parser.parse_args()
    family.begin()
    logging.getLogger("sharegroup").setLevel(logging.CRITICAL)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(given.folder or temporary)
        library = compiled(Path(temporary))
        if given.only:
            kind, moment, number, *power = given.only.split()
            chosen = [Point(kind, int(number), moment, bool(power))]
        else:
            counting = PointRound(folder / "count", library, transactional=given.transactional)
            counted = counting.count()
            print(", ".join(f"{many} {kind}s" for kind, many in counted.items()), flush=True)
            chosen = [*points(counted, given.every)]
        wrong = deaths = 0
        # Not by fork: the processes would be given the same ports.
        with ProcessPoolExecutor(given.jobs, get_context("spawn")) as pool:
            one = partial(play, folder, library, given.transactional)
            for point, died in pool.map(one, chosen):
                deaths += died.there
                if died.wrong:
                    wrong += 1
                    print(f"{point}: " + "; ".join(died.wrong[:3]), flush=True)
    print(f"{len(chosen)} points, {deaths} deaths, {wrong} points wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(main())
    sys.exit(130)
