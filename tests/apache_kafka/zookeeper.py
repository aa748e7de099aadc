"""Apache Kafka as it was before KRaft: one broker and its ZooKeeper, for versions before 3.3."""

from __future__ import annotations

import socket
from pathlib import Path
from types import TracebackType

from tests.apache_kafka.broker import QUICK, QUIET, START_SECONDS
from tests.apache_kafka.jars import Jars, class_path
from tests.apache_kafka.java import java_command
from tests.servers.process import HOST, ServerProcess, Usage, answers_api_versions, free_port

KEEPER = "org.apache.zookeeper.server.quorum.QuorumPeerMain"


class ZookeeperKafka:
    """See the module. `options` are `key=value` lines of server.properties."""

    name = "Apache Kafka with ZooKeeper"

    def __init__(self, folder: Path, *options: str, jars: Jars) -> None:
        self.port = free_port()
        self.bootstrap = f"{HOST}:{self.port}"
        self.data = folder / "data"
        self._folder = folder
        self._keeper_port = free_port()
        self._options = options
        java = [java_command(), *QUICK, *QUIET, "-cp", class_path(jars)]
        self._keeper = ServerProcess(
            [*java, KEEPER, str(folder / "keeper.properties")], log_path=folder / "keeper.log"
        )
        self.process = ServerProcess(
            [*java, "kafka.Kafka", str(folder / "server.properties")],
            log_path=folder / "server.log",
        )

    def prepare(self) -> None:
        """Write both configurations."""
        (self._folder / "keeper.properties").write_text(
            f"dataDir={self._folder / 'keeper'}\nclientPort={self._keeper_port}\n"
            f"clientPortAddress={HOST}\nadmin.enableServer=false\n"
        )
        listener = f"PLAINTEXT://{self.bootstrap}"
        lines = [
            "broker.id=1",
            f"zookeeper.connect={HOST}:{self._keeper_port}",
            f"listeners={listener}",
            f"advertised.listeners={listener}",
            f"log.dirs={self.data}",
            "offsets.topic.replication.factor=1",
            "offsets.topic.num.partitions=1",
            "transaction.state.log.replication.factor=1",
            "transaction.state.log.min.isr=1",
            "transaction.state.log.num.partitions=1",
            "group.initial.rebalance.delay.ms=0",
            "controlled.shutdown.enable=false",
            # A broker that was killed finds its old session in ZooKeeper until this has passed.
            "zookeeper.session.timeout.ms=6000",
            *self._options,
        ]
        (self._folder / "server.properties").write_text("\n".join([*lines, ""]))

    def start(self) -> None:
        """Start what does not run, and wait until the broker answers."""
        self.prepare()
        if not self._keeper.running:
            self._keeper.start()
            self._keeper.wait_until(self._keeper_answers, timeout_s=START_SECONDS)
        self.process.start()
        self.process.wait_until(lambda: answers_api_versions(self.port), timeout_s=START_SECONDS)

    def start_and_probe(self) -> None:
        self.start()

    def _keeper_answers(self) -> bool:
        try:
            with socket.create_connection((HOST, self._keeper_port), 1):
                return True
        except OSError:
            return False

    def stop(self) -> None:
        self.process.stop()

    def kill(self) -> None:
        self.process.kill()

    def usage(self) -> Usage:
        return self.process.usage()

    def output(self) -> str:
        return self.process.output()

    def __enter__(self) -> ZookeeperKafka:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.process.kill()
        self._keeper.kill()
