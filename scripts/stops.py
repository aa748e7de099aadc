"""Lets one of two real brokers in front of a cluster stand still (SIGSTOP) at each Produce request
that it sends to the cluster, and go on later: ``python scripts/stops.py``.

The brokers are those that users run. A library that the loader puts before one of them counts its
Produce requests, and stops it at the n-th: before it is sent, after that, or when its answer is
read and the broker does not know it yet. It stands still for shorter than its lease (2 s), for
shorter than its session (6 s), until another broker is just taking over, or for longer. What the
clients of both saw is judged, and no owner of a part of the state may write in the cluster after
the claim of the next one.

    python scripts/stops.py                              # each point, over half an hour
    python scripts/stops.py --every 10 --kafka           # in front of Apache Kafka
    python scripts/stops.py --only "before 37 6.5 first"
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.failpoints.round import compiled  # noqa: E402
from tests.failpoints.stops import MOMENTS, STOPPOINT, Stop, Stopped, StopRound  # noqa: E402
from tests.servers import family  # noqa: E402
from tests.servers.process import ServerFailed  # noqa: E402

STOPS_S: Final = 1.0, 6.5, 3.0, 10.0


def stops(requests: int, every: int) -> Iterator[Stop]:
    """Each so many-th point. How long the broker stands still, and whether it was started first,
    changes by turns."""
    for turn, at in enumerate(range(0, len(MOMENTS) * requests, every)):
        moment, seconds = MOMENTS[turn % len(MOMENTS)], STOPS_S[turn % len(STOPS_S)]
        first = turn // (len(MOMENTS) * len(STOPS_S)) % 2 == 1
        yield Stop(moment, at // len(MOMENTS) + 1, seconds, first)


def parsed(text: str) -> Stop:
    """A point, as it is printed."""
    moment, number, seconds, *first = text.split()
    return Stop(moment, int(number), float(seconds), first == ["first"])


def play(folder: Path, library: Path, kafka: bool, stop: Stop) -> tuple[Stop, Stopped]:
    """One point, in a process of its own."""
    logging.getLogger("sharegroup").setLevel(logging.CRITICAL)
    family.begin()
    place = folder / str(stop).replace(" ", "-")
    try:
        return stop, StopRound(place, library, kafka=kafka).stop(stop)
    except ServerFailed as error:
        return stop, Stopped("", False, [str(error)])


def said(stopped: Stopped) -> str:
    """What came of a point, in a line."""
    if stopped.wrong:
        return "; ".join(stopped.wrong[:3])
    taken = ", taken over" if stopped.taken else ""
    return f"{stopped.topic}{taken}: fine" if stopped.topic else "not reached: fine"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--every", type=int, default=1, help="each so many-th point (1)")
    parser.add_argument("--kafka", action="store_true", help="the cluster is Apache Kafka")
    parser.add_argument("--jobs", type=int, default=2, help="so many points at a time (2)")
    parser.add_argument("--only", metavar="POINT", help="as it is printed")
    parser.add_argument("--folder", help="where the data is left; else it is removed")
    given = parser.parse_args()
    family.begin()
    logging.getLogger("sharegroup").setLevel(logging.CRITICAL)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(given.folder or temporary)
        library = compiled(Path(temporary), STOPPOINT)
        if given.only:
            chosen = [parsed(given.only)]
        else:
            counted = StopRound(folder / "count", library, kafka=given.kafka).count()
            print(", ".join(f"{many} to {topic}" for topic, many in counted.items()), flush=True)
            chosen = [*stops(counted.total(), given.every)]
        reached = taken = wrong = 0
        # Not by fork: the processes would be given the same ports.
        with ProcessPoolExecutor(given.jobs, get_context("spawn")) as pool:
            one = partial(play, folder, library, given.kafka)
            for number, (stop, stopped) in enumerate(pool.map(one, chosen), start=1):
                reached += bool(stopped.topic)
                taken += stopped.taken
                wrong += bool(stopped.wrong)
                print(f"{number}/{len(chosen)} {stop}: {said(stopped)}", flush=True)
    print(f"{len(chosen)} points, {reached} stops, {taken} taken over, {wrong} points wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(main())
    sys.exit(130)
