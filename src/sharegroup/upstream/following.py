"""Asks each broker of the cluster for what comes into the partitions that somebody reads at their
end: one request for all of them, which waits at the broker and names what has changed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from sharegroup.client.network.cluster import Cluster
from sharegroup.client.network.versions import LAST_BY_NAME
from sharegroup.model import errors
from sharegroup.model.ids import TopicPartition
from sharegroup.upstream.fetch_session import FetchSession, Wanted
from sharegroup.upstream.partition_log import CHUNK_BYTES, ClusterLog
from sharegroup.upstream.raw_log import whole_batches
from sharegroup.wire import apis
from sharegroup.wire.messages.fetch import PartitionData

logger = logging.getLogger("sharegroup.broker")

WAIT_MS: Final = 500
BYTES_MAX: Final = 16 << 20
LANE: Final = "follow"
EARLY_LANE: Final = "follow-early"
EARLY_WAIT_MS: Final = 20
"""Who is followed while a request waits at the broker asks so often, until that one returns."""
NOBODY: Final = -1
"""The leader of a partition that has none."""
PAUSE_S: Final = 0.2
"""After an error, and where a leader is not known. A partition that cannot be read now, or not from
its end on, rests for as long."""
REST_S: Final = 5.0
"""A partition that is refused for good, or whose answer cannot be taken in, is left out for so
long."""


class Asked(NamedTuple):
    """A partition, where it is read from, and whether it has room for records."""

    log: ClusterLog
    offset: int
    room: bool


class Following:
    """See the module."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._logs: dict[ClusterLog, None] = {}
        self._changed = asyncio.Event()
        self._read = asyncio.Event()
        """Set at each read, which may have made room."""
        self._asking: dict[asyncio.Task[None], None] = {}
        self._asked: dict[tuple[int, str], set[ClusterLog]] = {}
        """Broker and lane → the partitions of the request under way there."""
        self._sessions: dict[int, FetchSession] = {}
        self._resting: dict[ClusterLog, float] = {}
        """Partitions that are left out, and until when."""
        self._named: set[ClusterLog] = set()
        """Partitions that a line of the log has named, and that could not be taken in since."""
        self._task: asyncio.Task[None] | None = None

    def follow(self, log: ClusterLog) -> None:
        """Follow this partition from now on, until nobody wants it: who waits for records asks for
        nothing meanwhile. Called at each read."""
        if log not in self._logs:
            self._logs[log] = None
            self._changed.set()
        self._read.set()

    @property
    def topics(self) -> set[str]:
        """The topics of these partitions."""
        return {log.topic_partition.topic for log in self._logs}

    def start(self) -> None:
        """Begin."""
        self._task = asyncio.create_task(self._run(), name="follow the cluster")

    async def close(self) -> None:
        """End at once."""
        tasks = [*self._asking, *([] if self._task is None else [self._task])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self) -> None:
        """One request under way at each broker that leads partitions; and a short one, for those
        that it leads since that one began."""
        while True:
            self._changed.clear()
            for log in [one for one in self._logs if one.failure or not one.is_wanted]:
                self._leave(log)
            led: dict[int, list[ClusterLog]] = {}
            now_s = asyncio.get_running_loop().time()
            for log in self._logs:
                if now_s >= self._resting.get(log, now_s):
                    led.setdefault(log.leader, []).append(log)
            if led.pop(NOBODY, None):  # an election was under way when the cluster was asked last
                await self._find_leaders()
            for leader, logs in led.items():
                self._begin(leader, logs)
            try:
                async with asyncio.timeout(PAUSE_S if self._logs else None):
                    await self._changed.wait()
            except TimeoutError:
                continue

    def _leave(self, log: ClusterLog) -> None:
        del self._logs[log]
        self._resting.pop(log, None)
        self._named.discard(log)
        log.left()

    def _begin(self, leader: int, logs: Sequence[ClusterLog]) -> None:
        asked = self._asked.get((leader, LANE))
        lane = LANE
        if asked is not None:
            lane, logs = EARLY_LANE, [log for log in logs if log not in asked]
        if logs and (leader, lane) not in self._asked:
            self._asked[leader, lane] = set(logs)
            task = asyncio.create_task(self._ask(leader, lane, logs))
            self._asking[task] = None
            task.add_done_callback(self._asking.pop)

    async def _ask(self, leader: int, lane: str, logs: Sequence[ClusterLog]) -> None:
        try:
            await self._ask_once(leader, lane, logs)
        except errors.KafkaError as error:
            logger.debug("node %d of the cluster could not be asked: %s", leader, error)
            await self._find_leaders()
            await asyncio.sleep(PAUSE_S)
        finally:
            del self._asked[leader, lane]
            self._changed.set()

    async def _find_leaders(self) -> None:
        try:
            await self._cluster.refresh()
        except errors.KafkaError as error:
            logger.debug("the cluster could not be asked for leaders: %s", error)

    async def _ask_once(self, leader: int, lane: str, logs: Sequence[ClusterLog]) -> None:
        wanted = {log.topic_partition: Asked(log, log.high_watermark, log.has_room) for log in logs}
        if lane == EARLY_LANE:
            session, wait_ms = FetchSession(remembered=False), EARLY_WAIT_MS
        else:
            session, wait_ms = self._sessions.setdefault(leader, FetchSession()), WAIT_MS
        try:
            failed = await self._ask_for(leader, lane, session, wanted, wait_ms)
        except errors.KafkaError:
            session.lost()  # or the broker would not tell again what was told now
            raise
        if failed:
            await self._find_leaders()
        await self._wait_for_room(logs)

    async def _ask_for(
        self,
        leader: int,
        lane: str,
        session: FetchSession,
        asked: Mapping[TopicPartition, Asked],
        wait_ms: int,
    ) -> bool:
        """Returns whether another broker may lead one of the partitions."""
        wanted = {
            where: Wanted(one.offset, CHUNK_BYTES if one.room else 1)
            for where, one in asked.items()
        }
        request = session.request(wanted, max_wait_ms=wait_ms, max_bytes=BYTES_MAX)
        timeout_ms = self._cluster.request_timeout_ms + wait_ms
        response = await self._cluster.send(
            leader,
            apis.FETCH,
            request,
            timeout_ms=timeout_ms,
            lane=lane,
            version_max=LAST_BY_NAME[apis.FETCH],
        )
        if response.error_code:
            raise errors.error_from_code(response.error_code)
        session.answered(response.session_id)
        told = {
            TopicPartition(topic.topic, answer.partition_index): answer
            for topic in response.responses
            for answer in topic.partitions
        }
        if response.throttle_time_ms and not told:
            # Whoever is over a quota is told nothing, not even that nothing is new.
            await asyncio.sleep(response.throttle_time_ms / 1000)
            return False
        for where in asked.keys() - told.keys():
            asked[where].log.is_known()
        failed = False
        for where, answer in told.items():
            log = asked[where].log
            if log not in self._logs:  # followed no more: who follows it next asks anew
                session.missed(where)
                continue
            if answer.error_code not in (0, errors.OffsetOutOfRange.code):
                failed |= self._let_rest(log, errors.error_from_code(answer.error_code))
                continue
            if answer.error_code:
                # The end that is known here may be gone, and the leader may not know more yet.
                self._rest(log, PAUSE_S)
            try:
                await _take_in(asked[where], answer)
                self._named.discard(log)
            except errors.KafkaError as error:  # the others are taken in nevertheless
                session.missed(where)
                failed |= self._let_rest(log, error)
        return failed

    def _let_rest(self, log: ClusterLog, error: errors.KafkaError) -> bool:
        """This partition cannot be read now, or its answer cannot be taken in: the others do not
        wait for it. Returns whether another broker may lead it."""
        if error.retriable and not isinstance(error, errors.CorruptMessage):
            logger.debug("%s cannot be followed now: %s", log.topic_partition, error)
            self._rest(log, PAUSE_S)
            return True
        self._rest(log, REST_S)
        if log not in self._named:
            self._named.add(log)
            logger.warning("%s cannot be followed: %s", log.topic_partition, error)
        return False

    def _rest(self, log: ClusterLog, rest_s: float) -> None:
        loop = asyncio.get_running_loop()
        self._resting[log] = loop.time() + rest_s
        loop.call_later(rest_s, self._changed.set)

    async def _wait_for_room(self, logs: Sequence[ClusterLog]) -> None:
        """To hear of the end, nobody need ask more often than once in PAUSE_S."""
        try:
            async with asyncio.timeout(PAUSE_S):
                while not any(log.has_room for log in logs):
                    self._read.clear()
                    await self._read.wait()
        except TimeoutError:
            return


async def _take_in(one: Asked, answer: PartitionData) -> None:
    """Take in what the cluster tells of one partition.

    Raises:
        KafkaError: the records cannot be read, or the cluster cannot be asked for more.
    """
    log, offset, room = one
    if answer.error_code:
        await log.offsets()  # records are deleted that were never seen here, or are lost
    elif log.high_watermark < offset:
        return  # it has gone back meanwhile: the answer is of what was before
    elif room and log.high_watermark == offset:
        await _keep(log, offset, answer)
    else:  # no room, or somebody has read on meanwhile
        await log.grew(answer)
    log.is_known()


async def _keep(log: ClusterLog, offset: int, answer: PartitionData) -> None:
    try:
        answer.records = whole_batches(bytes(answer.records or b""))
        await log.came(offset, answer)
    except errors.CorruptMessage:
        await log.grew(answer)  # who reads there is told
        raise
