"""Runs a real broker for an hour while its clients come, go and die: `make soak`.

Every few seconds memory, descriptors, tasks, threads, the disk that internal topics take, and the
time from a record's send to its delivery are noted. At the end a picture is drawn, and
`sharegroup check` judges what the clients saw. The exit status is 1 if something has grown, or a
rule does not hold.

    make soak                                   # an hour
    make soak ARGS="--minutes 5 --out build/soak"
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import shutil
import sys
import time
from pathlib import Path
from typing import Final

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from sharegroup.check.judge import judged  # noqa: E402
from sharegroup.sim.recorder import Recorder  # noqa: E402
from tests.servers import family  # noqa: E402
from tests.servers.process import HOST, free_port  # noqa: E402
from tests.servers.sharegroup_server import SharegroupServer  # noqa: E402
from tests.soak.churn import Churn  # noqa: E402
from tests.soak.picture import draw  # noqa: E402
from tests.soak.samples import Sample, grown, sample  # noqa: E402

OPTIONS: Final = (
    "group.share.min.record.lock.duration.ms=1000",
    # Who dies is missed soon: an hour sees more of it, and the end waits for nobody.
    "group.share.min.session.timeout.ms=6000",
    "group.share.session.timeout.ms=6000",
    "group.share.min.heartbeat.interval.ms=1000",
    "group.share.heartbeat.interval.ms=1000",
    "group.consumer.min.session.timeout.ms=6000",
    "group.consumer.session.timeout.ms=6000",
    "group.consumer.min.heartbeat.interval.ms=1000",
    "group.consumer.heartbeat.interval.ms=1000",
    # A log is deleted by whole segments. With the default of 100 MiB an hour sees no such deletion.
    "share.coordinator.state.topic.segment.bytes=1048576",
    "offsets.topic.segment.bytes=1048576",
    "individual.commit.log.segment.bytes=1048576",
)
SAMPLES: Final = 240


async def watch(
    server: SharegroupServer, metrics: str, churn: Churn, seconds: float, samples: list[Sample]
) -> None:
    """Take samples until the clients have ended; a line on the terminal for each minute."""
    running = asyncio.create_task(churn.run())
    began = time.monotonic()
    every_s = max(0.5, seconds / SAMPLES)
    said = 0
    while not running.done():
        await asyncio.wait([running], timeout=every_s)
        at_s = time.monotonic() - began
        if not churn.latencies_ms or at_s > seconds or running.done():
            continue
        latencies, churn.latencies_ms = churn.latencies_ms, []
        samples.append(
            await asyncio.to_thread(
                sample, at_s, server.process.pid, server.data, metrics, latencies
            )
        )
        if at_s // 60 > said:
            said = int(at_s // 60)
            print(f"{said:3} min  {samples[-1].line()}", flush=True)
    await running


def main() -> int:
    parser = argparse.ArgumentParser(prog="make soak ARGS=…", description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=60, help="for so long (60)")
    parser.add_argument("--out", default="build/soak", help="where samples and picture go")
    given = parser.parse_args()
    folder = Path(given.out)
    broker = folder / "broker"
    shutil.rmtree(broker, ignore_errors=True)  # of an earlier run
    broker.mkdir(parents=True)
    family.begin()
    logging.getLogger("sharegroup").setLevel(logging.ERROR)
    metrics = f"{HOST}:{free_port()}"
    server = SharegroupServer(broker, *OPTIONS, arguments=("--metrics", metrics))
    samples: list[Sample] = []
    history_file = folder / "history.jsonl"
    with server, history_file.open("w") as history:
        recorder = Recorder(time.monotonic, lambda line: history.write(line + "\n"))
        churn = Churn(server.bootstrap, given.minutes * 60, recorder)
        asyncio.run(watch(server, metrics, churn, given.minutes * 60, samples))
    lines = "".join(f"{one.line()}\n" for one in samples)
    (folder / "samples.jsonl").write_text(lines)
    draw(samples, folder / "soak.png")
    with history_file.open("rb") as history_lines:
        verdict = judged(history_lines)
    wrong = [*grown(samples), *(str(one) for one in verdict.violations)]
    print(", ".join(f"{count} {what}" for what, count in sorted(churn.events.items())))
    print(f"{sum(verdict.counts.values()):,} events, {len(samples)} samples: {folder}/soak.png")
    for one in wrong[:20]:
        print(f"  {one}")
    print("nothing has grown, and every rule holds" if not wrong else f"{len(wrong)} faults")
    return 1 if wrong else 0


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(main())
    sys.exit(130)
