"""The state of each record in flight, for tools that show a queue.

It comes from the share partition in memory if it is loaded, else from its durable state, which has
no locks. This is read-only: nothing is loaded, fenced or written.
"""

from __future__ import annotations

from itertools import islice

from sharegroup.broker.delivery.parts import DeliveryParts
from sharegroup.model.errors import UnknownServerError
from sharegroup.model.ids import SharePartitionKey
from sharegroup.share.partition import SharePartition
from sharegroup.share.spans import Span
from sharegroup.share_state.state import NO_EPOCH
from sharegroup.wire.messages.describe_share_group_offsets import (
    ArchivedOffsets,
    DescribeShareGroupOffsetsResponsePartition,
    RecordStates,
)


async def add_record_states(
    parts: DeliveryParts,
    key: SharePartitionKey,
    described: DescribeShareGroupOffsetsResponsePartition,
    first: int,
    room: int,
) -> int:
    """Add the states of the records from ``first`` on to ``described``, at most ``room`` runs.

    Returns the room that is left.

    Raises:
        KafkaError: the durable state cannot be read.
    """
    led = parts.share_partitions.find(key)
    core = await _stored(parts, key) if led is None else led.core
    now_ms = parts.clock.monotonic_ms()
    states = [_told(span, now_ms) for span in islice(core.spans(first), room)]
    described.record_states, described.end_offset = states, core.end_offset
    described.archived = [ArchivedOffsets(*one) for one in core.archived.ranges()]
    return room - len(states)


async def _stored(parts: DeliveryParts, key: SharePartitionKey) -> SharePartition:
    state = await parts.state.read(key, NO_EPOCH)
    try:
        return SharePartition(
            start_offset=state.start_offset,
            state_epoch=state.state_epoch,
            leader_epoch=NO_EPOCH,
            batches=state.batches,
        )
    except ValueError as error:
        raise UnknownServerError(f"the durable state of {key} cannot be: {error}") from error


def _told(span: Span, now_ms: int) -> RecordStates:
    first, last, state, delivery_count, lock = span
    told = RecordStates(first, last, int(state), max(0, delivery_count))
    if lock is not None:
        told.member_id, told.lock_ms = lock.member_id, max(0, lock.deadline_ms - now_ms)
    return told
