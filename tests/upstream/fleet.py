"""Two brokers of ours in front of three of Apache Kafka: one serves, the other one stands by.
Whichever process is killed, the members go on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Self

from tests.apache_kafka.broker import KafkaBroker
from tests.apache_kafka.three_brokers import ThreeBrokers
from tests.servers.process import ServerProcess
from tests.servers.sharegroup_server import START_SECONDS, SharegroupServer


class Fleet:
    """See the module. A process that was killed is away until the next one is killed."""

    name = "sharegroup in front of three brokers of Apache Kafka"

    def __init__(self, folder: Path, *options: str) -> None:
        self._cluster = ThreeBrokers(folder)
        upstream = ["--upstream", self._cluster.bootstrap]
        self._nodes = []
        for name in ("first", "second"):
            (folder / name).mkdir()
            self._nodes.append(SharegroupServer(folder / name, *options, arguments=upstream))
        self.bootstrap = ",".join(one.bootstrap for one in self._nodes)
        self._turns = self._in_turn()
        self._away: KafkaBroker | SharegroupServer | None = None

    def _in_turn(self) -> Iterator[KafkaBroker | SharegroupServer]:
        """Brokers of the cluster in any order, and each third time the one that serves."""
        chance = Random(1)
        while True:
            yield from chance.sample(self._cluster.brokers, 2)
            yield self._serving()

    def _serving(self) -> SharegroupServer:
        return next(one for one in self._nodes if one.process.running and _serves(one))

    @property
    def process(self) -> ServerProcess:
        """Of the broker that serves."""
        return self._serving().process

    def start(self) -> None:
        """Begin, or go on after a kill: one of our brokers serves when this returns."""
        for one in self._nodes:
            if not one.process.running and one is not self._away:
                one.process.kill()  # it has ended, since the other one has taken over
                one.process.start()
        runs = [one for one in self._nodes if one.process.running]
        runs[0].process.wait_until(lambda: any(map(_serves, runs)), timeout_s=START_SECONDS)

    def kill(self) -> None:
        """Kill the next process, when the one that was killed before is back."""
        back, self._away = self._away, None
        if isinstance(back, KafkaBroker):
            back.process.start()
            self._cluster.wait_for(back)
        elif back is not None:
            back.process.start()
        self._away = next(self._turns)
        self._away.kill()

    def __enter__(self) -> Self:
        self._cluster.start()
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for one in self._nodes:
            one.process.kill()
        self._cluster.__exit__(kind, error, trace)


def _serves(node: SharegroupServer) -> bool:
    return f"ready on {node.bootstrap}" in node.output()
