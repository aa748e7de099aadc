"""Records requests of clients that others wrote, for what `make fuzz` begins with.

    python scripts/client_frames.py

Each client works against a broker of ours through a proxy. The first and the last request of each
API and version go to tests/fuzz/frames/CLIENT.bin, each with its length before it as on the wire.
"""

from __future__ import annotations

import asyncio
import struct
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer  # noqa: E402
from aiokafka.admin import AIOKafkaAdminClient, NewTopic  # noqa: E402
from confluent_kafka import Consumer, Producer, TopicPartition  # noqa: E402
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer  # noqa: E402

from tests.apache_kafka.tools import run_tool  # noqa: E402
from tests.foreign.share_reader import receive_accepting, share_consumer  # noqa: E402
from tests.servers.admin import SILENT, Admin, produce  # noqa: E402
from tests.servers.process import HOST, free_port  # noqa: E402
from tests.servers.sharegroup_server import SharegroupServer  # noqa: E402

FRAMES: Final = ROOT / "tests" / "fuzz" / "frames"
FRAME_BYTES_MAX: Final = 4_096
"""A longer request says no more than a short one."""
SECONDS: Final = 120
TOOLS: Final = "org.apache.kafka.tools"
TOPIC: Final = "jobs"


class Recorder:
    """Passes bytes on to a broker, and keeps requests by API and version."""

    def __init__(self, port: int, broker: int) -> None:
        self.kept: dict[tuple[int, int], list[bytes]] = {}
        self._port = port
        self._broker = broker
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))

    def start(self) -> None:
        self._thread.start()
        self._ready.wait(SECONDS)

    def end(self) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join()

    async def _run(self) -> None:
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        async with await asyncio.start_server(self._client, HOST, self._port):
            self._ready.set()
            await self._over.wait()

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_broker, to_broker = await asyncio.open_connection(HOST, self._broker)
        back = asyncio.create_task(_pass_on(from_broker, writer))
        try:
            while True:
                size = await reader.readexactly(4)
                frame = await reader.readexactly(struct.unpack(">i", size)[0])
                self._keep(frame)
                to_broker.write(size + frame)
        except (asyncio.IncompleteReadError, ConnectionError):
            to_broker.close()
            await back

    def _keep(self, frame: bytes) -> None:
        if len(frame) <= FRAME_BYTES_MAX:
            kept = self.kept.setdefault(struct.unpack(">hh", frame[:4]), [])
            kept[1:] = [frame]


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(1 << 16):
            writer.write(data)
    except ConnectionError:
        pass  # this side is gone: the other one hears of it below
    writer.close()


@contextmanager
def recorded(client: str) -> Iterator[str]:
    """The address of a fresh broker with ten records; what came is written in the end."""
    outer = free_port()
    advertised = f"advertised.listeners=PLAINTEXT://{HOST}:{outer}"
    with tempfile.TemporaryDirectory() as folder:
        options = advertised, "group.initial.rebalance.delay.ms=0"
        server = SharegroupServer(Path(folder), *options)
        server.start_and_probe()
        try:
            recorder = Recorder(outer, server.port)
            recorder.start()
            try:
                yield _prepared(f"{HOST}:{outer}", client, recorder)
            finally:
                recorder.end()
        finally:
            server.stop()
    frames = [frame for _, some in sorted(recorder.kept.items()) for frame in some]
    (FRAMES / f"{client}.bin").write_bytes(
        b"".join(struct.pack(">i", len(frame)) + frame for frame in frames)
    )
    print(f"{client}: {len(recorder.kept)} APIs and versions", flush=True)


def _prepared(bootstrap: str, client: str, recorder: Recorder) -> str:
    admin = Admin(bootstrap)
    admin.create_topic(TOPIC, 2)
    admin.start_group_at_earliest("workers")
    produce(bootstrap, TOPIC, [b"%d" % number for number in range(10)])
    if client != "librdkafka":  # it is the client that did all of this
        recorder.kept.clear()
    return bootstrap


def librdkafka(bootstrap: str) -> None:
    servers = {"bootstrap.servers": bootstrap, **SILENT}
    for protocol in ("classic", "consumer"):
        consumer = Consumer(
            {
                **servers,
                "group.id": f"readers-{protocol}",
                "group.protocol": protocol,
                "auto.offset.reset": "earliest",
            }
        )
        consumer.subscribe([TOPIC])
        while consumer.poll(1) is None:
            continue
        consumer.commit(asynchronous=False)
        consumer.get_watermark_offsets(TopicPartition(TOPIC, 0))
        consumer.close()
    with share_consumer(bootstrap, "workers", TOPIC, explicit=False) as worker:
        receive_accepting(worker, 10)
    producer = Producer({**servers, "transactional.id": "writer"})
    producer.init_transactions(SECONDS)
    for end in (producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        producer.produce(TOPIC, b"value", key=b"key", headers={"h": b"1"})
        producer.flush(SECONDS)
        end(SECONDS)
    client = Admin(bootstrap).client
    client.list_consumer_groups().result(SECONDS)
    client.describe_cluster().result(SECONDS)
    client.describe_consumer_groups(["readers-classic"])["readers-classic"].result(SECONDS)


def aiokafka(bootstrap: str) -> None:
    async def work() -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        await admin.start()
        await admin.create_topics([NewTopic("mails", 1, 1)])
        await admin.describe_consumer_groups(["readers"])
        await admin.list_consumer_groups()
        await admin.close()
        async with (
            AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id="t") as producer,
            producer.transaction(),
        ):
            await producer.send_and_wait(TOPIC, b"value", key=b"key")
        async with AIOKafkaConsumer(
            TOPIC,
            bootstrap_servers=bootstrap,
            group_id="readers",
            auto_offset_reset="earliest",
        ) as consumer:
            await consumer.getmany(timeout_ms=5_000)
            await consumer.commit()

    asyncio.run(asyncio.wait_for(work(), SECONDS))


def kafka_python(bootstrap: str) -> None:
    with closing(KafkaProducer(bootstrap_servers=bootstrap, compression_type="gzip")) as producer:
        producer.send(TOPIC, b"value", key=b"key").get(SECONDS)
    consumer = KafkaConsumer(
        TOPIC, bootstrap_servers=bootstrap, group_id="readers", auto_offset_reset="earliest"
    )
    with closing(consumer):
        while not consumer.poll(2_000):
            continue
        consumer.commit()
        consumer.end_offsets(consumer.assignment())
    with closing(KafkaAdminClient(bootstrap_servers=bootstrap)) as admin:
        admin.list_groups()
        admin.describe_groups(["readers"])


def java(bootstrap: str) -> None:
    servers = "--bootstrap-server", bootstrap
    begin = "--from-beginning", "--max-messages", "10", "--timeout-ms", "60000"
    work = ("--topic", TOPIC, "--group", "workers", "--max-messages", "10", "--timeout-ms", "60000")
    run_tool(f"{TOOLS}.TopicCommand", *servers, "--create", "--topic", "mails", "--partitions", "2")
    run_tool(f"{TOOLS}.TopicCommand", *servers, "--describe", "--topic", "mails")
    run_tool(f"{TOOLS}.TopicCommand", *servers, "--delete", "--topic", "mails")
    run_tool(f"{TOOLS}.consumer.ConsoleConsumer", *servers, "--topic", TOPIC, *begin)
    run_tool(f"{TOOLS}.consumer.ConsoleShareConsumer", *servers, *work)
    run_tool(f"{TOOLS}.consumer.group.ShareGroupCommand", *servers, "--describe", "--all-groups")
    run_tool(f"{TOOLS}.consumer.group.ConsumerGroupCommand", *servers, "--describe", "--all-groups")
    run_tool(f"{TOOLS}.GroupsCommand", *servers, "--list")
    run_tool(f"{TOOLS}.GetOffsetShell", *servers, "--topic", TOPIC)
    run_tool(f"{TOOLS}.ClusterTool", "cluster-id", *servers)
    run_tool(f"{TOOLS}.TransactionsCommand", *servers, "list")
    run_tool("kafka.admin.ConfigCommand", *servers, "--describe", "--entity-type", "topics")
    produced = "--num-records", "10", "--record-size", "20", "--throughput", "-1"
    property_ = "--command-property", f"bootstrap.servers={bootstrap}", "transactional.id=writer"
    run_tool(f"{TOOLS}.ProducerPerformance", "--topic", TOPIC, *produced, *property_)


CLIENTS: Final[dict[str, Callable[[str], None]]] = {
    "librdkafka": librdkafka,
    "aiokafka": aiokafka,
    "kafka-python": kafka_python,
    "java": java,
}


def main() -> None:
    FRAMES.mkdir(exist_ok=True)
    for name, work in CLIENTS.items():
        with recorded(name) as bootstrap:
            work(bootstrap)


if __name__ == "__main__":
    main()
