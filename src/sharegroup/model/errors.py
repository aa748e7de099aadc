"""Errors, with Kafka's names and codes.

The tree::

    SharegroupError
    ├── KafkaError                  it has a code in the protocol: broker → wire → same class again
    │   ├── RetriableError          the same request may succeed later
    │   └── (all others)            it will not
    ├── MalformedMessage            bytes that are not what they claim to be: the connection closes
    └── ConfigError                 an invalid setting, explained in one sentence

Each error says where it comes from: see :class:`ErrorSource`.

Codes and names: Kafka class ``Errors``. A code that appears twice fails at import.
"""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar


class ErrorSource(StrEnum):
    """Where an error comes from; text, so that ``error.source == "broker"`` works."""

    BROKER = "broker"
    """The broker refused: its response carries this error."""
    CONNECTION = "connection"
    """No response came: there was no connection, it broke, or the time ran out. If the request was
    under way, nobody knows whether the broker did what was asked."""
    LOCAL = "local"
    """Made here: a call that is out of order, a version that the broker does not have, data that
    cannot be read. No broker refused anything."""


class SharegroupError(Exception):
    """Everything this package raises on purpose. ``source`` says where it comes from."""

    source: ErrorSource = ErrorSource.LOCAL


class MalformedMessage(SharegroupError):
    """Bytes that are not the message they claim to be: truncated, over a limit, or impossible."""


class ConfigError(SharegroupError):
    """Invalid setting; the text says what is wrong and what to write."""


class KafkaError(SharegroupError):
    """An error the protocol has a code for.

    ``str()`` is the message, Kafka's own where none was given.
    """

    code: ClassVar[int] = -1
    name: ClassVar[str] = "UNKNOWN_SERVER_ERROR"
    description: ClassVar[str] = (
        "The server experienced an unexpected error when processing the request."
    )
    retriable: ClassVar[bool] = False

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or self.description)

    @property
    def message(self) -> str:
        """What went wrong, in a sentence."""
        return str(self.args[0])


class RetriableError(KafkaError):
    """The same request may succeed later."""

    retriable: ClassVar[bool] = True


class UnknownServerError(KafkaError):
    """UNKNOWN_SERVER_ERROR."""

    code = -1
    name = "UNKNOWN_SERVER_ERROR"
    description = "The server experienced an unexpected error when processing the request."


class OffsetOutOfRange(KafkaError):
    """OFFSET_OUT_OF_RANGE."""

    code = 1
    name = "OFFSET_OUT_OF_RANGE"
    description = (
        "The requested offset is not within the range of offsets maintained by the server."
    )


class CorruptMessage(RetriableError):
    """CORRUPT_MESSAGE."""

    code = 2
    name = "CORRUPT_MESSAGE"
    description = (
        "This message has failed its CRC checksum, exceeds the valid size, or is otherwise corrupt."
    )


class UnknownTopicOrPartition(RetriableError):
    """UNKNOWN_TOPIC_OR_PARTITION."""

    code = 3
    name = "UNKNOWN_TOPIC_OR_PARTITION"
    description = "This server does not host this topic-partition."


class LeaderNotAvailable(RetriableError):
    """LEADER_NOT_AVAILABLE."""

    code = 5
    name = "LEADER_NOT_AVAILABLE"
    description = "There is no leader for this topic-partition."


class NotLeaderOrFollower(RetriableError):
    """NOT_LEADER_OR_FOLLOWER."""

    code = 6
    name = "NOT_LEADER_OR_FOLLOWER"
    description = "This broker is not the leader of the partition."


class RequestTimedOut(RetriableError):
    """REQUEST_TIMED_OUT."""

    source = ErrorSource.CONNECTION  # unless a broker's response says so
    code = 7
    name = "REQUEST_TIMED_OUT"
    description = "The request timed out."


class MessageTooLarge(KafkaError):
    """MESSAGE_TOO_LARGE."""

    code = 10
    name = "MESSAGE_TOO_LARGE"
    description = (
        "The request included a message larger than the max message size the server will accept."
    )


class OffsetMetadataTooLarge(KafkaError):
    """OFFSET_METADATA_TOO_LARGE."""

    code = 12
    name = "OFFSET_METADATA_TOO_LARGE"
    description = "The metadata field of the offset request was too large."


class NetworkException(RetriableError):
    """NETWORK_EXCEPTION."""

    source = ErrorSource.CONNECTION  # unless a broker's response says so
    code = 13
    name = "NETWORK_EXCEPTION"
    description = "The server disconnected before a response was received."


class CoordinatorLoadInProgress(RetriableError):
    """COORDINATOR_LOAD_IN_PROGRESS."""

    code = 14
    name = "COORDINATOR_LOAD_IN_PROGRESS"
    description = "The coordinator is loading and hence can't process requests."


class CoordinatorNotAvailable(RetriableError):
    """COORDINATOR_NOT_AVAILABLE."""

    code = 15
    name = "COORDINATOR_NOT_AVAILABLE"
    description = "The coordinator is not available."


class NotCoordinator(RetriableError):
    """NOT_COORDINATOR."""

    code = 16
    name = "NOT_COORDINATOR"
    description = "This is not the correct coordinator."


class InvalidTopic(KafkaError):
    """INVALID_TOPIC_EXCEPTION."""

    code = 17
    name = "INVALID_TOPIC_EXCEPTION"
    description = "The request attempted to perform an operation on an invalid topic."


class RecordListTooLarge(KafkaError):
    """RECORD_LIST_TOO_LARGE."""

    code = 18
    name = "RECORD_LIST_TOO_LARGE"
    description = (
        "The request included message batch larger than the configured segment size on the server."
    )


class NotEnoughReplicas(RetriableError):
    """NOT_ENOUGH_REPLICAS."""

    code = 19
    name = "NOT_ENOUGH_REPLICAS"
    description = "Messages are rejected since there are fewer in-sync replicas than required."


class NotEnoughReplicasAfterAppend(RetriableError):
    """NOT_ENOUGH_REPLICAS_AFTER_APPEND."""

    code = 20
    name = "NOT_ENOUGH_REPLICAS_AFTER_APPEND"
    description = "Messages are written to the log, but to fewer in-sync replicas than required."


class InvalidRequiredAcks(KafkaError):
    """INVALID_REQUIRED_ACKS."""

    code = 21
    name = "INVALID_REQUIRED_ACKS"
    description = "Produce request specified an invalid value for required acks."


class IllegalGeneration(KafkaError):
    """ILLEGAL_GENERATION."""

    code = 22
    name = "ILLEGAL_GENERATION"
    description = "Specified group generation id is not valid."


class InconsistentGroupProtocol(KafkaError):
    """INCONSISTENT_GROUP_PROTOCOL."""

    code = 23
    name = "INCONSISTENT_GROUP_PROTOCOL"
    description = (
        "The group member's supported protocols are incompatible with those of existing members or"
        " first group member tried to join with empty protocol type or empty protocol list."
    )


class InvalidGroupId(KafkaError):
    """INVALID_GROUP_ID."""

    code = 24
    name = "INVALID_GROUP_ID"
    description = "The group id is invalid."


class UnknownMemberId(KafkaError):
    """UNKNOWN_MEMBER_ID."""

    code = 25
    name = "UNKNOWN_MEMBER_ID"
    description = "The coordinator is not aware of this member."


class InvalidSessionTimeout(KafkaError):
    """INVALID_SESSION_TIMEOUT."""

    code = 26
    name = "INVALID_SESSION_TIMEOUT"
    description = (
        "The session timeout is not within the range allowed by the broker (as configured by"
        " group.min.session.timeout.ms and group.max.session.timeout.ms)."
    )


class RebalanceInProgress(KafkaError):
    """REBALANCE_IN_PROGRESS."""

    code = 27
    name = "REBALANCE_IN_PROGRESS"
    description = "The group is rebalancing, so a rejoin is needed."


class InvalidCommitOffsetSize(KafkaError):
    """INVALID_COMMIT_OFFSET_SIZE."""

    code = 28
    name = "INVALID_COMMIT_OFFSET_SIZE"
    description = "The committing offset data size is not valid."


class TopicAuthorizationFailed(KafkaError):
    """TOPIC_AUTHORIZATION_FAILED."""

    code = 29
    name = "TOPIC_AUTHORIZATION_FAILED"
    description = "Topic authorization failed."


class GroupAuthorizationFailed(KafkaError):
    """GROUP_AUTHORIZATION_FAILED."""

    code = 30
    name = "GROUP_AUTHORIZATION_FAILED"
    description = "Group authorization failed."


class ClusterAuthorizationFailed(KafkaError):
    """CLUSTER_AUTHORIZATION_FAILED."""

    code = 31
    name = "CLUSTER_AUTHORIZATION_FAILED"
    description = "Cluster authorization failed."


class InvalidTimestamp(KafkaError):
    """INVALID_TIMESTAMP."""

    code = 32
    name = "INVALID_TIMESTAMP"
    description = "The timestamp of the message is out of acceptable range."


class UnsupportedVersion(KafkaError):
    """UNSUPPORTED_VERSION."""

    code = 35
    name = "UNSUPPORTED_VERSION"
    description = "The version of API is not supported."


class TopicAlreadyExists(KafkaError):
    """TOPIC_ALREADY_EXISTS."""

    code = 36
    name = "TOPIC_ALREADY_EXISTS"
    description = "Topic with this name already exists."


class InvalidPartitions(KafkaError):
    """INVALID_PARTITIONS."""

    code = 37
    name = "INVALID_PARTITIONS"
    description = "Number of partitions is below 1."


class InvalidReplicationFactor(KafkaError):
    """INVALID_REPLICATION_FACTOR."""

    code = 38
    name = "INVALID_REPLICATION_FACTOR"
    description = "Replication factor is below 1 or larger than the number of available brokers."


class InvalidReplicaAssignment(KafkaError):
    """INVALID_REPLICA_ASSIGNMENT."""

    code = 39
    name = "INVALID_REPLICA_ASSIGNMENT"
    description = "Replica assignment is invalid."


class InvalidConfig(KafkaError):
    """INVALID_CONFIG."""

    code = 40
    name = "INVALID_CONFIG"
    description = "Configuration is invalid."


class InvalidRequest(KafkaError):
    """INVALID_REQUEST."""

    code = 42
    name = "INVALID_REQUEST"
    description = "The request is malformed or asks for something that does not make sense."


class UnsupportedForMessageFormat(KafkaError):
    """UNSUPPORTED_FOR_MESSAGE_FORMAT."""

    code = 43
    name = "UNSUPPORTED_FOR_MESSAGE_FORMAT"
    description = "The message format version on the broker does not support the request."


class PolicyViolation(KafkaError):
    """POLICY_VIOLATION."""

    code = 44
    name = "POLICY_VIOLATION"
    description = "Request parameters do not satisfy the configured policy."


class OutOfOrderSequenceNumber(KafkaError):
    """OUT_OF_ORDER_SEQUENCE_NUMBER."""

    code = 45
    name = "OUT_OF_ORDER_SEQUENCE_NUMBER"
    description = "The broker received an out of order sequence number."


class DuplicateSequenceNumber(KafkaError):
    """DUPLICATE_SEQUENCE_NUMBER."""

    code = 46
    name = "DUPLICATE_SEQUENCE_NUMBER"
    description = "The broker received a duplicate sequence number."


class InvalidProducerEpoch(KafkaError):
    """INVALID_PRODUCER_EPOCH."""

    code = 47
    name = "INVALID_PRODUCER_EPOCH"
    description = "Producer attempted to produce with an old epoch."


class InvalidTxnState(KafkaError):
    """INVALID_TXN_STATE."""

    code = 48
    name = "INVALID_TXN_STATE"
    description = "The producer attempted a transactional operation in an invalid state."


class InvalidProducerIdMapping(KafkaError):
    """INVALID_PRODUCER_ID_MAPPING."""

    code = 49
    name = "INVALID_PRODUCER_ID_MAPPING"
    description = (
        "The producer attempted to use a producer id which is not currently assigned to its "
        "transactional id."
    )


class InvalidTransactionTimeout(KafkaError):
    """INVALID_TRANSACTION_TIMEOUT."""

    code = 50
    name = "INVALID_TRANSACTION_TIMEOUT"
    description = (
        "The transaction timeout is larger than the maximum value allowed by the broker (as "
        "configured by transaction.max.timeout.ms)."
    )


class ConcurrentTransactions(RetriableError):
    """CONCURRENT_TRANSACTIONS."""

    code = 51
    name = "CONCURRENT_TRANSACTIONS"
    description = (
        "The producer attempted to update a transaction while another concurrent operation on "
        "the same transaction was ongoing."
    )


class TransactionCoordinatorFenced(KafkaError):
    """TRANSACTION_COORDINATOR_FENCED."""

    code = 52
    name = "TRANSACTION_COORDINATOR_FENCED"
    description = (
        "Indicates that the transaction coordinator sending a WriteTxnMarker is no longer the "
        "current coordinator for a given producer."
    )


class TransactionalIdAuthorizationFailed(KafkaError):
    """TRANSACTIONAL_ID_AUTHORIZATION_FAILED."""

    code = 53
    name = "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"
    description = "The transactional id authorization failed."


class OperationNotAttempted(KafkaError):
    """OPERATION_NOT_ATTEMPTED."""

    code = 55
    name = "OPERATION_NOT_ATTEMPTED"
    description = "The broker did not attempt to execute this operation."


class KafkaStorageError(RetriableError):
    """KAFKA_STORAGE_ERROR."""

    code = 56
    name = "KAFKA_STORAGE_ERROR"
    description = "Disk error when trying to access log file on the disk."


class UnknownProducerId(KafkaError):
    """UNKNOWN_PRODUCER_ID."""

    code = 59
    name = "UNKNOWN_PRODUCER_ID"
    description = (
        "The broker could not locate the producer metadata associated with the producer id."
    )


class NonEmptyGroup(KafkaError):
    """NON_EMPTY_GROUP."""

    code = 68
    name = "NON_EMPTY_GROUP"
    description = "The group is not empty."


class GroupIdNotFound(KafkaError):
    """GROUP_ID_NOT_FOUND."""

    code = 69
    name = "GROUP_ID_NOT_FOUND"
    description = "The group id does not exist."


class FetchSessionIdNotFound(RetriableError):
    """FETCH_SESSION_ID_NOT_FOUND."""

    code = 70
    name = "FETCH_SESSION_ID_NOT_FOUND"
    description = "The fetch session ID was not found."


class InvalidFetchSessionEpoch(RetriableError):
    """INVALID_FETCH_SESSION_EPOCH."""

    code = 71
    name = "INVALID_FETCH_SESSION_EPOCH"
    description = "The fetch session epoch is invalid."


class TopicDeletionDisabled(KafkaError):
    """TOPIC_DELETION_DISABLED."""

    code = 73
    name = "TOPIC_DELETION_DISABLED"
    description = "Topic deletion is disabled."


class FencedLeaderEpoch(RetriableError):
    """FENCED_LEADER_EPOCH."""

    code = 74
    name = "FENCED_LEADER_EPOCH"
    description = "The leader epoch in the request is older than the epoch on the broker."


class UnknownLeaderEpoch(RetriableError):
    """UNKNOWN_LEADER_EPOCH."""

    code = 75
    name = "UNKNOWN_LEADER_EPOCH"
    description = "The leader epoch in the request is newer than the epoch on the broker."


class UnsupportedCompressionType(KafkaError):
    """UNSUPPORTED_COMPRESSION_TYPE."""

    code = 76
    name = "UNSUPPORTED_COMPRESSION_TYPE"
    description = "The requesting client does not support the compression type of given partition."


class OffsetNotAvailable(RetriableError):
    """OFFSET_NOT_AVAILABLE."""

    code = 78
    name = "OFFSET_NOT_AVAILABLE"
    description = "The leader high watermark has not caught up from a recent leader election."


class MemberIdRequired(KafkaError):
    """MEMBER_ID_REQUIRED."""

    code = 79
    name = "MEMBER_ID_REQUIRED"
    description = (
        "The group member needs to have a valid member id before actually entering a consumer"
        " group."
    )


class GroupMaxSizeReached(KafkaError):
    """GROUP_MAX_SIZE_REACHED."""

    code = 81
    name = "GROUP_MAX_SIZE_REACHED"
    description = "The group has reached its maximum size."


class FencedInstanceId(KafkaError):
    """FENCED_INSTANCE_ID."""

    code = 82
    name = "FENCED_INSTANCE_ID"
    description = (
        "The broker rejected this static consumer since another consumer with the same"
        " group.instance.id has registered with a different member.id."
    )


class GroupSubscribedToTopic(KafkaError):
    """GROUP_SUBSCRIBED_TO_TOPIC."""

    code = 86
    name = "GROUP_SUBSCRIBED_TO_TOPIC"
    description = (
        "Deleting offsets of a topic is forbidden while the consumer group is actively subscribed "
        "to it."
    )


class ElectionNotNeeded(KafkaError):
    """ELECTION_NOT_NEEDED."""

    code = 84
    name = "ELECTION_NOT_NEEDED"
    description = "Leader election not needed for topic partition."


class NoReassignmentInProgress(KafkaError):
    """NO_REASSIGNMENT_IN_PROGRESS."""

    code = 85
    name = "NO_REASSIGNMENT_IN_PROGRESS"
    description = "No partition reassignment is in progress."


class InvalidRecord(KafkaError):
    """INVALID_RECORD."""

    code = 87
    name = "INVALID_RECORD"
    description = "This record has failed the validation on broker and hence will be rejected."


class UnstableOffsetCommit(RetriableError):
    """UNSTABLE_OFFSET_COMMIT."""

    code = 88
    name = "UNSTABLE_OFFSET_COMMIT"
    description = "There are unstable offsets that need to be cleared."


class ProducerFenced(KafkaError):
    """PRODUCER_FENCED."""

    code = 90
    name = "PRODUCER_FENCED"
    description = (
        "There is a newer producer with the same transactionalId which fences the current one."
    )


class UnknownTopicId(RetriableError):
    """UNKNOWN_TOPIC_ID."""

    code = 100
    name = "UNKNOWN_TOPIC_ID"
    description = "This server does not host this topic ID."


class InconsistentTopicId(RetriableError):
    """INCONSISTENT_TOPIC_ID."""

    code = 103
    name = "INCONSISTENT_TOPIC_ID"
    description = "The log's topic ID did not match the topic ID in the request."


class TransactionalIdNotFound(KafkaError):
    """TRANSACTIONAL_ID_NOT_FOUND."""

    code = 105
    name = "TRANSACTIONAL_ID_NOT_FOUND"
    description = "The transactionalId could not be found."


class FetchSessionTopicIdError(RetriableError):
    """FETCH_SESSION_TOPIC_ID_ERROR."""

    code = 106
    name = "FETCH_SESSION_TOPIC_ID_ERROR"
    description = "The fetch session encountered inconsistent topic ID usage."


class FencedMemberEpoch(KafkaError):
    """FENCED_MEMBER_EPOCH."""

    code = 110
    name = "FENCED_MEMBER_EPOCH"
    description = "The member epoch is fenced by the group coordinator."


class UnreleasedInstanceId(KafkaError):
    """UNRELEASED_INSTANCE_ID."""

    code = 111
    name = "UNRELEASED_INSTANCE_ID"
    description = "The instance ID is still used by another member in the group."


class UnsupportedAssignor(KafkaError):
    """UNSUPPORTED_ASSIGNOR."""

    code = 112
    name = "UNSUPPORTED_ASSIGNOR"
    description = "The assignor or its version range is not supported by the consumer group."


class StaleMemberEpoch(KafkaError):
    """STALE_MEMBER_EPOCH."""

    code = 113
    name = "STALE_MEMBER_EPOCH"
    description = "The member epoch is stale."


class TransactionAbortable(KafkaError):
    """TRANSACTION_ABORTABLE."""

    code = 120
    name = "TRANSACTION_ABORTABLE"
    description = (
        "The server encountered an error with the transaction. The client can abort the "
        "transaction to continue using this transactional ID."
    )


class InvalidRecordState(KafkaError):
    """INVALID_RECORD_STATE."""

    code = 121
    name = "INVALID_RECORD_STATE"
    description = (
        "The record state is invalid; the acknowledgement of delivery could not be completed."
    )


class ShareSessionNotFound(RetriableError):
    """SHARE_SESSION_NOT_FOUND."""

    code = 122
    name = "SHARE_SESSION_NOT_FOUND"
    description = "The share session was not found."


class InvalidShareSessionEpoch(RetriableError):
    """INVALID_SHARE_SESSION_EPOCH."""

    code = 123
    name = "INVALID_SHARE_SESSION_EPOCH"
    description = "The share session epoch is invalid."


class FencedStateEpoch(KafkaError):
    """FENCED_STATE_EPOCH."""

    code = 124
    name = "FENCED_STATE_EPOCH"
    description = (
        "The share coordinator rejected the request because the share-group state epoch did not"
        " match."
    )


class InvalidRegularExpression(KafkaError):
    """INVALID_REGULAR_EXPRESSION."""

    code = 128
    name = "INVALID_REGULAR_EXPRESSION"
    description = "The regular expression is not valid."


class RebootstrapRequired(KafkaError):
    """REBOOTSTRAP_REQUIRED."""

    code = 129
    name = "REBOOTSTRAP_REQUIRED"
    description = "Client metadata is stale. The client should rebootstrap to obtain new metadata."


class ShareSessionLimitReached(RetriableError):
    """SHARE_SESSION_LIMIT_REACHED."""

    code = 133
    name = "SHARE_SESSION_LIMIT_REACHED"
    description = "The limit of share sessions has been reached."


def _classes_by_code() -> dict[int, type[KafkaError]]:
    classes: dict[int, type[KafkaError]] = {}
    for kind in [*KafkaError.__subclasses__(), *RetriableError.__subclasses__()]:
        if kind is RetriableError:
            continue
        if kind.code in classes:
            raise AssertionError(
                f"error code {kind.code} appears twice: {kind}, {classes[kind.code]}"
            )
        classes[kind.code] = kind
    return classes


ERRORS = _classes_by_code()
NONE = 0


def error_from_code(code: int, message: str | None = None) -> KafkaError:
    """The error for a code in a broker's response; an unknown code gives UnknownServerError
    that names it.
    """
    kind = ERRORS.get(code)
    if kind is None:
        kind = UnknownServerError
        message = f"error code {code}" + (f": {message}" if message else "")
    error = kind(message)
    error.source = ErrorSource.BROKER
    return error
