"""Stock clients' transactions, and Kafka's tools for them."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioTopicPartition
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer, TopicPartition

from tests.apache_kafka.java import java_command
from tests.apache_kafka.program import compile_java
from tests.apache_kafka.tools import QUIET, SHORT_RUN, dump_log
from tests.foreign.tool_shell import ToolShell
from tests.servers.admin import ADMIN_SECONDS, SILENT, Admin
from tests.servers.running import RunningServer

SOURCE = Path(__file__).parent / "java" / "Transfers.java"
PROGRAM_SECONDS = 240
MANY = 500


def transactional(broker: RunningServer, name: str, **settings: Any) -> Producer:
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "transactional.id": name,
            "linger.ms": 0,
            **settings,
            **SILENT,
        }
    )
    producer.init_transactions(ADMIN_SECONDS)
    return producer


def committed(broker: RunningServer, topic: str, partition: int = 0) -> list[bytes | None]:
    """What a committed reader sees up to the end."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "not-used",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            **SILENT,
        }
    )
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
    values = []
    try:
        while message := consumer.poll(ADMIN_SECONDS):
            if message.error() is not None:  # the end
                break
            values.append(message.value())
    finally:
        consumer.close()
    return values


@pytest.mark.process
def test_librdkafka_commits_aborts_and_is_fenced(
    broker: RunningServer, topic: str, name: str
) -> None:
    first = transactional(broker, name)
    for number in range(6):
        first.begin_transaction()
        first.produce(topic, b"%d" % number)
        if number % 2:
            assert first.flush(ADMIN_SECONDS) == 0
            first.abort_transaction(ADMIN_SECONDS)
        else:
            first.commit_transaction(ADMIN_SECONDS)
    first.begin_transaction()
    first.produce(topic, b"open")
    assert first.flush(ADMIN_SECONDS) == 0

    second = transactional(broker, name)
    second.begin_transaction()
    second.produce(topic, b"second")
    second.commit_transaction(ADMIN_SECONDS)

    with pytest.raises(KafkaException) as fenced:
        first.commit_transaction(ADMIN_SECONDS)
    assert fenced.value.args[0].fatal()
    assert committed(broker, topic) == [b"0", b"2", b"4", b"second"]


@pytest.mark.process
def test_librdkafka_goes_on_after_a_kill(own_broker: RunningServer, name: str) -> None:
    Admin(own_broker.bootstrap).create_topic(name)
    producer = transactional(own_broker, name)
    for number in range(20):
        producer.begin_transaction()
        producer.produce(name, b"%d" % number)
        if number % 5 == 4:
            assert producer.flush(ADMIN_SECONDS) == 0
            own_broker.kill()  # in the middle of a transaction
            own_broker.start()
        producer.commit_transaction(ADMIN_SECONDS)
    assert committed(own_broker, name) == [b"%d" % number for number in range(20)]


@pytest.mark.process
def test_aiokafka_commits_and_aborts(broker: RunningServer, topic: str, name: str) -> None:
    async def work() -> list[bytes | None]:
        async with AIOKafkaProducer(
            bootstrap_servers=broker.bootstrap, transactional_id=name
        ) as producer:
            for number in range(4):
                await producer.begin_transaction()
                await producer.send_and_wait(topic, b"%d" % number, partition=0)
                if number % 2:
                    await producer.abort_transaction()
                else:
                    await producer.commit_transaction()
        async with AIOKafkaConsumer(
            bootstrap_servers=broker.bootstrap, isolation_level="read_committed"
        ) as consumer:
            partition = AioTopicPartition(topic, 0)
            consumer.assign([partition])
            await consumer.seek_to_beginning(partition)
            return [(await consumer.getone()).value for _ in range(2)]

    assert asyncio.run(asyncio.wait_for(work(), 120)) == [b"0", b"2"]


@pytest.mark.kafka
def test_java_commits_aborts_and_is_fenced(
    broker: RunningServer, admin: Admin, name: str, tmp_path: Path
) -> None:
    admin.create_topic(name, partitions=2)
    java = [java_command(), *SHORT_RUN, QUIET, "-cp", compile_java(SOURCE, tmp_path)]
    done = subprocess.run(
        [*java, "Transfers", broker.bootstrap, name, f"{name}-offsets"],
        capture_output=True,
        text=True,
        timeout=PROGRAM_SECONDS,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line for line in lines if not line.startswith("read ")] == [
        "fenced ProducerFencedException",
        "offset 104",
    ], done.stdout + done.stderr
    for partition in range(2):
        values = [line[7:] for line in lines if line.startswith(f"read {partition} ")]
        assert values == [
            *[f"committed {number}" for number in range(5)],
            *[f"many {number}" for number in range(partition, MANY, 2)],
            *(["second"] if partition else []),
        ]


def table(output: str) -> list[dict[str, str]]:
    """The rows of a tool's table, by column."""
    head, *rows = [line.split() for line in output.splitlines() if line.strip()]
    return [dict(zip(head, row, strict=False)) for row in rows]


@pytest.mark.kafka
def test_kafka_transactions_lists_describes_and_aborts(
    broker: RunningServer, shell: ToolShell, topic: str, name: str
) -> None:
    def run(*arguments: str) -> str:
        ran = shell.run("kafka-transactions", broker.bootstrap, *arguments)
        assert ran.status == 0, ran.stdout + ran.stderr
        return ran.stdout

    def tool(*arguments: str) -> list[dict[str, str]]:
        return table(run(*arguments))

    producer = transactional(broker, name)
    producer.begin_transaction()
    producer.produce(topic, b"hangs")
    assert producer.flush(ADMIN_SECONDS) == 0

    (listed,) = [row for row in tool("list") if row["TransactionalId"] == name]
    assert listed["TransactionState"] == "Ongoing"
    (described,) = tool("describe", "--transactional-id", name)
    assert described["TopicPartitions"] == f"{topic}-0"
    (found,) = tool("describe-producers", "--topic", topic, "--partition", "0")
    assert found["ProducerId"] == listed["ProducerId"]
    assert found["CurrentTransactionStartOffset"] == "0"
    where = ("--topic", topic, "--partition", "0")
    run("abort", *where, "--start-offset", "0")
    (found,) = tool("describe-producers", *where)
    assert found["CurrentTransactionStartOffset"] == "None"
    assert committed(broker, topic) == []


@pytest.mark.kafka
def test_kafka_dump_log_reads_the_transaction_log(
    broker: RunningServer, topic: str, name: str
) -> None:
    producer = transactional(broker, name, **{"transaction.timeout.ms": 12345})
    producer.begin_transaction()
    producer.produce(topic, b"x")
    producer.commit_transaction(ADMIN_SECONDS)
    transactional(broker, name)

    (segment,) = broker.data.rglob("__transaction_state-0/*.log")
    dumped = dump_log(segment, "--transaction-log-decoder")
    values = [
        json.loads(value)["data"]
        for key, value in re.findall(r"key: (\{.*?\}) payload: (\{.*\})$", dumped, re.MULTILINE)
        if json.loads(key)["data"]["transactionalId"] == name
    ]
    states = [value["transactionStatus"] for value in values]
    assert states == [0, 1, 2, 4, 0]
    parts = [{"topic": topic, "partitionIds": [0]}]
    assert [value["transactionPartitions"] for value in values] == [None, parts, parts, [], None]
    assert values[0]["transactionTimeoutMs"] == 12345
    assert [value["producerEpoch"] for value in values] == [0, 0, 0, 0, 1]
