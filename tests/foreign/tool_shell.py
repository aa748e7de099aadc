"""Kafka's tools one after the other in one JVM (`java/ToolShell.java`): 0.1 s each, not 2 s."""

from __future__ import annotations

import base64
import subprocess
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.apache_kafka.jars import KAFKA_WITH_TOOLS
from tests.apache_kafka.java import java_command
from tests.apache_kafka.program import compile_java
from tests.apache_kafka.tools import SHORT_RUN, ToolFailed

SOURCE = Path(__file__).parent / "java" / "ToolShell.java"
TOOL_SECONDS = 240
UNIT_SEPARATOR = "\x1f"
# A tool that exits leaves its clients behind, and they go on to say that they miss the broker.
SILENT = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"

MAIN_CLASSES = {
    "kafka-share-groups": "org.apache.kafka.tools.consumer.group.ShareGroupCommand",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-console-share-consumer": "org.apache.kafka.tools.consumer.ConsoleShareConsumer",
    "kafka-groups": "org.apache.kafka.tools.GroupsCommand",
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "kafka-broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "kafka-consumer-perf-test": "org.apache.kafka.tools.ConsumerPerformance",
    "kafka-e2e-latency": "org.apache.kafka.tools.EndToEndLatency",
    "kafka-verifiable-consumer": "org.apache.kafka.tools.VerifiableConsumer",
    "kafka-transactions": "org.apache.kafka.tools.TransactionsCommand",
    "kafka-log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "kafka-leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-acls": "org.apache.kafka.tools.AclCommand",
    "kafka-features": "org.apache.kafka.tools.FeatureCommand",
    "kafka-cluster": "org.apache.kafka.tools.ClusterTool",
}
VERB_FIRST = ("kafka-cluster",)
"""Tools whose options stand behind the word for what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What a tool left behind."""

    status: int
    stdout: str
    stderr: str


Tool = Callable[..., Ran]
"""Runs a tool, given its name and its words, against a broker."""
Printed = Callable[..., str]
"""The same of a tool that must succeed: what it printed."""


class ToolShell:
    """A JVM that runs tools; what each one would exit with is its status.

    Args:
        properties: of Java, as ``-Dname=value``.
    """

    def __init__(self, folder: Path, *properties: str) -> None:
        classes = compile_java(SOURCE, folder, KAFKA_WITH_TOOLS)
        self._process = subprocess.Popen(
            [java_command(), *SHORT_RUN, SILENT, *properties, "-cp", classes, "ToolShell"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, tool: str, bootstrap: str, *arguments: str, stdin: str = "") -> Ran:
        """Run one of MAIN_CLASSES; raises ToolFailed when it takes over TOOL_SECONDS."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        typed = base64.b64encode(stdin.encode()).decode()
        verb = arguments[: tool in VERB_FIRST]
        rest = ("--bootstrap-server", bootstrap, *arguments[len(verb) :])
        words = (typed, MAIN_CLASSES[tool], *verb, *rest)
        self._process.stdin.write(UNIT_SEPARATOR.join(words) + "\n")
        self._process.stdin.flush()
        limit = threading.Timer(TOOL_SECONDS, self._process.kill)
        limit.start()
        try:
            answer = self._process.stdout.readline()
        finally:
            limit.cancel()
            limit.join()
        if not answer:
            raise ToolFailed(f"{tool} {' '.join(arguments)} gave no answer")
        status, stdout, stderr = answer.rstrip("\n").split(" ")
        return Ran(
            status=int(status),
            stdout=base64.b64decode(stdout).decode(),
            stderr=base64.b64decode(stderr).decode(),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._process as process:
            process.kill()
