"""One node of Apache Kafka on this machine: KRaft, broker and controller in one process."""

from __future__ import annotations

import base64
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from types import TracebackType

from tests.apache_kafka.archive import archive_options
from tests.apache_kafka.cache import cached_folder
from tests.apache_kafka.jars import KAFKA, Jars, class_path
from tests.apache_kafka.java import java_command
from tests.servers.process import (
    HOST,
    ServerFailed,
    ServerProcess,
    Usage,
    answers_api_versions,
    free_port,
)

START_SECONDS = 200
FORMAT_SECONDS = 200
CLUSTER_ID = base64.urlsafe_b64encode(b"sharegroup-test1").decode().rstrip("=")

# What kafka-server-start.sh gives the JVM. Benchmarks run Kafka with it.
KAFKAS_OWN = (
    "-Xmx1g",
    "-Xms1g",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)
# Tests start it often and ask little of it. With an archive of its classes it answers after 2.2 s
# and 1.6 s of CPU (6.0 s and 4.6 s with Kafka's own options, on two cores).
QUICK = ("-Xmx1g", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
QUIET = (
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
)


class KafkaBroker:
    """Apache Kafka on free ports, with its data in `folder`.

    The same object may be started again after `stop` or `kill`: same ports, same data.
    `options` are `key=value` lines of server.properties. Java starts with the options `jvm`, or
    with those of a quick start, and with `java_properties` (`-Dkey=value`).
    """

    name = "Apache Kafka"

    def __init__(
        self,
        folder: Path,
        *options: str,
        jars: Jars = KAFKA,
        jvm: Sequence[str] = (),
        java_properties: Sequence[str] = (),
    ) -> None:
        self.port = free_port()
        self.bootstrap = f"{HOST}:{self.port}"
        self.data = folder / "data"
        self._properties = folder / "server.properties"
        self._options = options
        self._jars = jars
        java_options = jvm or (*QUICK, *archive_options(jars, partial(_make_archive, jars)))
        options_of_java = [*java_options, *QUIET, *java_properties, "-cp", class_path(jars)]
        command = [java_command(), *options_of_java, "kafka.Kafka"]
        self.process = ServerProcess(
            [*command, str(self._properties)], log_path=folder / "server.log"
        )

    def prepare(self) -> None:
        """Write the configuration and format the data folder, once."""
        if self._properties.exists():
            return
        shutil.copytree(_formatted(self._jars), self.data)
        self._properties.write_text("\n".join([*self._default_options(), *self._options, ""]))

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
            # Half a minute after its start it would delete records of 1970, which tests write.
            "log.initial.task.delay.ms=3600000",
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
        self.process.stop()

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


def _make_archive(jars: Jars, option: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        broker = KafkaBroker(Path(folder), jars=jars, jvm=(*QUICK, option))
        broker.start()
        broker.stop()


def _formatted(jars: Jars) -> Path:
    """A data folder as Kafka's StorageTool makes it; no setting of a broker has a part in it."""
    return cached_folder(f"{jars.name}-formatted", lambda folder: _format(folder, jars))


def _format(folder: Path, jars: Jars) -> None:
    properties = folder.parent / "server.properties"
    properties.write_text(
        "process.roles=controller\nnode.id=1\ncontroller.listener.names=CONTROLLER\n"
        f"controller.quorum.voters=1@{HOST}:1\nlisteners=CONTROLLER://{HOST}:1\n"
        f"log.dirs={folder}\n"
    )
    tool = [java_command(), *QUIET, "-cp", class_path(jars), "kafka.tools.StorageTool"]
    done = subprocess.run(
        [*tool, "format", "-t", CLUSTER_ID, "-c", str(properties)],
        timeout=FORMAT_SECONDS,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise ServerFailed(f"could not format {folder}\n{done.stdout}\n{done.stderr}")
