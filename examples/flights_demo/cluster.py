"""Brokers of ours that share the work in front of three of Apache Kafka, for ``--cluster``."""

from __future__ import annotations

import asyncio
import importlib
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self, cast

from flights_demo.processes import EXAMPLES, Broker, Victim

NODES = 3


class Process(Protocol):
    """Of a broker of Apache Kafka."""

    def start(self) -> None:
        """Returns at once."""
        ...


class KafkaBroker(Protocol):
    """A broker of Apache Kafka."""

    process: Process

    def kill(self) -> None:
        """kill -9."""
        ...


class ThreeBrokers(Protocol):
    """Three brokers of Apache Kafka, and their controller."""

    brokers: list[KafkaBroker]
    bootstrap: str

    def start(self) -> None:
        """Returns when all answer."""
        ...

    def wait_for(self, broker: KafkaBroker) -> None:
        """Returns when a broker answers that was started."""
        ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


def three_brokers(data: Path) -> ThreeBrokers:
    """Three brokers of Apache Kafka, not started. The tests know how to do it."""
    sys.path.append(str(EXAMPLES.parent))
    module = importlib.import_module("tests.apache_kafka.three_brokers")
    return cast(ThreeBrokers, module.ThreeBrokers(data))


class OneOfKafka:
    """A broker of Apache Kafka that may be killed."""

    name = "a broker of Apache Kafka"

    def __init__(self, cluster: ThreeBrokers, broker: KafkaBroker) -> None:
        self._cluster, self._broker = cluster, broker

    async def kill(self) -> None:
        """kill -9."""
        await asyncio.to_thread(self._broker.kill)

    async def start(self) -> None:
        """Returns when it answers."""
        self._broker.process.start()
        await asyncio.to_thread(self._cluster.wait_for, self._broker)


class Fleet:
    """See the module.

    Attributes:
        address: of all of our brokers, with commas.
        nodes: our brokers, by their ids.
    """

    def __init__(self, data: Path, output: Path) -> None:
        self.address = ""
        data.mkdir(parents=True)
        self._kafka = three_brokers(data)
        self.nodes = {
            number: Broker(
                data / f"node-{number}",
                output / f"broker-{number}.log",
                name=f"broker {number}",
                arguments=("--upstream", self._kafka.bootstrap, "-o", f"node.id={number}"),
            )
            for number in range(1, NODES + 1)
        }

    def victims(self, leader: str) -> Sequence[Victim]:
        """What is killed, and started again: a broker of Apache Kafka, and ours of that name; the
        last of ours while no leader is known."""
        named = {node.name: node for node in self.nodes.values()}
        ours = named.get(leader, self.nodes[NODES])
        return OneOfKafka(self._kafka, self._kafka.brokers[0]), ours

    def check(self) -> None:
        """Raise ChildFailed unless all of our brokers run that were not killed."""
        for node in self.nodes.values():
            node.check(-9)

    async def __aenter__(self) -> Self:
        try:
            await asyncio.to_thread(self._kafka.start)
            for node in self.nodes.values():
                await node.start()
        except BaseException:
            await self.__aexit__(None, None, None)
            raise
        self.address = ",".join(node.address for node in self.nodes.values())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for node in self.nodes.values():
            await node.stop()
        await asyncio.to_thread(self._kafka.__exit__, kind, error, trace)
