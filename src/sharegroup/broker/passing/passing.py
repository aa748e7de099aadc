"""Passes requests on to the cluster that has the records: what concerns its logs, its consumer
groups and its transactions is decided there.

A request goes to the broker of the cluster that is to answer it: the coordinator of its group or
its transactional id, the leaders of its partitions, or any. Records pass as bytes. Clients were
told that this node leads and coordinates everything, so answers name no other node.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, Final, NamedTuple, Protocol

from sharegroup.broker.authorization.access import Access
from sharegroup.broker.passing.refused_parts import split
from sharegroup.broker.passing.rights import check
from sharegroup.client.errors import IllegalState
from sharegroup.client.network.cluster import Cluster
from sharegroup.client.network.connection import Connection
from sharegroup.client.network.versions import LAST_BY_NAME
from sharegroup.model import errors
from sharegroup.model.ids import TopicPartition
from sharegroup.wire import apis
from sharegroup.wire.apis import APIS, Api
from sharegroup.wire.messages.api_versions import ApiVersion

logger = logging.getLogger("sharegroup.broker")

WAIT_FOR_OTHERS: Final = frozenset((apis.JOIN_GROUP.key, apis.SYNC_GROUP.key))
"""Requests that are answered when all members of the group have sent theirs."""
LONGEST_MS: Final = 900_000
"""How long that may take."""
LANE: Final = "passed on"
NOT_SERVED: Final = ("share.transactional.acks", "cooperative.consumption")
"""Features of a broker with its own log, which none in front of a cluster has."""
IN_CLUSTER: Final = ("group.version", "transaction.version")
"""Features that the cluster has or has not."""
LEASED: Final = frozenset(
    one.key for one in (apis.SHARE_GROUP_HEARTBEAT, apis.SHARE_FETCH, apis.SHARE_ACKNOWLEDGE)
)
"""What only a broker answers that has not been taken over from."""
_LOST: Final = (errors.NotCoordinator.code, errors.CoordinatorNotAvailable.code)


class Charges(Protocol):
    """Counts what a client makes and deletes; a ``Mutations`` does."""

    def charge(self, partitions: int) -> None:
        """Charge the client before it makes or deletes partitions.

        Raises:
            ThrottlingQuotaExceeded: the client has to wait.
        """
        ...


class Context(Protocol):
    """Who sends a request, and how; a ``RequestContext`` is one."""

    @property
    def version(self) -> int:
        """Of the request."""
        ...

    @property
    def connection(self) -> object:
        """Where it came."""
        ...

    @property
    def access(self) -> Access:
        """What the client may do."""
        ...

    @property
    def mutations(self) -> Charges | None:
        """How many partitions the client may make and delete; None: any number."""
        ...


MADE_HERE: Final = frozenset({apis.LIST_GROUPS.key})
"""Their answers are made here, of the cluster's and our own: a client may use our versions."""


class Asked(NamedTuple):
    """How a client asks.

    Attributes:
        version: of its request.
        connection: where it came.
        access: what the client may do.
        mutations: how many partitions it may make and delete; None: any number.
        here: answers a request from what this broker knows itself.
    """

    version: int
    connection: object
    access: Access
    mutations: Charges | None
    here: Callable[[Any], Awaitable[Any]]

    @property
    def lane(self) -> str:
        """Connections of this client alone: some of its requests wait for long."""
        return _lane(self.connection)


class Created(NamedTuple):
    """A topic that was just made in the cluster, and its settings that this broker keeps."""

    name: str
    configs: Mapping[str, str]


Way = Callable[["Passing", Api, Any, Asked], Awaitable[Any]]
"""Passes a request on, and returns the answer for the client."""


class Passing:
    """See the module.

    Args:
        ways: by API key.
        seen: called with topics that were made, grown or deleted just now; returns when this broker
            knows it.

    Attributes:
        may_deliver: whether no other broker can have what this one has.
        lists_all: whether this broker lists the cluster's groups and transactions. Clients ask all
            brokers, and some show what several have said several times.
        leads: whether this broker leads a partition of the cluster.
    """

    def __init__(
        self,
        cluster: Cluster,
        ways: Mapping[int, Way],
        seen: Callable[[Sequence[Created]], Awaitable[None]],
    ) -> None:
        self.cluster = cluster
        self.seen = seen
        self.may_deliver: Callable[[], bool] = lambda: False
        self.lists_all: Callable[[], bool] = lambda: True
        self.leads: Callable[[TopicPartition], bool] = lambda _where: True
        self._ways = ways
        self._under_way: Counter[str] = Counter()
        """Lane → how many requests use it."""
        self._waiting: Counter[str] = Counter()
        """The same, of requests that may wait for the rest of a group for long."""
        self._gone: set[str] = set()
        """Lanes of clients that are gone, which requests still use."""
        self._last: dict[int, int] = {}
        self._levels: dict[str, int] = dict.fromkeys(IN_CLUSTER, 0)

    async def learn(self) -> None:
        """Ask the brokers of the cluster for their versions: a client may use those that all have.

        Raises:
            KafkaError: no broker of the cluster answers.
        """
        connections = await asyncio.gather(
            *(self.cluster.connection(node) for node in self.cluster.metadata.nodes),
            return_exceptions=True,
        )
        there = [one for one in connections if isinstance(one, Connection)]
        if not there:
            raise errors.NetworkException("no broker of the cluster answers")
        for key in self._ways.keys() - MADE_HERE:
            api = APIS[key]
            last = [_version_of(one, api) for one in there]
            if api in LAST_BY_NAME:  # what a client may do is looked up by names
                last.append(LAST_BY_NAME[api])
            self._last[key] = min(last)
        for name in IN_CLUSTER:
            self._levels[name] = min(one.finalized.get(name, 0) for one in there)

    def passes(self, api: Api) -> bool:
        """Whether requests of this API are passed on.

        Raises:
            CoordinatorNotAvailable: they are answered here, and another broker may have taken over.
        """
        if api.key in LEASED and not self.may_deliver():
            raise errors.CoordinatorNotAvailable(
                "the cluster has not confirmed for seconds that this broker serves its share groups"
            )
        return api.key in self._ways

    async def answer(
        self, api: Api, request: Any, context: Context, here: Callable[[Any], Awaitable[Any]]
    ) -> Any:
        """The cluster's answer to a request. ``here`` answers it from what this broker knows.

        Raises:
            KafkaError: the client may not do it, or the cluster could not be asked.
        """
        check(context.access, api, request)
        parts = split(context.access, api, request)
        if parts.allowed is None:
            return parts.answer(api, None)
        asked = Asked(context.version, context.connection, context.access, context.mutations, here)
        lane, waits = asked.lane, api.key in WAIT_FOR_OTHERS
        self._under_way[lane] += 1
        self._waiting[lane] += waits
        try:
            return parts.answer(api, await self._ways[api.key](self, api, parts.allowed, asked))
        except IllegalState as error:  # the client is gone, or this broker stops
            raise errors.NetworkException(str(error)) from error
        finally:
            self._under_way[lane] -= 1
            self._waiting[lane] -= waits
            if lane in self._gone:
                self._close_unused(lane)
            if not self._under_way[lane]:
                del self._under_way[lane], self._waiting[lane]
                self._gone.discard(lane)

    def disconnected(self, connection: object) -> None:
        """A client is gone: close the connections that only its requests used. Those that are under
        way go on, as at Apache Kafka: who waits for no answer, as with acks=0, may leave at once.
        """
        lane = _lane(connection)
        self._close_unused(lane)
        if lane in self._under_way:
            self._gone.add(lane)

    def _close_unused(self, lane: str) -> None:
        """Close a lane that at most requests of members use which wait for others."""
        if self._under_way[lane] == self._waiting[lane]:
            self.cluster.close_lane(lane)

    def announced(self, served: Iterable[ApiVersion]) -> list[ApiVersion]:
        """The versions that a client may use: of what is passed on, those of the cluster."""
        last = self._last
        found = [
            ApiVersion(one.api_key, one.min_version, min(one.max_version, last[one.api_key]))
            if one.api_key in last
            else one
            for one in served
        ]
        return [one for one in found if one.min_version <= one.max_version]

    def levels(self, possible: Mapping[str, int]) -> dict[str, int]:
        """The levels of features that this broker has in front of the cluster."""
        return {
            name: min(level, self._levels.get(name, level))
            for name, level in possible.items()
            if name not in NOT_SERVED
        }

    # --- where to -----------------------------------------------------------------------------

    async def to_coordinator(
        self, kind: int, key: str, api: Api, request: Any, asked: Asked
    ) -> Any:
        """Ask the coordinator of a group, or of a transactional id.

        Raises:
            CoordinatorNotAvailable: it does not answer, or this broker stops. Clients look for
                the coordinator again then, as they do when their connection to it breaks. Java's
                fail for good when they are told NETWORK_EXCEPTION.
        """
        try:
            answer = await self.cluster.send_to_coordinator(
                key,
                api,
                request,
                kind=kind,
                timeout_ms=LONGEST_MS if api.key in WAIT_FOR_OTHERS else None,
                lane=asked.lane,
                version_max=asked.version,
            )
        except (errors.NetworkException, errors.RequestTimedOut, IllegalState) as error:
            raise errors.CoordinatorNotAvailable(str(error)) from error
        if _first_code(answer) in _LOST:
            self.cluster.forget_coordinator(key, kind)
        return answer

    async def to_node(self, node_id: int, api: Api, request: Any, asked: Asked) -> Any:
        """Ask one broker of the cluster."""
        return await self.cluster.send(
            node_id, api, request, lane=asked.lane, version_max=asked.version
        )

    async def to_controller(self, api: Api, request: Any, asked: Asked) -> Any:
        """Ask the broker that changes topics, or any while it is not known or not there: brokers
        pass it on among themselves.

        Raises:
            NotController: the connection broke before the answer. Java's admin client asks again
                then; it fails for good when it is told NETWORK_EXCEPTION.
        """
        node_id = self.cluster.metadata.controller_id
        if node_id not in self.cluster.metadata.nodes:
            return await self.cluster.send_to_any(api, request)
        try:
            await self.cluster.connection(node_id, asked.lane)
        except errors.NetworkException:
            return await self.cluster.send_to_any(api, request)
        try:
            return await self.to_node(node_id, api, request, asked)
        except errors.NetworkException as error:
            raise errors.NotController(str(error)) from error

    async def to_all(self, api: Api, request: Any, asked: Asked) -> list[Any]:
        """Ask every broker of the cluster.

        Raises:
            KafkaError: one of them does not answer: what it knows would be missing.
        """
        return await self.to_nodes(self.cluster.metadata.nodes, api, request, asked)

    async def to_nodes(
        self, nodes: Iterable[int], api: Api, request: Any, asked: Asked
    ) -> list[Any]:
        """Ask these brokers of the cluster; raises as :meth:`to_all`."""
        return await asyncio.gather(*(self.to_node(node, api, request, asked) for node in nodes))


def _first_code(answer: Any) -> int:
    """The first error code of an answer, or of the first of its parts: who is no coordinator says
    so of all parts."""
    code: int = getattr(answer, "error_code", 0) or getattr(answer, "partition_error_code", 0)
    for field in () if code else fields(answer):
        part = getattr(answer, field.name)
        if isinstance(part, list) and part and is_dataclass(part[0]):
            code = code or _first_code(part[0])
    return code


def _lane(connection: object) -> str:
    return f"{LANE} {id(connection)}"


def _version_of(connection: Connection, api: Api) -> int:
    """The highest version of the broker that we can pass on; -1: none."""
    try:
        return connection.version_of(api)
    except errors.UnsupportedVersion:
        return -1
