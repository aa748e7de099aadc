"""Members of a consumer group that share partitions (KIP-X) and record what they read."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from sharegroup.client.consumer import Consumer
from sharegroup.client.core.record import ConsumerRecord
from sharegroup.client.errors import BootstrapError
from sharegroup.model.errors import RequestTimedOut, SharegroupError
from sharegroup.sim.plan import Plan
from sharegroup.sim.recorder import Recorder
from sharegroup.sim.topic import TOPIC, JobsTopic, place_of

READERS: Final = "readers"
"""The consumer group."""


class RecordingReader:
    """A member that commits single records, in any order.

    Args:
        address: of the broker.
        topic: None: it stays what it is.
    """

    group = READERS

    def __init__(
        self,
        plan: Plan,
        name: str,
        history: Recorder,
        address: str,
        topic: JobsTopic | None = None,
    ) -> None:
        self._plan, self.name, self._history = plan, name, history
        self._address, self._topic = address, topic or JobsTopic()
        self._chance = random.Random(f"{plan.seed} {name}")
        self._owned: list[Any] | None = []
        self.leaves = False
        self.consumer: Consumer[bytes, bytes] | None = None
        """While it runs."""

    async def run(self) -> None:
        """Read and commit, until it shall leave."""
        while True:
            try:
                async with self._consumer() as self.consumer:
                    await self._work(self.consumer)
                break
            except (BootstrapError, RequestTimedOut):
                await asyncio.sleep(1)  # as whoever starts a program anew
        self._history.tell("leave", group=self.group, member=self.name)

    def _consumer(self) -> Consumer[bytes, bytes]:
        consumer = Consumer[bytes, bytes](
            group_id=self.group,
            bootstrap_servers=self._address,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            key_ranges=not self._plan.in_turns,
            cooperative=bool(self._plan.in_turns),
            isolation_level="read_committed" if self._plan.transactional else "read_uncommitted",
            max_poll_records=self._chance.choice((1, 5, 50)),
            jitter=self._chance,
        )
        consumer.subscribe(TOPIC, on_revoked=self._lost, on_lost=self._lost)
        return consumer

    def _lost(self, _partitions: object) -> None:
        """What it gets now, also if it is the same, it reads from the committed offset on."""
        self._owned = None

    async def _work(self, consumer: Consumer[bytes, bytes]) -> None:
        held: list[ConsumerRecord[bytes, bytes]] = []
        while not self.leaves:
            asked_ms = self._history.now_ms()
            try:
                records = await consumer.poll(500)
            except SharegroupError:
                await asyncio.sleep(0.1)
                continue
            self._note_owned(consumer, asked_ms)
            self._note_read(records)
            # What it has no more it cannot commit: who has it now reads it again.
            mine = consumer.assignment
            held = [one for one in [*held, *records] if one.topic_partition in mine]
            await asyncio.sleep(0.01)
            # Some wait, so that what is committed has gaps; all, when nothing else comes.
            self._chance.shuffle(held)
            now = len(held) if not records else self._chance.randint(0, len(held))
            if await self._commit(consumer, held[:now]):
                del held[:now]
            if not held and not records:
                await self._commit_holes(consumer)

    async def _commit_holes(self, consumer: Consumer[bytes, bytes]) -> None:
        """Everything is committed but what holds no record, as the markers of transactions."""
        with suppress(SharegroupError):
            await consumer.commit()

    def _note_owned(self, consumer: Consumer[bytes, bytes], since_ms: float) -> None:
        ranges = consumer.key_ranges
        parts = [
            [*self._topic.place(where), *one]
            for where in consumer.assignment
            for one in ranges.get(where) or [()]
        ]
        if parts != self._owned:
            self._owned = parts
            self._history.tell(
                "owns", group=self.group, member=self.name, parts=parts, since=since_ms
            )

    def _note_read(self, records: Sequence[ConsumerRecord[bytes, bytes]]) -> None:
        if not records:
            return
        read = [
            [*place_of(one), (one.value or b"").decode()] + ([one.key.decode()] if one.key else [])
            for one in records
        ]
        self._history.tell("read", group=self.group, member=self.name, records=read)

    async def _commit(
        self, consumer: Consumer[bytes, bytes], records: Sequence[ConsumerRecord[bytes, bytes]]
    ) -> bool:
        """Whether they are committed."""
        if not records:
            return True
        offsets = [[*place_of(one), one.offset] for one in records]
        n = self._history.call("commit", group=self.group, member=self.name, offsets=offsets)
        try:
            await consumer.commit(records)
        except SharegroupError:
            self._history.tell("committed", n=n, result="unknown")
            return False
        self._history.tell("committed", n=n, result="ok")
        return True
