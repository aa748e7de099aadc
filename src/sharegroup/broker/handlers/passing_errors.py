"""What who reads a partition is told of an error that will pass.

A broker of ours asks others: the brokers of a cluster that it stands in front of. What they answer,
or that they do not, is an error that no reader of a partition expects: Java's consumers throw an
IllegalStateException at their program then, and librdkafka fails `poll`. Source: Kafka classes
FetchCollector and ShareFetchCollector.
"""

from __future__ import annotations

from typing import Final

from sharegroup.model import errors

_OF_OTHERS: Final = (
    errors.CoordinatorLoadInProgress,
    errors.CoordinatorNotAvailable,
    errors.LeaderNotAvailable,
    errors.NetworkException,
    errors.NotCoordinator,
    errors.NotEnoughReplicas,
    errors.NotEnoughReplicasAfterAppend,
    errors.RequestTimedOut,
)


def as_readers_expect(error: errors.KafkaError) -> errors.KafkaError:
    """The error itself; or OffsetNotAvailable with its text, if it comes from others and will pass:
    readers ask again a moment later."""
    if isinstance(error, _OF_OTHERS):
        return errors.OffsetNotAvailable(f"{error.name}: {error.message}")
    return error
