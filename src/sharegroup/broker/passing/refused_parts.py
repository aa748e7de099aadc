"""What of a request its client may not do, while the rest is passed on: as at Kafka, a topic, a
group or a resource is refused alone (Kafka class KafkaApis)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from sharegroup.broker.authorization.access import Access
from sharegroup.broker.authorization.resources import (
    CLUSTER,
    Operation,
    Resource,
    ResourceType,
    group,
    topic,
)
from sharegroup.broker.passing.rights import Need, require
from sharegroup.model.errors import KafkaError, OperationNotAttempted
from sharegroup.wire import apis
from sharegroup.wire.apis import Api
from sharegroup.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnTopicResult,
)
from sharegroup.wire.refusal import refuser

TOPIC_CONFIGS: Final = 2
"""The type of a resource whose settings are altered."""


class Parts(NamedTuple):
    """The parts of a request that are refused one by one.

    Attributes:
        asked: the array of the request.
        told: the array of the response with what became of them.
        need: the right that one needs; None: it is asked for elsewhere.
        all_or_nothing: if one is refused, the others are not tried.
    """

    asked: str
    told: str
    need: Callable[[Any], Need | None]
    all_or_nothing: bool = False


class Split(NamedTuple):
    """A request without what its client may not do.

    Attributes:
        allowed: what is left; None: nothing.
        told: the array of the response for what is refused.
        refused: its elements.
    """

    allowed: Any
    told: str = ""
    refused: Sequence[Any] = ()

    def answer(self, api: Api, rest: Any) -> Any:
        """The answer to the whole request; ``rest``: that to what was allowed."""
        if not self.refused:
            return rest
        response: Any = api.response() if rest is None else rest
        return replace(response, **{self.told: [*self.refused, *getattr(response, self.told)]})


def split(access: Access, api: Api, request: Any) -> Split:
    """Take from a request what its client may not do."""
    parts = PARTS.get(api.key)
    named = getattr(request, parts.asked) if parts is not None else None
    if parts is None or not named:
        return Split(request)
    errors = [_refusal(access, parts.need(one)) for one in named]
    if not any(errors):
        return Split(request)
    if parts.all_or_nothing:
        errors = [error or OperationNotAttempted() for error in errors]
    told = [
        _told(api, parts, request, one, error)
        for one, error in zip(named, errors, strict=True)
        if error is not None
    ]
    without = [one for one, error in zip(named, errors, strict=True) if error is None]
    allowed = replace(request, **{parts.asked: without}) if without else None
    return Split(allowed, parts.told, told)


def _refusal(access: Access, need: Need | None) -> KafkaError | None:
    try:
        if need is not None:
            require(access, need)
    except KafkaError as error:
        return error
    return None


def _told(api: Api, parts: Parts, request: Any, part: Any, error: KafkaError) -> Any:
    """The element of the response for a part that is refused."""
    if api is apis.ADD_PARTITIONS_TO_TXN:  # its errors have a name of their own
        results = [AddPartitionsToTxnPartitionResult(at, error.code) for at in part.partitions]
        return AddPartitionsToTxnTopicResult(part.name, results)
    (told,) = getattr(
        refuser(api.response)(replace(request, **{parts.asked: [part]}), error), parts.told
    )
    return told


def _read(one: Any) -> Need:
    return Operation.READ, topic(one.name)


def _write(one: Any) -> Need:
    return Operation.WRITE, topic(one.name)


def _create(one: Any) -> Need:
    return (
        Operation.CREATE,
        topic(one.name),
        lambda access: access.allows(Operation.CREATE, CLUSTER),
    )


def _alter(one: Any) -> Need:
    return Operation.ALTER, topic(one.name)


def _alter_configs(one: Any) -> Need | None:
    """Other settings than those of topics are altered here."""
    if one.resource_type != TOPIC_CONFIGS:
        return None
    return Operation.ALTER_CONFIGS, topic(one.resource_name)


def _describe_group(name: str) -> Need:
    return Operation.DESCRIBE, group(name)


def _fetch_offsets(one: Any) -> Need:
    return Operation.DESCRIBE, group(one.group_id)


def _describe_transaction(name: str) -> Need:
    return Operation.DESCRIBE, Resource(ResourceType.TRANSACTIONAL_ID, name)


PARTS: Final[dict[int, Parts]] = {
    apis.OFFSET_COMMIT.key: Parts("topics", "topics", _read),
    apis.TXN_OFFSET_COMMIT.key: Parts("topics", "topics", _read),
    apis.OFFSET_DELETE.key: Parts("topics", "topics", _read),
    apis.OFFSET_FETCH.key: Parts("groups", "groups", _fetch_offsets),
    apis.ADD_PARTITIONS_TO_TXN.key: Parts(
        "v3_and_below_topics", "results_by_topic_v3_and_below", _write, all_or_nothing=True
    ),
    apis.CREATE_TOPICS.key: Parts("topics", "topics", _create),
    apis.CREATE_PARTITIONS.key: Parts("topics", "results", _alter),
    apis.DESCRIBE_GROUPS.key: Parts("groups", "groups", _describe_group),
    apis.CONSUMER_GROUP_DESCRIBE.key: Parts("group_ids", "groups", _describe_group),
    apis.DESCRIBE_TRANSACTIONS.key: Parts(
        "transactional_ids", "transaction_states", _describe_transaction
    ),
    apis.INCREMENTAL_ALTER_CONFIGS.key: Parts("resources", "responses", _alter_configs),
    apis.ALTER_CONFIGS.key: Parts("resources", "responses", _alter_configs),
}
"""By API key."""
