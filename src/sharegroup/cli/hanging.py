"""``sharegroup transactions abort --topic``: ends a transaction that hangs in one partition.

The transaction's coordinator has forgotten it, or never knew of it, so no transactional id leads to
it. Readers of committed records wait at its first record until it is aborted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sharegroup.cli.outcome import UsageError
from sharegroup.client.admin.admin import Admin
from sharegroup.client.admin.descriptions import ProducerDescription
from sharegroup.model.errors import SharegroupError
from sharegroup.model.ids import TopicPartition


class NoSuchTransaction(SharegroupError):
    """No transaction begins at the named offset; the message says which transactions are open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hanging:
    """The transaction, as the user names it: by its first offset, or by its producer."""

    where: TopicPartition
    start_offset: int | None
    producer_id: int | None
    producer_epoch: int | None
    coordinator_epoch: int | None

    @property
    def named(self) -> bool:
        """Whether the user names one transaction; otherwise the open ones are to be shown."""
        return self.start_offset is not None or self.producer_id is not None

    def __str__(self) -> str:
        if self.start_offset is not None:
            return f"the transaction of {self.where} that begins at offset {self.start_offset}"
        return (
            f"the transaction of {self.where} by producer {self.producer_id} with epoch "
            f"{self.producer_epoch}"
        )


def parse_hanging(
    topic: str | None,
    partition: int | None,
    start_offset: int | None,
    producer: tuple[int | None, int | None, int | None],
) -> Hanging | None:
    """The transaction that these options name; None: no option was given.

    Args:
        producer: the producer's id, its epoch, and the coordinator's epoch.

    Raises:
        UsageError: an option is missing, or two exclude each other.
    """
    if all(one is None for one in (topic, partition, start_offset, *producer)):
        return None
    if topic is None or partition is None:
        raise UsageError("a transaction of a partition is named with --topic and --partition")
    producer_id, producer_epoch, coordinator_epoch = producer
    if start_offset is not None and any(one is not None for one in producer):
        raise UsageError("name the transaction by --start-offset or by its producer, not by both")
    if (producer_id is None) != (producer_epoch is None) or (
        producer_id is None and coordinator_epoch is not None
    ):
        raise UsageError("a producer is named with --producer-id and --producer-epoch")
    return Hanging(
        where=TopicPartition(topic, partition),
        start_offset=start_offset,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        coordinator_epoch=coordinator_epoch,
    )


async def abort_hanging(admin: Admin, wanted: Hanging) -> dict[str, Any]:
    """Abort the transaction. Returns its partition and producer, for scripts.

    Raises:
        NoSuchTransaction: no open transaction of the partition begins at this offset.
        KafkaError: the broker refuses.
    """
    if wanted.producer_id is None or wanted.producer_epoch is None:
        found = await _found(admin, wanted)
        marker = (found.producer_id, found.producer_epoch, max(found.coordinator_epoch, 0))
    else:
        marker = (wanted.producer_id, wanted.producer_epoch, wanted.coordinator_epoch or 0)
    producer_id, producer_epoch, coordinator_epoch = marker
    await admin.abort_transaction(
        wanted.where,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        coordinator_epoch=coordinator_epoch,
    )
    return {
        "topic": wanted.where.topic,
        "partition": wanted.where.partition,
        "start_offset": wanted.start_offset,
        "producer_id": producer_id,
        "producer_epoch": producer_epoch,
        "coordinator_epoch": coordinator_epoch,
    }


async def _found(admin: Admin, wanted: Hanging) -> ProducerDescription:
    producers = (await admin.describe_producers([wanted.where]))[wanted.where]
    opened = [one for one in producers if one.transaction_start is not None]
    for one in opened:
        if one.transaction_start == wanted.start_offset:
            return one
    shown = ", ".join(
        f"at offset {one.transaction_start} (producer {one.producer_id}, epoch "
        f"{one.producer_epoch})"
        for one in sorted(opened, key=lambda one: one.transaction_start or 0)
    )
    known = f"open there: {shown}" if shown else "none is open there"
    if wanted.start_offset is None:
        raise NoSuchTransaction(f"name a transaction of {wanted.where} by --start-offset; {known}")
    raise NoSuchTransaction(
        f"no open transaction of {wanted.where} begins at offset {wanted.start_offset}; {known}"
    )
