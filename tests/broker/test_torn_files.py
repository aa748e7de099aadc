"""A start over any file of the data folder that was left empty, torn or filled with garbage: the
broker starts and names what is lost, or refuses in one sentence that says what to do (issue 27).
"""

from __future__ import annotations

import logging
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from sharegroup import Admin, Consumer, Producer
from sharegroup.broker.internal_topics import INTERNAL_TOPICS, SECURITY
from sharegroup.broker.server import Broker
from sharegroup.model.errors import ConfigError, CorruptMessage, KafkaStorageError
from sharegroup.storage.reserve import BYTES_MIN
from sharegroup.wire.batch import walk
from tests.broker import running, share_wire
from tests.broker.file_kinds import named_in_code
from tests.broker.share_wire import ACCEPT

PAIRS = "pairs"
ONCE = "once"
RECORDS = 3_000
ACCEPTED = 100
OPTIONS = (
    "log.cleaner.backoff.ms=20",
    "offsets.topic.num.partitions=1",
    "transaction.state.log.num.partitions=1",
    "share.coordinator.state.topic.num.partitions=1",
)
DELETED = "-delete"
CLEAN_MARKER = ".kafka_cleanshutdown"
DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "half": lambda whole: whole[: len(whole) // 2],
    "garbage": lambda whole: random.Random(27).randbytes(max(len(whole), 40)),
    "zeros": lambda whole: bytes(max(len(whole), 40)),
    "brackets": lambda whole: b"[" * 100_000,
    "flip at the start": lambda whole: flipped(whole, 0),
    "flip in the middle": lambda whole: flipped(whole, len(whole) // 2),
    "flip at the end": lambda whole: flipped(whole, len(whole) - 1),
}


def flipped(whole: bytes, at: int) -> bytes:
    """One bit of a byte is another one."""
    return whole[:at] + bytes([one ^ 4 for one in whole[at : at + 1]]) + whole[at + 1 :]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with each kind of file, after a clean stop."""
    folder = tmp_path_factory.mktemp("whole")
    running.run(folder, fill, *OPTIONS)
    log = folder / "data" / f"{PAIRS}-0" / f"{0:020}.log"
    for suffix in (".cleaned", ".swap"):  # of a cleaning that was interrupted
        shutil.copy(log, f"{log}{suffix}")
    log.with_name(f"{log.name}.damaged").write_text("[]")
    for suffix in (".swap.unusable", ".sync-failed.tmp", ".tmp"):  # of repairs that were
        shutil.copy(log, f"{log}{suffix}")
    deleted = folder / "data" / f"gone-0.AAAAAAAAAAAAAAAAAAAAAQ{DELETED}"
    deleted.mkdir()
    shutil.copy(log, deleted)
    return folder / "data"


async def fill(broker: Broker, port: int) -> None:
    session = await share_wire.started(broker, port, partitions=1)
    configs = {"segment.bytes": "1048576", "retention.ms": "-1", "index.interval.bytes": "512"}
    broker.parts.store.set_topic_config(share_wire.TOPIC, configs)
    for _ in range(RECORDS // 100):
        await share_wire.produce(port, session.topic_id, 0, 100, size=700)
    await session.fetch(0, max_records=0)
    got = share_wire.acquired(await session.fetch(max_records=ACCEPTED))[0]
    taken = [(first, last, [ACCEPT]) for first, last, _ in got]
    assert share_wire.codes(await session.acknowledge({0: taken})) == {0: 0}

    await share_wire.new_topic(broker, port, 1, PAIRS)
    compacted = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"}
    read_in_turns = {"accept.range.fetch": "true"}
    broker.parts.store.set_topic_config(
        PAIRS, {**configs, **compacted, **read_in_turns, "retention.ms": "1"}
    )
    bootstrap = f"127.0.0.1:{port}"
    async with Admin(bootstrap) as admin:
        await admin.upsert_scram_user("ann", "secret")
        await admin.create_topics(ONCE, configs={"deduplication.window.ms": "3600000"})
    async with Producer(bootstrap) as producer:
        for number in range(20):
            await producer.enqueue(ONCE, b"v", message_id=b"%d" % number)
    async with Producer(bootstrap, transactional_id="writer") as producer:
        for _ in range(40):
            async with producer.transaction():
                for number in range(20):
                    await producer.enqueue(PAIRS, b"v" * 2_000, key=b"%d" % number)
        with pytest.raises(KeyError):
            await aborted(producer)
    async with Consumer(
        PAIRS,
        group_id="readers",
        bootstrap_servers=bootstrap,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        cooperative=True,
        key_ranges=False,
    ) as reader:
        await reader.commit((await reader.poll(30_000))[1::2])
    log = broker.parts.topics.log(PAIRS, 0)
    await share_wire.until(lambda: log.cleaning.first_dirty > 0)


async def aborted(producer: Producer) -> None:
    async with producer.transaction():
        await producer.send_and_wait(PAIRS, b"v", key=b"aborted")
        raise KeyError


def kinds(folder: Path) -> list[Path]:
    """One file of each kind: every log's last segment, and of the others the last of each suffix,
    for a topic whose old segments are deleted, and for one that is compacted.
    """
    found: dict[tuple[str, str], Path] = {}
    for file in sorted(one for one in folder.rglob("*") if one.is_file()):
        topic = file.parent.name.rpartition("-")[0]
        suffix = file.name.partition(".")[2] if file.name[0].isdigit() else file.name
        if topic not in INTERNAL_TOPICS or suffix == "log":
            found[file.parent.name, suffix] = file.relative_to(folder)
    return list(found.values())


def test_the_folder_has_every_kind_of_file(whole: Path) -> None:
    found = kinds(whole)
    logs = {file.parent.name.rpartition("-")[0] for file in found if file.suffix == ".log"}
    assert logs >= {share_wire.TOPIC, PAIRS, *INTERNAL_TOPICS}
    assert all((whole / file).stat().st_size for file in found if file.suffix == ".log")
    names = [file.name for file in found]
    assert not [one for one in named_in_code() if not any(name.endswith(one) for name in names)]


@pytest.mark.parametrize("crash", [False, True], ids=["stopped", "killed"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_no_torn_file_keeps_the_broker_from_starting(
    damage: str, crash: bool, whole: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for number, file in enumerate(kinds(whole)):
        if file.suffix != ".log" and (number + list(DAMAGES).index(damage)) % 2 == crash:
            continue  # four of the damages after a stop, and four after a kill
        folder = tmp_path / str(number)
        shutil.copytree(whole, folder / "data")
        torn = folder / "data" / file
        torn.write_bytes(DAMAGES[damage](torn.read_bytes()))
        if crash:
            (folder / "data" / CLEAN_MARKER).unlink()
        caplog.clear()
        refusal = started(folder, whole_log=file.parts[0] != f"{share_wire.TOPIC}-0")
        if refusal:
            assert file.name == "catalog.json" or file.parts[0] == f"{SECURITY}-0", refusal
            assert "estore" in refusal, refusal
            assert "from a backup" in refusal, refusal
        elif file.suffix == ".log" and not file.parts[0].endswith(DELETED):
            assert says_what_is_lost(caplog, torn), (file, caplog.text)
        assert not [one for one in caplog.records if one.exc_info], (file, caplog.text)
        shutil.rmtree(folder)


def started(folder: Path, *, whole_log: bool) -> str:
    """Start, look for what must be there, and stop; else the sentence that ``sharegroup serve``
    prints when it does not start."""

    async def look(broker: Broker, port: int) -> None:
        assert (folder / "data" / ".reserve").stat().st_size >= BYTES_MIN
        assert not list((folder / "data").glob(f"*{DELETED}"))
        log = broker.parts.topics.log(share_wire.TOPIC, 0)
        assert log.log_end_offset == RECORDS
        if whole_log:
            offset = 0
            while offset < RECORDS:
                offset = await end_of_next(broker, offset)
        await read_through(broker, PAIRS)  # nobody reads it at a start after a clean stop
        topic = broker.parts.topics.find(share_wire.TOPIC)
        assert topic is not None
        await share_wire.produce(port, topic.topic_id, 0, 1)

    try:
        running.run(folder, look, *OPTIONS)
    except (ConfigError, KafkaStorageError) as error:
        return str(error)
    return ""


async def read_through(broker: Broker, topic: str) -> None:
    """Read a log, over its damage."""
    log = broker.parts.topics.log(topic, 0)
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        try:
            offset = walk((await log.read(offset, 1 << 20)).data).end_offset
        except CorruptMessage:
            behind = log.after_damage(offset)
            assert behind > offset
            offset = behind


async def end_of_next(broker: Broker, offset: int) -> int:
    """Where the batches end that a read from ``offset`` gives."""
    read = await broker.parts.topics.log(share_wire.TOPIC, 0).read(offset, 1 << 20)
    batches = walk(read.data)
    assert batches.bounds[0][0] == offset
    return batches.end_offset


def says_what_is_lost(caplog: pytest.LogCaptureFixture, file: Path) -> bool:
    """Whether an ERROR names the file or its partition, and the offsets."""
    said = [one.getMessage() for one in caplog.records if one.levelno >= logging.ERROR]
    return any(file.parent.name in one and "ffsets" in one for one in said)
