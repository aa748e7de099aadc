"""After a start: ends again the transactions whose markers the logs have lost, as the coordinators'
logs say that they have ended.

After a clean end the producer snapshot knows what has ended. After a crash a log is replayed, and a
transaction whose marker is damaged is open: its producer may be gone for good, and readers of
committed records would wait there. The log of its coordinator has the decision, with the
partitions, until it is rewritten.

A marker is written only if the last that the coordinator's log says of producer and partition is a
decision with the epoch of what is open. Before transaction version 2 a producer keeps its epoch:
then the partition must have damage behind the beginning of the transaction, too. Otherwise it is
the coordinator's log that may have lost its end, and with it a later transaction.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple, TypeAlias

from sharegroup.broker.coordination.log import CoordinatorTopic, InternalPartition, LoggedRecord
from sharegroup.broker.coordination.transaction_markers import TransactionMarkers
from sharegroup.model.errors import KafkaError, MalformedMessage
from sharegroup.model.ids import TopicPartition
from sharegroup.model.log import OwnedLog
from sharegroup.transactions.transaction import EPOCH_PER_TRANSACTION, Transaction
from sharegroup.wire.internal.transaction_log import decode_record

logger = logging.getLogger("sharegroup.broker")

Place: TypeAlias = tuple[int, TopicPartition]
"""A producer id, and a partition."""


class _Open(NamedTuple):
    """A transaction that is open in a partition."""

    epoch: int
    damaged: bool
    """Whether there is damage behind its beginning."""


async def write_again(
    logs: Iterable[OwnedLog],
    coordinators: CoordinatorTopic,
    known: Iterable[Transaction],
    markers: TransactionMarkers,
) -> None:
    """See the module. Nobody may produce yet. A marker that cannot be written is logged: its
    transaction stays open until the next start, or until its producer ends the next one.

    Args:
        known: what the coordinators have loaded. What is under way there ends without this.

    Raises:
        KafkaError: the log of a coordinator cannot be read.
    """
    opened = _opened(logs) if coordinators.exists else {}
    if opened:
        for transaction in known:
            for where in transaction.partitions:
                opened.pop((transaction.producer_id, where), None)
    if not opened:
        return
    for number in range(coordinators.partition_count):
        for decided in await _decisions(coordinators.partition(number), opened):
            logger.warning(
                "%s: the end of a transaction is lost in %s and is written again: %s",
                decided.transactional_id,
                ", ".join(str(where) for where in sorted(decided.partitions)),
                "commit" if decided.commits else "abort",
            )
            try:
                await markers.write(decided, set())
            except KafkaError as error:
                logger.error("%s: the end is not written: %s", decided.transactional_id, error)


def _opened(logs: Iterable[OwnedLog]) -> dict[Place, _Open]:
    """What is open in the logs that are in service."""
    opened = {}
    for log in logs:
        if log.failure is not None:
            continue
        damaged = max((damage.last for damage in log.damages()), default=-1)
        for producer in log.producer_states.active():
            if producer.transaction_start >= 0:
                found = _Open(producer.epoch, producer.transaction_start < damaged)
                opened[producer.producer_id, log.topic_partition] = found
    return opened


async def _decisions(log: InternalPartition, opened: Mapping[Place, _Open]) -> list[Transaction]:
    """The decisions in the log of a coordinator that hold for what is open, each with these
    partitions only. There is none if the log is damaged: a later transaction may be lost."""
    last: dict[Place, Transaction] = {}
    async for entry in log.replay():
        if not isinstance(entry, LoggedRecord):
            continue
        try:
            record = decode_record(entry.key, entry.value)
        except MalformedMessage as error:
            log.leave_out(entry.offset, error)
            continue
        if isinstance(record, Transaction):
            places = ((record.producer_id, where) for where in record.partitions)
            last.update((place, record) for place in places if place in opened)
    if log.left_out:
        return []
    found: defaultdict[Transaction, set[TopicPartition]] = defaultdict(set)
    for place, record in last.items():
        if record.prepared and _is_of(record, opened[place]):
            found[record].add(place[1])
    return [replace(record, partitions=frozenset(lost)) for record, lost in found.items()]


def _is_of(decided: Transaction, opened: _Open) -> bool:
    """Whether the decision is about what is open."""
    if decided.client_version >= EPOCH_PER_TRANSACTION:
        return decided.epoch == opened.epoch + 1
    return decided.epoch == opened.epoch and opened.damaged
