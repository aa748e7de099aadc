"""One topic as the page shows it."""

from __future__ import annotations

from typing import Any, Final

from sharegroup.client.admin.admin import Admin
from sharegroup.client.admin.descriptions import OffsetSpec
from sharegroup.console.settings import settings_of
from sharegroup.model.ids import TopicPartition

_INTERNAL: Final = ("sharegroup.", "__")

Json = dict[str, Any]


async def topics(admin: Admin) -> Json:
    """All topics, with one line each."""
    listed = await admin.list_topics()
    return {
        "topics": [
            {
                "topic": one.name,
                "partitions": one.partition_count,
                "internal": is_internal(one.name),
            }
            for one in listed
        ]
    }


def is_internal(topic: str) -> bool:
    """Whether sharegroup itself keeps something in this topic."""
    return topic.startswith(_INTERNAL)


async def topic(admin: Admin, name: str) -> Json:
    """One topic, whole.

    Raises:
        KafkaError: there is no such topic, or it may not be seen.
    """
    described = (await admin.describe_topics(name))[name]
    partitions = [TopicPartition(name, one.partition) for one in described.partitions]
    first = await admin.list_offsets(partitions, OffsetSpec.EARLIEST)
    end = await admin.list_offsets(partitions, OffsetSpec.LATEST)
    settings, missing = await settings_of(admin, "topic", name)
    return {
        "topic": name,
        "internal": is_internal(name),
        "partitions": [
            {
                "partition": one.partition,
                "leader": one.leader,
                "start": first[at].offset,
                "end": end[at].offset,
            }
            for at, one in zip(partitions, described.partitions, strict=True)
        ],
        "settings": settings,
        "settings_missing": missing,
    }
