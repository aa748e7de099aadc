"""Members of a share group that use our worker, ``consumer.run``, and record what it does."""

from __future__ import annotations

import asyncio
import random
from typing import Any

from sharegroup.client.core.record import Record
from sharegroup.client.errors import BootstrapError
from sharegroup.client.share_consumer import ShareConsumer
from sharegroup.client.worker.retry import Backoff, Reject
from sharegroup.model.errors import RequestTimedOut
from sharegroup.sim.plan import Plan
from sharegroup.sim.recorder import Recorder
from sharegroup.sim.topic import TOPIC, place_of


class Fails(Exception):
    """A handler fails by the plan."""


class RecordingWorker:
    """A worker whose handlers take their time, fail, and give records up, as the plan says.

    Args:
        address: of the broker.
    """

    def __init__(self, plan: Plan, group: str, name: str, history: Recorder, address: str) -> None:
        self._plan, self.group, self.name, self._history = plan, group, name, history
        self._address = address
        self._chance = random.Random(f"{plan.seed} {name}")
        self._leaves = False
        self.consumer: ShareConsumer[bytes, bytes] | None = None
        """While it runs."""

    @property
    def leaves(self) -> bool:
        """Whether it shall end."""
        return self._leaves

    @leaves.setter
    def leaves(self, yes: bool) -> None:
        self._leaves = yes
        if yes and self.consumer is not None:
            self.consumer.stop()

    async def run(self) -> None:
        """Work until it shall leave."""
        while not self._leaves:
            self.consumer = ShareConsumer[bytes, bytes](
                TOPIC,
                group_id=self.group,
                bootstrap_servers=self._address,
                jitter=self._chance,
            )
            try:
                await self.consumer.run(
                    self._handle,
                    concurrency=self._chance.choice((1, 3, 10)),
                    retry=Backoff(first_s=self._chance.choice((0, 0.2)), max_s=2),
                    timeout_s=None,
                    signals=(),
                )
            except (BootstrapError, RequestTimedOut):
                await asyncio.sleep(1)  # as whoever starts a program anew
        self._history.tell("leave", group=self.group, member=self.name)

    async def _handle(self, record: Record[bytes, bytes]) -> None:
        n = self._begun(record)
        result = "cancelled"
        try:
            slow = self._chance.randrange(100) < self._plan.slow
            await asyncio.sleep(self._plan.lock_ms / 1000 + 0.5 if slow else 0.01)
            drawn = self._chance.randrange(100)
            if drawn < self._plan.release:
                result = "failed"
                raise Fails
            if drawn < self._plan.release + self._plan.reject:
                result = "rejected"
                raise Reject
            result = "ok"
        finally:
            self._history.tell("worked", n=n, result=result)

    def _begun(self, record: Record[bytes, bytes]) -> int:
        said: dict[str, Any] = {} if record.key is None else {"key": record.key.decode()}
        topic, partition, offset = place_of(record)
        return self._history.call(
            "works",
            group=self.group,
            member=self.name,
            topic=topic,
            partition=partition,
            offset=offset,
            id=(record.value or b"").decode(),
            count=record.delivery_count,
            **said,
        )
