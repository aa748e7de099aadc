"""InitProducerId: a producer id, either a new one or the id that belongs to a transactional id."""

from __future__ import annotations

from typing import Final

from sharegroup.broker.authorization.resources import CLUSTER, Operation, Resource, ResourceType
from sharegroup.broker.parts import BrokerParts
from sharegroup.broker.request_context import RequestContext
from sharegroup.model import errors
from sharegroup.transactions.transaction import NO_EPOCH, NO_PRODUCER_ID, IdAndEpoch
from sharegroup.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

FENCED_FROM: Final = 4
"""The version from which clients know PRODUCER_FENCED."""


async def init_producer_id(
    parts: BrokerParts, request: InitProducerIdRequest, context: RequestContext
) -> InitProducerIdResponse:
    """With a transactional id: its producer id with a new epoch, which fences earlier producers.
    Without: a new id with epoch 0; a producer that bumps its own epoch gets a new id too."""
    expected = _expected(request)
    if request.transactional_id is not None:
        if not request.transactional_id:
            raise errors.InvalidRequest("a transactional id cannot be empty")
        context.access.require(
            Operation.WRITE, Resource(ResourceType.TRANSACTIONAL_ID, request.transactional_id)
        )
        try:
            owner = await parts.transactions.initialize(
                request.transactional_id, request.transaction_timeout_ms, expected
            )
        except errors.ProducerFenced:
            if context.version < FENCED_FROM:
                raise errors.InvalidProducerEpoch from None
            raise
        return InitProducerIdResponse(producer_id=owner.producer_id, producer_epoch=owner.epoch)
    if not context.access.allows_any(Operation.WRITE, ResourceType.TOPIC):
        context.access.require(Operation.IDEMPOTENT_WRITE, CLUSTER)
    return InitProducerIdResponse(producer_id=parts.store.next_producer_id(), producer_epoch=0)


def failure(request: InitProducerIdRequest, error: errors.KafkaError) -> InitProducerIdResponse:
    """A response with the error, and with neither an id nor an epoch."""
    return InitProducerIdResponse(error_code=error.code, producer_epoch=NO_EPOCH)


def _expected(request: InitProducerIdRequest) -> IdAndEpoch | None:
    """The id and epoch that the producer has so far; None for a new producer."""
    known = IdAndEpoch(request.producer_id, request.producer_epoch)
    if known == (NO_PRODUCER_ID, NO_EPOCH):
        return None
    if NO_PRODUCER_ID in known:
        raise errors.InvalidRequest("a producer id and its epoch come together")
    return known
