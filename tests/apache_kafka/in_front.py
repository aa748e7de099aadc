"""Brokers of ours in front of Apache Kafka, as one server: its CPU and memory are those of both."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.apache_kafka.broker import KAFKAS_OWN, KafkaBroker
from tests.apache_kafka.moving_leaders import moving_leaders
from tests.servers.process import Usage
from tests.servers.running import RunningServer
from tests.servers.sharegroup_server import SharegroupServer


class InFrontOfKafka:
    """See the module. `options` are settings of our brokers. If leaders are `moving`, each of two
    brokers of ours leads everything for two seconds."""

    name = "sharegroup in front of Apache Kafka"

    def __init__(self, folder: Path, *options: str, nodes: int = 1, moving: bool = False) -> None:
        places = [folder / name for name in ("kafka", *(f"node-{one}" for one in range(nodes)))]
        for place in places:
            place.mkdir()
        self._kafka = KafkaBroker(places[0], jvm=KAFKAS_OWN)
        upstream = ["--upstream", self._kafka.bootstrap]
        self.nodes = [SharegroupServer(place, *options, arguments=upstream) for place in places[1:]]
        self._all: list[RunningServer] = [*self.nodes, self._kafka]
        self.bootstrap = ",".join(node.bootstrap for node in self.nodes)
        self.data = self._kafka.data
        self._moving = moving
        self._moves = ExitStack()

    def prepare(self) -> None:
        self._kafka.prepare()

    def start(self) -> None:
        self._kafka.start()
        for node in self.nodes:
            node.start()
        if self._moving:
            self._moves.enter_context(moving_leaders(self.bootstrap))

    start_and_probe = start

    def stop(self) -> None:
        self._moves.close()
        for one in self._all:
            one.stop()

    def kill(self) -> None:
        self._moves.close()
        for one in self._all:
            one.kill()

    def usage(self) -> Usage:
        each = [one.usage() for one in self._all]
        return Usage(
            cpu_seconds=sum(one.cpu_seconds for one in each),
            memory_bytes=sum(one.memory_bytes for one in each),
        )

    def output(self) -> str:
        return "".join(node.output() for node in self.nodes)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
