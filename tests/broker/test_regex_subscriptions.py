"""Members that subscribe by regular expressions to very many topics do not stop the others."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from sharegroup.broker.server import Broker
from sharegroup.groups.consumer.patterns import Matches
from sharegroup.groups.topics import TopicsImage
from sharegroup.wire import apis
from sharegroup.wire.codec import decode
from sharegroup.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from sharegroup.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.broker.consumer_wire import EAGER
from tests.broker.greedy import Greedy, frame
from tests.broker.running import run
from tests.broker.steps import counted

TOPICS = 150


def joining(member: str, regex: str) -> bytes:
    request = ConsumerGroupHeartbeatRequest(
        "g",
        member,
        0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_regex=regex,
        topic_partitions=[],
    )
    return frame(apis.CONSUMER_GROUP_HEARTBEAT, 1, request)


async def make_topics(peer: Greedy, first: int, count: int) -> None:
    wanted = [CreatableTopic(f"t{number:04}", 1, 1) for number in range(first, first + count)]
    peer.send(frame(apis.CREATE_TOPICS, 7, CreateTopicsRequest(wanted, 60_000)))
    await peer.answer()


def test_topics_are_matched_in_slices_and_only_new_ones_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sharegroup.broker.time_slices.SLICE_S", 0)
    matched: list[str] = []
    steps_of = Matches.steps

    def counting(
        matches: Matches, regex: str, topics: TopicsImage
    ) -> Generator[None, None, tuple[str, ...]]:
        inner = steps_of(matches, regex, topics)
        while True:
            try:
                yield next(inner)
            except StopIteration as end:
                return end.value
            matched.append(regex)

    monkeypatch.setattr(Matches, "steps", counting)

    async def scenario(broker: Broker, port: int) -> None:
        peer = await Greedy.connect(port, begun=True)
        await make_topics(peer, 0, TOPICS)
        peer.send(joining("a", ".*none"))
        await peer.answer()
        # The topic of the groups was made meanwhile: it is matched on its own.
        assert matched.count(".*none") == (1 + TOPICS) + (1 + 1)
        with counted() as steps:
            peer.send(joining("b", "t.*7"))
            answer = decode(apis.CONSUMER_GROUP_HEARTBEAT.response, 1, await peer.answer(), 5)
        assert answer.error_code == 0
        assert steps.count > TOPICS
        assert len(answer.assignment.topic_partitions) == TOPICS // 10
        del matched[:]
        await make_topics(peer, TOPICS, 1)
        peer.send(joining("c", "t.*7"))
        await peer.answer()
        assert matched.count("t.*7") == 1 + 1, "compiled, and one name matched"
        peer.close()

    run(tmp_path, scenario, EAGER)
