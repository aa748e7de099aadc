"""AddOffsetsToTxn: add the offsets of a group to a transaction, before TxnOffsetCommit."""

from __future__ import annotations

from typing import Final

from sharegroup.broker.authorization.resources import Operation, Resource, ResourceType
from sharegroup.broker.parts import BrokerParts
from sharegroup.broker.request_context import RequestContext
from sharegroup.model.errors import InvalidProducerEpoch, ProducerFenced
from sharegroup.transactions.transaction import IdAndEpoch
from sharegroup.wire.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)

FENCED_FROM: Final = 2
"""The version from which clients know PRODUCER_FENCED."""


async def add_offsets_to_txn(
    parts: BrokerParts, request: AddOffsetsToTxnRequest, context: RequestContext
) -> AddOffsetsToTxnResponse:
    """The group's partition of ``__consumer_offsets`` becomes part of the transaction."""
    context.access.require(
        Operation.WRITE, Resource(ResourceType.TRANSACTIONAL_ID, request.transactional_id)
    )
    context.access.require_group(Operation.READ, request.group_id)
    try:
        await parts.transactions.add_group(
            request.transactional_id,
            IdAndEpoch(request.producer_id, request.producer_epoch),
            request.group_id,
            version=0,
        )
    except ProducerFenced:
        if context.version < FENCED_FROM:
            raise InvalidProducerEpoch from None
        raise
    return AddOffsetsToTxnResponse()
