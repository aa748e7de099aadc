"""Administration of an empty group: delete it, delete its offsets, set them.

Kafka classes GroupMetadataManager and GroupCoordinatorShard. Delivery state is kept elsewhere (by
the persister), so each operation has two halves. The records of the first half must be durable
before the persister is called: after a crash in between, the group still says what must be done
again (``initializing``, ``deleting``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple
from uuid import UUID

from sharegroup.groups.share.group import ShareGroup
from sharegroup.groups.share.records import ShareRecord, TopicPartitions
from sharegroup.groups.share.transition import ShareTransition, joined, without
from sharegroup.groups.topics import TopicsImage
from sharegroup.model.errors import KafkaError, NonEmptyGroup, UnknownTopicOrPartition


class ToDelete(NamedTuple):
    """The first half of a deletion: ``records`` must be durable before the delivery state of
    ``topics`` is deleted. ``refused`` holds the topics, by name, that have nothing to delete.
    """

    topics: tuple[TopicPartitions, ...]
    records: tuple[ShareRecord, ...]
    refused: dict[str, KafkaError]


def check_empty(group: ShareGroup) -> None:
    """Raise NonEmptyGroup when the group has members."""
    if group.members:
        raise NonEmptyGroup


def deletion(group: ShareGroup, topics: TopicsImage) -> ToDelete:
    """Move every topic of the group to ``deleting``. Topics that an earlier attempt left there are
    deleted again.
    """
    wanted = joined(group.initialized, group.initializing.values())
    wanted = joined(wanted, _left_deleting(group, group.deleting, topics))
    transition = ShareTransition(group)
    transition.set_state_partitions(
        initialized={},
        initializing={},
        deleting={topic.topic_id: topic.name for topic in wanted.values()},
    )
    return ToDelete(tuple(sorted(wanted.values())), transition.records, {})


def offsets_deletion(group: ShareGroup, names: Sequence[str], topics: TopicsImage) -> ToDelete:
    """Move the topics of these names to ``deleting``."""
    refused: dict[str, KafkaError] = {}
    found: list[TopicPartitions] = []
    for name in dict.fromkeys(names):
        info = topics.get(name)
        if info is None:
            refused[name] = UnknownTopicOrPartition()
        elif info.topic_id in group.initialized:
            found.append(group.initialized[info.topic_id])
        elif info.topic_id in group.deleting:
            found.extend(_left_deleting(group, [info.topic_id], topics))
        else:
            refused[name] = UnknownTopicOrPartition("There is no offset information to delete.")
    transition = ShareTransition(group)
    transition.set_state_partitions(
        initialized=without(group.initialized, found),
        deleting={**group.deleting, **{topic.topic_id: topic.name for topic in found}},
    )
    return ToDelete(tuple(found), transition.records, refused)


def deleted(group: ShareGroup, topic_ids: Iterable[UUID]) -> tuple[ShareRecord, ...]:
    """The delivery state of these topics is gone."""
    gone = frozenset(topic_ids)
    transition = ShareTransition(group)
    transition.set_state_partitions(
        deleting={t: name for t, name in group.deleting.items() if t not in gone}
    )
    return transition.records


def initializing(group: ShareGroup, topics: Sequence[TopicPartitions]) -> tuple[ShareRecord, ...]:
    """Delivery state of these partitions is about to begin, or to begin anew."""
    begun = frozenset(topic.topic_id for topic in topics)
    transition = ShareTransition(group)
    transition.set_state_partitions(
        initializing=joined(group.initializing, topics),
        deleting={t: name for t, name in group.deleting.items() if t not in begun},
    )
    return transition.records


def initialized(group: ShareGroup, topics: Iterable[TopicPartitions]) -> tuple[ShareRecord, ...]:
    """Delivery state of these partitions exists now. Partitions that are no longer
    ``initializing`` (their topic was deleted meanwhile) are skipped.
    """
    done = []
    for topic in topics:
        begun = group.initializing.get(topic.topic_id)
        if begun is not None:
            both = tuple(sorted({*begun.partitions} & {*topic.partitions}))
            done.append(topic._replace(partitions=both))
    transition = ShareTransition(group)
    transition.set_state_partitions(
        initialized=joined(group.initialized, done),
        initializing=without(group.initializing, done),
    )
    return transition.records


def not_initialized(
    group: ShareGroup, topics: Iterable[TopicPartitions]
) -> tuple[ShareRecord, ...]:
    """Initialising these partitions has failed; the next heartbeat tries again."""
    transition = ShareTransition(group)
    transition.set_state_partitions(initializing=without(group.initializing, topics))
    return transition.records


def topics_gone(group: ShareGroup, topic_ids: Iterable[UUID]) -> tuple[ShareRecord, ...]:
    """Forget topics that were deleted."""
    gone = frozenset(topic_ids)
    transition = ShareTransition(group)
    transition.set_state_partitions(
        initialized={t: topic for t, topic in group.initialized.items() if t not in gone},
        initializing={t: topic for t, topic in group.initializing.items() if t not in gone},
        deleting={t: name for t, name in group.deleting.items() if t not in gone},
    )
    return transition.records


def _left_deleting(
    group: ShareGroup, topic_ids: Iterable[UUID], topics: TopicsImage
) -> list[TopicPartitions]:
    """Topics whose deletion has begun and not ended, with all their partitions. Topics that no
    longer exist are skipped.
    """
    found = []
    for topic_id in topic_ids:
        name = group.deleting[topic_id]
        info = topics.get(name)
        if info is not None and info.topic_id == topic_id:
            found.append(TopicPartitions(topic_id, name, tuple(range(info.partition_count))))
    return found
