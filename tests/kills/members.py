"""What members of groups write down of their partitions; librdkafka's settings of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from tests.kills.working import INPUT, SESSION_MS, Work

CLASSIC = "classic"
COOPERATIVE = "cooperative-sticky"


class Owning:
    """Notes what the callbacks of a group say. Each is noted when it is called; ``revoked`` ends
    the ownership, before the group hears of it."""

    def __init__(self, work: Work) -> None:
        self._note = work.journal.note

    def assigned(self, partitions: Iterable[Any]) -> None:
        self._note("assigned", partitions=[each.partition for each in partitions])

    def revoked(self, partitions: Iterable[Any]) -> None:
        self._note("revoked", partitions=[each.partition for each in partitions])

    def lost(self, partitions: Iterable[Any]) -> None:
        self._note("lost", partitions=[each.partition for each in partitions])


def confluent_member(work: Work, group: str, **more: Any) -> Consumer:
    """A consumer of librdkafka, not subscribed yet. The group's name says its protocol."""
    if group.startswith(CLASSIC):
        more["session_timeout_ms"] = SESSION_MS
        more["heartbeat_interval_ms"] = 500
        more["partition_assignment_strategy"] = COOPERATIVE
    else:
        more["group_protocol"] = "consumer"
    # After some kills of the broker librdkafka waits ten seconds before it looks again. Meanwhile
    # its session ends, others get its partitions, and it says so when it is back.
    more["reconnect_backoff_max_ms"] = SESSION_MS // 6
    return Consumer(
        work.settings(
            group_id=group, enable_auto_commit=False, auto_offset_reset="earliest", **more
        )
    )


def our_settings(work: Work, group: str) -> dict[str, Any]:
    """The same for our Consumer."""
    settings: dict[str, Any] = {
        "bootstrap_servers": work.bootstrap,
        "group_id": group,
        "enable_auto_commit": False,
        "auto_offset_reset": "earliest",
    }
    if group.startswith(CLASSIC):
        settings["group_protocol"] = CLASSIC
        settings["partition_assignment_strategy"] = [COOPERATIVE]
        settings["session_timeout_ms"] = SESSION_MS
        settings["heartbeat_interval_ms"] = 500
    return settings


def input_places(offsets: dict[int, int]) -> list[TopicPartition]:
    """Offsets of the input, for librdkafka."""
    return [TopicPartition(INPUT, partition, offset) for partition, offset in offsets.items()]
