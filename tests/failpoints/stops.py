"""One stop: one of two brokers in front of a cluster stands still at a Produce request that it
sends to the cluster, and goes on later. What clients saw is judged, and what the cluster has."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from sharegroup.broker.internal_topics import IN_CLUSTER_PREFIX
from sharegroup.check.judge import judged
from sharegroup.client.network.cluster import Cluster
from sharegroup.model.ids import TopicPartition
from sharegroup.sim.fleet import FleetRecorder
from sharegroup.sim.recording import RecordingMember
from sharegroup.sim.state_terms import OWNED, overlaps_of
from sharegroup.upstream.owned_batches import OwnedBatch, batches_in
from sharegroup.upstream.raw_log import EARLIEST, LATEST, RawLog
from tests.apache_kafka.broker import KafkaBroker
from tests.failpoints.clients import OPTIONS, PLAN, work
from tests.failpoints.late_answers import late_answers
from tests.kills.confluent_member import ConfluentMember
from tests.servers.sharegroup_server import SharegroupServer

STOPPOINT: Final = Path(__file__).with_name("stoppoint.c")
MOMENTS: Final = "before", "after", "answered"
PARTS: Final = 6
"""Of the state: few, so that a broker is started soon."""
NODE_OPTIONS: Final = (
    *OPTIONS,
    f"share.coordinator.state.topic.num.partitions={PARTS}",
    f"offsets.topic.num.partitions={PARTS}",
)
STOPS_PLAN: Final = replace(PLAN, partitions=6, keys=60, members=3, records=120)
LOOK_S: Final = 0.02
DONE_LOOK_S: Final = 0.5
"""Each look asks the brokers, who ask each other by Produce requests."""
CALM_S: Final = 4
"""If the broker has not stopped by then, the last records are written."""
SETTLED_S: Final = 60
READ_BYTES: Final = 1 << 20
HAS: Final = re.compile(r"has (\d+) of \d+ parts of the state; there are (\d+) brokers")
"""What a broker's log says of each map."""


class Stop(NamedTuple):
    """Where a broker stands still: at the ``number``-th Produce request that it sends.

    Attributes:
        moment: ``before`` it is sent, ``after`` that, or when it is ``answered``: the process has
            read the answer, and does not know it yet.
        seconds: how long it stands still.
        first: it is started before the other broker.
    """

    moment: str
    number: int
    seconds: float
    first: bool = False

    def __str__(self) -> str:
        return f"{self.moment} {self.number} {self.seconds:g}" + " first" * self.first


class Stopped(NamedTuple):
    """What came of it.

    Attributes:
        topic: to which it was sending: one of ours in the cluster without the prefix, or
            ``records``. Empty: the broker has not stopped.
        taken: another broker has taken what it had.
        wrong: what does not hold.
    """

    topic: str
    taken: bool
    wrong: list[str]


class StopRound:
    """See the module.

    Args:
        library: the compiled STOPPOINT.
        kafka: the cluster is a broker of Apache Kafka.
    """

    def __init__(self, folder: Path, library: Path, *, kafka: bool = False) -> None:
        self._folder = folder.absolute()
        for name in ("cluster", "stopping", "other"):
            (folder / name).mkdir(parents=True)
        self._cluster = (
            KafkaBroker(folder / "cluster")
            if kafka
            else SharegroupServer(folder / "cluster", *OPTIONS)
        )
        upstream = ["--upstream", self._cluster.bootstrap]
        self._stopping = SharegroupServer(folder / "stopping", *NODE_OPTIONS, arguments=upstream)
        self._other = SharegroupServer(folder / "other", *NODE_OPTIONS, arguments=upstream)
        self._preload = {
            "LD_PRELOAD": str(library.absolute()),
            "STOPPOINT_PORT": self._cluster.bootstrap.rpartition(":")[2],
            "STOPPOINT_SAID": str(self._folder / "topic"),
        }
        self._lines: list[str] = []
        self._history = FleetRecorder(time.monotonic, self._lines.append, self._maps)
        self._plan = STOPS_PLAN
        self._calm: asyncio.Event
        self._still: asyncio.Event
        self._over = False
        self._end_ms = 0.0
        self._taken = False
        self._wrong: list[str] = []

    def count(self) -> Counter[str]:
        """How many Produce requests there are to which topic, if nobody stops."""
        file = self._folder / "count"
        self._play({"STOPPOINT_COUNT": str(file)}, Stop("before", 0, 0))
        return Counter(file.read_text().split())

    def stop(self, stop: Stop) -> Stopped:
        """Let the broker stand still there."""
        self._plan = replace(self._plan, letters=stop.number % 2)
        self._play({"STOPPOINT": f"{stop.moment} {stop.number}"}, stop)
        (self._folder / "history.jsonl").write_text("".join(f"{one}\n" for one in self._lines))
        said = self._folder / "topic"
        topic = said.read_text().strip() if said.exists() else ""
        return Stopped(topic, self._taken, self._wrong)

    def _play(self, said: Mapping[str, str], stop: Stop) -> None:
        self._stopping.process.environment |= self._preload | said
        brokers = self._cluster, self._stopping, self._other
        try:
            self._cluster.start()
            asyncio.run(self._work(stop))
            self._cluster.stop()
        finally:
            for one in brokers:
                one.kill()
        self._wrong += [str(one) for one in judged(self._lines).violations]
        self._wrong += late_answers(self._lines, self._end_ms)
        self._wrong += [
            f"a traceback in {one.process.log_path}"
            for one in brokers
            if "Traceback" in one.output()
        ]
        self._taken = "there are 1 brokers" in self._other.output().partition("there are 2")[2]

    async def _work(self, stop: Stop) -> None:
        self._calm, self._still = asyncio.Event(), asyncio.Event()
        watching = asyncio.create_task(self._watch(stop))
        starting = await self._start(stop.first)
        both = f"{self._stopping.bootstrap},{self._other.bootstrap}"
        kinds = RecordingMember, ConfluentMember, ConfluentMember
        calming = asyncio.create_task(self._calm_down(starting, stop))
        await work(self._plan, self._history, both, self._calm, kinds, DONE_LOOK_S)
        await calming
        # It may stand still at what it writes while it stops.
        await asyncio.to_thread(self._stopping.stop)
        self._over = True
        await watching
        await asyncio.to_thread(self._other.stop)
        self._wrong += await _overlaps(self._cluster.bootstrap)

    async def _start(self, first: bool) -> asyncio.Task[None]:
        """Start both brokers. The one that stops need not be ready yet."""
        if not first:
            await asyncio.to_thread(self._other.start)
        starting = asyncio.create_task(asyncio.to_thread(self._stopping.start))
        if first:
            still = asyncio.create_task(self._still.wait())
            await asyncio.wait({starting, still}, return_when=asyncio.FIRST_COMPLETED)
            still.cancel()
            await asyncio.to_thread(self._other.start)
        return starting

    async def _watch(self, stop: Stop) -> None:
        """When the broker stands still, let it go on later."""
        while not self._over:
            await asyncio.sleep(LOOK_S)
            process = self._stopping.process
            if process.running and _state(process.pid) == "T":
                self._still.set()
                await asyncio.sleep(stop.seconds)
                self._end_ms = self._history.now_ms()
                os.kill(process.pid, signal.SIGCONT)
                return

    async def _calm_down(self, starting: asyncio.Task[None], stop: Stop) -> None:
        """From when the stop is over, and both brokers have work, nothing fails any more."""
        await starting
        try:
            async with asyncio.timeout(CALM_S):
                await self._still.wait()
        except TimeoutError:
            self._calm.set()
            return
        try:
            async with asyncio.timeout(stop.seconds + SETTLED_S):
                await self._settled()
            self._history.tell("calm")
        except TimeoutError:
            self._wrong.append("the broker that stood still has got no work again")
        self._calm.set()

    def _maps(self) -> list[tuple[str, ...]]:
        """What both brokers have said of who has what."""
        return [tuple(HAS.findall(one.output())) for one in self._nodes_that_began()]

    async def _settled(self) -> None:
        """Return when the stop is over, and both have a part of the work by their newest maps."""
        while True:
            newest = [each[-1] for each in self._maps() if each]
            both = len(newest) == 2 and all(int(has) and int(of) == 2 for has, of in newest)
            if both and self._end_ms:
                return
            await asyncio.sleep(LOOK_S)

    def _nodes_that_began(self) -> Iterator[SharegroupServer]:
        for one in (self._stopping, self._other):
            if one.process.log_path.exists():
                yield one


def _state(pid: int) -> str:
    """One letter of a process that runs or is dead; ``T``: it stands still."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


async def _overlaps(bootstrap: str) -> list[str]:
    """Where terms overlap in the logs of the brokers' state."""
    found: list[str] = []
    async with Cluster(bootstrap) as cluster:
        for topic in OWNED:
            for partition in range(PARTS):
                where = TopicPartition(f"{IN_CLUSTER_PREFIX}{topic}", partition)
                batches = await _batches(RawLog(cluster, where, "terms"))
                found += overlaps_of(str(where), batches)
    return found


async def _batches(log: RawLog) -> list[OwnedBatch]:
    """All batches of a log."""
    found: list[OwnedBatch] = []
    offset, end = await log.offset(EARLIEST), await log.offset(LATEST)
    while offset < end:
        read = await log.read(offset, READ_BYTES)
        new = [one for one in batches_in(bytes(read.records or b"")) if one.end_offset > offset]
        assert new, f"{log.where} has nothing at offset {offset}"
        found += new
        offset = new[-1].end_offset
    return found
