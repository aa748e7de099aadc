"""Three brokers of Apache Kafka and their controller on this machine: what is lost with one broker,
two others have."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tests.apache_kafka.broker import START_SECONDS, KafkaBroker
from tests.servers.lossy_gate import LossyGate
from tests.servers.process import HOST, answers_api_versions, free_port

CONTROLLER: Final = 9
BROKERS: Final = (1, 2, 3)
NO_TLS: Final = "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,LOSSY:PLAINTEXT"


class _Node(KafkaBroker):
    """One process of the cluster. `controller` is the address of the one that decides."""

    def __init__(
        self, folder: Path, number: int, controller: str, gate: LossyGate | None = None
    ) -> None:
        folder.mkdir()
        self._number = number
        self._decides = number == CONTROLLER
        super().__init__(
            folder,
            f"node.id={number}",
            f"process.roles={'controller' if self._decides else 'broker'}",
            f"controller.quorum.voters={CONTROLLER}@{controller}",
            "default.replication.factor=3",
            "min.insync.replicas=2",
            "offsets.topic.replication.factor=3",
            "transaction.state.log.replication.factor=3",
            "transaction.state.log.min.isr=2",
            # A broker that is killed is missed after this long.
            "broker.session.timeout.ms=4000",
            "broker.heartbeat.interval.ms=500",
        )
        plain = f"PLAINTEXT://{self.bootstrap}"
        listener = f"CONTROLLER://{controller}" if self._decides else plain
        if gate is not None:
            gate.target = free_port()
            listener += f",LOSSY://{HOST}:{gate.target}"
            self._options += (
                f"advertised.listeners={plain},LOSSY://{HOST}:{gate.port}",
                f"listener.security.protocol.map={NO_TLS}",
            )
        self._options = (*self._options, f"listeners={listener}")

    def prepare(self) -> None:
        """The formatted folder is one for all: each node has a name of its own in it."""
        if self._properties.exists():
            return
        super().prepare()
        meta = self.data / "meta.properties"
        own = {
            "node.id": str(self._number),
            "directory.id": base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("="),
        }
        lines = [line.partition("=")[0::2] for line in meta.read_text().splitlines()]
        meta.write_text("".join(f"{name}={own.get(name, value)}\n" for name, value in lines))
        if self._decides:
            of_brokers = ("advertised.listeners", "inter.broker")
            wanted = self._properties.read_text().splitlines()
            kept = [line for line in wanted if not line.startswith(of_brokers)]
            self._properties.write_text("\n".join([*kept, ""]))


class ThreeBrokers:
    """See the module. Topics have three replicas, of which two must have a write.

    Args:
        gates: one for each broker: who is told their addresses comes through them to all brokers.
    """

    name = "three brokers of Apache Kafka"

    def __init__(self, folder: Path, gates: Sequence[LossyGate] = ()) -> None:
        controller = f"{HOST}:{free_port()}"
        self._controller = _Node(folder / "controller", CONTROLLER, controller)
        self.brokers = [
            _Node(folder / f"broker-{one}", one, controller, gate)
            for one, gate in zip_longest(BROKERS, gates)
        ]
        self.bootstrap = ",".join(one.bootstrap for one in self.brokers)

    def start(self) -> None:
        """Start all, and wait until each broker answers."""
        self._controller.prepare()
        self._controller.process.start()
        for one in self.brokers:
            one.prepare()
            one.process.start()
        for one in self.brokers:
            self.wait_for(one)

    def wait_for(self, broker: KafkaBroker) -> None:
        """Until a broker that was started answers."""
        broker.process.wait_until(
            lambda: answers_api_versions(broker.port), timeout_s=START_SECONDS
        )

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for one in (*self.brokers, self._controller):
            one.process.kill()
