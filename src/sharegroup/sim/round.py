"""Runs the plan of one seed: a broker, perhaps nodes in front of it, clients, faults, and a history
of what the clients saw.

The production broker and our clients run unchanged. All that happens is drawn from the seed, so one
seed gives one history, byte for byte.
"""

from __future__ import annotations

import asyncio
import logging
import random
import traceback
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Final, Literal, NamedTuple
from zlib import crc32

from sharegroup.client.admin.admin import Admin
from sharegroup.sim.damage import flip
from sharegroup.sim.disk import MemoryDisk
from sharegroup.sim.disk_faults import DiskFaults
from sharegroup.sim.environment import SimulatedClock
from sharegroup.sim.fleet import FleetRecorder, SimulatedFleet
from sharegroup.sim.loop import SimulatedLoop
from sharegroup.sim.plan import FAULTS_S, Fault, Plan
from sharegroup.sim.process import DATA, BrokerProcess, Started
from sharegroup.sim.readers import RecordingReader
from sharegroup.sim.recorder import Recorder
from sharegroup.sim.recording import (
    PAUSES_S,
    RecordingMember,
    RecordingProducer,
    spread_over,
)
from sharegroup.sim.state_terms import overlaps
from sharegroup.sim.topic import TOPIC, JobsTopic
from sharegroup.sim.topic_faults import expire, make_anew, trim, until_done
from sharegroup.sim.workers import RecordingWorker
from sharegroup.sim.workload import LETTERS, TAKES_LETTERS, Workload, groups_of

PORT: Final = 9092
BROKER: Final = "broker"
DRAIN_S: Final = 900
"""After the faults a group must come further within so many virtual seconds."""
SETTLES_S: Final = 2
JOINED_S: Final = 5
"""Until then all members have joined their groups."""
NOTICED_S: Final = 1
"""All brokers in front of a cluster know by then that a topic was deleted."""
CALM_S: Final = 15
"""After the last fault clients connect again, sessions of dead readers end, letters are written."""
EIO_S: Final = 5
STEP_S: Final = 1e-6
SPIN_MAX: Final = 1_500
"""No client sends so many messages in a virtual second, whatever it is told; they come to 400."""
CUTS: Final = 20
OPTIONS: Final = (
    "group.share.min.record.lock.duration.ms=1000",
    "group.share.record.lock.duration.ms=1000",
    "group.share.max.delivery.count.limit=10",
    "group.consumer.min.session.timeout.ms=6000",
    "group.consumer.session.timeout.ms=6000",
    "group.consumer.min.heartbeat.interval.ms=1000",
    "group.consumer.heartbeat.interval.ms=1000",
    "auto.create.topics.enable=false",
)
CLEANING: Final = ("log.cleaner.backoff.ms=1000",)
EXPIRING: Final = ("log.retention.check.interval.ms=1000",)
SHORTEST_S: Final = 0.0001
"""A message takes no less."""
Member = RecordingMember | RecordingReader | RecordingWorker

log = logging.getLogger("sharegroup.sim")


class Outcome(NamedTuple):
    """What a round was.

    Attributes:
        history: its lines.
        virtual_s: how much virtual time it took.
        crashes: what a client raised that it must not raise, and what the broker did not expect.
    """

    history: list[str]
    virtual_s: float
    crashes: list[str]


def play(plan: Plan) -> Outcome:
    """Run a plan."""
    loop = SimulatedLoop(STEP_S)
    lines: list[str] = []
    crashes = _Crashes()
    loop.set_exception_handler(lambda _, context: crashes.add(str(context.get("exception"))))
    logger = logging.getLogger("sharegroup")
    logger.addHandler(crashes)
    this = Round(plan, loop, lines, crashes.add)
    try:
        # Not a Runner: it would wait for tasks of dead nodes, which run no more.
        asyncio.set_event_loop(loop)
        running = loop.create_task(this.run())

        def spins(node: str) -> None:
            if not node.startswith((BROKER, "node")):
                crashes.add(f"L4: {node} has sent more than {SPIN_MAX} messages in a second")
                running.cancel()  # the rest would take very long

        loop.network.messages_max, loop.network.spins = SPIN_MAX, spins
        with suppress(asyncio.CancelledError):
            loop.run_until_complete(running)
        return Outcome(lines, loop.time(), crashes.found)
    finally:
        loop.kill_all()
        this.forget()
        logger.removeHandler(crashes)
        asyncio.set_event_loop(None)
        loop.close()


class _Crashes(logging.Handler):
    """Collects what nobody has expected: it is in the log with its traceback."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def add(self, text: str) -> None:
        self.found.append(text)

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            self.add(self.format(record))


class Round:
    """One run of a plan."""

    def __init__(
        self,
        plan: Plan,
        loop: SimulatedLoop,
        lines: list[str],
        crashed: Callable[[str], None],
    ) -> None:
        self.plan = plan
        self._crashed = crashed
        self._loop = loop
        self._chance = random.Random(f"{plan.seed} round")
        self._clock = SimulatedClock()
        self._trouble = DiskFaults()
        self._topic = JobsTopic()
        self._broker = BrokerProcess(
            loop,
            BROKER,
            Started(PORT, _options(plan)),
            plan.seed,
            self._clock,
            crashed,
            self._trouble,
        )
        self._fleet: SimulatedFleet | None = None
        self._address = self._broker.address
        self.history = Recorder(loop.time, lines.append)
        if plan.nodes > 1:
            said = OPTIONS, self._clock, crashed, self._tell_kill
            self._fleet = SimulatedFleet(plan, loop, self._broker, *said)
            self._address = self._fleet.address
            self.history = FleetRecorder(loop.time, lines.append, self._fleet.deliverers)
        self._broken = False
        self._calm = asyncio.Event()
        self._members: list[Member] = []
        self._ever: list[Member] = []
        """Also those that were killed."""
        self._started = 0
        self._groups = groups_of(plan)
        self._messages = 0
        self._late = frozenset(plan.late or ())
        loop.network.latency_s = self._late_s if plan.late is not None else self._latency_s
        self._faults: dict[str, Callable[[float], Coroutine[Any, Any, None]]] = {
            "kill": self._kill,
            "power": self._power,
            "stall": self._stall,
            "eio": self._eio,
            "full": self._full,
            "slow": self._slow,
            "clock": self._jump,
            "member": self._kill_member,
            "leave": self._leave,
            "pause": self._pause,
            "cut": self._cut,
            "silence": self._silence,
            "lock": self._change_lock,
            "limit": self._change_limit,
            "still": self._still,
            "refused": self._refused,
            "trim": self._trim,
            "anew": self._make_anew,
            "flip": self._flip,
            "expire": self._expire,
            **({} if self._fleet is None else self._fleet.faults),
        }

    def _latency_s(self) -> float:
        return SHORTEST_S + self._chance.random() * self.plan.latency_ms / 1000

    def _late_s(self) -> float:
        """Of a plan that names its late messages. A message's time is its own: it is the same
        whichever of the others are late."""
        self._messages += 1
        if self._messages not in self._late:
            return SHORTEST_S
        drawn = crc32(b"%d %d" % (self.plan.seed, self._messages)) / (1 << 32)
        return SHORTEST_S + drawn * self.plan.latency_ms / 1000

    def forget(self) -> None:
        """It is over: nothing that was killed is to warn that nobody has closed it."""
        for member in self._ever:
            if member.consumer is not None:
                member.consumer._life.forsake()

    async def run(self) -> None:
        """All of it."""
        plan = self.plan
        await self._broker.start()
        if self._fleet is not None:
            await self._fleet.start()
        self._admin = Admin(self._address, jitter=random.Random(f"{plan.seed} admin"))
        async with self._admin:
            self._workload = workload = Workload(plan, self.history, self._admin, self._topic)
            await workload.set_up()
            producers = [
                RecordingProducer(
                    plan,
                    number,
                    self.history,
                    self._address,
                    self._clock.wall_ms,
                    self._calm,
                    PAUSES_S if self._fleet is None else spread_over(FAULTS_S, plan),
                    self._topic,
                )
                for number in range(plan.producers)
            ]
            for number, one in enumerate(producers):
                self._client(f"producer-{number}", one.run())
            for group in self._groups:
                for number in range(plan.members):
                    self._start_member(group, works=number < plan.workers)
            for _ in range(plan.readers):
                self._start_reader()
            await asyncio.gather(*(self._fault(one) for one in plan.faults))
            self._trouble.fails = ""
            if self._broken:
                await self._restart(0, lambda: self._broker.disk.survivor())
                self.history.tell("shaky", on=False)
            await asyncio.sleep(CALM_S if plan.faults else JOINED_S)
            self.history.tell("calm")
            self._calm.set()
            # A record rests by the wall clock over a restart: longer, if that was set back.
            back_s = sum(max(0, -one.value) for one in plan.faults if one.kind == "clock")
            await workload.end(producers, DRAIN_S + back_s)
        if self._fleet is not None:
            for line in overlaps(self._broker.disk, DATA):
                self._crashed(line)

    def _client(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        def ended(task: asyncio.Task[None]) -> None:
            if not task.cancelled() and task.exception() is not None:
                text = "".join(traceback.format_exception(task.exception()))
                self._crashed(f"{name}: {text}")

        self._loop.start(name, work).add_done_callback(ended)

    # --- faults -----------------------------------------------------------------------------------

    async def _fault(self, fault: Fault) -> None:
        await asyncio.sleep(fault.at_s)
        await self._faults[fault.kind](fault.value)

    async def _restart(self, seconds: float, disk: Callable[[], MemoryDisk]) -> None:
        await self._broker.restart(seconds, disk, self._tell_kill)

    def _tell_kill(self) -> None:
        self.history.tell("kill")

    async def _kill(self, seconds: float) -> None:
        await self._restart(seconds, lambda: self._broker.disk.successor())

    async def _power(self, seconds: float) -> None:
        await self._restart(seconds, lambda: self._broker.disk.survivor(self._chance))

    async def _stall(self, seconds: float) -> None:
        await self._broker.pause(seconds)

    async def _eio(self, what: float) -> None:
        if not self._broken:
            self.history.tell("shaky", on=True)
        self._broken = True
        self._trouble.fails = ("write", "sync", "all")[int(what)]
        for _ in range(EIO_S):  # until it has failed, if anything is written
            await asyncio.sleep(1)
            if not self._trouble.fails:
                break
        if self._trouble.fails == "all":
            self._trouble.fails = ""
        await asyncio.sleep(1)  # and for a while with what is out of service

    async def _full(self, seconds: float) -> None:
        self.history.tell("shaky", on=True)
        self._trouble.full = True
        await asyncio.sleep(seconds)
        self._trouble.full = False
        await asyncio.sleep(SETTLES_S)  # what could not be written is loaded again
        self.history.tell("shaky", on=False)

    async def _slow(self, seconds: float) -> None:
        self._trouble.slow = True
        await asyncio.sleep(seconds)
        self._trouble.slow = False

    async def _jump(self, seconds: float) -> None:
        self._clock.ahead_ms += round(seconds * 1000)

    def _start_member(self, group: str, *, works: bool) -> None:
        said = self.plan, group, self._name(), self.history, self._address
        self._start(RecordingWorker(*said) if works else RecordingMember(*said, self._topic))

    def _start_reader(self) -> None:
        reader = RecordingReader(self.plan, self._name(), self.history, self._address, self._topic)
        self._start(reader)

    def _name(self) -> str:
        self._started += 1
        return f"member-{self._started}"

    def _start(self, member: Member) -> None:
        self._members.append(member)
        self._ever.append(member)
        self._client(member.name, member.run())

    def _another(self, member: Member) -> None:
        """One that takes its place."""
        self._members.remove(member)
        if isinstance(member, RecordingReader):
            self._start_reader()
        else:
            self._start_member(member.group, works=isinstance(member, RecordingWorker))

    async def _kill_member(self, _: float) -> None:
        member = self._chance.choice(self._members)
        self._loop.kill(member.name)
        self._left(member)
        self._another(member)

    async def _leave(self, _: float) -> None:
        member = self._chance.choice(self._members)
        member.leaves = True
        self._another(member)

    async def _pause(self, seconds: float) -> None:
        member = self._chance.choice(self._members)
        self._loop.pause(member.name)
        await asyncio.sleep(seconds)
        self._loop.resume(member.name)

    async def _cut(self, producers: float) -> None:
        if producers:  # again and again, so that answers are lost, and it writes what is written
            for _ in range(CUTS):
                for number in range(self.plan.producers):
                    self._loop.network.cut(f"producer-{number}")
                await asyncio.sleep(self._chance.random() / 5)
            return
        member = self._chance.choice(self._members)
        self._loop.network.cut(member.name)
        if not isinstance(member, RecordingReader):
            self._left(member)  # its session ends with its connections, and its records are free

    async def _silence(self, seconds: float) -> None:
        self._loop.network.silence(self._chance.choice(self._members).name, seconds)

    def _left(self, member: Member) -> None:
        self.history.tell("leave", group=member.group, member=member.name)

    async def _change_lock(self, lock_ms: float) -> None:
        await self._change({"share.record.lock.duration.ms": f"{lock_ms:g}"}, lock_ms=lock_ms)

    async def _change_limit(self, limit: float) -> None:
        await self._change({"share.delivery.count.limit": f"{limit:g}"}, limit=limit)

    async def _still(self, seconds: float) -> None:
        await self._change({"share.paused": "true"})
        await asyncio.sleep(seconds)
        await self._change({"share.paused": "false"})

    async def _refused(self, seconds: float) -> None:
        if self.plan.letters:
            await self._alter("topic", LETTERS, {TAKES_LETTERS: "false"})
            await asyncio.sleep(seconds)
            await self._alter("topic", LETTERS, {TAKES_LETTERS: "true"})

    async def _change(self, settings: dict[str, str], **said: Any) -> None:
        group = self._chance.choice(self._groups) if said else self._groups[0]
        if said:
            self.history.tell("settings", group=group, **said)
        await self._alter("group", group, settings)

    async def _alter(
        self, kind: Literal["group", "topic"], name: str, settings: dict[str, str]
    ) -> None:
        await until_done(lambda: self._admin.alter_configs(kind, name, settings))

    async def _trim(self, part: float) -> None:
        await trim(self._admin, self.history, self._topic, self.plan.partitions, part)

    async def _expire(self, seconds: float) -> None:
        await expire(self._admin, self.history, self._topic, self.plan.partitions, seconds)

    async def _make_anew(self, pause_s: float) -> None:
        if self.plan.letters:
            return  # a letter names its topic, so nobody could tell which one it was
        said = self._admin, self.history, self._topic, self.plan.partitions
        noticed_s = NOTICED_S if self.plan.nodes > 1 else 0
        await make_anew(*said, self._workload.create_topic, pause_s, noticed_s)

    async def _flip(self, _: float) -> None:
        await self._restart(0, self._damaged)

    def _damaged(self) -> MemoryDisk:
        disk = self._broker.disk.successor()
        partition = self._chance.randrange(self.plan.partitions)
        batch = flip(disk, f"{DATA}/{TOPIC}-{partition}", self._chance)
        if batch is not None:
            where = {"topic": self._topic.name, "partition": partition}
            self.history.tell("gone", **where, first=batch.base_offset, last=batch.last_offset)
        return disk


def _options(plan: Plan) -> tuple[str, ...]:
    """The settings of the broker."""
    options = (*OPTIONS, *CLEANING) if plan.compacted else OPTIONS
    if any(one.kind == "expire" for one in plan.faults):
        options = (*options, *EXPIRING)
    return options
