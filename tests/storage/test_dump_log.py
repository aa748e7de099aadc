"""Apache Kafka's own dump-log on our files: the foreign judge of every format we write."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from sharegroup.storage import LogSettings
from sharegroup.wire.markers import MarkerType, encode_marker
from tests.apache_kafka.jars import KAFKA_WITH_TOOLS, class_path
from tests.apache_kafka.java import java_command
from tests.apache_kafka.tools import QUIET, SHORT_RUN, dump_log
from tests.storage.cleaning import COMPACTED, KEYS_BYTES, RETENTION_MS, keyed
from tests.storage.support import NOW_MS, append_durably, batch, one_log, opened, run

pytestmark = pytest.mark.kafka

SMALL = LogSettings(segment_bytes=20_000, index_interval_bytes=1000)


@pytest.fixture
def folder_of_kafka_files(tmp_path: Path) -> Path:
    async def main() -> None:
        async with opened(tmp_path, SMALL) as folder:
            log = await one_log(folder)
            for number in range(200):
                time = NOW_MS - 1000 + (number ^ 3)
                values = [b"v" * 100] * (number % 3 + 1)
                records = {
                    "producer_id": 7,
                    "producer_epoch": 1,
                    "base_sequence": log.log_end_offset,
                }
                await append_durably(log, batch(*values, timestamp_ms=time, **records))
            assert log.statistics().segments > 2

    run(main())
    return tmp_path / "t-0"


def verdict(path: Path, mode: str) -> str:
    """What dump-log says of an index file on standard error, where it puts its complaints."""
    tools = class_path(KAFKA_WITH_TOOLS)
    tool = ("-cp", tools, "org.apache.kafka.tools.DumpLogSegments", "--files", str(path))
    done = subprocess.run(
        [java_command(), *SHORT_RUN, QUIET, *tool, mode],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    return done.stderr if done.returncode == 0 else f"status {done.returncode}: {done.stderr}"


def test_kafka_reads_every_file(folder_of_kafka_files: Path) -> None:
    folder = folder_of_kafka_files
    logs = sorted(folder.glob("*.log"))
    text = "".join(dump_log(path, "--deep-iteration") for path in logs)
    offsets = [line for line in text.splitlines() if "| offset:" in line]
    assert len(offsets) == 399
    assert "isvalid: false" not in text
    for path in sorted(folder.glob("*index")):
        for mode in ("--verify-index-only", "--index-sanity-check"):
            assert verdict(path, mode) == ""
    for path in sorted(folder.glob("*.snapshot"))[1:]:
        assert "producerId: 7 producerEpoch: 1" in dump_log(path)


def test_kafka_reads_a_cleaned_log(tmp_path: Path) -> None:
    """Tombstones with their delete horizon, empty batches and markers included."""

    async def main() -> None:
        async with opened(tmp_path, replace(COMPACTED, segment_bytes=2000)) as folder:
            log = await one_log(folder)
            for number in range(40):
                await append_durably(
                    log,
                    keyed(
                        [(b"a", b"%d" % number * 30), (b"b%d" % (number % 5), None)],
                        codec=number % 5,
                        producer_id=7,
                        producer_epoch=1,
                        base_sequence=2 * number,
                    ),
                )
                if number % 10 == 0:
                    log.append_trusted(
                        encode_marker(
                            MarkerType.COMMIT, producer_id=8, producer_epoch=0, timestamp_ms=NOW_MS
                        )
                    )
            for wait_ms in (0, 1):
                assert await folder.clean(NOW_MS + wait_ms, KEYS_BYTES)
                await append_durably(log, *[keyed([(b"c", b"c" * 900)])] * 4)

    run(main())
    folder = tmp_path / "t-0"
    text = dump_log(together(folder, "*.log"), "--deep-iteration")
    assert "isvalid: false" not in text
    assert f"deleteHorizonMs: OptionalLong[{NOW_MS + RETENTION_MS}]" in text
    assert "count: 0 " in text
    assert verdict(together(folder, "*[0-9].*index"), "--index-sanity-check") == ""


def together(folder: Path, pattern: str) -> Path:
    """Several files as one argument, for one start of the tool."""
    return Path(",".join(str(path) for path in sorted(folder.glob(pattern))))


def test_dump_log_reports_a_damaged_file(folder_of_kafka_files: Path) -> None:
    for suffix, position in (("index", 3), ("timeindex", 7)):
        path = folder_of_kafka_files / f"{0:020d}.{suffix}"
        data = bytearray(path.read_bytes())
        data[position] += 1
        path.write_bytes(data)
        assert "ismatch" in verdict(path, "--verify-index-only")
