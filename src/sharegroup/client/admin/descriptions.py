"""The admin client's results: frozen data, with Kafka's names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from uuid import UUID

from sharegroup.client.core.key_ranges import KeyRanges
from sharegroup.client.network.metadata import Node
from sharegroup.model.errors import KafkaError
from sharegroup.model.ids import TopicPartition
from sharegroup.model.offsets import OffsetRange
from sharegroup.share.record_state import RecordState


class ResourceType(IntEnum):
    """The kind of thing that a setting belongs to; the numbers are the protocol's."""

    TOPIC = 2
    BROKER = 4
    GROUP = 32


class OffsetSpec(IntEnum):
    """Special timestamps of ListOffsets."""

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicListing:
    """One topic of a list."""

    name: str
    topic_id: UUID
    is_internal: bool
    partition_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionDescription:
    """One partition; ``leader`` is None while it has no leader."""

    partition: int
    leader: int | None
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDescription:
    """One topic with its partitions, in order."""

    name: str
    topic_id: UUID
    is_internal: bool
    partitions: tuple[PartitionDescription, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDescription:
    """The cluster and its brokers."""

    cluster_id: str | None
    controller_id: int
    nodes: tuple[Node, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigSetting:
    """One effective setting. ``source`` is DescribeConfigs' number (5: nobody has set it)."""

    name: str
    value: str | None
    source: int
    is_default: bool
    read_only: bool
    sensitive: bool
    documentation: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupListing:
    """One group of a list; ``type`` is ``share``, ``classic`` or ``consumer``, empty from an
    old broker.
    """

    group_id: str
    type: str
    state: str
    protocol_type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberDescription:
    """One member of a share group.

    Attributes:
        silent_ms: how long ago its last heartbeat was, if it has missed one: it may have been
            killed. None: it has not, or the broker (Apache Kafka) does not tell.
        session_left_ms: how soon the group then takes it for gone, and gives its partitions to
            others.
    """

    member_id: str
    member_epoch: int
    client_id: str
    client_host: str
    rack_id: str | None
    topics: tuple[str, ...]
    assignment: tuple[TopicPartition, ...]
    silent_ms: int | None = None
    session_left_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupDescription:
    """One share group; ``coordinator`` is a node id."""

    group_id: str
    state: str
    group_epoch: int
    assignment_epoch: int
    assignor: str
    coordinator: int
    members: tuple[MemberDescription, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupMemberDescription:
    """One member of a consumer group.

    Attributes:
        instance_id: the name of a static member.
        member_epoch: None: the group's protocol is the classic one.
        pattern: the expression that the broker compares with all topics; None: there is none.
        assignment: the partitions that it has; ``target``: the partitions that it will have when
            other members have given them up.
        key_ranges: for each partition that it shares with other members, the key ranges that it
            has.
    """

    member_id: str
    instance_id: str | None
    member_epoch: int | None
    client_id: str
    client_host: str
    rack_id: str | None
    topics: tuple[str, ...]
    pattern: str | None
    assignment: tuple[TopicPartition, ...]
    target: tuple[TopicPartition, ...]
    key_ranges: Mapping[TopicPartition, KeyRanges] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupDescription:
    """One consumer group; ``coordinator`` is a node id.

    Attributes:
        type: the group's protocol: ``consumer`` or ``classic``.
        group_epoch, assignment_epoch: None: the protocol is the classic one.
    """

    group_id: str
    type: str
    state: str
    group_epoch: int | None
    assignment_epoch: int | None
    assignor: str
    coordinator: int
    members: tuple[ConsumerGroupMemberDescription, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupOffset:
    """A share group's position in one partition.

    Attributes:
        start_offset: the SPSO: all records before it are done; None: no record is done yet.
        begins_at: where the group will begin, in a partition without a start offset; None: not
            chosen yet, or the broker does not report it (ours does).
        lag: records not done yet; None: not known.
        in_flight: records of the in-flight window that some member holds; None: the broker does not
            report their number (ours does).
        damaged: offsets that the log has lost to damage, before and after the start offset.
        delayed: records that are available and not due yet.
        dead: records whose dead letters are still to be written.
        oldest_ms: when the oldest unfinished record was written, in milliseconds since 1970; None:
            there is none.
        redelivered: records that were delivered once more since the leader has loaded the
            partition. ``delayed``, ``dead``, ``oldest_ms`` and ``redelivered`` are known only in a
            :class:`ShareGroupSummary` from our broker.
    """

    start_offset: int | None
    leader_epoch: int
    lag: int | None
    in_flight: int | None
    error: KafkaError | None
    damaged: tuple[OffsetRange, ...] = ()
    begins_at: int | None = None
    delayed: int | None = None
    dead: int | None = None
    oldest_ms: int | None = None
    redelivered: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupSummary:
    """What a list of queues shows of a share group.

    Attributes:
        members: how many members it has.
        silent: how many of them have missed a heartbeat; 0 also if the broker does not tell.
        offsets: in all partitions where it has state, with the counts that our broker tells.
    """

    members: int
    silent: int
    offsets: Mapping[TopicPartition, ShareGroupOffset]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordRange:
    """Records ``first`` … ``last``, both included, in the same state.

    Attributes:
        delivery_count: how often they were delivered; 0 if no longer known: our broker keeps the
            count of a finished record only together with its ``reason``.
        member_id: the member that holds them; None unless they are acquired.
        lock_ms: the time left on their lock when the broker answered, or until they are due; None
            unless they are acquired or delayed.
        blocked: whether they are available, but wait for an operator
            (``share.ordering.on.failure=block``).
        archiving: whether they are archived, but their dead letter is not written yet.
        reason: why they were archived: delivery-limit, rejected, expired, damaged, deleted,
            retention-cap, purged; what their consumer said of them, while they are archiving; None
            for other states, and if the broker does not know (any more).
    """

    first: int
    last: int
    state: RecordState
    delivery_count: int
    member_id: str | None = None
    lock_ms: int | None = None
    reason: str | None = None
    blocked: bool = False
    archiving: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DecidedRecords:
    """What a decision about records by hand came to.

    Attributes:
        records: how many records it was about: those that were finished already are not among them.
            Offsets that the log has no record at, and that nobody has read yet, count as records.
        held: how many of these records members held; their answers will be late.
    """

    records: int
    held: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRecords:
    """The records of one partition as a share group sees them. Records before ``start_offset`` are
    finished; records from ``end_offset`` on were never delivered.

    Attributes:
        start_offset: None: nothing was ever fetched.
        ranges: the records between both offsets, ascending and without holes.
        locks_known: whether the broker reports which records are acquired. Apache Kafka does not:
            its acquired records show the state that they had before.
        damaged: offsets in the log that are damaged on disk; they are never delivered.
        given_up: the latest records archived before ``start_offset``, ascending, with the reason,
            as far as the broker remembers them since it started. Empty with Apache Kafka.
    """

    start_offset: int | None
    end_offset: int | None
    ranges: tuple[RecordRange, ...]
    locks_known: bool
    error: KafkaError | None = None
    damaged: tuple[OffsetRange, ...] = ()
    given_up: tuple[RecordRange, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedOffset:
    """An offset, and the timestamp (ms) of its record if the look-up was by timestamp."""

    offset: int
    timestamp: int | None
    leader_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerDescription:
    """A producer as a partition knows it. ``last_ms`` is the wall-clock time of its last record, -1
    if there is no record; ``coordinator_epoch`` is -1 until its first transaction has ended in this
    partition; ``transaction_start`` is the first offset of its open transaction, None if no
    transaction is open."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_ms: int
    coordinator_epoch: int
    transaction_start: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionListing:
    """A transactional id in a list; ``state`` is the state of its last transaction, ``Empty``
    before the first one."""

    transactional_id: str
    state: str
    producer_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionDescription:
    """A transactional id and its last transaction. ``started_ms`` is wall-clock time, None before
    the first transaction; ``partitions`` are the partitions of an open transaction."""

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    started_ms: int | None
    coordinator: int
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientQuota:
    """Quotas of an entity, by name. The entity is type (``user``, ``client-id``, ``ip``) → name;
    the name None stands for all clients that have no quota of their own."""

    entity: Mapping[str, str | None]
    quotas: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramUser:
    """A user; ``iterations`` by mechanism."""

    name: str
    iterations: dict[str, int]
