"""One round: a broker, members under load, a driver's acts and kills, the end, and the verdict."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any, Final

from confluent_kafka import Producer

from sharegroup import ShareConsumer
from sharegroup.client.admin.descriptions import RecordState
from sharegroup.model.errors import SharegroupError
from sharegroup.model.ids import TopicPartition
from sharegroup.sync import Admin as OurAdmin
from tests.kills.hands.rules import DRIVER, Place, violations
from tests.kills.journal import Journal, all_lines
from tests.kills.ordering.keyed import BROKER_OPTIONS, GROUP, PARTITIONS, TOPIC
from tests.kills.round import Stuck, Worker, start_ended, strike_all
from tests.kills.working import pause
from tests.servers.admin import SILENT, Admin
from tests.servers.sharegroup_server import SharegroupServer

MEMBERS: Final = ("ours-0", "ours-1", "confluent-0", "confluent-1")
ACTS: Final = ("pause", "fork", "purge")
SETTINGS: Final = {
    "share.auto.offset.reset": "earliest",
    "share.delivery.count.limit": "10",
    "share.record.lock.duration.ms": "15000",
}
RECORDS: Final = 200
"""Before each act so many come."""
PEACE_S: Final = (0.1, 0.6)
PAUSED_S: Final = (0.2, 1.0)
END_S: Final = 120
WHERES: Final = tuple(TopicPartition(TOPIC, number) for number in range(PARTITIONS))


class HandsRound:
    """See the module. ``moments`` fills with what was done."""

    def __init__(self, folder: Path, seed: int, acts: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.moments: list[str] = []
        self._server = SharegroupServer(folder / "broker", *BROKER_OPTIONS)
        self._random = Random(f"hands {seed}")
        self._acts = [*ACTS * (acts // len(ACTS) + 1)][:acts]
        self._random.shuffle(self._acts)
        self._journal = Journal(folder, DRIVER, 0)
        self._forks: list[str] = []
        self._producer = Producer(
            {
                "bootstrap.servers": self._server.bootstrap,
                "enable.idempotence": True,
                "batch.num.messages": 10,
                **SILENT,
            }
        )
        self._workers = [
            Worker(folder, self._server.bootstrap, who, "ordering.member", who.partition("-")[0])
            for who in MEMBERS
        ]

    def run(self) -> list[str]:
        """What is wrong; raises Stuck, ServerFailed."""
        with self._running():
            for number, act in enumerate(self._acts):
                self._produce()
                pause(self._random.uniform(*PEACE_S))  # the members go on for a while
                start_ended(self._workers)
                self.moments.append(f"{number}: {act}")
                getattr(self, f"_{act}")()
            self._finish()
            ends = {at.partition: end for at, end in self._ends().items()}
            forks = {name: asyncio.run(self._drained(name)) for name in self._forks}
            return violations(all_lines(self.folder), ends, forks)

    @contextmanager
    def _running(self) -> Iterator[None]:
        self._server.start()
        try:
            admin = Admin(self._server.bootstrap)
            admin.create_topic(TOPIC, PARTITIONS)
            admin.set_group(GROUP, **SETTINGS)
            self._produce()
            for worker in self._workers:
                worker.start()
            self._wait_for_state()
            yield
        finally:
            strike_all(self._workers)
            self._server.kill()

    def _wait_for_state(self) -> None:
        """Until the group has state of each partition: before that there is nothing to fork."""
        deadline = time.monotonic() + END_S
        while len(self._call(lambda admin: admin.list_share_group_offsets(GROUP))) < PARTITIONS:
            if time.monotonic() > deadline:
                raise Stuck("the members do not begin")
            pause(0.1)  # of the condition above

    def _produce(self) -> None:
        for number in range(RECORDS):
            self._producer.produce(TOPIC, b"v", partition=number % PARTITIONS)
        if self._producer.flush(END_S):
            raise Stuck("records are not acknowledged")

    def _kill_something(self) -> None:
        """The broker, a member, or nothing."""
        victim = self._random.choice(("broker", "member", ""))
        self.moments.append(f"kills {victim or 'nothing'}")
        if victim == "broker":
            self._server.kill()
            self._server.start()
        elif victim:
            worker = self._random.choice(self._workers)
            worker.strike()
            worker.start()

    # --- acts -------------------------------------------------------------------------------------

    def _pause(self) -> None:
        self._call(lambda admin: admin.pause_group(GROUP))
        self._journal.note("paused", acquired=self._acquired())
        self._produce()
        self._kill_something()
        pause(self._random.uniform(*PAUSED_S))  # in which nothing may be acquired
        self._journal.note("resuming", acquired=self._acquired())
        self._call(lambda admin: admin.resume_group(GROUP))

    def _fork(self) -> None:
        name = f"fork-{len(self._forks)}"
        begun_ns = time.monotonic_ns()
        self._call(lambda admin: admin.fork_share_group(GROUP, name))
        self._journal.note("forked", fork=name, begun_ns=begun_ns)
        self._forks.append(name)
        self._kill_something()

    def _purge(self) -> None:
        before, begun_ns = self._ends(), time.monotonic_ns()
        self._call(lambda admin: admin.purge_group(GROUP))
        self._journal.note(
            "purged",
            begun_ns=begun_ns,
            before={str(at.partition): end for at, end in before.items()},
            ends={str(at.partition): end for at, end in self._ends().items()},
        )
        self._kill_something()

    def _call(self, what: Callable[[OurAdmin], Any]) -> Any:
        """Ask the broker, again while it has just begun."""
        deadline = time.monotonic() + END_S
        while True:
            try:
                with OurAdmin(self._server.bootstrap) as admin:
                    return what(admin)
            except SharegroupError:
                if time.monotonic() > deadline:
                    raise
                pause(0.1)  # of the condition above

    def _ends(self) -> dict[TopicPartition, int]:
        found = self._call(lambda admin: admin.list_offsets(WHERES))
        return {at: listed.offset for at, listed in found.items()}

    def _acquired(self) -> list[Place]:
        """The records that members hold."""
        found = self._call(lambda admin: admin.describe_record_states(GROUP))
        return [
            (at.partition, offset)
            for at, records in found.items()
            for one in records.ranges
            if one.state is RecordState.ACQUIRED
            for offset in range(one.first, one.last + 1)
        ]

    # --- the end ----------------------------------------------------------------------------------

    def _finish(self) -> None:
        """Let the members finish everything."""
        deadline = time.monotonic() + END_S
        while True:
            found = self._call(lambda admin: admin.list_share_group_offsets(GROUP))
            ends = self._ends()
            left = sum(end - (found[at].start_offset or 0) for at, end in ends.items())
            if not left:
                return
            if time.monotonic() > deadline:
                raise Stuck(f"{left} records are not finished")
            start_ended(self._workers)
            pause(0.1)  # of the condition above

    async def _drained(self, fork: str) -> set[Place]:
        """What a member of the fork is given, until there is nothing left."""
        given: set[Place] = set()
        async with (
            asyncio.timeout(END_S),
            ShareConsumer(
                TOPIC, group_id=fork, bootstrap_servers=self._server.bootstrap
            ) as consumer,
        ):
            while await asyncio.to_thread(self._lag, fork):
                given.update((one.partition, one.offset) for one in await consumer.poll(500))
                await consumer.commit()
        return given

    def _lag(self, group: str) -> int:
        found = self._call(lambda admin: admin.list_share_group_offsets(group))
        return sum(end - (found[at].start_offset or 0) for at, end in self._ends().items())
