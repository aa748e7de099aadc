"""A broker that is away: at the start, in the middle, for too long."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sharegroup.client.errors import BootstrapError
from sharegroup.model.errors import NetworkException
from sharegroup.spark.data_source import ShareStreamReader
from tests.servers import admin
from tests.servers.admin import produce
from tests.servers.gate import Gate
from tests.servers.process import free_port
from tests.servers.sharegroup_server import SharegroupServer
from tests.spark.conftest import lags
from tests.spark.readers import FIELDS, Stream, until

pytestmark = pytest.mark.process

VALUES = [b"%d" % n for n in range(200)]


def latest(servers: str) -> None:
    options = {"kafka.bootstrap.servers": servers, "kafka.group.id": "g", "subscribe": "t"}
    reader = ShareStreamReader(options, FIELDS)
    try:
        reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    finally:
        reader.stop()


def test_no_server_at_the_address() -> None:
    servers = f"127.0.0.1:{free_port()}"
    with pytest.raises(BootstrapError, match=f"no broker could be reached at {servers}"):
        latest(servers)


def test_the_advertised_address_is_unreachable(tmp_path: Path) -> None:
    elsewhere = f"127.0.0.1:{free_port()}"
    option = f"advertised.listeners=PLAINTEXT://{elsewhere}"
    server = SharegroupServer(tmp_path, option)
    server.start_and_probe()
    try:
        with pytest.raises(BootstrapError, match=f"sends its clients to {elsewhere}.*advertised"):
            latest(server.bootstrap)
    finally:
        server.kill()


def test_available_now_waits_for_a_broker_that_comes_back(tmp_path: Path, name: str) -> None:
    with SharegroupServer(tmp_path) as broker:
        admin.Admin(broker.bootstrap).create_topic(name)
        produce(broker.bootstrap, name, VALUES)
        stream = Stream(broker, name)
        stream.reader.prepareForTriggerAvailableNow()
        seen = stream.batch(100)
        broker.kill()
        with ThreadPoolExecutor(1) as pool:
            rest = pool.submit(stream.batch)
            broker.start()
            seen += rest.result(60)
        assert seen + stream.values(200 - seen.total()) == Counter(VALUES)
        stream.stop()


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


def test_what_was_finished_while_no_broker_answered_is_confirmed_when_one_does(
    tmp_path: Path, name: str
) -> None:
    """The broker still has the locks, for it noticed nothing: it is told at once, and the group's
    lag does not stand until they run out."""
    with Gate() as gate:
        advertised = f"advertised.listeners=PLAINTEXT://127.0.0.1:{gate.port}"
        broker = SharegroupServer(tmp_path, advertised)
        broker.start_and_probe()
        try:
            gate.target = broker.port
            admin.Admin(broker.bootstrap).create_topic(name)
            produce(broker.bootstrap, name, VALUES)
            stream = Stream(broker, name)
            assert stream.batch() == Counter(VALUES)
            gate.shut()
            assert stream.next() is None
            assert stream.report()["unconfirmed"] == len(VALUES)
            gate.open()
            until(lambda: stream.next() is None and lags(broker, name) == [0])
            assert stream.report()["redelivered"] == 0
            assert stream.report()["unconfirmed"] == 0
            stream.stop()
        finally:
            broker.kill()
