"""Brokers of ours that share the work in front of three of Apache Kafka, for ``--cluster``."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

from flights_demo.processes import EXAMPLES, Broker

sys.path.append(str(EXAMPLES.parent))  # the tests know how to start Apache Kafka

from tests.apache_kafka.broker import KafkaBroker
from tests.apache_kafka.three_brokers import ThreeBrokers

NODES = 3


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
        victims: what is killed, and started again.
    """

    def __init__(self, data: Path, output: Path) -> None:
        self.address = ""
        data.mkdir(parents=True)
        self._kafka = ThreeBrokers(data)
        self._nodes = [
            Broker(
                data / f"node-{number}",
                output / f"broker-{number}.log",
                name=f"broker {number}",
                arguments=("--upstream", self._kafka.bootstrap),
            )
            for number in range(1, NODES + 1)
        ]
        self.victims = [OneOfKafka(self._kafka, self._kafka.brokers[0]), self._nodes[-1]]

    def check(self) -> None:
        """Raise ChildFailed unless all of our brokers run that were not killed."""
        for node in self._nodes:
            node.check(-9)

    async def __aenter__(self) -> Self:
        try:
            await asyncio.to_thread(self._kafka.start)
            for node in self._nodes:
                await node.start()
        except BaseException:
            await self.__aexit__(None, None, None)
            raise
        self.address = ",".join(node.address for node in self._nodes)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for node in self._nodes:
            await node.stop()
        await asyncio.to_thread(self._kafka.__exit__, kind, error, trace)
