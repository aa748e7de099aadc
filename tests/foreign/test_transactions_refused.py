"""A transactional producer is told at once, and for good, that there are no transactions."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import TransactionalIdAuthorizationFailed
from confluent_kafka import KafkaException, Producer

from tests.apache_kafka.tools import TOOL_SECONDS
from tests.foreign.tool_shell import ToolShell
from tests.servers.running import RunningServer
from tests.servers.sharegroup_server import SharegroupServer

WHY = "transactions are not served yet"


@pytest.mark.process
def test_librdkafka_fails_with_the_reason(broker: RunningServer) -> None:
    settings = {
        "bootstrap.servers": broker.bootstrap,
        "transactional.id": "transfers",
        "log_level": 0,
        "error_cb": lambda _error: None,
    }
    with pytest.raises(KafkaException, match=WHY) as refused:
        Producer(settings).init_transactions(TOOL_SECONDS)
    error = refused.value.args[0]
    assert error.name() == "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"
    assert (error.fatal(), error.retriable()) == (True, False)


@pytest.mark.process
def test_aiokafka_ends(broker: RunningServer) -> None:
    async def start() -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=broker.bootstrap, transactional_id="transfers"
        )
        try:
            async with asyncio.timeout(TOOL_SECONDS):
                await producer.start()
        finally:
            await producer.stop()

    with pytest.raises(TransactionalIdAuthorizationFailed):
        asyncio.run(start())


@pytest.mark.kafka
def test_java_fails_and_the_brokers_log_has_the_reason(tmp_path: Path) -> None:
    words = ("--num-records", "1", "--record-size", "10", "--throughput", "1")
    with SharegroupServer(tmp_path) as server, ToolShell(tmp_path / "classes") as shell:
        ran = shell.run(
            "kafka-producer-perf-test",
            server.bootstrap,
            *("--topic", "jobs", *words, "--transactional-id", "transfers"),
        )
        assert ran.status == 1
        assert "TransactionalIdAuthorizationException" in ran.stdout + ran.stderr
        assert f"wants a transactional producer: {WHY}" in server.output()
