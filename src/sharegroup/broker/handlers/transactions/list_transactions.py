"""ListTransactions: all transactional ids, filtered by state, producer id, duration and pattern."""

from __future__ import annotations

from sharegroup.broker.authorization.resources import Operation, Resource, ResourceType
from sharegroup.broker.parts import BrokerParts
from sharegroup.broker.request_context import RequestContext
from sharegroup.broker.time_slices import sliced
from sharegroup.model.regex import compile_regex
from sharegroup.transactions.coordinator import overview
from sharegroup.transactions.transaction import LABELS
from sharegroup.wire.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)


async def list_transactions(
    parts: BrokerParts, request: ListTransactionsRequest, context: RequestContext
) -> ListTransactionsResponse:
    """Ids that the client may not see are left out.

    Raises:
        InvalidRegularExpression: RE2 refuses the pattern (KIP-1152).
    """
    pattern = request.transactional_id_pattern
    matches = compile_regex(pattern, "TransactionalIdPattern") if pattern else None
    unknown = [name for name in request.state_filters if name not in LABELS]
    states = frozenset(LABELS[name] for name in request.state_filters if name in LABELS)
    if unknown and not states:
        return ListTransactionsResponse(unknown_state_filters=unknown)
    found = overview(
        parts.views.transactions.all(),
        states=states,
        producer_ids=frozenset(request.producer_id_filters),
        longer_than_ms=request.duration_filter,
        now_ms=parts.clock.wall_ms(),
    )
    return ListTransactionsResponse(
        unknown_state_filters=unknown,
        transaction_states=[
            TransactionState(each.transactional_id, each.producer_id, each.state.label)
            async for each in sliced(found)
            if (matches is None or matches(each.transactional_id))
            and context.access.allows(
                Operation.DESCRIBE,
                Resource(ResourceType.TRANSACTIONAL_ID, each.transactional_id),
            )
        ],
    )
