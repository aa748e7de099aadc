"""Retention that knows the queue: what the share groups that a topic names (the topic config
``share.retention.groups``) still need of its logs, and which of them lose records by the cap.

A group that has a start offset needs the records from there on, and the records that wait for their
dead letters, since a letter may carry a copy. A group without a start offset needs what it would
get if it began now (``share.auto.offset.reset``), and has finished nothing. It is so before the
group has begun, and after the group or its state was deleted.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

from sharegroup.broker.configs.live_configs import LiveConfigs
from sharegroup.broker.configs.topic import (
    RETENTION_CAP_BYTES,
    RETENTION_CAP_MS,
    RETENTION_GROUPS,
)
from sharegroup.broker.coordination.share_state_log import ShareStateLog
from sharegroup.broker.topics import Topic, Topics
from sharegroup.groups.offset_reset import OffsetResetKind
from sharegroup.model.config import split_list
from sharegroup.model.environment import Clock
from sharegroup.model.errors import KafkaError
from sharegroup.model.ids import SharePartitionKey, TopicPartition
from sharegroup.model.log import PartitionLog, ReadableLog
from sharegroup.model.offsets import OFFSET_MAX
from sharegroup.model.retention import Needed
from sharegroup.share_state.answers import Unfinished
from sharegroup.share_state.state import UNINITIALIZED_OFFSET

logger = logging.getLogger("sharegroup.broker")

_NOT_BEGUN = Unfinished(UNINITIALIZED_OFFSET, OFFSET_MAX)


class _Naming(NamedTuple):
    """A topic that names groups."""

    topic: Topic
    groups: tuple[str, ...]
    logs: Mapping[int, PartitionLog]
    """By partition, those that are in service."""


class _Need(NamedTuple):
    """What one group needs of one log."""

    start_offset: int
    first_dead: int
    begun: bool

    @property
    def first(self) -> int:
        """The first offset that it needs."""
        return min(self.start_offset, self.first_dead)


@dataclass(frozen=True, slots=True)
class Found:
    """What is needed, at one moment."""

    needed: dict[TopicPartition, Needed] = field(default_factory=dict)
    by_group: dict[SharePartitionKey, _Need] = field(default_factory=dict)


class QueueRetention:
    """See the module."""

    def __init__(
        self, topics: Topics, configs: LiveConfigs, state: ShareStateLog, clock: Clock
    ) -> None:
        self._topics = topics
        self._configs = configs
        self._state = state
        self._clock = clock
        self._absent: set[tuple[UUID, str]] = set()
        """The topics and groups that were logged, and still have no state."""

    async def look(self) -> Found:
        """What the named groups need. Use it before the next ``await``: an operator may move a
        group back at any time. If the state cannot be read, nothing is found, so that the groups
        need everything."""
        naming = self._naming()
        found = Found()
        if not naming:
            return found
        try:
            unfinished = await self._unfinished(naming)
            begins, looked_up = await self._begins(naming, unfinished)
            if looked_up:  # that took time
                unfinished = await self._unfinished(naming)
        except KafkaError as error:
            logger.warning("retention keeps what share groups may need: %s", error)
            return found
        self._say_absent(naming, unfinished)
        for one in naming:
            for partition in one.logs:
                keys = [
                    SharePartitionKey(group, one.topic.topic_id, partition) for group in one.groups
                ]
                needs = [_need(unfinished.get(key, _NOT_BEGUN), begins, key) for key in keys]
                found.by_group.update(zip(keys, needs, strict=True))
                found.needed[TopicPartition(one.topic.name, partition)] = Needed(
                    held_from=min(need.first for need in needs),
                    finished=min(need.first if need.begun else 0 for need in needs),
                )
        return found

    def capped(self, found: Found, moved: Sequence[ReadableLog]) -> dict[SharePartitionKey, str]:
        """The share partitions that needed records which are deleted: the start of these logs has
        moved since ``found``. Returns the reason, for the log. Logs what else is lost: copies for
        dead letters, and records of groups that have not begun."""
        reasons: dict[SharePartitionKey, str] = {}
        starts = {
            (log.topic_id, log.topic_partition.partition): log
            for log in moved
            if log.topic_partition in found.needed
        }
        for key, need in found.by_group.items() if starts else ():
            log = starts.get((key.topic_id, key.partition))
            if log is None or log.log_start_offset <= need.first:
                continue
            reason = self._cap(log.topic_partition.topic)
            if need.begun and need.start_offset < log.log_start_offset:
                reasons[key] = reason
            elif need.start_offset < log.log_start_offset:
                logger.warning(
                    "share group %s will not get the records of %s below offset %d, which were "
                    "kept until it begins: they were deleted by %s",
                    key.group_id,
                    log.topic_partition,
                    log.log_start_offset,
                    reason,
                )
            if need.first_dead < log.log_start_offset:
                logger.warning(
                    "dead letters of share group %s for records of %s from offset %d to %d will "
                    "be no copies: the records were deleted by %s before the letters were written",
                    key.group_id,
                    log.topic_partition,
                    need.first_dead,
                    log.log_start_offset - 1,
                    reason,
                )
        return reasons

    # ---------------------------------------------------------------------------------------

    def _naming(self) -> list[_Naming]:
        found = []
        for topic in self._topics.all():
            groups = split_list(topic.configs.get(RETENTION_GROUPS, ""))
            if groups:
                logs = {
                    each.topic_partition.partition: each for each in self._topics.logs(topic.name)
                }
                found.append(_Naming(topic, tuple(dict.fromkeys(groups)), logs))
        return found

    async def _unfinished(self, naming: Sequence[_Naming]) -> dict[SharePartitionKey, Unfinished]:
        groups = {one.topic.topic_id: frozenset(one.groups) for one in naming}
        return await self._state.unfinished(groups)

    async def _begins(
        self, naming: Sequence[_Naming], unfinished: Mapping[SharePartitionKey, Unfinished]
    ) -> tuple[dict[SharePartitionKey, int], bool]:
        """Where named groups that have not begun would begin now; whether that was looked up in a
        log."""
        begins, looked_up = {}, False
        for one in naming:
            for group in one.groups:
                reset = self._configs.group(group).auto_offset_reset
                for partition, log in one.logs.items():
                    key = SharePartitionKey(group, one.topic.topic_id, partition)
                    if unfinished.get(key, _NOT_BEGUN).begun:
                        continue
                    if reset.kind is OffsetResetKind.EARLIEST:
                        begins[key] = 0
                    elif reset.kind is OffsetResetKind.LATEST:
                        begins[key] = log.high_watermark
                    else:
                        since_ms = self._clock.wall_ms() - reset.duration_ms
                        at = await log.offset_for_timestamp(since_ms)
                        begins[key] = log.high_watermark if at is None else at[0]
                        looked_up = True
        return begins, looked_up

    def _cap(self, topic: str) -> str:
        """The reason why records were deleted that a named group needed."""
        own = self._configs.of_topic(topic)
        names = (RETENTION_CAP_MS, RETENTION_CAP_BYTES)
        set_here = [f"{name}={own[name]}" for name in names if name in own]
        return f"retention beyond the cap of the topic ({', '.join(set_here)})"

    def _say_absent(
        self, naming: Sequence[_Naming], unfinished: Mapping[SharePartitionKey, Unfinished]
    ) -> None:
        """Log once that a named group has no state of the topic: its name may be wrong."""
        known = {(key.topic_id, key.group_id) for key in unfinished}
        absent = {
            (one.topic.topic_id, group): one.topic.name for one in naming for group in one.groups
        }
        for both in known & absent.keys():
            del absent[both]
        for topic_id, group in absent.keys() - self._absent:
            reset = self._configs.group(group).auto_offset_reset.kind
            logger.warning(
                "topic %s names share group %s in %s, and the group has not begun with the topic: "
                "retention treats it as if it began now, with share.auto.offset.reset=%s%s",
                absent[topic_id, group],
                group,
                RETENTION_GROUPS,
                reset,
                ", so nothing is kept for it" if reset is OffsetResetKind.LATEST else "",
            )
        self._absent = set(absent)


def _need(
    unfinished: Unfinished, begins: Mapping[SharePartitionKey, int], key: SharePartitionKey
) -> _Need:
    start = unfinished.start_offset if unfinished.begun else begins.get(key, 0)
    return _Need(start, unfinished.first_dead, unfinished.begun)
