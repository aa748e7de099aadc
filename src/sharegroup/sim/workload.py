"""What a plan does with a broker, beside its clients and its faults: topics and settings at the
beginning, and at the end whether every group gets through."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from sharegroup.client.admin.admin import Admin
from sharegroup.client.admin.descriptions import OffsetSpec
from sharegroup.model.errors import KafkaError, SharegroupError, TopicAlreadyExists
from sharegroup.model.ids import TopicPartition
from sharegroup.sim.plan import Plan
from sharegroup.sim.readers import READERS
from sharegroup.sim.recorder import Recorder
from sharegroup.sim.recording import BURSTS, PRIORITY, RecordingProducer
from sharegroup.sim.topic import TOPIC, JobsTopic

LETTERS: Final = "dlq.jobs"
LETTERS_MAX: Final = 10_000_000
"""All of them: a letter that is not told is taken for missing."""
TAKES_LETTERS: Final = "errors.deadletterqueue.group.enable"
REST_MS: Final = 60_000
"""The longest rest, by default (share.release.backoff.max.ms), before jitter."""
COMPACTED: Final = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0",
    "segment.ms": "1000",
}
LOCKS: Final = 100
LOOK_S: Final = 3
"""So often the offsets of the groups are looked at, if nothing else is said."""


def groups_of(plan: Plan) -> list[str]:
    """The names of the groups."""
    return [f"group-{one}" for one in range(plan.groups)]


class Workload:
    """One run of a plan.

    Args:
        topic: None: it stays what it is.
    """

    def __init__(
        self, plan: Plan, history: Recorder, admin: Admin, topic: JobsTopic | None = None
    ) -> None:
        self.plan = plan
        self.history = history
        self._admin = admin
        self._topic = topic or JobsTopic()
        self._groups = groups_of(plan)

    async def set_up(self) -> None:
        """Make topics, and configure the groups. It may be done again after an error."""
        plan = self.plan
        await self.create_topic()
        if plan.readers:
            how = {} if plan.in_turns else {"ordering": "key"}
            how |= {"isolation": "read_committed"} if plan.transactional else {}
            self.history.tell("settings", group=READERS, **how)
        settings = {
            "share.record.lock.duration.ms": str(plan.lock_ms),
            "share.auto.offset.reset": "earliest",
            "share.delivery.count.limit": str(plan.limit),
        }
        if plan.backoff_ms:
            settings["share.release.backoff.ms"] = str(plan.backoff_ms)
        if plan.ordered:
            settings["share.ordering"] = "key"
        if plan.turns:
            settings["share.fairness"] = "key"
        if plan.priorities:
            settings["share.priority.header"] = PRIORITY
        if plan.locks:
            settings["share.partition.max.record.locks"] = str(LOCKS)
        if plan.transactional:
            settings["share.isolation.level"] = "read_committed"
        if plan.letters:
            await self._create(LETTERS, 2, {TAKES_LETTERS: "true"})
            settings["errors.deadletterqueue.topic.name"] = LETTERS
        said: dict[str, Any] = {"ordering": "key"} if plan.ordered else {}
        # A member that fetches ahead takes whole batches, the last one beyond the limit as well.
        locks = LOCKS + BURSTS[-1] * bool(plan.letters or plan.workers)
        said |= {"locks": locks} if plan.locks else {}
        said |= {"isolation": "read_committed"} if plan.transactional else {}
        said |= {"rests_ms": 1.2 * REST_MS} if plan.backoff_ms else {}
        for group in self._groups:
            await self._admin.alter_configs("group", group, settings)
            self.history.tell(
                "settings",
                group=group,
                limit=plan.limit,
                lock_ms=plan.lock_ms,
                letters=bool(plan.letters),
                unseen=bool(plan.letters or plan.workers),
                **said,
            )

    async def create_topic(self) -> None:
        """Create the topic of the records, unless it is there."""
        if self.plan.compacted:
            self.history.tell("compacts", topic=self._topic.name)
        configs = {"accept.range.fetch": "true"} if self.plan.readers else {}
        configs |= COMPACTED if self.plan.compacted else {}
        await self._create(TOPIC, self.plan.partitions, configs)

    async def _create(self, topic: str, partitions: int, configs: dict[str, str]) -> None:
        with suppress(TopicAlreadyExists):
            await self._admin.create_topics(topic, partitions=partitions, configs=configs)

    async def end(
        self, producers: Sequence[RecordingProducer], wait_s: float, look_s: float = LOOK_S
    ) -> None:
        """Look, every ``look_s``, until all is produced and the groups have nothing left; until for
        ``wait_s`` nothing has changed, at most."""
        now_s = asyncio.get_running_loop().time
        until_s = now_s() + wait_s
        groups = [*self._groups, *([READERS] if self.plan.readers else [])]
        left = dict.fromkeys(groups, -1)
        while left and now_s() < until_s:
            await asyncio.sleep(look_s)
            busy = not all(one.done for one in producers)  # before: they may write meanwhile
            try:
                found = {group: await self._left(group) for group in groups}
            except (SharegroupError, OSError):
                continue
            before, left = left, {group: many for group, many in found.items() if many or busy}
            if left != before:
                until_s = now_s() + wait_s
        if self.plan.letters and left.keys() <= {READERS}:
            for _ in range(int(wait_s / look_s)):
                if await self._has_all_letters():
                    break
                await asyncio.sleep(look_s)
            await self._read_letters()
        drained = [group for group in groups if group not in left]
        self.history.tell("end", drained=drained, left=left)

    async def _left(self, group: str) -> int:
        """How many records the group has not done; -1: not known yet."""
        if group == READERS:
            return await self._left_to_readers()
        offsets = await self._admin.list_share_group_offsets(group)
        ends = await self._admin.list_offsets([*offsets], OffsetSpec.LATEST)
        total = 0
        for at, one in offsets.items():
            if one.start_offset is not None:
                place = {"topic": self._topic.name, "partition": at.partition}
                self.history.tell("starts", group=group, **place, offset=one.start_offset)
            end = ends[at].offset
            total += end - (one.begins_at or 0) if one.lag is None else one.lag
        return total if len(offsets) == self.plan.partitions else -1

    async def _left_to_readers(self) -> int:
        since = self.history.now_ms()
        committed = await self._admin.list_consumer_group_offsets(READERS)
        for at, one in committed.items():
            self.history.tell(
                "fetched",
                group=READERS,
                topic=self._topic.name,
                partition=at.partition,
                offset=one.offset,
                ranges=[[first, last] for first, last in one.ranges],
                since=since,
            )
        places = [TopicPartition(TOPIC, number) for number in range(self.plan.partitions)]
        starts = await self._admin.list_offsets(places, OffsetSpec.EARLIEST)
        ends = await self._admin.list_offsets(places, OffsetSpec.LATEST)
        return sum(
            end.offset - (committed[at].offset if at in committed else starts[at].offset)
            for at, end in ends.items()
        )

    async def _has_all_letters(self) -> bool:
        """Whether no dead letter is still to be written: a record counts as done before."""
        try:
            found = await self._admin.summarize_share_groups(self._groups)
        except (SharegroupError, OSError):
            return False
        return not any(
            isinstance(one, KafkaError) or any(each.dead for each in one.offsets.values())
            for one in found.values()
        )

    async def _read_letters(self) -> None:
        """Tell which records have become dead letters."""
        for group in self._groups:
            for one in await self._admin.list_dead_letters(group, letters_max=LETTERS_MAX):
                topic, partition = one.source
                self.history.tell(
                    "letter", group=group, topic=topic, partition=partition, offset=one.offset
                )
