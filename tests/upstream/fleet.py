"""Two brokers of ours that share the work in front of three of Apache Kafka. Whichever process is
killed, the members go on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Self

from tests.apache_kafka.broker import KafkaBroker
from tests.apache_kafka.three_brokers import ThreeBrokers
from tests.servers.process import ServerProcess
from tests.servers.sharegroup_server import SharegroupServer


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
        """Brokers of the cluster in any order, and each third time one of ours."""
        chance = Random(1)
        while True:
            yield from chance.sample(self._cluster.brokers, 2)
            yield chance.choice(self._nodes)

    @property
    def process(self) -> ServerProcess:
        """Of one of our brokers that runs."""
        return next(one.process for one in self._nodes if one.process.running)

    def output(self) -> str:
        """What our brokers have said, one after the other."""
        return "".join(one.output() for one in self._nodes if one.process.log_path.exists())

    def start(self) -> None:
        """Begin, or go on after a kill: our brokers serve when this returns, but for one that is
        away."""
        for one in self._nodes:
            if not one.process.running and one is not self._away:
                one.start()

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
