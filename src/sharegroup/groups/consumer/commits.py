"""Who may commit or read the offsets of a consumer group (Kafka: ``ConsumerGroup``,
validateOffsetCommit and validateOffsetFetch).

A commit may be on its way while its member gets a new epoch. It counts if the member has had the
partition since an epoch that is not later than the commit's (KIP-1251): nobody else can have
committed for the partition in between.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final
from uuid import UUID

from sharegroup.groups.consumer.group import ConsumerGroup
from sharegroup.groups.consumer.member import ConsumerMember
from sharegroup.groups.offsets import CommitClient
from sharegroup.model import errors

COMMIT_HAS_MEMBER_EPOCH_FROM: Final = 9
"""The first version of OffsetCommit whose clients know of member epochs."""


def check_commit(
    group: ConsumerGroup, committer: CommitClient, partitions: Iterable[tuple[UUID, int]]
) -> None:
    """Allow a commit of offsets of these partitions by topic id.

    Raises:
        UnknownMemberId: there is no such member.
        UnsupportedVersion: the version of OffsetCommit has no member epochs.
        StaleMemberEpoch: the epoch is ahead of the member's; or it is older, and the member did not
            have all these partitions then, or does not have them any more. IllegalGeneration to a
            member of the classic protocol.
    """
    epoch = committer.epoch
    if epoch < 0 and not group.members:
        return
    if committer.transactional and (epoch, committer.member_id, committer.instance_id) == (
        -1,
        "",
        None,
    ):
        return
    member = group.member(committer.member_id)
    old = committer.version < COMMIT_HAS_MEMBER_EPOCH_FROM
    if old and not committer.transactional and member.classic is None:
        raise errors.UnsupportedVersion(
            f"OffsetCommit version {COMMIT_HAS_MEMBER_EPOCH_FROM} or above must be used by members "
            "using the consumer group protocol"
        )
    if epoch > member.epoch:
        raise _newer(epoch, member)
    if epoch < member.epoch:
        for topic_id, partition in partitions:
            _check_held(member, epoch, topic_id, partition)


def check_current(group: ConsumerGroup, member_id: str, epoch: int) -> None:
    """Allow a member to read offsets.

    Raises:
        UnknownMemberId: there is no such member.
        StaleMemberEpoch, or IllegalGeneration to a member of the classic protocol: the epoch is not
            the member's.
    """
    member = group.member(member_id)
    if epoch > member.epoch:
        raise _newer(epoch, member)
    if epoch < member.epoch:
        raise _wrong_epoch(
            member,
            f"Received member epoch {epoch} is older than current member epoch {member.epoch}.",
        )


def _check_held(member: ConsumerMember, epoch: int, topic_id: UUID, partition: int) -> None:
    since = member.epoch_of(topic_id, partition)
    if since is None:
        raise _wrong_epoch(
            member,
            f"Partition {topic_id}-{partition} is not assigned or pending revocation for member.",
        )
    if epoch < since:
        raise _wrong_epoch(
            member,
            f"Received member epoch {epoch} is older than assignment epoch {since} for partition "
            f"{topic_id}-{partition}.",
        )


def _newer(epoch: int, member: ConsumerMember) -> errors.KafkaError:
    return _wrong_epoch(
        member, f"Received member epoch {epoch} is newer than current member epoch {member.epoch}."
    )


def _wrong_epoch(member: ConsumerMember, message: str) -> errors.KafkaError:
    return (
        errors.StaleMemberEpoch(message)
        if member.classic is None
        else errors.IllegalGeneration(message)
    )
