"""Asks each broker of the cluster for what comes into the partitions that somebody reads at their
end: one request for all of them, which waits at the broker and names what has changed."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from sharegroup.client.network.cluster import Cluster
from sharegroup.model import errors
from sharegroup.model.ids import TopicPartition
from sharegroup.upstream.fetch_session import FetchSession, Wanted
from sharegroup.upstream.partition_log import CHUNK_BYTES, ClusterLog
from sharegroup.upstream.raw_log import whole_batches
from sharegroup.wire import apis

logger = logging.getLogger("sharegroup.broker")

WAIT_MS: Final = 500
BYTES_MAX: Final = 16 << 20
LANE: Final = "follow"
NOBODY: Final = -1
"""The leader of a partition that has none."""
PAUSE_S: Final = 0.2
"""After an error, and where a leader is not known."""

Asked = tuple[ClusterLog, int, bool]
"""A partition, from where on, and whether it has room for records."""


class Following:
    """See the module."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._logs: dict[ClusterLog, None] = {}
        self._changed = asyncio.Event()
        self._asking: dict[int, asyncio.Task[None]] = {}
        self._sessions: dict[int, FetchSession] = {}
        self._task: asyncio.Task[None] | None = None

    def follow(self, log: ClusterLog) -> None:
        """Follow this partition from now on: who waits for records asks for nothing meanwhile."""
        if log not in self._logs:
            self._logs[log] = None
            self._changed.set()

    @property
    def topics(self) -> set[str]:
        """The topics of these partitions."""
        return {log.topic_partition.topic for log in self._logs}

    def start(self) -> None:
        """Begin."""
        self._task = asyncio.create_task(self._run(), name="follow the cluster")

    async def close(self) -> None:
        """End at once."""
        tasks = [*self._asking.values(), *([] if self._task is None else [self._task])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self) -> None:
        """One request under way at each broker that leads a partition with room."""
        while True:
            self._changed.clear()
            for log in [one for one in self._logs if one.failure]:
                del self._logs[log]
            leaders = {log.leader for log in self._logs}
            if NOBODY in leaders:  # an election was under way when the cluster was asked last
                await self._find_leaders()
            for leader in leaders - self._asking.keys() - {NOBODY}:
                self._asking[leader] = asyncio.create_task(self._ask(leader))
            try:
                async with asyncio.timeout(PAUSE_S if self._logs else None):
                    await self._changed.wait()
            except TimeoutError:
                continue

    async def _ask(self, leader: int) -> None:
        try:
            await self._ask_once(leader)
        except errors.KafkaError as error:
            logger.debug("node %d of the cluster could not be asked: %s", leader, error)
            await self._find_leaders()
            await asyncio.sleep(PAUSE_S)
        finally:
            del self._asking[leader]
            self._changed.set()

    async def _find_leaders(self) -> None:
        try:
            await self._cluster.refresh()
        except errors.KafkaError as error:
            logger.debug("the cluster could not be asked for leaders: %s", error)

    async def _ask_once(self, leader: int) -> None:
        asked = {
            log.topic_partition: (log, log.high_watermark, log.has_room)
            for log in self._logs
            if log.leader == leader
        }
        session = self._sessions.setdefault(leader, FetchSession())
        try:
            failed = await self._ask_for(leader, session, asked)
        except errors.KafkaError:
            session.lost()  # or the broker would not tell again what was told now
            raise
        if failed:
            await self._find_leaders()
        if failed or not any(room for _, _, room in asked.values()):
            await asyncio.sleep(PAUSE_S)  # to hear of the end, nobody need ask more often

    async def _ask_for(
        self, leader: int, session: FetchSession, asked: dict[TopicPartition, Asked]
    ) -> bool:
        """Returns whether a partition could not be read."""
        wanted = {
            where: Wanted(begin, CHUNK_BYTES if room else 1)
            for where, (_, begin, room) in asked.items()
        }
        request = session.request(wanted, max_wait_ms=WAIT_MS, max_bytes=BYTES_MAX)
        timeout_ms = self._cluster.request_timeout_ms + WAIT_MS
        response = await self._cluster.send(
            leader, apis.FETCH, request, timeout_ms=timeout_ms, lane=LANE
        )
        if response.error_code:
            raise errors.error_from_code(response.error_code)
        session.answered(response.session_id)
        for log, _, _ in asked.values():
            log.is_known()
        failed = False
        for topic in response.responses:
            for answer in topic.partitions:
                log, begin, room = asked[TopicPartition(topic.topic, answer.partition_index)]
                if answer.error_code == errors.OffsetOutOfRange.code:
                    await log.offsets()  # records are deleted that were never seen here
                elif answer.error_code:
                    failed = True
                elif log.high_watermark == begin:
                    answer.records = whole_batches(bytes(answer.records or b""))
                    await (log.came(begin, answer) if room else log.grew(answer))
        return failed
