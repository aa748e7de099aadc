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

import re
from collections.abc import Sequence
from enum import StrEnum
from typing import ClassVar

_WORD_STARTS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


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


class NoAnswerWanted(SharegroupError):
    """A request whose sender wants no answer has failed. Its connection is closed instead, as
    Apache Kafka does: the sender looks up leaders and topics again."""


class ConfigError(SharegroupError):
    """Invalid setting; the text says what is wrong and what to write."""


ERRORS: dict[int, type[KafkaError]] = {}
"""The class of each code. Filled as the classes are made."""


class KafkaError(SharegroupError):
    """An error the protocol has a code for.

    A subclass names its code; its name follows from the class's, and its docstring is Kafka's
    message, which ``str()`` gives where no other message was given.
    """

    code: ClassVar[int] = -1
    name: ClassVar[str] = "UNKNOWN_SERVER_ERROR"
    description: ClassVar[str] = ""
    retriable: ClassVar[bool] = False

    def __init_subclass__(cls, *, code: int | None = None, name: str | None = None) -> None:
        super().__init_subclass__()
        if code is None:
            return
        if code in ERRORS:
            raise AssertionError(f"error code {code} appears twice: {cls}, {ERRORS[code]}")
        ERRORS[code] = cls
        cls.code = code
        cls.name = name or _WORD_STARTS.sub("_", cls.__name__).upper()
        # Python drops docstrings under -OO: the name is what remains.
        cls.description = " ".join((cls.__doc__ or cls.name).split())

    records: Sequence[tuple[int, str]] = ()
    """Of a refused batch: which of its records are at fault, from 0, and why."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or self.description)

    @property
    def message(self) -> str:
        """What went wrong, in a sentence."""
        return str(self.args[0])


class RetriableError(KafkaError):
    """The same request may succeed later."""

    retriable: ClassVar[bool] = True


class UnknownServerError(KafkaError, code=-1):
    """The server experienced an unexpected error when processing the request."""


class OffsetOutOfRange(KafkaError, code=1):
    """The requested offset is not within the range of offsets maintained by the server."""


class CorruptMessage(RetriableError, code=2):
    """This message has failed its CRC checksum, exceeds the valid size, or is otherwise corrupt."""


class UnknownTopicOrPartition(RetriableError, code=3):
    """This server does not host this topic-partition."""


class LeaderNotAvailable(RetriableError, code=5):
    """There is no leader for this topic-partition."""


class NotLeaderOrFollower(RetriableError, code=6):
    """This broker is not the leader of the partition."""


class RequestTimedOut(RetriableError, code=7):
    """The request timed out."""

    source = ErrorSource.CONNECTION


class MessageTooLarge(KafkaError, code=10):
    """The request included a message larger than the max message size the server will accept."""


class OffsetMetadataTooLarge(KafkaError, code=12):
    """The metadata field of the offset request was too large."""


class NetworkException(RetriableError, code=13):
    """The server disconnected before a response was received."""

    source = ErrorSource.CONNECTION


class CoordinatorLoadInProgress(RetriableError, code=14):
    """The coordinator is loading and hence can't process requests."""


class CoordinatorNotAvailable(RetriableError, code=15):
    """The coordinator is not available."""


class NotCoordinator(RetriableError, code=16):
    """This is not the correct coordinator."""


class InvalidTopic(KafkaError, code=17, name="INVALID_TOPIC_EXCEPTION"):
    """The request attempted to perform an operation on an invalid topic."""


class RecordListTooLarge(KafkaError, code=18):
    """The request included message batch larger than the configured segment size on the server."""


class NotEnoughReplicas(RetriableError, code=19):
    """Messages are rejected since there are fewer in-sync replicas than required."""


class NotEnoughReplicasAfterAppend(RetriableError, code=20):
    """Messages are written to the log, but to fewer in-sync replicas than required."""


class InvalidRequiredAcks(KafkaError, code=21):
    """Produce request specified an invalid value for required acks."""


class IllegalGeneration(KafkaError, code=22):
    """Specified group generation id is not valid."""


class InconsistentGroupProtocol(KafkaError, code=23):
    """The group member's supported protocols are incompatible with those of existing members or
    first group member tried to join with empty protocol type or empty protocol list.
    """


class InvalidGroupId(KafkaError, code=24):
    """The group id is invalid."""


class UnknownMemberId(KafkaError, code=25):
    """The coordinator is not aware of this member."""


class InvalidSessionTimeout(KafkaError, code=26):
    """The session timeout is not within the range allowed by the broker (as configured by
    group.min.session.timeout.ms and group.max.session.timeout.ms).
    """


class RebalanceInProgress(KafkaError, code=27):
    """The group is rebalancing, so a rejoin is needed."""


class InvalidCommitOffsetSize(KafkaError, code=28):
    """The committing offset data size is not valid."""


class TopicAuthorizationFailed(KafkaError, code=29):
    """Topic authorization failed."""


class GroupAuthorizationFailed(KafkaError, code=30):
    """Group authorization failed."""


class ClusterAuthorizationFailed(KafkaError, code=31):
    """Cluster authorization failed."""


class InvalidTimestamp(KafkaError, code=32):
    """The timestamp of the message is out of acceptable range."""


class AuthenticationFailed(KafkaError):
    """A connection could not be secured, or the broker refused who we are (Kafka class
    AuthenticationException). To try again with the same settings does not help.
    """

    name: ClassVar[str] = "AUTHENTICATION_FAILED"


class TlsFailed(AuthenticationFailed):
    """TLS did not come about: a certificate is not accepted, or only one side speaks TLS (Kafka
    class SslAuthenticationException).
    """

    name: ClassVar[str] = "TLS_FAILED"
    source = ErrorSource.CONNECTION


class UnsupportedSaslMechanism(AuthenticationFailed, code=33):
    """The broker does not support the requested SASL mechanism."""


class IllegalSaslState(AuthenticationFailed, code=34):
    """Request is not valid given the current SASL state."""


class UnsupportedVersion(KafkaError, code=35):
    """The version of API is not supported."""


class TopicAlreadyExists(KafkaError, code=36):
    """Topic with this name already exists."""


class InvalidPartitions(KafkaError, code=37):
    """Number of partitions is below 1."""


class InvalidReplicationFactor(KafkaError, code=38):
    """Replication factor is below 1 or larger than the number of available brokers."""


class InvalidReplicaAssignment(KafkaError, code=39):
    """Replica assignment is invalid."""


class InvalidConfig(KafkaError, code=40):
    """Configuration is invalid."""


class NotController(RetriableError, code=41):
    """This is not the correct controller for this cluster."""


class InvalidRequest(KafkaError, code=42):
    """The request is malformed or asks for something that does not make sense."""


class UnsupportedForMessageFormat(KafkaError, code=43):
    """The message format version on the broker does not support the request."""


class PolicyViolation(KafkaError, code=44):
    """Request parameters do not satisfy the configured policy."""


class OutOfOrderSequenceNumber(KafkaError, code=45):
    """The broker received an out of order sequence number."""


class DuplicateSequenceNumber(KafkaError, code=46):
    """The broker received a duplicate sequence number."""


class InvalidProducerEpoch(KafkaError, code=47):
    """Producer attempted to produce with an old epoch."""


class InvalidTxnState(KafkaError, code=48):
    """The producer attempted a transactional operation in an invalid state."""


class InvalidProducerIdMapping(KafkaError, code=49):
    """The producer attempted to use a producer id which is not currently assigned to its
    transactional id.
    """


class InvalidTransactionTimeout(KafkaError, code=50):
    """The transaction timeout is larger than the maximum value allowed by the broker (as configured
    by transaction.max.timeout.ms).
    """


class ConcurrentTransactions(RetriableError, code=51):
    """The producer attempted to update a transaction while another concurrent operation on the same
    transaction was ongoing.
    """


class TransactionCoordinatorFenced(KafkaError, code=52):
    """Indicates that the transaction coordinator sending a WriteTxnMarker is no longer the current
    coordinator for a given producer.
    """


class TransactionalIdAuthorizationFailed(KafkaError, code=53):
    """The transactional id authorization failed."""


class SecurityDisabled(KafkaError, code=54):
    """Security features are disabled."""


class OperationNotAttempted(KafkaError, code=55):
    """The broker did not attempt to execute this operation."""


class KafkaStorageError(RetriableError, code=56):
    """Disk error when trying to access log file on the disk."""


class SaslAuthenticationFailed(AuthenticationFailed, code=58):
    """SASL Authentication failed."""


class UnknownProducerId(KafkaError, code=59):
    """The broker could not locate the producer metadata associated with the producer id."""


class NonEmptyGroup(KafkaError, code=68):
    """The group is not empty."""


class GroupIdNotFound(KafkaError, code=69):
    """The group id does not exist."""


class FetchSessionIdNotFound(RetriableError, code=70):
    """The fetch session ID was not found."""


class InvalidFetchSessionEpoch(RetriableError, code=71):
    """The fetch session epoch is invalid."""


class TopicDeletionDisabled(KafkaError, code=73):
    """Topic deletion is disabled."""


class FencedLeaderEpoch(RetriableError, code=74):
    """The leader epoch in the request is older than the epoch on the broker."""


class UnknownLeaderEpoch(RetriableError, code=75):
    """The leader epoch in the request is newer than the epoch on the broker."""


class UnsupportedCompressionType(KafkaError, code=76):
    """The requesting client does not support the compression type of given partition."""


class OffsetNotAvailable(RetriableError, code=78):
    """The leader high watermark has not caught up from a recent leader election."""


class MemberIdRequired(KafkaError, code=79):
    """The group member needs to have a valid member id before actually entering a consumer
    group.
    """


class GroupMaxSizeReached(KafkaError, code=81):
    """The group has reached its maximum size."""


class FencedInstanceId(KafkaError, code=82):
    """The broker rejected this static consumer since another consumer with the same
    group.instance.id has registered with a different member.id.
    """


class GroupSubscribedToTopic(KafkaError, code=86):
    """Deleting offsets of a topic is forbidden while the consumer group is actively subscribed to
    it.
    """


class ElectionNotNeeded(KafkaError, code=84):
    """Leader election not needed for topic partition."""


class NoReassignmentInProgress(KafkaError, code=85):
    """No partition reassignment is in progress."""


class InvalidRecord(KafkaError, code=87):
    """This record has failed the validation on broker and hence will be rejected."""


class UnstableOffsetCommit(RetriableError, code=88):
    """There are unstable offsets that need to be cleared."""


class ThrottlingQuotaExceeded(RetriableError, code=89):
    """The throttling quota has been exceeded."""


class ProducerFenced(KafkaError, code=90):
    """There is a newer producer with the same transactionalId which fences the current one."""


class ResourceNotFound(KafkaError, code=91):
    """A request illegally referred to a resource that does not exist."""


class DuplicateResource(KafkaError, code=92):
    """A request illegally referred to the same resource twice."""


class UnacceptableCredential(KafkaError, code=93):
    """Requested credential would not meet criteria for acceptability."""


class InvalidUpdateVersion(KafkaError, code=95):
    """The given update version was invalid."""


class UnknownTopicId(RetriableError, code=100):
    """This server does not host this topic ID."""


class DuplicateBrokerRegistration(KafkaError, code=101):
    """This broker ID is already in use."""


class BrokerIdNotRegistered(KafkaError, code=102):
    """The given broker ID was not registered."""


class InconsistentTopicId(RetriableError, code=103):
    """The log's topic ID did not match the topic ID in the request."""


class TransactionalIdNotFound(KafkaError, code=105):
    """The transactionalId could not be found."""


class FetchSessionTopicIdError(RetriableError, code=106):
    """The fetch session encountered inconsistent topic ID usage."""


class FencedMemberEpoch(KafkaError, code=110):
    """The member epoch is fenced by the group coordinator."""


class UnreleasedInstanceId(KafkaError, code=111):
    """The instance ID is still used by another member in the group."""


class UnsupportedAssignor(KafkaError, code=112):
    """The assignor or its version range is not supported by the consumer group."""


class StaleMemberEpoch(KafkaError, code=113):
    """The member epoch is stale."""


class TransactionAbortable(KafkaError, code=120):
    """The server encountered an error with the transaction. The client can abort the transaction to
    continue using this transactional ID.
    """


class InvalidRecordState(KafkaError, code=121):
    """The record state is invalid; the acknowledgement of delivery could not be completed."""


class ShareSessionNotFound(RetriableError, code=122):
    """The share session was not found."""


class InvalidShareSessionEpoch(RetriableError, code=123):
    """The share session epoch is invalid."""


class FencedStateEpoch(KafkaError, code=124):
    """The share coordinator rejected the request because the share-group state epoch did not
    match.
    """


class InvalidRegularExpression(KafkaError, code=128):
    """The regular expression is not valid."""


class RebootstrapRequired(KafkaError, code=129):
    """Client metadata is stale. The client should rebootstrap to obtain new metadata."""


class ShareSessionLimitReached(RetriableError, code=133):
    """The limit of share sessions has been reached."""


class IndividualCommitNotAllowed(KafkaError, code=10088):
    """The broker or the topic does not take commits of single offsets (KIP-X)."""


class TopicRangeFetchNotAllowed(KafkaError, code=10089):
    """The topic is not fetched by key range: its config accept.range.fetch is false (KIP-X)."""


class ConsumerRangeFetchNotAccepted(KafkaError, code=10090):
    """The consumer was given a part of a partition and takes whole ones only (KIP-X)."""


class IndividualCommitTooOld(KafkaError, code=10091):
    """The offsets lie before the stable offset: they were committed before (KIP-X)."""


class MaxIndividualCommitReached(KafkaError, code=10092):
    """The group has as many committed ranges as the coordinator keeps (KIP-X)."""


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
