"""One node of Apache Kafka on this machine: KRaft, broker and controller in one process."""

from __future__ import annotations

import base64
import subprocess
from pathlib import Path
from types import TracebackType

from tests.apache_kafka.jars import class_path
from tests.apache_kafka.java import java_command
from tests.servers.process import (
    HOST,
    ServerFailed,
    ServerProcess,
    Usage,
    answers_api_versions,
    free_port,
)

START_SECONDS = 60
FORMAT_SECONDS = 60
CLUSTER_ID = base64.urlsafe_b64encode(b"sharegroup-test1").decode().rstrip("=")

# What kafka-server-start.sh gives the JVM, and a quiet log.
JVM_OPTIONS = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
)


class KafkaBroker:
    """Apache Kafka on free ports, with its data in `folder`.

    The same object may be started again after `stop` or `kill`: same ports, same data.
    `options` are `key=value` lines of server.properties. `heap` is Kafka's own default.
    """

    name = "Apache Kafka"

    def __init__(self, folder: Path, *options: str, heap: str = "1g") -> None:
        self.port = free_port()
        self.bootstrap = f"{HOST}:{self.port}"
        self.data = folder / "data"
        self._properties = folder / "server.properties"
        self._options = options
        jvm = [java_command(), f"-Xmx{heap}", f"-Xms{heap}", *JVM_OPTIONS, "-cp", class_path()]
        self._format_command = [java_command(), "-cp", class_path(), "kafka.tools.StorageTool"]
        self.process = ServerProcess(
            [*jvm, "kafka.Kafka", str(self._properties)], log_path=folder / "server.log"
        )

    def prepare(self) -> None:
        """Write the configuration and format the data folder, once."""
        if self._properties.exists():
            return
        self.data.mkdir(parents=True)
        self._properties.write_text("\n".join([*self._default_options(), *self._options, ""]))
        done = subprocess.run(
            [*self._format_command, "format", "-t", CLUSTER_ID, "-c", str(self._properties)],
            timeout=FORMAT_SECONDS,
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise ServerFailed(f"could not format {self.data}\n{done.stdout}\n{done.stderr}")

    def _default_options(self) -> list[str]:
        controller = f"{HOST}:{free_port()}"
        listener = f"PLAINTEXT://{self.bootstrap}"
        return [
            "process.roles=broker,controller",
            "node.id=1",
            f"controller.quorum.voters=1@{controller}",
            f"listeners={listener},CONTROLLER://{controller}",
            f"advertised.listeners={listener}",
            "controller.listener.names=CONTROLLER",
            "inter.broker.listener.name=PLAINTEXT",
            f"log.dirs={self.data}",
            "offsets.topic.replication.factor=1",
            "offsets.topic.num.partitions=1",
            "transaction.state.log.replication.factor=1",
            "transaction.state.log.min.isr=1",
            "transaction.state.log.num.partitions=1",
            "share.coordinator.state.topic.replication.factor=1",
            "share.coordinator.state.topic.min.isr=1",
            "share.coordinator.state.topic.num.partitions=1",
            "group.initial.rebalance.delay.ms=0",
            # There is nobody to hand anything to, and asking for it has hung for over a minute.
            "controlled.shutdown.enable=false",
        ]

    def start(self) -> None:
        """Start and wait until it answers; raises ServerFailed."""
        self.start_and_probe()

    def start_and_probe(self) -> None:
        """The same: Kafka prints nothing when it is ready."""
        self.prepare()
        self.process.start()
        self.process.wait_until(lambda: answers_api_versions(self.port), timeout_s=START_SECONDS)

    def stop(self) -> None:
        self.process.stop(timeout_s=60)

    def kill(self) -> None:
        self.process.kill()

    def usage(self) -> Usage:
        return self.process.usage()

    def output(self) -> str:
        return self.process.output()

    def __enter__(self) -> KafkaBroker:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.process.kill()  # its data is thrown away: nothing to wait for
