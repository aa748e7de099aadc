"""One round: a broker and twelve members, kills at random, the end, and the verdict."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

from confluent_kafka import Producer

from sharegroup.check.judge import judged
from sharegroup.model.errors import SharegroupError
from sharegroup.sync import Admin as OurAdmin
from tests.apache_kafka.java import java_command
from tests.apache_kafka.program import compile_java
from tests.apache_kafka.tools import QUIET, SHORT_RUN
from tests.kills.journal import Journal, Tail, all_lines
from tests.kills.ordering.history import history
from tests.kills.ordering.keyed import (
    BROKER_OPTIONS,
    GROUP,
    GROUP_SETTINGS,
    LOCK_MS,
    PARTITIONS,
    TOPIC,
    zipf_keys,
)
from tests.kills.ordering.member import MOST
from tests.kills.ordering.rules import Keys, violations
from tests.kills.ordering.states import read_all, writes_of
from tests.kills.round import ROOT, Stuck, Worker
from tests.kills.working import GAVE_UP, pause
from tests.servers.admin import SILENT, Admin
from tests.servers.sharegroup_server import SharegroupServer

JAVA: Final = ROOT / "tests" / "foreign" / "java" / "OrderedMembers.java"
PYTHON_MEMBERS: Final = {"confluent": 5, "ours": 5}
"""Two more are in one process of Java's."""
MOMENTS: Final = ("took", "accepting", "answered")
FIRST_RECORDS, MORE_RECORDS = 1_000, 50
MORE_EVERY_S: Final = 0.5
"""While the members start: the first ones must leave something for the last."""
PEACE_S: Final = (0.05, 0.5)
DELAY_MS_MAX: Final = 4.0
STALL_S: Final = 1.3 * LOCK_MS / 1000
POLL_S: Final = 0.002
SIGN_S: Final = 4
END_S: Final = 200


class How(Enum):
    """What a strike does."""

    BROKER = "the broker is killed"
    KILL = "is killed"
    STALL = "stalls past its locks"
    LEAVE = "leaves"


class Strike(NamedTuple):
    """A moment and what happens then."""

    how: How
    kind: str
    """Whose line is waited for: how the names of these members begin."""
    what: str
    delay_ms: float


def strikes_of(seed: int, kills: int) -> list[Strike]:
    """So many kills, each fifth of the broker; between them some stalls and departures."""
    random = Random(f"ordering {seed}")
    chosen = [How.BROKER] * (kills // 5) + [How.KILL] * (kills - kills // 5)
    chosen += [How.STALL] * (kills // 6) + [How.LEAVE] * (kills // 10)
    random.shuffle(chosen)
    return [
        Strike(
            how,
            random.choices(("confluent", "ours", "java"), (6, 6, 1))[0],
            random.choice(MOMENTS),
            random.choice((0, random.uniform(0, DELAY_MS_MAX))),
        )
        for how in chosen
    ]


class JavaWorker(Worker):
    """A process with Kafka's own share consumers."""

    def __init__(self, folder: Path, bootstrap: str, who: str, class_path: str) -> None:
        super().__init__(folder, bootstrap, who, "", f"{TOPIC}/{GROUP}/{MOST}")
        self._class_path = class_path

    def command(self) -> list[str]:
        return [java_command(), *SHORT_RUN, QUIET, "-cp", self._class_path, JAVA.stem]


class OrderedRound:
    """See the module. ``moments`` fills with what was done."""

    def __init__(self, folder: Path, seed: int, kills: int, class_path: str | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.server = SharegroupServer(folder / "broker", *BROKER_OPTIONS)
        self.strikes = strikes_of(seed, kills)
        self.moments: list[str] = []
        self._random = Random(f"round {seed}")
        self._keys = zipf_keys(self._random)
        self._journal = Journal(folder, "driver", 0)
        self._tail = Tail(folder)
        self._stalled: dict[str, float] = {}
        """When each one goes on."""
        bootstrap = self.server.bootstrap
        self._workers: dict[str, Worker] = {
            f"{kind}-{number}": Worker(
                folder, bootstrap, f"{kind}-{number}", "ordering.member", kind
            )
            for kind, count in PYTHON_MEMBERS.items()
            for number in range(count)
        }
        compiled = class_path or compile_java(JAVA, folder)
        self._workers["java-0"] = JavaWorker(folder, bootstrap, "java-0", compiled)
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "partitioner": "murmur2_random",
                "linger.ms": 2,
                **SILENT,
            }
        )

    def run(self) -> list[str]:
        """What is wrong; raises Stuck, ServerFailed."""
        with self._running():
            for number, strike in enumerate(self.strikes):
                self._produce(MORE_RECORDS)
                self._strike(strike, number)
                pause(self._random.uniform(*PEACE_S))  # the members go on for a while
                self._tidy()
                self._sample()
            self._finish()
            return self._judged()

    @contextmanager
    def _running(self) -> Iterator[None]:
        self.server.start()
        try:
            admin = Admin(self.server.bootstrap)
            admin.create_topic(TOPIC, PARTITIONS)
            admin.set_group(GROUP, **GROUP_SETTINGS)
            self._produce(FIRST_RECORDS)
            for worker in self._workers.values():
                worker.start()
            self._wait_for_all()
            yield
        finally:
            for worker in self._workers.values():
                if worker.life >= 0 and worker.ended is None:
                    worker.strike()
            self.server.kill()

    def _wait_for_all(self) -> None:
        """Until each process has got records."""
        waiting = set(self._workers)
        more_at = time.monotonic() + MORE_EVERY_S
        deadline = time.monotonic() + END_S
        while waiting:
            now = time.monotonic()
            if now > deadline:
                raise Stuck(f"{sorted(waiting)} did not begin")
            if now > more_at:
                self._produce(MORE_RECORDS)
                more_at = now + MORE_EVERY_S
            waiting -= {_process(line.who) for line in self._tail.lines() if line.what == "took"}
            pause(POLL_S)

    def _produce(self, count: int) -> None:
        for _, key in zip(range(count), self._keys, strict=False):
            self._producer.produce(TOPIC, b"v", key=key)
        self._producer.poll(0)

    def _strike(self, strike: Strike, number: int) -> None:
        who = self._sign(strike)
        pause(strike.delay_ms / 1000)  # a random time of the seed
        self.moments.append(f"{number}: {who} {strike.what}: {strike.how.value}")
        worker = self._workers[who]
        if strike.how is How.BROKER:
            self.server.kill()
            self._journal.note("broker killed")
            self.server.start()
        elif strike.how is How.KILL:
            worker.strike()
            self._stalled.pop(who, None)
            self._journal.note("killed", victim=who, life=worker.life)
            worker.start()
        elif strike.how is How.STALL:
            worker.send(signal.SIGSTOP)
            self._stalled[who] = time.monotonic() + STALL_S
        else:
            worker.leave()

    def _sign(self, strike: Strike) -> str:
        """Wait for the strike's line; who wrote it. After a while: anyone of that kind."""
        for _ in self._tail.lines():  # what was written before does not count
            continue
        deadline = time.monotonic() + SIGN_S
        while time.monotonic() < deadline:
            for line in self._tail.lines():
                who = _process(line.who)
                if line.what == strike.what and who.startswith(strike.kind):
                    return who
            self._tidy()
            pause(POLL_S)
        self.moments.append(f"(no {strike.kind} {strike.what} in {SIGN_S} s)")
        return self._random.choice([who for who in self._workers if who.startswith(strike.kind)])

    def _tidy(self) -> None:
        """Those that stalled long enough go on, and those that ended begin again."""
        now = time.monotonic()
        for who in [who for who, until in self._stalled.items() if until <= now]:
            del self._stalled[who]
            self._workers[who].send(signal.SIGCONT)
        for worker in self._workers.values():
            status = worker.ended
            if status is not None:
                if status not in (0, GAVE_UP, 128 + signal.SIGTERM):
                    raise Stuck(f"{worker.who} ended with status {status}")
                worker.start()

    def _sample(self) -> int:
        """Note the states of all records; how many are not finished."""
        with OurAdmin(self.server.bootstrap) as admin:
            try:
                found = admin.describe_record_states(GROUP)
                ends = admin.list_offsets([*found])
            except SharegroupError as error:  # a broker that has just begun
                self._journal.note("no states", reason=str(error))
                return -1
        self._journal.note(
            "states",
            partitions={
                at.partition: [
                    (one.first, one.last, one.state.value, one.member_id) for one in records.ranges
                ]
                for at, records in found.items()
            },
        )
        return sum(ends[at].offset - (one.start_offset or 0) for at, one in found.items())

    def _finish(self) -> None:
        """Let the members finish everything."""
        if self._producer.flush(END_S):
            raise Stuck("records are not confirmed")
        deadline = time.monotonic() + END_S
        while (left := self._sample()) != 0:
            if time.monotonic() > deadline:
                raise Stuck(f"{left} records are not finished")
            self._tidy()
            pause(0.1)  # of the condition above

    def _judged(self) -> list[str]:
        bootstrap = self.server.bootstrap
        keys: Keys = {partition: [] for partition in range(PARTITIONS)}
        for message in read_all(bootstrap, TOPIC, PARTITIONS):
            key, of_offset = message.key(), keys[message.partition()]
            assert isinstance(key, bytes)
            assert message.offset() == len(of_offset), "a hole in the log"
            of_offset.append(key)
        lines, writes = all_lines(self.folder), writes_of(bootstrap, GROUP)
        said = [line for line in lines if line.what == "answered"]
        records = sum(map(len, keys.values()))
        taken = sum(len(line.more["records"]) for line in lines if line.what == "took")
        self.moments.append(
            f"records: {records}; deliveries of each: {taken / records:.2f};"
            f" answers: {len(said)}, refused:"
            f" {sum(bool(line.more['refused']) for line in said)}; writes of states: {len(writes)};"
            f" samples: {sum(line.what == 'states' for line in lines)}"
        )
        told = [*history(lines, keys)]
        (self.folder / "history.jsonl").write_text("".join(f"{event}\n" for event in told))
        return violations(lines, keys, writes) + [str(one) for one in judged(told).violations]


def _process(who: str) -> str:
    """The process of a member: Java's has several."""
    return who.partition(".")[0]
