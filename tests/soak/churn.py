"""Clients of a broker that come, go and die, and record what they see."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Callable, Coroutine
from dataclasses import replace
from random import Random
from typing import Any, Final

from sharegroup import Admin, Producer, ShareConsumer
from sharegroup.client.clock import wall_ms
from sharegroup.model.errors import SharegroupError
from sharegroup.sim.plan import Plan
from sharegroup.sim.readers import RecordingReader
from sharegroup.sim.recorder import Recorder
from sharegroup.sim.recording import RecordingMember, RecordingProducer
from sharegroup.sim.workload import Workload, groups_of

PLAN: Final = replace(
    Plan.drawn(0),
    partitions=4, producers=3, members=3, groups=2, records=0, keys=20, ordered=0, letters=1,
    transactional=0, turns=0, priorities=0, locks=0, limit=5, lock_ms=5_000, backoff_ms=500,
    release=5, reject=2, slow=2, renew=2, latency_ms=0, readers=3, in_turns=0, workers=0, faults=(),
)  # fmt: skip
RECORDS_A_SECOND: Final = 145
"""So many are written, about, with these pauses."""
PAUSES_S: Final = 0.2, 0.5, 1.0
CHURN_S: Final = 5
"""So often something comes and goes."""
PROBE: Final = "probe"
PROBE_S: Final = 0.2
DRAIN_S: Final = 120
NONSENSE: Final = 20

Client = RecordingMember | RecordingReader


class Churn:
    """All clients, for some time.

    Args:
        history: of the clients of the topic ``jobs``.
    """

    def __init__(self, bootstrap: str, seconds: float, history: Recorder) -> None:
        self._bootstrap = bootstrap
        self._seconds = seconds
        self._history = history
        self._plan = replace(PLAN, records=int(seconds * RECORDS_A_SECOND))
        self._chance = Random("soak")
        self._clients: dict[Client, asyncio.Task[None]] = {}
        self._ended: set[asyncio.Task[None]] = set()
        self._started = 0
        self.latencies_ms: list[float] = []
        """Of the probes since somebody took them."""
        self.events: dict[str, int] = {}
        """What has happened, and how often."""

    async def run(self) -> None:
        """Until the time is over and everything is read."""
        calm = asyncio.Event()
        calm.set()
        async with Admin(self._bootstrap) as admin, asyncio.TaskGroup() as tasks:
            workload = Workload(self._plan, self._history, admin)
            await workload.set_up()
            probing = tasks.create_task(self._probe(admin))
            numbers = range(self._plan.producers)
            producers = [
                RecordingProducer(
                    self._plan, one, self._history, self._bootstrap, wall_ms, calm, PAUSES_S
                )
                for one in numbers
            ]
            for one in producers:
                tasks.create_task(one.run())
            for group in groups_of(self._plan):
                for _ in range(self._plan.members):
                    self._start_member(group)
            for _ in range(self._plan.readers):
                self._start_reader()
            await self._change(admin, [time.monotonic() + self._seconds])
            self._hurry()
            await workload.end(producers, DRAIN_S)
            probing.cancel()
            for client in self._clients:
                client.leaves = True
            for task in self._ended:
                if task.cancelling():
                    task.cancel()  # its close, too: nobody hears what the dead say to their group
            await asyncio.wait([*self._clients.values(), *self._ended], timeout=60)

    def _hurry(self) -> None:
        """Members that are never slow and give nothing back work off what is left: of the others,
        one that takes a single record at a time needs hours for what an hour has left."""
        self._plan = replace(self._plan, slow=0, release=0, renew=0)
        for client in [*self._clients]:
            if isinstance(client, RecordingMember):
                client.leaves = True
                self._another(client)

    async def _change(self, admin: Admin, until: list[float]) -> None:
        changes: list[Callable[[], Coroutine[Any, Any, None]]] = [
            self._leave,
            self._die,
            self._nonsense,
            lambda: self._short_life(admin),
        ]
        while time.monotonic() < until[0]:
            await asyncio.sleep(CHURN_S * self._chance.random() * 2)
            change = self._chance.choice(changes)
            await change()

    def _happened(self, what: str) -> None:
        self.events[what] = self.events.get(what, 0) + 1

    # --- members ----------------------------------------------------------------------------------

    def _name(self) -> str:
        self._started += 1
        return f"member-{self._started}"

    def _start_member(self, group: str) -> None:
        name = self._name()
        self._start(RecordingMember(self._plan, group, name, self._history, self._bootstrap))

    def _start_reader(self) -> None:
        self._start(RecordingReader(self._plan, self._name(), self._history, self._bootstrap))

    def _start(self, client: Client) -> None:
        self._clients[client] = asyncio.create_task(client.run(), name=client.name)

    def _another(self, client: Client) -> None:
        task = self._clients.pop(client)
        self._ended.add(task)
        task.add_done_callback(self._ended.discard)
        if isinstance(client, RecordingReader):
            self._start_reader()
        else:
            self._start_member(client.group)

    async def _leave(self) -> None:
        client = self._chance.choice([*self._clients])
        client.leaves = True
        self._another(client)
        self._happened("members that leave")

    async def _die(self) -> None:
        """Without a word: its connections end in the middle of whatever they do."""
        client = self._chance.choice([*self._clients])
        if client.consumer is None:
            return  # it has not begun
        self._history.tell("leave", group=client.group, member=client.name)
        if isinstance(client, RecordingMember):
            client.consumer._parts.member.cut()
            client.consumer._parts.cluster.cut()
        else:
            client.consumer._parts.cut()
        self._clients[client].cancel()
        self._another(client)
        self._happened("members that die")

    # --- others -----------------------------------------------------------------------------------

    async def _nonsense(self) -> None:
        """Connections that send what is no request, and go."""
        host, _, port = self._bootstrap.rpartition(":")
        for _ in range(NONSENSE):
            _, writer = await asyncio.open_connection(host, int(port))
            writer.write(self._chance.randbytes(self._chance.randint(1, 200)))
            writer.transport.abort()
            self._happened("connections with nonsense")

    async def _short_life(self, admin: Admin) -> None:
        """A topic and a group that live for a moment."""
        name = f"short-{os.urandom(4).hex()}"
        await admin.create_topics(name, partitions=2)
        await admin.alter_configs("group", name, {"share.auto.offset.reset": "earliest"})
        async with Producer(self._bootstrap) as producer:
            for number in range(100):
                await producer.enqueue(name, b"%d" % number)
        async with ShareConsumer(
            name, group_id=name, bootstrap_servers=self._bootstrap
        ) as consumer:
            left = 100
            while left > 0:
                left -= len(await consumer.poll(1_000))
        with contextlib.suppress(SharegroupError):  # its members may not have gone yet
            await admin.delete_share_groups(name)
        await admin.delete_topics(name)
        self._happened("topics and groups made and deleted")

    async def _probe(self, admin: Admin) -> None:
        """How long a record takes, again and again."""
        await admin.create_topics(PROBE, partitions=1)
        await admin.alter_configs("group", PROBE, {"share.auto.offset.reset": "earliest"})
        async with (
            Producer(self._bootstrap) as producer,
            ShareConsumer(PROBE, group_id=PROBE, bootstrap_servers=self._bootstrap) as consumer,
        ):
            while True:
                sent = time.monotonic()
                await producer.send(PROBE, b"now")
                while not await consumer.poll(5_000):
                    continue
                self.latencies_ms.append((time.monotonic() - sent) * 1_000)
                await asyncio.sleep(PROBE_S)
