"""Java's Admin: the same calls to our broker and to Apache Kafka, the same results, line by line
(`java/AdminWork.java`)."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.apache_kafka.broker import KafkaBroker
from tests.apache_kafka.java import java_command
from tests.apache_kafka.program import compile_java
from tests.apache_kafka.tools import QUIET, SHORT_RUN
from tests.foreign.conftest import OPTIONS
from tests.servers.sharegroup_server import SharegroupServer

pytestmark = pytest.mark.kafka

SOURCE = Path(__file__).parent / "java" / "AdminWork.java"
PROGRAM_SECONDS = 360

DIFFERENT = {
    "describeConfigs topic": "our own settings; min.insync.replicas, set by Kafka for the cluster",
    "describeConfigs group": "our own settings, and those of streams and dead letters",
    "listTransactions fenced": "Kafka takes what never began for older than any duration",
    "listTransactions at last": "the same",
    "describeFeatures": "our own features; metadata.version is Kafka's",
    "describeMetadataQuorum": "not served: one node, no quorum",
    "describeDelegationToken": "not served; Kafka refuses it on a plain connection",
    "describeStreamsGroups": "not served",
}


@pytest.mark.timeout(PROGRAM_SECONDS + 120)
def test_the_same_results_as_from_apache_kafka(tmp_path: Path) -> None:
    program = compile_java(SOURCE, tmp_path)
    with (
        SharegroupServer(tmp_path / "ours", *OPTIONS) as ours,
        KafkaBroker(tmp_path / "kafkas", *OPTIONS) as kafkas,
    ):
        done = subprocess.run(
            [
                *(java_command(), *SHORT_RUN, QUIET, "-cp", program, "AdminWork"),
                *(ours.bootstrap, kafkas.bootstrap),
            ],
            capture_output=True,
            text=True,
            timeout=PROGRAM_SECONDS,
            stdin=subprocess.DEVNULL,
        )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    _, our_lines, kafkas_lines = done.stdout.split("== ")
    got, wanted = answers(our_lines), answers(kafkas_lines)
    assert list(got) == list(wanted)
    assert len(wanted) >= 180
    different = {what: (got[what], wanted[what]) for what in wanted if got[what] != wanted[what]}
    assert different.keys() - DIFFERENT.keys() == set(), different
    assert different.keys() == DIFFERENT.keys()


def answers(lines: str) -> dict[str, str]:
    """What was asked → what was answered."""
    parted = [line.partition(": ") for line in lines.splitlines()[1:]]
    return {what: answer for what, _, answer in parted}
