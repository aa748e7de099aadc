"""A consumer that is closed leaves nothing behind, wherever it is cancelled meanwhile."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sharegroup import sync
from sharegroup.client import Admin, ShareConsumer
from tests.client.working import WAIT_S, poll_until, produce, run, topic_with
from tests.servers.running import RunningServer
from tests.servers.sharegroup_server import SharegroupServer


def sockets() -> set[str]:
    """The sockets that this process has open."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{name}")
        except FileNotFoundError:  # the one that listed them
            continue
        if target.startswith("socket:"):
            found.add(target)
    return found


async def turn() -> None:
    """A turn of the event loop."""
    await asyncio.sleep(0)


def ours() -> list[asyncio.Task[Any]]:
    return [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]


class Points:
    """Counts the awaits at which tasks are suspended, and acts at some of them.

    Args:
        at: the numbers of these awaits, from 0.
        act: what to do there, given the task that waits.
    """

    def __init__(self, at: set[int], act: Callable[[asyncio.Task[Any]], object]) -> None:
        self.seen = 0
        self.counting = False
        self._at = at
        self._act = act

    def install(self) -> None:
        """Watch every task that is made from now on."""
        asyncio.get_running_loop().set_task_factory(self._task)

    def _task(
        self,
        loop: asyncio.AbstractEventLoop,
        work: Coroutine[Any, Any, Any] | Generator[Any, None, Any],
        **_: Any,
    ) -> asyncio.Task[Any]:
        assert asyncio.iscoroutine(work)
        task = asyncio.Task(self._watched(work), loop=loop)
        task.add_done_callback(lambda _: work.close())  # where it was cancelled before it began
        return task

    def _watched(self, work: Coroutine[Any, Any, Any]) -> Coroutine[Any, Any, Any]:
        async def watched() -> Any:
            return await _Watched(work, self)

        return watched()

    def reached(self) -> None:
        if self.counting:
            if self.seen in self._at:
                task = asyncio.current_task()
                assert task is not None
                self._act(task)
            self.seen += 1


class _Watched:
    def __init__(self, work: Coroutine[Any, Any, Any], points: Points) -> None:
        self._work = work
        self._points = points

    def __await__(self) -> Generator[Any, Any, Any]:
        error: BaseException | None = None
        while True:
            try:
                waited = self._work.send(None) if error is None else self._work.throw(error)
            except StopIteration as end:
                return end.value
            self._points.reached()
            error = None
            try:
                yield waited
            except BaseException as thrown:  # noqa: BLE001  # it goes on into the coroutine
                error = thrown


async def cancelled_at(
    at: set[int], use: Callable[[Points], Coroutine[Any, Any, None]]
) -> tuple[asyncio.Task[None], Points]:
    """A task that was cancelled whenever one of these awaits was reached, in whichever task."""
    loop = asyncio.get_running_loop()
    points = Points(at, lambda _: loop.call_soon(lambda: user.cancel()))
    points.install()
    user = asyncio.create_task(use(points))
    await asyncio.wait([user])
    loop.set_task_factory(None)
    return user, points


def sets(event: asyncio.Event) -> Callable[[asyncio.Task[Any]], object]:
    return lambda _: event.set()


async def nothing_is_left(before: set[str]) -> None:
    assert ours() == []
    assert not sockets() - before


async def gone_from(broker: RunningServer, group: str, members: set[str]) -> None:
    async with Admin(broker.bootstrap) as admin:
        described = (await admin.describe_share_groups([group]))[group]
        assert not members & {one.member_id for one in described.members}


@pytest.mark.parametrize("times", [1, 2])
def test_a_close_that_is_cancelled_at_any_await_finishes(broker: RunningServer, times: int) -> None:
    """The task that uses the consumer is cancelled in its body, and again while it closes."""

    async def scenario() -> None:
        topic, group = await topic_with(broker.bootstrap, 3)
        members: set[str] = set()

        async def use(points: Points) -> None:
            async with ShareConsumer(
                topic, group_id=group, bootstrap_servers=broker.bootstrap
            ) as consumer:
                members.add(consumer.member_id)
                await poll_until(consumer, 1)
                points.counting = True

        at = 0
        while True:
            await produce(broker.bootstrap, topic, 3)  # the old ones are given up some time
            before = sockets()
            user, points = await cancelled_at(set(range(at, at + times)), use)
            await nothing_is_left(before)
            await gone_from(broker, group, members)
            if points.seen <= at:
                assert not user.cancelled()
                break
            at += 1
        assert at > 5, "the awaits of a close"

    run(scenario)


def test_a_close_finishes_when_its_own_task_is_cancelled(broker: RunningServer) -> None:
    """As the end of ``asyncio.run`` does."""

    async def scenario() -> None:
        topic, group = await topic_with(broker.bootstrap, 3)
        loop = asyncio.get_running_loop()
        at = 0
        while True:
            await produce(broker.bootstrap, topic, 3)
            before = sockets()
            reached = asyncio.Event()
            points = Points({at}, sets(reached))
            points.install()
            consumer = ShareConsumer(topic, group_id=group, bootstrap_servers=broker.bootstrap)
            await poll_until(consumer, 1)
            points.counting = True
            closing = asyncio.create_task(consumer.close())
            closing.add_done_callback(sets(reached))
            await reached.wait()
            for task in ours():
                task.cancel()
            while ours():
                await turn()
            loop.set_task_factory(None)
            assert not sockets() - before
            if points.seen <= at:
                break
            at += 1
        assert at > 5, "the awaits of a close"

    run(scenario)


def test_the_end_of_the_program_cancels_everything_and_the_group_is_told(
    broker: RunningServer,
) -> None:
    """``asyncio.run`` cancels the heartbeats together with the task that closes the consumer."""
    members: set[str] = set()
    groups: list[str] = []

    async def consume(topic: str, group: str, runs: asyncio.Event) -> None:
        async with ShareConsumer(
            topic, group_id=group, bootstrap_servers=broker.bootstrap
        ) as consumer:
            await poll_until(consumer, 3)
            members.add(consumer.member_id)
            runs.set()
            await asyncio.Event().wait()

    async def program() -> None:
        topic, group = await topic_with(broker.bootstrap, 3)
        groups.append(group)
        runs = asyncio.Event()
        consuming = asyncio.create_task(consume(topic, group, runs))
        await runs.wait()
        assert not consuming.done()

    run(program)
    assert members
    run(lambda: gone_from(broker, groups[0], members))


def test_a_start_cancelled_at_any_await_leaves_nothing_open(broker: RunningServer) -> None:
    async def scenario() -> None:
        topic, group = await topic_with(broker.bootstrap, 3)
        entered = False

        async def use(points: Points) -> None:
            nonlocal entered
            points.counting = True
            async with ShareConsumer(
                topic,
                group_id=group,
                auto_offset_reset="earliest",
                bootstrap_servers=broker.bootstrap,
                renew_locks=True,
            ):
                entered = True

        at = 0
        while not entered:
            before = sockets()
            await cancelled_at({at}, use)
            await nothing_is_left(before)
            at += 1
        assert at > 5, "the awaits of an entry"

    run(scenario)


def _stopped(process: int) -> bool:
    """Each of its threads."""
    threads = Path(f"/proc/{process}/task").glob("*/stat")
    return all(stat.read_text().rpartition(")")[2].split()[0] == "T" for stat in threads)


@contextmanager
def speechless(server: SharegroupServer) -> Iterator[None]:
    """The broker's connections stay, and it answers nothing."""
    os.kill(server.process.pid, signal.SIGSTOP)
    while not _stopped(server.process.pid):
        pass  # a busy machine's threads stop later, and might still answer
    try:
        yield
    finally:
        os.kill(server.process.pid, signal.SIGCONT)


@pytest.mark.process
def test_a_close_without_answers_ends_at_its_timeout(tmp_path: Path) -> None:
    async def scenario(server: SharegroupServer) -> None:
        topic, group = await topic_with(server.bootstrap, 3)
        before = sockets()
        consumer = ShareConsumer(topic, group_id=group, bootstrap_servers=server.bootstrap)
        await poll_until(consumer, 3)
        with speechless(server):
            await consumer.close(timeout_ms=100)
            await nothing_is_left(before)
        impatient = ShareConsumer(topic, group_id=group, bootstrap_servers=server.bootstrap)
        await impatient.start()
        with speechless(server):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(impatient.close(), 0.01)
            await nothing_is_left(before)

    with SharegroupServer(tmp_path) as server:
        run(lambda: scenario(server))


# --- not closed -----------------------------------------------------------------------------------


def test_a_consumer_that_is_not_closed_warns_and_ends(broker: RunningServer) -> None:
    async def scenario() -> None:
        topic, group = await topic_with(broker.bootstrap, 3)
        before = sockets()
        consumer = ShareConsumer(topic, group_id=group, bootstrap_servers=broker.bootstrap)
        await poll_until(consumer, 3)
        with pytest.warns(ResourceWarning, match=f"group '{group}' was not closed.*async with"):
            del consumer
        async with asyncio.timeout(WAIT_S):
            while ours() or sockets() - before:
                await turn()

    run(scenario)


def test_an_admin_that_is_not_closed_warns(broker: RunningServer) -> None:
    async def scenario() -> None:
        admin = Admin(broker.bootstrap)
        await admin.list_topics()
        cluster = admin._cluster
        with pytest.warns(ResourceWarning, match="an Admin was not closed.*async with"):
            del admin
        await cluster.close()

    run(scenario)


def test_a_client_that_was_never_started_need_not_be_closed() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        consumer = ShareConsumer("topic", group_id="g")
        del consumer
        gc.collect()


FORGETFUL = """
import sys
from sharegroup.sync import ShareConsumer

def work():
    consumer = ShareConsumer({topic!r}, group_id={group!r}, bootstrap_servers={server!r})
    while not consumer.poll():
        continue

work()
print("done")
"""


def test_an_unclosed_client_warns_with_a_python_option(
    broker: RunningServer, tmp_path: Path
) -> None:
    topic, group = asyncio.run(topic_with(broker.bootstrap, 1))
    program = tmp_path / "forgetful.py"
    program.write_text(FORGETFUL.format(topic=topic, group=group, server=broker.bootstrap))
    ended = subprocess.run(
        [sys.executable, "-W", "default::ResourceWarning", program],
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (0, "done\n")
    assert ended.stderr.count("was not closed") == 1
    assert "a ShareConsumer was not closed: write `with ShareConsumer(...)`" in ended.stderr


# --- without asyncio ------------------------------------------------------------------------------


@pytest.mark.process
def test_ctrl_c_while_the_blocking_consumer_closes(tmp_path: Path) -> None:
    with SharegroupServer(tmp_path) as server:
        topic, group = asyncio.run(topic_with(server.bootstrap, 3))
        before = sockets()
        consumer = sync.ShareConsumer(topic, group_id=group, bootstrap_servers=server.bootstrap)
        assert consumer.poll(timeout_ms=120_000)
        thread = consumer._thread
        assert thread is not None

        async def tasks() -> set[str]:
            return {task.get_name() for task in asyncio.all_tasks()}

        def interrupt() -> None:
            while "share-consumer-close" not in thread.run(tasks()):
                continue  # a way to the other thread and back: no busy loop
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

        with speechless(server):
            threading.Thread(target=interrupt).start()
            with pytest.raises(KeyboardInterrupt):
                consumer.close()
            assert "sharegroup-client" not in [one.name for one in threading.enumerate()]
            assert not sockets() - before
