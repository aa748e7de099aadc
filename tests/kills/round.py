"""One round: a broker, clients in processes of their own, strikes, the end, and the checker."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.kills.checker import committed, groups_of
from tests.kills.journal import Journal, Tail, all_lines
from tests.kills.strikes import REBALANCE, Strike, strikes_of
from tests.kills.working import GAVE_UP, INPUT, OUTPUT, PARTITIONS, RIVALS, pause
from tests.servers.admin import SILENT, Admin
from tests.servers.sharegroup_server import SharegroupServer

ROOT = Path(__file__).resolve().parents[2]
BROKER_OPTIONS = (
    "group.initial.rebalance.delay.ms=0",
    "group.min.session.timeout.ms=1000",
    "group.consumer.min.session.timeout.ms=1000",
    "group.consumer.session.timeout.ms=6000",
    "group.consumer.min.heartbeat.interval.ms=100",
    "group.consumer.heartbeat.interval.ms=300",
    "log.segment.bytes=1048576",
)
POLL_S = 0.002
SIGN_S = 12
"""How long a strike waits for its moment; then it strikes anyway."""
END_S = 200
PEACE_S = (0.2, 0.8)
"""Between two strikes."""
WORKERS = (
    ("producer-1", "producing", "confluent"),
    ("producer-2", "producing", "ours"),
    ("producer-3", "producing", "plain"),
    ("reader-1", "consuming", "confluent:new"),
    ("reader-2", "consuming", "ours:new"),
    ("reader-3", "consuming", "confluent:classic"),
    ("reader-4", "consuming", "ours:classic"),
    ("transfer-1", "transferring", "confluent:{transfers}"),
    ("transfer-2", "transferring", "ours:{transfers}"),
    ("rival-1", "rivalling", "confluent"),
    ("rival-2", "rivalling", "ours"),
)
TRANSFERS = ("transfers", "classic-transfers")
"""The group of the transfers, by seed; its name says its protocol."""


class Stuck(Exception):
    """A round does not come to its end."""


class Worker:
    """One client process, started again in another life when it was killed."""

    def __init__(self, folder: Path, bootstrap: str, who: str, program: str, variant: str) -> None:
        self.who = who
        self.variant = variant
        self.life = -1
        self.retired = False
        """It is not started again."""
        self._folder = folder
        self._bootstrap = bootstrap
        self._program = f"tests.kills.{program}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Begin another life."""
        self.life += 1
        arguments = [self._bootstrap, str(self._folder), self.who, str(self.life), self.variant]
        with (self._folder / f"{self.who}.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*self.command(), *arguments],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
            )

    def command(self) -> list[str]:
        """What is started, without the arguments."""
        return [sys.executable, "-m", self._program]

    def send(self, number: signal.Signals) -> None:
        """Send a signal."""
        assert self._process is not None
        self._process.send_signal(number)

    def strike(self) -> None:
        """SIGKILL."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    @property
    def ended(self) -> int | None:
        """The exit status, when it has ended."""
        assert self._process is not None
        return self._process.poll()

    def leave(self) -> None:
        """SIGTERM."""
        self.send(signal.SIGTERM)

    def stop(self, timeout_s: float) -> int:
        """SIGTERM; the exit status. Raises Stuck."""
        assert self._process is not None
        self.leave()
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.strike()
            raise Stuck(f"{self.who} does not stop") from None


def strike_all(workers: Iterable[Worker]) -> None:
    """SIGKILL to those that run."""
    for worker in workers:
        if worker.life >= 0 and worker.ended is None:
            worker.strike()


def start_ended(workers: Iterable[Worker]) -> None:
    """Those that gave up begin another life. Raises Stuck: one has ended otherwise."""
    for worker in workers:
        status = worker.ended
        if status is not None:
            if status not in (0, GAVE_UP):
                raise Stuck(f"{worker.who} ended with status {status}")
            worker.start()


class Round:
    """See the module. ``moments`` fills with what was done."""

    def __init__(self, folder: Path, seed: int, kills: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.server = SharegroupServer(folder / "broker", *BROKER_OPTIONS)
        self.strikes = strikes_of(seed, kills)
        self.moments: list[str] = []
        self._random = Random(f"round {seed}")
        self._journal = Journal(folder, "driver", 0)
        self._tail = Tail(folder)
        transfers = TRANSFERS[seed % len(TRANSFERS)]
        self._workers = {
            who: Worker(
                folder, self.server.bootstrap, who, program, variant.format(transfers=transfers)
            )
            for who, program, variant in WORKERS
        }

    def run(self) -> list[str]:
        """What is wrong; raises Stuck, ServerFailed."""
        with self._running():
            for number, strike in enumerate(self.strikes):
                self._strike(strike, number)
                pause(self._random.uniform(*PEACE_S))  # the clients go on for a while
                self._restart_ended()
            self._finish()
            return self._judged()

    @contextmanager
    def _running(self) -> Iterator[None]:
        self.server.start()
        try:
            admin = Admin(self.server.bootstrap)
            for topic in (INPUT, OUTPUT, RIVALS):
                admin.create_topic(topic, PARTITIONS)
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
        """Until each client has done something that the broker has confirmed."""
        waiting = set(self._workers)
        deadline = time.monotonic() + END_S
        while waiting and time.monotonic() < deadline:
            for line in self._tail.lines():
                if line.what in ("acked", "assigned", "took"):
                    waiting.discard(line.who)
            pause(POLL_S)
        if waiting:
            raise Stuck(f"{sorted(waiting)} did not begin")

    def _strike(self, strike: Strike, number: int) -> None:
        writer = self._sign(strike)
        pause(strike.delay_ms / 1000)  # a random time of the seed
        victim = "broker" if strike.broker else writer
        self.moments.append(f"{number}: {victim} at {writer} {strike.what}")
        if strike.broker:
            self._strike_broker()
        else:
            self._strike_worker(self._workers[writer])

    def _of(self, kind: str) -> list[str]:
        return [who for who in self._workers if who.startswith(kind)]

    def _sign(self, strike: Strike) -> str:
        """Wait for the strike's line; who wrote it. After a while: anyone of that kind."""
        wanted = self._of(strike.kind)
        for _ in self._tail.lines():  # what was written before does not count
            continue
        if strike.what in REBALANCE:  # a member leaves, and comes back
            self._workers[self._random.choice(wanted)].leave()
        deadline = time.monotonic() + SIGN_S
        while time.monotonic() < deadline:
            for line in self._tail.lines():
                if line.who in wanted and line.what == strike.what:
                    return line.who
            self._restart_ended()
            pause(POLL_S)
        self.moments.append(f"(no {strike.kind} {strike.what} in {SIGN_S} s)")
        return self._random.choice(wanted)

    def _strike_broker(self) -> None:
        self.server.kill()
        self._journal.note("broker killed")
        began = time.monotonic()
        self.server.start()
        self._journal.note("ready", ms=round((time.monotonic() - began) * 1000))

    def _strike_worker(self, worker: Worker) -> None:
        worker.strike()
        self._journal.note("killed", victim=worker.who, life=worker.life)
        worker.start()

    def _restart_ended(self) -> None:
        for worker in self._workers.values():
            status = None if worker.retired else worker.ended
            if status is not None:
                if status not in (0, GAVE_UP):
                    raise Stuck(f"{worker.who} ended with status {status}")
                worker.start()

    def _finish(self) -> None:
        """Let the producers end, and the groups read to the end."""
        for who in self._of("producer"):
            self._stop(self._workers[who])
        ends = self._ends()
        groups = groups_of(all_lines(self.folder))
        deadline = time.monotonic() + END_S
        while any(self._committed(group) != ends for group in groups):
            if time.monotonic() > deadline:
                behind = {group: self._committed(group) for group in groups}
                raise Stuck(f"groups do not come to the end {ends}: {behind}")
            self._restart_ended()
            pause(0.1)  # of the condition above
        for worker in self._workers.values():
            if not worker.who.startswith("producer"):
                self._stop(worker)

    def _stop(self, worker: Worker) -> None:
        """Let it end in order. When it gives up instead, its next life cleans up after it."""
        worker.retired = True
        while (status := worker.stop(END_S)) != 0:
            if status != GAVE_UP:
                raise Stuck(f"{worker.who} ended with status {status}")
            worker.start()
            self._wait_for(worker)

    def _wait_for(self, worker: Worker) -> None:
        deadline = time.monotonic() + END_S
        while time.monotonic() < deadline:
            if any(line.who == worker.who and line.what == "begins" for line in self._tail.lines()):
                return
            pause(POLL_S)
        raise Stuck(f"{worker.who} does not begin")

    def _ends(self) -> dict[int, int]:
        settings = {"bootstrap.servers": self.server.bootstrap, "group.id": "driver", **SILENT}
        consumer = Consumer(settings)
        try:
            places = {p: TopicPartition(INPUT, p) for p in range(PARTITIONS)}
            return {
                p: consumer.get_watermark_offsets(place, END_S)[1] for p, place in places.items()
            }
        finally:
            consumer.close()

    def _committed(self, group: str) -> dict[int, int]:
        try:
            return committed(self.server.bootstrap, group)
        except KafkaException:
            return {}

    def _judged(self) -> list[str]:
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "tests.kills.checker",
                self.server.bootstrap,
                str(self.folder),
            ],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
            capture_output=True,
            text=True,
            timeout=2 * END_S,
            check=False,
        )
        self.moments.append(done.stdout.strip())
        return done.stderr.splitlines() if done.returncode else []
