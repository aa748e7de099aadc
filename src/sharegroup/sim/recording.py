"""Producers and members of share groups that record what they ask and are told, as a plan says."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Any, Final

from sharegroup.client.core.record import Record
from sharegroup.client.errors import BootstrapError, TransactionAborted
from sharegroup.client.producer.delivery import Delivery
from sharegroup.client.producer.producer import Producer
from sharegroup.client.share_consumer import ShareConsumer
from sharegroup.model.errors import KafkaError, RequestTimedOut, SharegroupError
from sharegroup.sim.plan import Plan
from sharegroup.sim.recorder import Recorder
from sharegroup.sim.topic import TOPIC, JobsTopic, place_of

PRIORITY: Final = "priority"
PAUSES_S: Final = (0.0, 0.0, 0.05, 0.3)
MANY: Final = 300
"""So many records are written in bursts."""
BURSTS: Final = (5, 50)
EARLY: Final = 2 / 3
"""This part of the records is written while there are faults."""
BUFFERED_MS: Final = 0.1
"""A poll that takes no longer has asked no broker."""
UNCHANGED: Final = ("INVALID_RECORD_STATE", "UNKNOWN_MEMBER_ID")
"""Errors by which the broker says that an acknowledgement has changed nothing; after any other
nobody knows."""


def spread_over(seconds: float, plan: Plan) -> Sequence[float]:
    """Pauses by which the early records of a producer are written within about so many seconds."""
    writes = EARLY * plan.records / plan.producers / fmean(_sizes(plan))
    return [one * seconds / max(1, writes) for one in (0, 0.5, 1, 2.5)]


def _sizes(plan: Plan) -> Sequence[int]:
    """How many records are written at a time."""
    return (1, 1, 5) if plan.records < MANY else BURSTS


class Enough(Exception):
    """A transaction is aborted by its own will."""


class RecordingProducer:
    """Writes records whose value is their id.

    Args:
        address: of the broker.
        wall_ms: the wall clock.
        calm: set when nothing fails any more: then the last records are written.
        pauses_s: between writes, one of these.
        topic: None: it stays what it is.
    """

    def __init__(
        self,
        plan: Plan,
        number: int,
        history: Recorder,
        address: str,
        wall_ms: Callable[[], int],
        calm: asyncio.Event,
        pauses_s: Sequence[float] = PAUSES_S,
        topic: JobsTopic | None = None,
    ) -> None:
        self._plan, self._number, self._history = plan, number, history
        self._topic = topic or JobsTopic()
        self._calm = calm
        self._pauses_s = pauses_s
        self._chance = random.Random(f"{plan.seed} producer {number}")
        self._address, self._wall_ms = address, wall_ms
        self.done = False

    async def run(self) -> None:
        """Write all."""
        plan, chance = self._plan, self._chance
        each = plan.records // plan.producers + 1
        sizes = _sizes(plan)
        record = 0
        while record < each:
            try:
                async with self._producer() as producer:
                    while record < each:
                        if record >= each * EARLY:
                            await self._calm.wait()
                        several = min(chance.choice(sizes), each - record)
                        numbers = range(record, record + several)
                        record += several
                        write = self._transaction if plan.transactional else self._send
                        async with self._topic.writing():
                            await write(producer, self._names(numbers))
                        await asyncio.sleep(chance.choice(self._pauses_s))
            except (BootstrapError, RequestTimedOut):
                await asyncio.sleep(1)  # as whoever starts a program anew
        self.done = True

    def _names(self, numbers: Sequence[int]) -> list[str]:
        return [f"{self._number}/{one}{self._topic.mark}" for one in numbers]

    def _producer(self) -> Producer:
        chance = self._chance
        return Producer(
            self._address,
            jitter=chance,
            clock_ms=self._wall_ms,
            transactional_id=f"writer-{self._number}" if self._plan.transactional else None,
            transaction_timeout_ms=10_000,
            batch_size=chance.choice((200, 16_384)),
            linger_ms=chance.choice((0, 0, 20)),
        )

    def _calls(self, names: Sequence[str]) -> dict[str, tuple[int, bytes | None]]:
        """Id → number of its call, and its key."""
        calls = {}
        for name in names:
            key = f"k{self._chance.randrange(self._plan.keys)}" if self._plan.keys else None
            said = {} if key is None else {"key": key}
            n = self._history.call("produce", topic=self._topic.name, id=name, **said)
            calls[name] = n, key.encode() if key else None
        return calls

    def _write(self, producer: Producer, name: str, key: bytes | None) -> Delivery:
        if not self._plan.priorities:
            return producer.send(TOPIC, name, key=key)
        headers = [(PRIORITY, b"%d" % self._chance.randrange(10))]
        return producer.send(TOPIC, name, key=key, headers=headers)

    async def _send(self, producer: Producer, names: Sequence[str]) -> None:
        calls = self._calls(names)
        sent = [self._write(producer, name, key) for name, (_, key) in calls.items()]
        for (n, _), future in zip(calls.values(), sent, strict=True):
            try:
                where = await future
            except SharegroupError:
                self._history.tell("produced", n=n, result="unknown")
            else:
                self._history.tell("produced", n=n, partition=where.partition, offset=where.offset)

    async def _transaction(self, producer: Producer, names: Sequence[str]) -> None:
        calls = self._calls(names)
        places: list[Any] = []
        outcome = "committed"
        try:
            async with producer.transaction():
                sent = [self._write(producer, name, key) for name, (_, key) in calls.items()]
                places += [await one for one in sent]
                if self._chance.random() < 0.2:
                    raise Enough
        except Enough:
            outcome = "aborted"
        except TransactionAborted:
            outcome = "aborted"
        except SharegroupError:
            outcome = "unknown"
        for at, (n, _) in enumerate(calls.values()):
            if outcome == "unknown" or at >= len(places):
                self._history.tell("produced", n=n, result="unknown")
                continue
            place = {"partition": places[at].partition, "offset": places[at].offset}
            said = {"result": "aborted"} if outcome == "aborted" else {}
            self._history.tell("produced", n=n, **place, **said)


class RecordingMember:
    """A member of a share group, in explicit mode.

    Args:
        address: of the broker.
        topic: None: it stays what it is.
    """

    def __init__(
        self,
        plan: Plan,
        group: str,
        name: str,
        history: Recorder,
        address: str,
        topic: JobsTopic | None = None,
    ) -> None:
        self._plan, self.group, self.name, self._history = plan, group, name, history
        self._address, self._topic = address, topic or JobsTopic()
        self._chance = random.Random(f"{plan.seed} {name}")
        self._ahead = bool(plan.letters) and self._chance.random() < 0.5
        self._since_ms = 0.0
        self._fetching_ms: float | None = None
        self.leaves = False
        self.consumer: ShareConsumer[bytes, bytes] | None = None
        """While it runs."""

    async def run(self) -> None:
        """Poll, work and acknowledge, until it shall leave."""
        while True:
            try:
                async with self._consumer() as self.consumer:
                    await self._work(self.consumer)
                    return
            except (BootstrapError, RequestTimedOut):
                await asyncio.sleep(1)  # as whoever starts a program anew

    def _consumer(self) -> ShareConsumer[bytes, bytes]:
        return ShareConsumer[bytes, bytes](
            TOPIC,
            group_id=self.group,
            bootstrap_servers=self._address,
            acknowledgement_mode="explicit",
            acquire_mode="batch_optimized" if self._ahead else "record_limit",
            max_poll_records=self._chance.choice((1, 5, 50)),
            jitter=self._chance,
        )

    async def _work(self, consumer: ShareConsumer[bytes, bytes]) -> None:
        renewed, lock_s = False, self._plan.lock_ms / 1000
        while True:
            records = await self._poll(consumer)
            if self.leaves:
                # With all that it holds.
                self._history.tell("leave", group=self.group, member=self.name)
                return
            if not records:
                continue
            if renewed:  # longer in all than a lock lasts
                await asyncio.sleep(0.6 * lock_s)
            elif self._chance.randrange(100) < self._plan.renew:
                await asyncio.sleep(0.6 * lock_s)
                await self._answer(consumer, [(one, "renew") for one in records])
                renewed = True  # the next poll returns them again
                continue
            renewed = False
            slow = self._chance.randrange(100) < self._plan.slow
            # Where few records may be in flight, members hold them for long.
            quick_s = lock_s / 2 if self._plan.locks else 0.01
            await asyncio.sleep(lock_s + 0.5 if slow else quick_s)
            await self._answer(consumer, self._decided(records))

    def _decided(
        self, records: Sequence[Record[bytes, bytes]]
    ) -> list[tuple[Record[bytes, bytes], str]]:
        """What is answered. With order per key, what follows a released record of its key goes back
        as well (docs/keys.md)."""
        decided: list[tuple[Record[bytes, bytes], str]] = []
        released: set[tuple[int, bytes | None]] = set()
        for one in records:
            key = one.partition, one.key
            kind = "release" if self._plan.ordered and key in released else self._kind()
            if kind == "release":
                released.add(key)
            decided.append((one, kind))
        return decided

    def _kind(self) -> str:
        drawn = self._chance.randrange(100)
        if drawn < self._plan.release:
            return "release"
        return "reject" if drawn < self._plan.release + self._plan.reject else "accept"

    async def _poll(self, consumer: ShareConsumer[bytes, bytes]) -> Sequence[Record[bytes, bytes]]:
        n = self._history.call("poll", group=self.group, member=self.name)
        asked_ms, of = self._history.now_ms(), consumer.assignment
        if self._fetching_ms is None:
            self._fetching_ms = asked_ms
        try:
            records = await consumer.poll(1_000)
        except SharegroupError:
            self._history.tell("polled", n=n, acquired=[], result="unknown")
            await asyncio.sleep(0.1)
            return ()
        if records and self._history.now_ms() > asked_ms + BUFFERED_MS:
            # A fetch has ended that some poll began since the last one that ended.
            self._since_ms, self._fetching_ms = self._fetching_ms, asked_ms if self._ahead else None
        acquired, read = [], []
        for one in records:
            place = place_of(one)
            acquired.append([*place, one.offset, one.delivery_count])
            read.append([*place, (one.value or b"").decode()])
        said: dict[str, Any] = {"since": self._since_ms}
        if not records:
            said = {"of": [self._topic.place(one) for one in of if one in consumer.assignment]}
        self._history.tell("polled", n=n, acquired=acquired, records=read, **said)
        return list(records)

    async def _answer(
        self,
        consumer: ShareConsumer[bytes, bytes],
        decided: Sequence[tuple[Record[bytes, bytes], str]],
    ) -> None:
        verbs = {
            "accept": consumer.accept,
            "release": consumer.release,
            "reject": consumer.reject,
            "renew": consumer.renew,
        }
        acks = []
        for one, kind in decided:
            verbs[kind](one)
            acks.append([*place_of(one), one.offset, kind])
        n = self._history.call("ack", group=self.group, member=self.name, acks=acks)
        try:
            outcome = await consumer.commit()
        except SharegroupError:
            results = ["unknown"] * len(acks)
        else:
            results = [self._result(outcome.get(one.topic_partition)) for one, _ in decided]
        self._history.tell("acked", n=n, results=results)

    def _result(self, error: KafkaError | None) -> str:
        if error is None:
            return "ok"
        # With order per key some of a partition's acknowledgements may count, and others not.
        known = error.name in UNCHANGED and not self._plan.ordered
        return error.name if known else "unknown"
