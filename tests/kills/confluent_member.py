"""librdkafka's share consumer as a member that records what it does (scripts/record_history.py)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random

from confluent_kafka import AcknowledgeType, KafkaException, Message, ShareConsumer

from sharegroup.sim.plan import Plan
from sharegroup.sim.recorder import Recorder
from sharegroup.sim.topic import TOPIC
from tests.servers.admin import SILENT

KINDS = {
    "accept": AcknowledgeType.ACCEPT,
    "release": AcknowledgeType.RELEASE,
    "reject": AcknowledgeType.REJECT,
}


class ConfluentMember:
    """As RecordingMember. librdkafka fetches ahead for as long as it likes, so when it has asked
    for a record is not known: `since` is the beginning."""

    def __init__(self, plan: Plan, group: str, name: str, history: Recorder, address: str) -> None:
        self._plan, self.group, self.name, self._history = plan, group, name, history
        self._address = address
        self._chance = Random(f"{plan.seed} {name}")
        self._since_ms = history.now_ms()
        self.leaves = False

    async def run(self) -> None:
        """Poll, work and acknowledge, until it shall leave."""
        consumer = ShareConsumer(
            {
                "bootstrap.servers": self._address,
                "group.id": self.group,
                "share.acknowledgement.mode": "explicit",
                "max.poll.records": self._chance.choice((1, 5, 50)),
                **SILENT,
            }
        )
        consumer.subscribe([TOPIC])
        lock_s = self._plan.lock_ms / 1000
        try:
            while not self.leaves:
                messages = await self._poll(consumer)
                if not messages:
                    continue
                slow = self._chance.randrange(100) < self._plan.slow
                await asyncio.sleep(lock_s + 0.5 if slow else 0.01)
                await self._answer(consumer, messages)
        finally:
            self._history.tell("leave", group=self.group, member=self.name)
            await asyncio.to_thread(consumer.close)

    async def _poll(self, consumer: ShareConsumer) -> list[Message]:
        n = self._history.call("poll", group=self.group, member=self.name)
        messages = [one for one in await asyncio.to_thread(consumer.poll, 1.0) if not one.error()]
        acquired, read = [], []
        for one in messages:
            place = [one.topic(), one.partition(), one.offset()]
            acquired.append([*place, one.offset(), one.delivery_count()])
            read.append([*place, (one.value() or b"").decode()])
        self._history.tell("polled", n=n, acquired=acquired, records=read, since=self._since_ms)
        return messages

    async def _answer(self, consumer: ShareConsumer, messages: Sequence[Message]) -> None:
        acks = []
        for one in messages:
            kind = self._kind()
            consumer.acknowledge(one, KINDS[kind])
            place = [one.topic(), one.partition(), one.offset(), one.offset()]
            acks.append([*place, kind])
        n = self._history.call("ack", group=self.group, member=self.name, acks=acks)
        try:
            answered = await asyncio.to_thread(consumer.commit_sync, 30.0)
            failed = {where.partition for where, error in answered.items() if error is not None}
        except KafkaException:
            failed = {one.partition() for one in messages}
        results = ["unknown" if one.partition() in failed else "ok" for one in messages]
        self._history.tell("acked", n=n, results=results)

    def _kind(self) -> str:
        drawn = self._chance.randrange(100)
        if drawn < self._plan.release:
            return "release"
        return "reject" if drawn < self._plan.release + self._plan.reject else "accept"
