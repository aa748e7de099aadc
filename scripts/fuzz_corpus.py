"""Records what real clients and a broker say to each other, for `make fuzz`:
``python scripts/fuzz_corpus.py``.

Java's tools, librdkafka, aiokafka, kafka-python and our own clients produce, consume, share and
administrate through a tap. One request and one answer of each API, version and client is written to
tests/fuzz/corpus/request and tests/fuzz/corpus/response.
"""

from __future__ import annotations

import asyncio
import shutil
import struct
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import kafka  # noqa: E402
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer  # noqa: E402
from confluent_kafka import Consumer as LibrdkafkaConsumer  # noqa: E402
from confluent_kafka import Producer as LibrdkafkaProducer  # noqa: E402
from confluent_kafka.admin import AdminClient, NewTopic  # noqa: E402

from sharegroup import Admin, Consumer, Producer, ShareConsumer  # noqa: E402
from tests.foreign.share_reader import share_consumer  # noqa: E402
from tests.foreign.tool_shell import ToolShell  # noqa: E402
from tests.fuzz.corpus import RECORDED  # noqa: E402
from tests.servers import family  # noqa: E402
from tests.servers.process import HOST, free_port  # noqa: E402
from tests.servers.sharegroup_server import SharegroupServer  # noqa: E402

BYTES_MAX: Final = 4_096
"""Longer frames are left out."""
RECORDS: Final = 20
LENGTH: Final = struct.Struct(">i")
HEAD: Final = struct.Struct(">hhi")


class Tap:
    """Passes connections on to a broker, and keeps frames.

    Args:
        ports: its own, and the broker's.
    """

    def __init__(self, ports: tuple[int, int]) -> None:
        self._own, self._broker = ports
        self.who = ""
        """The client that is at work."""
        self.requests: dict[tuple[int, int, str], bytes] = {}
        self.responses: dict[tuple[int, int, str], bytes] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def start(self) -> None:
        """Listen, on a thread of its own."""
        self._thread.start()
        listening = asyncio.start_server(self._pass_on, HOST, self._own)
        asyncio.run_coroutine_threadsafe(listening, self._loop).result(10)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(HOST, self._broker)
        asked: dict[int, tuple[int, int]] = {}

        def request(frame: bytes) -> None:
            key, version, correlation = HEAD.unpack_from(frame)
            asked[correlation] = key, version
            if len(frame) <= BYTES_MAX:
                self.requests.setdefault((key, version, self.who), frame)

        def response(frame: bytes) -> None:
            (correlation,) = LENGTH.unpack_from(frame)
            key, version = asked.pop(correlation, (256, 0))
            if len(frame) <= BYTES_MAX and key < 256:
                self.responses.setdefault((key, version, self.who), bytes((key, version)) + frame)

        await asyncio.gather(self._copy(reader, back, request), self._copy(there, writer, response))

    @staticmethod
    async def _copy(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter, note: Callable[[bytes], None]
    ) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                length = await reader.readexactly(LENGTH.size)
                frame = await reader.readexactly(*LENGTH.unpack(length))
                note(frame)
                writer.write(length + frame)
                await writer.drain()
        writer.close()


def librdkafka(bootstrap: str) -> None:
    """Producer, idempotent and transactional; consumer; share consumer; administration."""
    base = {"bootstrap.servers": bootstrap}
    admin = AdminClient(base)
    for future in admin.create_topics([NewTopic("jobs", 2, 1)]).values():
        future.result()
    producer = LibrdkafkaProducer({**base, "transactional.id": "writer", "compression.type": "lz4"})
    producer.init_transactions()
    producer.begin_transaction()
    for number in range(RECORDS):
        producer.produce("jobs", b"%d" % number, key=b"k", headers={"h": b"v"})
    producer.commit_transaction()
    for protocol in ("classic", "consumer"):
        consumer = LibrdkafkaConsumer(
            {**base, "group.id": protocol, "auto.offset.reset": "earliest",
             "group.protocol": protocol}
        )  # fmt: skip
        consumer.subscribe(["jobs"])
        while not consumer.poll(0.5):
            continue
        consumer.commit(asynchronous=False)
        consumer.close()
    shared = share_consumer(bootstrap, "sharers", "jobs", explicit=False)
    for _ in range(4):
        shared.poll(0.5)
    shared.close()
    for name in ("list_consumer_groups", "list_topics"):
        found = getattr(admin, name)()
        if hasattr(found, "result"):
            found.result()


def python_clients(bootstrap: str) -> None:
    """kafka-python."""
    producer = kafka.KafkaProducer(bootstrap_servers=bootstrap)
    producer.send("jobs", b"value", key=b"key").get(20)
    producer.close()
    consumer = kafka.KafkaConsumer(
        "jobs", bootstrap_servers=bootstrap, group_id="python", auto_offset_reset="earliest",
        consumer_timeout_ms=2_000,
    )  # fmt: skip
    for _ in consumer:
        consumer.commit()
        break
    consumer.close()


async def aio_clients(bootstrap: str) -> None:
    """aiokafka."""
    async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
        await producer.send_and_wait("jobs", b"value", key=b"key")
    async with AIOKafkaConsumer(
        "jobs", bootstrap_servers=bootstrap, group_id="aio", auto_offset_reset="earliest"
    ) as consumer:
        await consumer.getone()
        await consumer.commit()


async def our_clients(bootstrap: str) -> None:
    """Ours: order per key, delays, reasons, key ranges, and what only we have in requests."""
    async with Admin(bootstrap) as admin:
        shared = {"accept.range.fetch": "true"}
        await admin.create_topics("ours", partitions=1, configs=shared)
        await admin.alter_configs("group", "ours", {"share.auto.offset.reset": "earliest"})
        async with Producer(bootstrap, transactional_id="ours") as producer, producer.transaction():
            for number in range(RECORDS):
                await producer.send("ours", b"%d" % number, key=b"k")
        async with ShareConsumer(
            "ours", group_id="ours", bootstrap_servers=bootstrap,
            acknowledgement_mode="explicit", max_poll_records=4,
        ) as sharing:  # fmt: skip
            records = await sharing.poll(5_000)
            sharing.accept(records[0])
            sharing.release(records[1], delay_ms=50)
            sharing.reject(records[2], reason="why")
            await sharing.commit()
        for how in ("key_ranges", "cooperative"):
            settings = {how: True, "auto_offset_reset": "earliest"}
            async with Consumer(
                "ours", group_id=how, bootstrap_servers=bootstrap, **settings
            ) as consumer:
                while not (read := await consumer.poll(1_000)):
                    continue
                await consumer.commit(read[1:3])
        await admin.list_share_group_offsets("ours")
        await admin.describe_share_groups(["ours"])
        await admin.describe_consumer_groups(["key_ranges"])


def java(bootstrap: str, folder: Path) -> None:
    """Kafka's own tools."""
    with ToolShell(folder) as shell:
        lines = "".join(f"line {number}\n" for number in range(RECORDS))
        for tool, words, typed in (
            ("kafka-topics", ("--create", "--topic", "java", "--partitions", "2"), ""),
            ("kafka-topics", ("--describe", "--topic", "java"), ""),
            ("kafka-console-producer", ("--topic", "java"), lines),
            ("kafka-console-share-consumer",
             ("--topic", "java", "--group", "java", "--timeout-ms", "3000"), ""),
            ("kafka-console-consumer",
             ("--topic", "java", "--from-beginning", "--timeout-ms", "3000"), ""),
            ("kafka-consumer-groups", ("--list",), ""),
            ("kafka-share-groups", ("--describe", "--group", "java"), ""),
            ("kafka-configs", ("--describe", "--entity-type", "topics"), ""),
            ("kafka-get-offsets", ("--topic", "java"), ""),
            ("kafka-log-dirs", ("--describe",), ""),
            ("kafka-transactions", ("list",), ""),
            ("kafka-features", ("describe",), ""),
            ("kafka-acls", ("--list",), ""),
            ("kafka-topics", ("--delete", "--topic", "java"), ""),
        ):  # fmt: skip
            shell.run(tool, bootstrap, *words, stdin=typed)


def main() -> None:
    family.begin()
    ports = free_port(), free_port()
    bootstrap = f"{HOST}:{ports[0]}"
    tap = Tap(ports)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        option = f"advertised.listeners=PLAINTEXT://{bootstrap}"
        with SharegroupServer(folder, option, port=ports[1]):
            tap.start()
            tap.who = "librdkafka"
            librdkafka(bootstrap)
            tap.who = "kafka-python"
            python_clients(bootstrap)
            tap.who = "aiokafka"
            asyncio.run(aio_clients(bootstrap))
            tap.who = "ours"
            asyncio.run(our_clients(bootstrap))
            tap.who = "java"
            java(bootstrap, folder)
    for kind, frames in (("request", tap.requests), ("response", tap.responses)):
        place = RECORDED / kind
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        for (key, version, who), frame in frames.items():
            (place / f"{key}-{version}-{who}.bin").write_bytes(frame)
        print(f"{len(frames)} in {place.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
