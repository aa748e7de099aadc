"""Reads exact ranges of a partition on an executor, with plain Fetch: repeatable, no share group
involved.

There is one generator per (task, partition). It sends the next request before it hands out the
bytes of the last answer, so the broker works while the task decodes. Connections stay open in the
worker process between tasks.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple
from uuid import UUID

from sharegroup.client.core.access_errors import error_on
from sharegroup.client.network.addresses import Address, parse_addresses
from sharegroup.client.security.access import ConnectionAccess, shared_access
from sharegroup.client.security.settings import NO_SECURITY, Security
from sharegroup.model import errors
from sharegroup.records.batches import bounds_of, end_offset
from sharegroup.records.key_hashes import HASH_MAX
from sharegroup.spark.options.stream import ShareOptions
from sharegroup.spark.slices import Slice
from sharegroup.spark.task.blocking import BlockingConnection
from sharegroup.wire import apis
from sharegroup.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from sharegroup.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from sharegroup.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from sharegroup.wire.messages.ranges import Range

log = logging.getLogger("sharegroup.spark")

FETCH_BYTES_MAX: Final = 8 * 1024 * 1024
"""The most bytes of one response: some 70,000 records of 100 B, a good size for one Arrow batch."""
FETCH_BYTES_MIN: Final = 64 * 1024
FIRST_GUESS_BYTES: Final = 256
"""The assumed size of a record, until a topic's records have been seen."""
MARGIN: Final = 1.15
FIRST_GUESS_BATCH_BYTES: Final = 16 * 1024
"""The assumed size of a record batch, until a topic's batches have been seen: a producer's
default."""
WAIT_MS: Final = 500
RETRY_SECONDS: Final = 0.2
EARLIEST: Final = -2
LATEST: Final = -1

_WRONG_LEADER = (
    errors.NotLeaderOrFollower,
    errors.FencedLeaderEpoch,
    errors.UnknownLeaderEpoch,
    errors.NetworkException,
)
_GONE = (errors.UnknownTopicId, errors.UnknownTopicOrPartition, errors.InconsistentTopicId)

_idle_connections: dict[tuple[Address, ConnectionAccess | None], BlockingConnection] = {}
"""Connections for the next tasks; only tasks with the same login get one."""
_sizes: dict[UUID, _Sizes] = {}


class _Sizes(NamedTuple):
    """Bytes of a topic's records and record batches, as last seen."""

    record: float
    batch: int


class FetchedChunk(NamedTuple):
    """The bytes that one request brought."""

    offset: int
    """The offset where the chunk begins; earlier records of the same batch were read before, or are
    not ours."""
    data: memoryview


class DataLoss(errors.SharegroupError):
    """Records that were acquired are no longer in the log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFetchSettings:
    """The settings with which a task reads; times are in milliseconds."""

    bootstrap_servers: str
    client_id: str
    request_timeout_ms: int
    poll_timeout_ms: int
    """How long the broker may send no records before the task fails."""
    fail_on_data_loss: bool
    security: Security = NO_SECURITY


def fetch_settings(options: ShareOptions) -> TaskFetchSettings:
    """The settings for the tasks of a stream with these options."""
    return TaskFetchSettings(
        bootstrap_servers=options.bootstrap_servers,
        client_id=options.client_id,
        request_timeout_ms=options.request_timeout_ms,
        poll_timeout_ms=options.executor_poll_timeout_ms or options.broker_outage_timeout_ms,
        fail_on_data_loss=options.fail_on_data_loss,
        security=options.security,
    )


class SliceReader:
    """Reads the ranges of one slice.

    Args:
        leader: the address of the partition's leader when the batch was planned.
        by_key: ask the brokers for records of the slice's keys only, if the topic allows it
            (KIP-X). That saves sending and decoding the other records; the brokers may send some of
            these all the same.
    """

    def __init__(
        self,
        part: Slice,
        leader: Address | None,
        settings: TaskFetchSettings,
        *,
        by_key: bool = False,
    ) -> None:
        self._slice = part
        self._keys = part.keys if by_key else None
        self._leader = leader
        self._settings = settings
        self._connection: BlockingConnection | None = None
        self._deadline = 0.0

    def chunks(self) -> Iterator[FetchedChunk]:
        """The fetched bytes, in order: all records of the ranges, and some of their neighbours.
        With ``by_key``, records of other keys may be left out.

        Raises:
            DataLoss: records are gone, and ``failOnDataLoss`` is set.
            KafkaError: the broker refuses, or no records came within the time limit.
        """
        try:
            yield from self._read()
        finally:
            self._put_back()

    def _read(self) -> Iterator[FetchedChunk]:
        offset = self._needed_from(0)
        self._progress()
        while offset is not None:
            try:
                answer = self._fetched(offset)
                data = memoryview(answer.records or b"")
                end = self._end(answer, data)
                if end is None or end <= offset:  # the answer has no records yet
                    self._keys = None  # a request for all keys waits at the broker, see _ask
                    if self._ends_at(offset):
                        return
                    continue
            except errors.KafkaError as error:
                offset = self._recovered(error, offset)
                continue
            self._learn(data, offset, end)
            chunk = FetchedChunk(offset, data)
            offset = self._needed_from(end)
            if offset is not None:
                self._ask_ahead(offset)
            if data:
                yield chunk  # for as long as Spark works on its rows
            self._progress()

    def _end(self, answer: PartitionData, data: memoryview) -> int | None:
        """The offset where the next request begins; None: the answer has no records."""
        if self._keys is not None and answer.read_up_to >= 0:
            return answer.read_up_to
        return end_offset(data)

    def _learn(self, data: memoryview, offset: int, end: int) -> None:
        """Remember how large the records in ``data`` are, which was read from ``offset`` on."""
        bounds = next(bounds_of(data), None)
        if bounds is not None:
            first, _, batch = bounds
            record = len(data) / (end - min(first, offset)) / self._share
            _sizes[self._slice.topic_id] = _Sizes(record, len(batch))

    @property
    def _share(self) -> float:
        """The part of the hash space, and so of the records, that the broker is asked for."""
        return 1.0 if self._keys is None else (self._keys[1] - self._keys[0] + 1) / (HASH_MAX + 1)

    def _needed_from(self, offset: int) -> int | None:
        """The first offset at or after this one that we need."""
        for first, last, _ in self._slice.ranges:
            if offset <= last:
                return max(offset, first)
        return None

    def _needed_count(self, offset: int) -> int:
        """How many of our records are at or after this offset."""
        count = 0
        for first, last, _ in self._slice.ranges:
            if last >= offset:
                count += last - max(first, offset) + 1
        return count

    # --- one request ------------------------------------------------------------------------------

    def _refused(self, code: int) -> errors.KafkaError:
        return error_on(code, None, "READ", f"topic {self._slice.topic!r}")

    def _fetched(self, offset: int) -> PartitionData:
        connection = self._connected()
        if connection.idle:
            self._ask(offset)
        response = connection.receive(FetchResponse)
        if response.error_code:
            raise errors.error_from_code(response.error_code)
        answer = response.responses[0].partitions[0]
        if answer.error_code:
            raise self._refused(answer.error_code)
        return answer

    def _ask(self, offset: int) -> None:
        size = self._request_bytes(self._needed_count(offset))
        part = FetchPartition(
            partition=self._slice.partition,
            fetch_offset=offset,
            partition_max_bytes=size,
            key_ranges=[] if self._keys is None else [Range(*self._keys)],
        )
        request = FetchRequest(
            # All acquired records are in the log: if none has such a key now, none will come.
            max_wait_ms=WAIT_MS if self._keys is None else 0,
            min_bytes=1,
            max_bytes=size,
            topics=[FetchTopic(topic_id=self._slice.topic_id, partitions=[part])],
        )
        self._connected().send(apis.FETCH, request)

    def _request_bytes(self, records: int) -> int:
        """How many bytes the records are likely to take, so that small batches do not pull
        megabytes. The first and the last record batch come whole, with records that are not
        needed."""
        guess = _sizes.get(self._slice.topic_id) or _Sizes(
            FIRST_GUESS_BYTES, FIRST_GUESS_BATCH_BYTES
        )
        size = int(records * guess.record * self._share * MARGIN) + 2 * guess.batch
        return max(FETCH_BYTES_MIN, min(FETCH_BYTES_MAX, size))

    def _ask_ahead(self, offset: int) -> None:
        """Send the next request, so that the broker works while this task decodes. If sending
        fails, the next step sends it again."""
        try:
            self._ask(offset)
        except errors.KafkaError:
            self._drop()

    # --- when it does not go straight -------------------------------------------------------------

    def _progress(self) -> None:
        self._deadline = time.monotonic() + self._settings.poll_timeout_ms / 1000

    def _check_time(self, error: errors.KafkaError) -> None:
        if time.monotonic() >= self._deadline:
            raise errors.NetworkException(
                f"{self._slice.topic}-{self._slice.partition}: nothing could be read for "
                f"{self._settings.poll_timeout_ms} ms: {error}"
            ) from error

    def _ends_at(self, offset: int) -> bool:
        """Whether the log has lost its end, from ``offset`` on. A broker answers a request at the
        end of its log as if records were to come, so this is asked when the time is up.

        Raises:
            DataLoss: it has, and ``failOnDataLoss`` is set.
            NetworkException: the time is up, and it has not.
        """
        if time.monotonic() >= self._deadline and self._listed(LATEST) <= offset:
            self._after_loss(errors.OffsetOutOfRange(), None)
            return True
        self._check_time(errors.NetworkException(f"no records at offset {offset}"))
        return False

    def _recovered(self, error: errors.KafkaError, offset: int) -> int | None:
        """The offset to go on from after an error; raises errors that cannot be recovered from."""
        if isinstance(error, errors.TopicRangeFetchNotAllowed):
            self._keys = None
            return offset
        self._drop()
        try:
            if isinstance(error, errors.OffsetOutOfRange):
                earliest = self._listed(EARLIEST)
                # If the log begins before, its end is lost, and all that we still need with it.
                return self._after_loss(error, earliest if earliest > offset else None)
            if isinstance(error, _GONE) and self._look_up_leader() is None:
                return self._after_loss(error, None)
        except errors.RetriableError as another:
            error = another
        if isinstance(error, (*_WRONG_LEADER, *_GONE)):
            self._leader = None
        elif not isinstance(error, errors.RetriableError):
            raise error
        self._check_time(error)
        threading.Event().wait(RETRY_SECONDS)
        return offset

    def _after_loss(self, error: errors.KafkaError, earliest: int | None) -> int | None:
        text = (
            f"{self._slice.topic}-{self._slice.partition}: acquired records are no longer in the "
            f"log ({error.name}): retention or a deletion removed them, or a broker came back "
            "without them"
        )
        if self._settings.fail_on_data_loss:
            raise DataLoss(
                f'{text}. To go on without them, write .option("failOnDataLoss", "false")'
            )
        log.warning("%s; going on without them", text)
        return None if earliest is None else self._needed_from(earliest)

    def _listed(self, timestamp: int) -> int:
        """Where the log begins (``EARLIEST``), or ends."""
        part = ListOffsetsPartition(partition_index=self._slice.partition, timestamp=timestamp)
        topic = ListOffsetsTopic(name=self._slice.topic, partitions=[part])
        request = ListOffsetsRequest(replica_id=-1, topics=[topic])
        response = self._connected().call(apis.LIST_OFFSETS, request, ListOffsetsResponse)
        answer = response.topics[0].partitions[0]
        if answer.error_code:
            raise self._refused(answer.error_code)
        return answer.offset

    # --- connections ------------------------------------------------------------------------------

    def _connected(self) -> BlockingConnection:
        if self._connection is None:
            if self._leader is None:
                self._leader = self._look_up_leader()
            if self._leader is None:
                raise errors.UnknownTopicId(
                    f"there is no topic {self._slice.topic} of id {self._slice.topic_id}"
                )
            self._connection = self._open(self._leader)
        return self._connection

    def _open(self, address: Address) -> BlockingConnection:
        access = shared_access(self._settings.security)
        known = _idle_connections.pop((address, access), None)
        if known is not None:
            return known
        return BlockingConnection(
            address,
            client_id=self._settings.client_id,
            timeout_ms=max(self._settings.request_timeout_ms, 2 * WAIT_MS),
            access=access,
        )

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _put_back(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            _keep(connection)

    def _look_up_leader(self) -> Address | None:
        """The address of the partition's leader now; None if no topic has our id.

        Raises:
            NetworkException: no broker can be reached, or the partition has no leader now.
            KafkaError: the broker does not say whether there is such a topic.
        """
        failure = errors.NetworkException(
            f"no broker of {self._settings.bootstrap_servers} can be reached"
        )
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name=self._slice.topic)], allow_auto_topic_creation=False
        )
        for address in parse_addresses(self._settings.bootstrap_servers):
            try:
                connection = self._open(address)
            except errors.NetworkException as error:
                failure = error
                continue
            try:
                response = connection.call(apis.METADATA, request, MetadataResponse)
            except errors.NetworkException as error:
                connection.close()
                failure = error
                continue
            _keep(connection)
            return self._leader_in(response)
        raise failure

    def _leader_in(self, response: MetadataResponse) -> Address | None:
        brokers = {broker.node_id: Address(broker.host, broker.port) for broker in response.brokers}
        for topic in response.topics:
            if topic.error_code not in (0, errors.UnknownTopicOrPartition.code):
                # The topic may be there: the partition does not count as gone.
                where = f"topic {self._slice.topic!r}"
                raise error_on(topic.error_code, None, "DESCRIBE", where)
            if topic.topic_id != self._slice.topic_id:
                continue
            for partition in topic.partitions:
                if partition.partition_index == self._slice.partition:
                    leader = brokers.get(partition.leader_id)
                    if leader is None:
                        raise errors.NetworkException(
                            f"{topic.name}-{self._slice.partition} has no leader now"
                        )
                    return leader
        return None


def close_idle_connections() -> None:
    """Close the connections kept for the next task, in a process that runs no more tasks."""
    while _idle_connections:
        _, connection = _idle_connections.popitem()
        connection.close()


def _keep(connection: BlockingConnection) -> None:
    """Keep a connection for the next task, if no response is outstanding; one connection for each
    broker and login."""
    key = (connection.address, connection.access)
    if connection.idle and key not in _idle_connections:
        _idle_connections[key] = connection
    else:
        connection.close()
