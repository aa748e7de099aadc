"""Workers as programs: signals, kills, and brokers that go away. Each record is handled, or it is
a dead letter, whatever happens.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from sharegroup.client import Admin, OffsetSpec, ShareConsumer
from sharegroup.model.ids import TopicPartition
from tests.client.working import eventually, fresh, poll_until, run, topic_with
from tests.servers.process import ServerProcess
from tests.servers.running import RunningServer
from tests.servers.sharegroup_server import SharegroupServer

ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).with_name("worker_program.py")
WAIT_S = 240
SLOTS = 4


class Pool:
    """A topic of numbers, its dead letters, and worker programs one after the other."""

    def __init__(self, server: RunningServer, folder: Path, count: int) -> None:
        self.server = server
        self.folder = folder
        self.count = count
        self.dead = fresh("dead")
        self.topic = self.group = ""
        self._programs = 0

    async def prepare(self) -> None:
        bootstrap = self.server.bootstrap
        self.topic, self.group = await topic_with(
            bootstrap, self.count
        )  # one partition: members share it, dead ones too
        async with Admin(bootstrap) as admin:
            await admin.create_topics(self.dead)

    def start(self, *options: str) -> ServerProcess:
        self._programs += 1
        names = (self.server.bootstrap, self.topic, self.group, self.dead)
        program = ServerProcess(
            [sys.executable, str(PROGRAM), *names, str(self.journal(self._programs)), *options],
            log_path=self.folder / f"worker-{self._programs}.log",
            environment={"PYTHONPATH": str(ROOT / "src")},
        )
        program.start()
        return program

    def journal(self, number: int) -> Path:
        return self.folder / f"journal-{number}"

    def handled(self, *numbers: int) -> list[int]:
        """What these programs have handled; without numbers, all of them."""
        chosen = numbers or range(1, self._programs + 1)
        paths = [self.journal(number) for number in chosen]
        lines = [line for path in paths if path.exists() for line in path.read_text().splitlines()]
        return [int(line.split()[0]) for line in lines]

    def wait_for(self, program: ServerProcess, holds: Callable[[], bool]) -> None:
        program.wait_until(holds, timeout_s=WAIT_S)

    def wait_until_handled(self, program: ServerProcess, count: int) -> None:
        self.wait_for(program, lambda: len(self.handled()) >= count)

    async def wait_until_all_is_done(self) -> None:
        async with Admin(self.server.bootstrap) as admin:

            async def lags() -> list[int | None]:
                offsets = await admin.list_share_group_offsets(self.group)
                return [one.lag for one in offsets.values()]

            await eventually(lags, lambda found: found == [0])

    async def dead_letters(self) -> list[int]:
        """The numbers in the dead-letter topic."""
        async with (
            Admin(self.server.bootstrap) as admin,
            ShareConsumer(
                self.dead,
                group_id=fresh("reader"),
                bootstrap_servers=self.server.bootstrap,
                auto_offset_reset="earliest",
            ) as reader,
        ):
            where = TopicPartition(self.dead, 0)
            [end] = (await admin.list_offsets({where: OffsetSpec.LATEST})).values()
            return [int(record.value) for record in await poll_until(reader, end.offset)]

    async def check(self, *, kills: int = 0) -> None:
        """Every number is where it should be. A kill may come between a dead letter and its
        rejection, so that it comes twice."""
        handled, dead = Counter(self.handled()), Counter(await self.dead_letters())
        sevens = {number for number in range(self.count) if number % 10 == 7}
        assert set(handled) == set(range(self.count)) - sevens
        assert set(dead) == sevens
        assert sum(dead.values()) - len(dead) <= kills * SLOTS


def test_a_kill_and_a_drain_lose_nothing(broker: RunningServer, tmp_path: Path) -> None:
    pool = Pool(broker, tmp_path, 160)

    async def scenario() -> None:
        await pool.prepare()
        killed = pool.start()
        await asyncio.to_thread(pool.wait_until_handled, killed, 20)
        killed.kill()

        drained = pool.start()
        await asyncio.to_thread(pool.wait_until_handled, drained, 80)
        assert await asyncio.to_thread(drained.stop) == 0
        assert "ended" in drained.output().splitlines()[-1]

        last = pool.start()
        await pool.wait_until_all_is_done()
        assert await asyncio.to_thread(last.stop) == 0
        await pool.check(kills=1)

    run(scenario)
    assert set(pool.handled(2)) & set(pool.handled(3)) == set()
    assert max(Counter(pool.handled(2, 3)).values()) == 1


@pytest.mark.process
def test_threads_a_kill_and_a_broker_that_restarts(tmp_path: Path) -> None:
    async def scenario(server: SharegroupServer) -> None:
        pool = Pool(server, tmp_path, 120)
        await pool.prepare()
        killed = pool.start("--threads")
        await asyncio.to_thread(pool.wait_until_handled, killed, 20)
        killed.kill()
        working = pool.start("--threads")
        await asyncio.to_thread(pool.wait_until_handled, working, 50)
        server.kill()
        await asyncio.to_thread(server.start)
        await pool.wait_until_all_is_done()
        assert await asyncio.to_thread(working.stop) == 0
        await pool.check(kills=2)

    with SharegroupServer(tmp_path) as server:
        run(lambda: scenario(server))


@pytest.mark.process
def test_a_broker_that_restarts_while_handlers_run(tmp_path: Path) -> None:
    async def scenario(server: SharegroupServer) -> None:
        pool = Pool(server, tmp_path, 120)
        await pool.prepare()
        working = pool.start()
        await asyncio.to_thread(pool.wait_until_handled, working, 30)
        server.kill()
        await asyncio.to_thread(server.start)
        await pool.wait_until_all_is_done()
        assert await asyncio.to_thread(working.stop) == 0
        await pool.check(kills=1)

    with SharegroupServer(tmp_path) as server:
        run(lambda: scenario(server))


@pytest.mark.process
@pytest.mark.parametrize("threads", [False, True])
def test_handlers_that_do_not_end(tmp_path: Path, threads: bool) -> None:
    """The drain ends without them; a second signal ends it at once; the record comes again."""
    kind = ["--threads"] if threads else []

    async def scenario(server: SharegroupServer) -> None:
        pool = Pool(server, tmp_path, 4)
        await pool.prepare()
        stuck = pool.start(*kind, "--stuck", "--drain", "300")
        await asyncio.to_thread(pool.wait_until_handled, stuck, 2)
        assert stuck._process is not None
        stuck._process.send_signal(signal.SIGINT)
        draining = lambda: "draining: 1 handlers run" in stuck.output()  # noqa: E731
        await asyncio.to_thread(pool.wait_for, stuck, draining)
        assert await asyncio.to_thread(stuck.stop) == 0  # the second signal
        assert ("records of handlers that still run are released: " in stuck.output()) == threads

        patient = pool.start(*kind, "--stuck", "--drain", "0.2")
        await pool.wait_until_all_is_done()
        assert await asyncio.to_thread(patient.stop) == 0
        await pool.check()
        assert "0 2" in pool.journal(2).read_text().splitlines()

    with SharegroupServer(tmp_path) as server:
        run(lambda: scenario(server))


@pytest.mark.process
def test_the_example(tmp_path: Path) -> None:
    with SharegroupServer(tmp_path) as server:
        example = ServerProcess(
            [sys.executable, str(ROOT / "examples" / "worker.py"), "--server", server.bootstrap],
            log_path=tmp_path / "example.log",
            environment={"PYTHONPATH": str(ROOT / "src")},
        )
        example.start()
        resized = ["bird.jpg", "cat.jpg", "dog.jpg", "flaky.jpg"]
        example.wait_until(
            lambda: example.output().count(" resized") == len(resized), timeout_s=WAIT_S
        )
        assert example.stop() == 0
        output = example.output()
    assert "flaky.jpg resized, delivery 2" in output
    assert "handled 4, failed 2, retried 1, dead-lettered 1" in output
