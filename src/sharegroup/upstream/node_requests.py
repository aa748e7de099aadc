"""Requests from one node of a fleet to another one, in a log of the cluster that all nodes read.

So nodes need no address and no login of each other: who may write to our topics in the cluster may
ask, and that is the nodes' own user.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Collection
from itertools import count
from typing import Any, Final

from sharegroup.client.network.cluster import Cluster
from sharegroup.model import errors
from sharegroup.model.ids import TopicPartition
from sharegroup.upstream.shared_log import SharedLog
from sharegroup.upstream.state_log import Record
from sharegroup.wire.apis import Api
from sharegroup.wire.codec import decode, encode_bytes
from sharegroup.wire.schema import Message

logger = logging.getLogger("sharegroup.broker")

ANSWER_S: Final = 3.0
"""A node that has not answered for so long is taken for gone: who asked may ask again."""
CLOSE_S: Final = 1.0
LANE: Final = "node requests"
ASKS: Final = "asks"
ANSWERS: Final = "answers"

Answer = Callable[[int, int, bytes], Awaitable[bytes]]
"""The body of the answer to a request: key and version of its API, and its body."""


class NodeRequests:
    """See the module.

    Args:
        me: the incarnation of this node, as the map of the nodes has it.
        answer: answers the requests of other nodes.
    """

    def __init__(
        self,
        cluster: Cluster,
        where: TopicPartition,
        me: tuple[int, str],
        wall_ms: Callable[[], int],
        answer: Answer,
    ) -> None:
        self._node_id, self._incarnation = me
        self._answer = answer
        self._numbers = count()
        self._waiting: dict[int, tuple[int, asyncio.Future[bytes]]] = {}
        """Number of a request → the node that was asked, and its answer."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._log = SharedLog(cluster, where, LANE, wall_ms, self._take)

    async def start(self) -> None:
        """Hear requests from now on.

        Raises:
            KafkaError: the cluster cannot be asked.
        """
        await self._log.begin_at_end()
        self._log.follow()

    async def ask(self, node_id: int, api: Api, version: int, request: Message) -> Any:
        """The answer of a node.

        Raises:
            CoordinatorNotAvailable: it does not answer.
            KafkaStorageError: it cannot be asked.
        """
        number = next(self._numbers)
        answered: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._waiting[number] = node_id, answered
        key = _written([ASKS, node_id, self._incarnation, number, api.key, version])
        asked = self._log.submit([(key, encode_bytes(request, version))])
        try:
            async with asyncio.timeout(ANSWER_S):
                # The other node may be gone before the request is written.
                _, body = await asyncio.gather(asked.durable(), answered)
        except TimeoutError:
            raise errors.CoordinatorNotAvailable(f"node {node_id} does not answer") from None
        finally:
            del self._waiting[number]
        return decode(api.response, version, body)

    def there_are(self, nodes: Collection[int]) -> None:
        """Who has asked another node need not wait for its answer."""
        for node_id, answered in self._waiting.values():
            if node_id not in nodes and not answered.done():
                answered.set_exception(errors.CoordinatorNotAvailable(f"node {node_id} is gone"))

    async def close(self) -> None:
        """Hear nothing more; answers that are under way are written, if that takes no longer than
        CLOSE_S."""
        if self._tasks:  # what they write may wait for a cluster that stands still
            _, late = await asyncio.wait(self._tasks, timeout=CLOSE_S)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        await self._log.close()

    def _take(self, record: Record, own: bool) -> None:
        if own:
            return
        offset, key, value = record
        try:
            kind, to, *rest = json.loads(key)
            if kind == ASKS and to == self._node_id:
                sender, number, api_key, version = rest
                self._run(self._answered(str(sender), int(number), api_key, version, value or b""))
            elif kind == ANSWERS and to == self._incarnation:
                _, answered = self._waiting.get(rest[0], (0, None))
                if answered is not None and not answered.done():
                    answered.set_result(value or b"")
        except (ValueError, TypeError, IndexError) as error:
            logger.error("%s: the record at %d is left out: %s", self._log.where, offset, error)

    def _run(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answered(
        self, sender: str, number: int, api_key: int, version: int, body: bytes
    ) -> None:
        try:
            answer = await self._answer(api_key, version, body)
        except errors.MalformedMessage as error:
            logger.error("a request of another node cannot be answered: %s", error)
            return
        self._log.submit([(_written([ANSWERS, sender, number]), answer)])


def _written(content: object) -> bytes:
    return json.dumps(content, separators=(",", ":")).encode()
