"""Apache Kafka's command-line tools, run by the main class behind each script.

Every run has a time limit and a small heap. A tool that fails raises `ToolFailed` with what it
printed, so that a test shows the tool's own complaint.
"""

from __future__ import annotations

import csv
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from tests.apache_kafka.jars import KAFKA_WITH_TOOLS, class_path
from tests.apache_kafka.java import java_command

TOOL_SECONDS = 240
PERFORMANCE_SECONDS = 600
QUIET = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
SHORT_RUN = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m")
LONG_RUN = ("-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-Xmx512m")


class ToolFailed(Exception):
    """The tool ended with an error or not in time; the message holds its output."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerRate:
    """What ProducerPerformance says at its end."""

    records: int
    records_per_second: float
    average_ms: float
    p99_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerRate:
    """What ShareConsumerPerformance saw between its first report and its last one.

    The time before the first record (joining the group: 5 s with Apache Kafka) is not in the rate.
    """

    records: int
    records_per_second: float
    first_report_s: float


class KafkaTools:
    """Kafka's tools against one broker. `produce` and `share_drain` read `config`, a file of
    properties, too.
    """

    def __init__(self, bootstrap: str, config: Path | None = None) -> None:
        self.bootstrap = bootstrap
        self._config = ["--command-config", str(config)] if config else []

    def share_groups(self, *arguments: str) -> str:
        """kafka-share-groups: `--list`, `--describe --group G [--members|--state|--offsets]` …"""
        command = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"
        return self._admin(command, arguments)

    def produce(
        self, topic: str, records: int, *, record_bytes: int = 100, throughput: int = -1
    ) -> ProducerRate:
        """kafka-producer-perf-test, with an idempotent producer and batches of 64 KiB."""
        output = run_tool(
            "org.apache.kafka.tools.ProducerPerformance",
            *("--bootstrap-server", self.bootstrap, "--topic", topic),
            *("--num-records", str(records), "--record-size", str(record_bytes)),
            *("--throughput", str(throughput)),
            *("--command-property", "batch.size=65536", "linger.ms=5"),
            *self._config,
            timeout_s=PERFORMANCE_SECONDS,
            jvm=LONG_RUN,
        )
        return parse_producer_rate(output)

    def share_drain(
        self, topic: str, group: str, records: int, *properties: str, members: int = 1
    ) -> ConsumerRate:
        """kafka-share-consumer-perf-test until it has seen `records`; implicit acknowledgement.

        Every member has a thread of its own.
        """
        output = run_tool(
            "org.apache.kafka.tools.ShareConsumerPerformance",
            *("--bootstrap-server", self.bootstrap, "--topic", topic, "--group", group),
            *("--num-records", str(records), "--timeout", str(PERFORMANCE_SECONDS * 1000)),
            *("--show-detailed-stats", "--reporting-interval", "100"),
            *("--threads", str(members)),
            *_properties(properties),
            *self._config,
            timeout_s=PERFORMANCE_SECONDS,
            jvm=LONG_RUN,
        )
        return parse_consumer_rate(output)

    def share_console(
        self, topic: str, group: str, records: int, *options: str, timeout_s: float = 120
    ) -> list[str]:
        """kafka-console-share-consumer: the values of so many records, accepted.

        `options` may hold `--reject` or `--release`, and formatter properties.
        """
        return run_tool(
            "org.apache.kafka.tools.consumer.ConsoleShareConsumer",
            *("--bootstrap-server", self.bootstrap, "--topic", topic, "--group", group),
            *("--max-messages", str(records), "--timeout-ms", str(int(timeout_s * 1000))),
            *options,
            timeout_s=timeout_s + 15,
        ).splitlines()

    def console(self, topic: str, partition: int, records: int, *options: str) -> list[str]:
        """kafka-console-consumer by assignment, from the start of one partition: the values."""
        return run_tool(
            "org.apache.kafka.tools.consumer.ConsoleConsumer",
            *("--bootstrap-server", self.bootstrap, "--topic", topic),
            *("--partition", str(partition), "--offset", "earliest"),
            *("--max-messages", str(records), "--timeout-ms", "30000"),
            *options,
        ).splitlines()

    def _admin(self, main_class: str, arguments: Sequence[str]) -> str:
        return run_tool(main_class, "--bootstrap-server", self.bootstrap, *arguments)


def dump_log(segment: Path, *options: str) -> str:
    """kafka-dump-log: batches of a `.log`, or entries of an `.index` or `.timeindex`."""
    return run_tool("org.apache.kafka.tools.DumpLogSegments", "--files", str(segment), *options)


def dump_share_state(segment: Path) -> str:
    """kafka-dump-log with the decoder of `__share_group_state`."""
    return dump_log(segment, "--share-group-state-decoder")


def run_tool(
    main_class: str,
    *arguments: str,
    timeout_s: float = TOOL_SECONDS,
    jvm: Sequence[str] = SHORT_RUN,
) -> str:
    """Run one tool and return its standard output; raises ToolFailed."""
    tools = class_path(KAFKA_WITH_TOOLS)
    command = [java_command(), *jvm, QUIET, "-cp", tools, main_class, *arguments]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=timeout_s, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired as late:
        said = [part.decode(errors="replace") for part in (late.stdout, late.stderr) if part]
        raise ToolFailed(f"{main_class} took over {timeout_s} s\n{''.join(said)}") from None
    if done.returncode:
        said_at_end = f"{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
        raise ToolFailed(f"{main_class} ended with status {done.returncode}\n{said_at_end}")
    return done.stdout


def _properties(properties: Sequence[str]) -> list[str]:
    return ["--command-property", *properties] if properties else []


SUMMARY = re.compile(
    r"^(?P<records>\d+) records sent, (?P<rate>[\d.]+) records/sec .*"
    r" (?P<average>[\d.]+) ms avg latency, .* (?P<p99>[\d.]+) ms 99th",
    re.MULTILINE,
)


def parse_producer_rate(output: str) -> ProducerRate:
    """The summary line of ProducerPerformance; raises ToolFailed when there is none."""
    found = SUMMARY.search(output)
    if found is None:
        raise ToolFailed(f"no summary line in the output of ProducerPerformance\n{output}")
    return ProducerRate(
        records=int(found["records"]),
        records_per_second=float(found["rate"]),
        average_ms=float(found["average"]),
        p99_ms=float(found["p99"]),
    )


def parse_consumer_rate(output: str) -> ConsumerRate:
    """The reports of ShareConsumerPerformance with `--show-detailed-stats`; raises ToolFailed."""
    rows = [row for row in csv.reader(output.splitlines(), skipinitialspace=True) if len(row) == 7]
    reports = [(moment(row[1]), int(row[5])) for row in rows[1:] if int(row[5])]
    if len(reports) < 2:
        raise ToolFailed(f"too few reports from ShareConsumerPerformance\n{output}")
    (first, seen_first), (last, seen_last) = reports[0], reports[-1]
    return ConsumerRate(
        records=seen_last,
        records_per_second=(seen_last - seen_first) / (last - first),
        first_report_s=first - moment(rows[1][0]),
    )


def moment(text: str) -> float:
    """Seconds from the tool's `2026-11-21 12:03:35:174`; only differences mean anything."""
    return datetime.strptime(f"{text}000+0000", "%Y-%m-%d %H:%M:%S:%f%z").timestamp()
