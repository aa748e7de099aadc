"""The broker of a test: the production broker on a thread of its own, with the handles that a test
wants."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from sharegroup.broker.configs.broker import load
from sharegroup.broker.server import Broker
from sharegroup.client import Admin, Producer
from sharegroup.model.environment import Environment
from sharegroup.model.errors import ConfigError, SharegroupError
from sharegroup.testing.disks import FolderDisk, MortalDisk, VolatileDisk
from sharegroup.testing.movable_time import MovableClock, MovableLoop, TimeOffset
from sharegroup.testing.snapshots import look_at_group
from sharegroup.testing.views import GroupView
from sharegroup.wire.batch import decode_batch, parse_headers
from sharegroup.wire.markers import is_control

T = TypeVar("T")
Value = bytes | str | None
Item = Value | tuple[Value, Value]

HOST: Final = "127.0.0.1"
CALL_SECONDS: Final = 60.0
"""A call into the broker that takes longer than this is stuck, and raises an error."""

ACCEPTING_STEPS: Final = 5
"""Of the event loop, from a client that asks for a connection until its socket is closed."""
READ_BYTES: Final = 1 << 20


class BrokerNotRunning(SharegroupError):
    """The broker is stopped or was killed; ``start()`` or ``restart()`` brings it back."""


class WaitedTooLong(SharegroupError, AssertionError):
    """The condition that a test waited for did not become true in time."""


class _Run:
    """One life of the broker: a thread, its loop, and the broker on it."""

    def __init__(self, open_broker: Callable[[], Coroutine[Any, Any, Broker]], offset: TimeOffset):
        self._open = open_broker
        self._offset = offset
        self._ready: Future[tuple[MovableLoop, Broker]] = Future()
        self._end: asyncio.Future[bool] | None = None
        self._thread = threading.Thread(target=self._live, name="sharegroup-broker", daemon=True)
        self._thread.start()
        try:
            self.loop, self.broker = self._ready.result(CALL_SECONDS)
        except BaseException:
            self._thread.join(CALL_SECONDS)
            raise

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run ``work`` on the broker's loop and wait for it."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(CALL_SECONDS)

    def die(self, disk: MortalDisk) -> MortalDisk:
        """On the broker's loop: nobody is answered any more, and nothing is written. Both at one
        moment: a task that goes on would confirm what the dead disk does not take.
        """
        _cut_off(self.loop, self.broker)
        return disk.die()

    def end(self, *, orderly: bool) -> None:
        """Stop the broker, or kill it; the thread has ended when this returns."""
        self.loop.call_soon_threadsafe(self._ending, orderly)
        self._thread.join(CALL_SECONDS)

    def _ending(self, orderly: bool) -> None:
        if self._end is not None and not self._end.done():
            self._end.set_result(orderly)

    def _live(self) -> None:
        with asyncio.Runner(loop_factory=lambda: MovableLoop(self._offset)) as runner:
            runner.run(self._main())

    async def _main(self) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, MovableLoop)
        self._end = loop.create_future()
        try:
            broker = await self._open()
        except BaseException as error:  # noqa: BLE001  the test's own thread raises it
            self._ready.set_exception(error)
            return
        self._ready.set_result((loop, broker))
        orderly = await self._end
        loop.stop_accepting()
        for _ in range(ACCEPTING_STEPS):  # of clients that were just being accepted
            if not orderly:
                _cut_off(loop, broker)
            await asyncio.sleep(0)
        if orderly:
            await broker.close()
        else:
            loop.stop_listening()


class LocalBroker:
    """A broker for tests; made by :func:`broker`. Its methods may be called from any thread.

    Attributes:
        bootstrap: ``127.0.0.1:PORT``, for any client; the same after a restart.
    """

    def __init__(
        self,
        *,
        configs: Mapping[str, object],
        data: str | os.PathLike[str] | None,
        topics: Mapping[str, int],
        port: int,
    ) -> None:
        # The clients' own clocks do not move: `advance` must not count as their idle time.
        settings = {"connections.max.idle.ms": -1, **configs}
        self._config = load("", [f"{name}={_text(value)}" for name, value in settings.items()])
        self._folder = "memory" if data is None else os.path.join(data, "sharegroup")
        self._disk: MortalDisk = VolatileDisk() if data is None else FolderDisk()
        self._topics = dict(topics)
        self._port = port
        self._offset = TimeOffset()
        self._clock = MovableClock(self._offset)
        self._run: _Run | None = None

    def __repr__(self) -> str:
        return f"<LocalBroker {self.bootstrap if self.running else 'not running'}>"

    # --- life -------------------------------------------------------------------------------------

    @property
    def running(self) -> bool:
        """Whether it accepts connections."""
        return self._run is not None

    @property
    def bootstrap(self) -> str:
        """``127.0.0.1:PORT``; raises BrokerNotRunning before the first start."""
        if not self._port:
            raise BrokerNotRunning("the broker has no address yet: write `with broker() as kafka:`")
        return f"{HOST}:{self._port}"

    def start(self) -> None:
        """Start, on the same port and data as before. Does nothing if the broker runs.

        Raises:
            OSError: the port or the folder is not available.
            ConfigError: a topic that the folder has already has another number of partitions.
            KafkaError: a topic cannot be created; the broker does not run then.
        """
        if self._run is None:
            self._run = run = _Run(self._open, self._offset)
            try:
                if self._topics:
                    run.call(self._create_topics(run.broker))
            except BaseException:
                self.stop()
                raise

    def stop(self) -> None:
        """Stop in order; everything is durable. Does nothing if the broker does not run."""
        run, self._run = self._run, None
        if run is not None:
            run.end(orderly=True)

    def restart(self) -> None:
        """Stop in order and start again, on the same port: clients reconnect by themselves."""
        self.stop()
        self.start()

    def kill(self) -> None:
        """End as by ``kill -9``: no answers, no flush, no release of records.

        In memory, unsynced data is lost too, as in a power failure. ``start()`` recovers.
        """
        run, self._run = self._run, None
        if run is not None:
            dying = self._disk
            self._disk = run.call(_at_once(lambda: run.die(dying)))
            run.end(orderly=False)
            dying.close()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:  # `with` calls no __exit__ then
            self._disk.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._leave()

    def _leave(self) -> None:
        self.stop()
        self._disk.close()

    async def __aenter__(self) -> Self:
        try:
            await _to_its_end(self.__enter__)
        except asyncio.CancelledError:  # `async with` calls no __aexit__ then
            await _to_its_end(self._leave)
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await _to_its_end(self._leave)

    # --- time -------------------------------------------------------------------------------------

    def advance(self, seconds: float) -> None:
        """Move the broker's clock forward. On return, everything due until then has happened.

        Locks expire, sessions time out, retention deletes, waiting requests end: each at its time,
        in order. The clients' clocks do not move: a member whose session times out on the way (45 s
        by default) is removed, and joins again with its next heartbeat.
        """
        if seconds < 0:
            raise ValueError(f"time goes forward only, not by {seconds} s")
        run = self._alive()
        run.call(run.loop.advance(seconds))

    @property
    def now_ms(self) -> int:
        """The broker's wall clock, in milliseconds since 1970."""
        return self._clock.wall_ms()

    # --- topics, groups, records ------------------------------------------------------------------

    def create_topic(self, name: str, partitions: int = 1, **configs: object) -> None:
        """Create a topic; underscores in the names of ``configs`` stand for dots
        (``retention_ms=1000``)."""

        async def create() -> None:
            async with Admin(self.bootstrap) as admin:
                await admin.create_topics(name, partitions=partitions, configs=_dotted(configs))

        self._alive().call(create())

    def configure_group(self, group: str, **configs: object) -> None:
        """Set configs of a share group; underscores stand for dots
        (``share_auto_offset_reset="earliest"``). Also before the group exists."""

        async def alter() -> None:
            async with Admin(self.bootstrap) as admin:
                await admin.alter_configs("group", group, _dotted(configs))

        self._alive().call(alter())

    def produce(self, topic: str, values: Iterable[Item], *, partition: int | None = None) -> None:
        """Produce values, or (key, value) pairs, in one batch per partition; durable on return.

        Text is encoded as UTF-8. Without ``partition``, keys choose it as in every Kafka client.

        Raises:
            TypeError: ``values`` is one value.
        """
        if isinstance(values, str | bytes | bytearray):
            raise TypeError(f"values is one value, {values!r}: write a list, [{values!r}]")
        items = [value if isinstance(value, tuple) else (None, value) for value in values]

        async def send() -> None:
            async with Producer(
                self.bootstrap, batch_size=READ_BYTES, clock_ms=self._clock.wall_ms
            ) as producer:
                for key, value in items:
                    await producer.enqueue(topic, value, key=key, partition=partition)

        self._alive().call(send())

    def values(self, topic: str) -> list[bytes | None]:
        """The values of all records in a topic, partition by partition: what your code produced."""
        run = self._alive()
        return run.call(_values(run.broker, topic))

    def group(self, group: str) -> GroupView:
        """A share group at this moment: its members, and its state in each partition."""
        run = self._alive()
        return run.call(look_at_group(run.broker.parts, group))

    def wait_until(self, holds: Callable[[], object], *, timeout_s: float = 10.0) -> None:
        """Return as soon as ``holds()`` is true; for clients that work on their own threads::

            kafka.wait_until(lambda: kafka.group("workers").lag == 0)

        Raises:
            WaitedTooLong: it was not true within ``timeout_s`` (real time).
        """
        deadline, pause = time.monotonic() + timeout_s, threading.Event()
        while not holds():
            if time.monotonic() > deadline:
                raise WaitedTooLong(f"still false after {timeout_s} s: {holds!r}")
            pause.wait(0.002)

    # --- inside -----------------------------------------------------------------------------------

    def _alive(self) -> _Run:
        if self._run is None:
            raise BrokerNotRunning("the broker is not running: start() brings it back")
        return self._run

    async def _open(self) -> Broker:
        environment = Environment(clock=self._clock, disk=self._disk, entropy=os.urandom)
        opened = await Broker.open(self._config, environment, self._folder)
        try:
            _, self._port = await opened.listen(HOST, self._port)
        except BaseException:
            await opened.close()
            raise
        return opened

    async def _create_topics(self, running: Broker) -> None:
        async with Admin(self.bootstrap) as admin:
            for name, partitions in self._topics.items():
                found = running.parts.topics.find(name)  # a folder may have it from before
                if found is None:
                    await admin.create_topics(name, partitions=partitions)
                elif found.partition_count != partitions:
                    raise ConfigError(
                        f"{name} has {found.partition_count} partitions in the folder, "
                        f"topics says {partitions}"
                    )
        self._topics = {}


def broker(
    *,
    topics: Mapping[str, int] | None = None,
    configs: Mapping[str, object] | None = None,
    data: str | os.PathLike[str] | None = None,
    port: int = 0,
) -> LocalBroker:
    """A broker for a ``with`` or ``async with`` block.

    Args:
        topics: topics to create at the start: name → number of partitions. Those that the folder
            has already are taken as they are.
        configs: broker settings by their names, as in ``sharegroup serve -o NAME=VALUE``.
        data: a folder for its files, such as pytest's ``tmp_path``; in memory when not given.
        port: 0 is a free one.

    Raises:
        ConfigError: a setting is invalid.
        TypeError: ``topics`` says no numbers of partitions.
    """
    if not isinstance(topics, Mapping | None):
        raise TypeError(f"topics is {topics!r}: write name and partitions, such as {{'jobs': 1}}")
    return LocalBroker(configs=configs or {}, data=data, topics=topics or {}, port=port)


def _cut_off(loop: MovableLoop, broker: Broker) -> None:
    """Accept nobody, and close all connections, without an answer."""
    loop.stop_accepting()
    for connection in broker.connections.all():
        connection.abort()


async def _to_its_end(work: Callable[[], object]) -> None:
    """Do ``work`` on a thread, which cannot be interrupted: a cancellation waits for its end, and
    is raised whatever the work raises."""
    done = asyncio.get_running_loop().run_in_executor(None, work)
    cancelled: asyncio.CancelledError | None = None
    while not done.done():
        try:
            await asyncio.wait([done])
        except asyncio.CancelledError as error:
            cancelled = error
    failed = done.exception()
    if cancelled is not None:
        raise cancelled
    if failed is not None:
        raise failed


async def _at_once(call: Callable[[], T]) -> T:
    """``call`` on the broker's thread, so that nothing else happens meanwhile."""
    return call()


async def _values(broker: Broker, name: str) -> list[bytes | None]:
    topic = broker.parts.topics.find(name)
    found: list[bytes | None] = []
    for partition in range(topic.partition_count if topic is not None else 0):
        log = broker.parts.topics.log(name, partition)
        offset = log.log_start_offset
        while offset < log.high_watermark:
            data, position = (await log.read(offset, READ_BYTES)).data, 0
            for header in parse_headers(data):
                start, position = position, position + header.length
                if not is_control(header):
                    records = decode_batch(data[start:position])
                    found += [value for at, _, _, value in records if at >= offset]
                offset = header.last_offset + 1
    return found


def _dotted(configs: Mapping[str, object]) -> dict[str, str]:
    return {name.replace("_", "."): _text(value) for name, value in configs.items()}


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
