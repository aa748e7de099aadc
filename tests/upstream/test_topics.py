"""Which topics a cluster has, as its brokers tell it: they need not agree."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

import pytest

from sharegroup.client.core.known_answer import KnownAnswer
from sharegroup.client.network.metadata import MetadataImage
from sharegroup.model import errors
from sharegroup.upstream.topics import ClusterTopics
from sharegroup.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

FIRST, ANEW = UUID(int=1), UUID(int=2)
UNKNOWN = errors.UnknownTopicOrPartition.code


class Brokers:
    """Three brokers, each with its own idea of the topics; None: the broker is down."""

    def __init__(self) -> None:
        self.metadata = MetadataImage()
        self.know: list[dict[str, UUID] | None] = [{"jobs": FIRST} for _ in range(3)]
        self.asked_first = 0

    def watch_no_more(self, topic: str) -> None: ...

    async def send_to_any(
        self, _api: object, request: MetadataRequest, _known: KnownAnswer
    ) -> MetadataResponse:
        return await self.send(self.asked_first, _api, request)

    async def send(
        self, node: int, _api: object, request: MetadataRequest, lane: str = ""
    ) -> MetadataResponse:
        known = self.know[node]
        if known is None:
            raise errors.NetworkException
        names = known if request.topics is None else [one.name or "" for one in request.topics]
        return MetadataResponse(
            brokers=[MetadataResponseBroker(number, "host", 1) for number in range(3)],
            cluster_id="cluster",
            topics=[_answer(name, known.get(name)) for name in names],
        )


def _answer(name: str, topic_id: UUID | None) -> MetadataResponseTopic:
    if topic_id is None:
        return MetadataResponseTopic(error_code=UNKNOWN, name=name)
    partitions = [MetadataResponsePartition(partition_index=0, leader_id=0)]
    return MetadataResponseTopic(name=name, topic_id=topic_id, partitions=partitions)


def topics_of(brokers: Brokers) -> ClusterTopics:
    return ClusterTopics(brokers, lambda _name: False)  # type: ignore[arg-type]


def told(brokers: Brokers, *looks: dict[str, Any]) -> dict[str, UUID]:
    """What is there after some looks; before each, attributes of the brokers change."""

    async def scenario() -> dict[str, UUID]:
        topics = topics_of(brokers)
        await topics.look()
        for change in looks:
            for name, value in change.items():
                setattr(brokers, name, value)
            await topics.look()
        return {name: facts.topic_id for name, facts in topics.facts.items()}

    return asyncio.run(scenario())


@pytest.mark.parametrize(
    ("know", "found"),
    [
        pytest.param([{}, {}, {}], {}, id="deleted"),
        pytest.param([{}, {}, None], {}, id="deleted, and a broker is down"),
        pytest.param([{}, {"jobs": FIRST}, {}], {"jobs": FIRST}, id="a broker still knows it"),
        pytest.param([{}, None, None], {"jobs": FIRST}, id="only one broker answers"),
        pytest.param([{"jobs": ANEW}] * 3, {"jobs": ANEW}, id="made anew"),
        pytest.param(
            [{"jobs": ANEW}, {"jobs": FIRST}, {}],
            {"jobs": FIRST},
            id="not yet made anew everywhere",
        ),
    ],
)
def test_a_topic_is_gone_when_no_broker_knows_it(
    know: list[dict[str, UUID] | None], found: dict[str, UUID]
) -> None:
    assert told(Brokers(), {"know": know}) == found


@pytest.mark.parametrize(
    ("know", "gone"),
    [
        pytest.param([{}, {}, {}], True, id="deleted"),
        pytest.param([{}, {}, None], True, id="deleted, and a broker is down"),
        pytest.param([{}, {"jobs": FIRST}, {}], False, id="made a moment ago"),
        pytest.param([{}, None, None], False, id="only one broker answers"),
        pytest.param([{"jobs": ANEW}, {"jobs": ANEW}, {}], True, id="made anew"),
        pytest.param([{"jobs": ANEW}, {"jobs": FIRST}, {}], False, id="not yet gone everywhere"),
    ],
)
def test_a_topic_that_was_never_seen_here_is_gone_when_no_broker_knows_it(
    know: list[dict[str, UUID] | None], gone: bool
) -> None:
    """What groups have done with it, a broker that takes over finds in their log."""
    brokers = Brokers()
    brokers.know = know

    async def scenario() -> None:
        topics = topics_of(brokers)
        await topics.look()
        assert await topics.gone({FIRST: "jobs"}) == ({FIRST} if gone else set())

    asyncio.run(scenario())


def test_a_broker_that_is_behind_brings_no_deleted_topic_back() -> None:
    brokers = Brokers()
    anew = [{"jobs": ANEW}] * 3
    behind = [{"jobs": FIRST}, {"jobs": ANEW}, {"jobs": ANEW}]
    assert told(brokers, {"know": anew}, {"know": behind}) == {"jobs": ANEW}


def test_what_was_made_anew_is_known_at_once() -> None:
    brokers = Brokers()

    async def scenario() -> None:
        topics = topics_of(brokers)
        await topics.look()
        brokers.know = [{"jobs": ANEW}] * 3
        await topics.look()
        assert brokers.metadata.id_of("jobs") == ANEW

    asyncio.run(scenario())


def test_two_looks_at_a_time_find_one_topic_gone() -> None:
    """As where a client deletes a topic while the broker looks by itself."""
    brokers = Brokers()

    async def scenario() -> None:
        topics = topics_of(brokers)
        await topics.look()
        brokers.know = [{}, {}, {}]
        await asyncio.gather(topics.look(), topics.look())
        assert not topics.facts

    asyncio.run(scenario())
