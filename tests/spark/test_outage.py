"""Brokers that are away: at the start, in the middle, for too long."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sharegroup.client.errors import BootstrapError
from sharegroup.model.errors import NetworkException
from sharegroup.spark.source import ShareStreamReader
from tests.servers import admin
from tests.servers.admin import produce
from tests.servers.process import free_port
from tests.servers.running import RunningServer
from tests.servers.sharegroup_server import SharegroupServer
from tests.spark.conftest import lags
from tests.spark.readers import FIELDS, Stream, until

pytestmark = pytest.mark.process

VALUES = [b"%d" % n for n in range(200)]
Open = Callable[..., Stream]


@pytest.fixture
def open_stream(server: RunningServer, topic: str) -> Iterator[Open]:
    made: list[Stream] = []

    def make(**options: str) -> Stream:
        made.append(Stream(server, topic, **options))
        return made[-1]

    yield make
    for one in made:
        one.stop()


def latest(servers: str) -> None:
    options = {"kafka.bootstrap.servers": servers, "kafka.group.id": "g", "subscribe": "t"}
    reader = ShareStreamReader(options, FIELDS)
    try:
        reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    finally:
        reader.stop()


def test_nobody_listens_there() -> None:
    servers = f"127.0.0.1:{free_port()}"
    began = time.monotonic()
    with pytest.raises(BootstrapError, match=f"no broker could be reached at {servers}"):
        latest(servers)
    assert time.monotonic() - began < 10


def test_the_broker_sends_its_clients_where_nobody_is(tmp_path: Path) -> None:
    elsewhere = f"127.0.0.1:{free_port()}"
    option = f"advertised.listeners=PLAINTEXT://{elsewhere}"
    server = SharegroupServer(tmp_path, option)
    server.start_and_probe()
    try:
        with pytest.raises(BootstrapError, match=f"sends its clients to {elsewhere}.*advertised"):
            latest(server.bootstrap)
    finally:
        server.kill()


def test_a_broker_that_is_killed_in_the_middle_loses_nothing(
    open_stream: Open, server: RunningServer, topic: str
) -> None:
    produce(server.bootstrap, topic, VALUES)
    stream = open_stream()
    seen = stream.batch(50) + stream.batch(50)  # and a third one is prefetched
    server.kill()
    assert stream.next() is None  # the second batch is finished, but cannot be acknowledged
    server.start()
    while seen.total() < len(VALUES):
        seen += stream.batch()
    assert seen == Counter(VALUES)
    until(lambda: stream.next() is None and sum(lag or 0 for lag in lags(server, topic)) == 0)


def test_available_now_waits_for_a_broker_that_comes_back(
    open_stream: Open, server: RunningServer, topic: str
) -> None:
    admin.Admin(server.bootstrap).set_group(topic, share_record_lock_duration_ms="15000")
    produce(server.bootstrap, topic, VALUES)
    stream = open_stream()
    stream.reader.prepareForTriggerAvailableNow()
    seen = stream.batch(100)
    server.kill()
    with ThreadPoolExecutor(1) as pool:
        rest = pool.submit(stream.batch)
        server.start()
        seen += rest.result(120)
    while seen.total() < len(VALUES):
        seen += stream.batch()
    assert seen == Counter(VALUES)


def test_an_outage_that_lasts_too_long(tmp_path: Path, name: str) -> None:
    with SharegroupServer(tmp_path) as broker:
        admin.Admin(broker.bootstrap).create_topic(name)
        produce(broker.bootstrap, name, [b"one"])
        stream = Stream(broker, name, brokerOutageTimeout="500")
        assert stream.batch() == Counter([b"one"])
        broker.kill()
        with pytest.raises(
            NetworkException, match=rf"no broker of {broker.bootstrap} has answered"
        ):
            until(lambda: stream.next() is not None)
        stream.stop()
        broker.start()
