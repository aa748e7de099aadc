"""EndTxn: commit or abort a transaction. Answers when the outcome is durable."""

from __future__ import annotations

from typing import Final

from sharegroup.broker.authorization.resources import Operation, Resource, ResourceType
from sharegroup.broker.parts import BrokerParts
from sharegroup.broker.request_context import RequestContext
from sharegroup.model.errors import InvalidProducerEpoch, ProducerFenced
from sharegroup.transactions.transaction import EPOCH_PER_TRANSACTION, IdAndEpoch
from sharegroup.wire.messages.end_txn import EndTxnRequest, EndTxnResponse

FENCED_FROM: Final = 2
"""The version from which clients know PRODUCER_FENCED."""

BUMPS_FROM: Final = 5
"""From this version on the epoch is raised with each transaction, and the answer has it (KIP-890).
"""


async def end_txn(
    parts: BrokerParts, request: EndTxnRequest, context: RequestContext
) -> EndTxnResponse:
    """Decide the outcome; the markers follow."""
    context.access.require(
        Operation.WRITE, Resource(ResourceType.TRANSACTIONAL_ID, request.transactional_id)
    )
    try:
        following = await parts.transactions.end(
            request.transactional_id,
            IdAndEpoch(request.producer_id, request.producer_epoch),
            EPOCH_PER_TRANSACTION if context.version >= BUMPS_FROM else 0,
            commit=request.committed,
        )
    except ProducerFenced:
        if context.version < FENCED_FROM:
            raise InvalidProducerEpoch from None
        raise
    return EndTxnResponse(producer_id=following.producer_id, producer_epoch=following.epoch)
