"""Apache Kafka as it was before KRaft: one broker and its ZooKeeper, for versions before 3.3."""

from __future__ import annotations

import socket
from pathlib import Path
from types import TracebackType

from tests.apache_kafka.broker import QUICK, QUIET, START_SECONDS, KafkaBroker
from tests.apache_kafka.jars import Jars, class_path
from tests.apache_kafka.java import java_command
from tests.servers.process import HOST, ServerProcess, free_port

KEEPER = "org.apache.zookeeper.server.quorum.QuorumPeerMain"


class ZookeeperKafka(KafkaBroker):
    """See the module."""

    name = "Apache Kafka with ZooKeeper"

    def __init__(self, folder: Path, *options: str, jars: Jars) -> None:
        super().__init__(folder, *options, jars=jars, jvm=QUICK)
        self._keeper_properties = folder / "keeper.properties"
        self._keeper_port = free_port()
        java = [java_command(), *QUICK, *QUIET, "-cp", class_path(jars)]
        self._keeper = ServerProcess(
            [*java, KEEPER, str(self._keeper_properties)], log_path=folder / "keeper.log"
        )

    def prepare(self) -> None:
        """Write both configurations."""
        self._keeper_properties.write_text(
            f"dataDir={self._keeper_properties.parent / 'keeper'}\n"
            f"clientPort={self._keeper_port}\nclientPortAddress={HOST}\nadmin.enableServer=false\n"
        )
        listener = f"PLAINTEXT://{self.bootstrap}"
        own = [
            "broker.id=1",
            f"zookeeper.connect={HOST}:{self._keeper_port}",
            f"listeners={listener}",
            f"advertised.listeners={listener}",
            f"log.dirs={self.data}",
            # A broker that was killed finds its old session in ZooKeeper until this has passed.
            "zookeeper.session.timeout.ms=6000",
        ]
        of_kraft = ("process.roles", "node.id", "controller.", "listeners", "advertised", "inter.")
        lines = [one for one in self._default_options() if not one.startswith(of_kraft)]
        self._properties.write_text("\n".join([*lines, *own, *self._options, ""]))

    def start_and_probe(self) -> None:
        """Start what does not run, and wait until the broker answers."""
        self.prepare()
        if not self._keeper.running:
            self._keeper.start()
            self._keeper.wait_until(self._keeper_answers, timeout_s=START_SECONDS)
        super().start_and_probe()

    def _keeper_answers(self) -> bool:
        try:
            with socket.create_connection((HOST, self._keeper_port), 1):
                return True
        except OSError:
            return False

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        super().__exit__(kind, error, trace)
        self._keeper.kill()
