"""A worker whose answer for one record comes too late: what becomes of its other answers."""

from __future__ import annotations

import asyncio
from typing import Self

from sharegroup.client import Record, ShareConsumer
from sharegroup.model.errors import InvalidRecordState
from sharegroup.wire import apis
from sharegroup.wire.messages.share_acknowledge import ShareAcknowledgeRequest
from sharegroup.wire.messages.share_fetch import ShareFetchRequest
from sharegroup.wire.schema import Message
from tests.client.scripted_group import TOPIC, ScriptedGroup
from tests.client.worker_jobs import until, work, worker_metrics
from tests.client.working import run

_WAIT_S = 0.3
"""How long a fetch waits: much longer than answers wait for one another."""


class FirstLockGone(ScriptedGroup):
    """A node whose lock of offset 0 is gone: it refuses requests that acknowledge this offset. Its
    fetches without records wait.

    Attributes:
        asked: the offsets of each request with acknowledgements.
        taken: the offsets whose acknowledgements it has taken.
        stalled: a fetch has come after the first acknowledgements, and is not answered.
    """

    def __init__(self, *, stalls: bool = False) -> None:
        super().__init__([1], records=3, at_once=3)
        self.stalled = asyncio.Event()
        self._stalls = stalls
        self.asked: list[list[int]] = []
        self.taken: set[int] = set()

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        self.nodes[1].handle(apis.SHARE_FETCH, self._wait_and_fetch, (1, 2))
        return self

    async def _wait_and_fetch(self, request: Message, version: int) -> Message:
        assert isinstance(request, ShareFetchRequest)
        if self._stalls and self.asked and not self.stalled.is_set():
            self.stalled.set()
            await asyncio.Event().wait()
        if not self.left[1]:
            await asyncio.sleep(_WAIT_S)
        self.carried_refusals = self._refusals(request)
        return self._fetch(1, request)

    def _acknowledge(self, node: int, request: Message) -> Message:
        assert isinstance(request, ShareAcknowledgeRequest)
        self.refusals = self._refusals(request)
        return super()._acknowledge(node, request)

    def _refusals(self, request: ShareFetchRequest | ShareAcknowledgeRequest) -> list[int]:
        said = [
            offset
            for topic in request.topics
            for partition in topic.partitions
            for batch in partition.acknowledgement_batches
            for offset in range(batch.first_offset, batch.last_offset + 1)
        ]
        if said:
            self.asked.append(said)
        if 0 in said:
            return [InvalidRecordState.code]
        self.taken.update(said)
        return []


def member(group: FirstLockGone) -> ShareConsumer:
    return ShareConsumer(TOPIC, group_id="g", bootstrap_servers=group.bootstrap)


def test_an_answer_that_is_given_while_others_are_sent_again_is_sent_too() -> None:
    async def scenario() -> None:
        async with FirstLockGone() as group:

            async def handler(record: Record) -> None:
                if record.offset == 2:
                    # The next answer that is sent again waits for a fetch, when this one is given.
                    await until(lambda: [0] in group.asked)

            seen = await work(
                member(group),
                handler,
                lambda seen: len(group.taken) + seen["lost-locks-total"] >= 3,
            )
            assert group.asked[:2] == [[0, 1], [0]]
            assert group.taken == {1, 2}
            assert seen["lost-locks-total"] == 1

    run(scenario)


def test_what_is_sent_again_is_kept_when_the_connection_is_lost() -> None:
    async def scenario() -> None:
        async with FirstLockGone(stalls=True) as group:
            consumer = member(group)

            async def handler(record: Record) -> None:
                if record.offset == 2:
                    await asyncio.Event().wait()

            working = asyncio.create_task(consumer.run(handler, drain_s=0))
            await group.stalled.wait()  # what is sent again waits for this fetch
            assert group.asked == [[0, 1]]
            group.nodes[1].drop_connections()
            await until(lambda: worker_metrics(consumer)["kept"] == 3)
            consumer.stop()
            await working

    run(scenario)
