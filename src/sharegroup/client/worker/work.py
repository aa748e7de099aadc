"""A record in a worker's hands."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from sharegroup.client.core.record import Record, delivery_of
from sharegroup.model.ids import TopicIdPartition

Place = tuple[TopicIdPartition, int]
"""A record's partition and offset."""


def place_of(record: Record) -> Place:
    """The record's place."""
    return delivery_of(record).partition, record.offset


@dataclass(eq=False, slots=True)
class Work:
    """One record.

    Attributes:
        task: handles it, while it runs.
        timer: ends its rest.
        error: why its handler failed, or why the worker gave up on it.
        burying: its dead letter is under way, which a lost lock should not interrupt.
        cancelled: the worker has cancelled the task.
        lost: its lock is gone.
        giving_up: its handler has failed for the last time.
        again: its handler runs again after the rest, in the same delivery.
    """

    record: Record
    task: asyncio.Task[None] | None = None
    timer: asyncio.TimerHandle | None = None
    error: Exception | None = None
    burying: bool = False
    cancelled: bool = False
    lost: bool = False
    giving_up: bool = False
    again: bool = False

    @property
    def name(self) -> str:
        """The record's place, as logs show it."""
        return f"{self.record.topic_partition}@{self.record.offset}"
