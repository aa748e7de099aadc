"""A cluster as a client sees it: its brokers, its leaders, and a way to send to each broker.

Producer, share member and admin client all use this class. It sends once and reports the result.
Its callers decide about retries: they know whether a request may be repeated.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Iterable
from types import TracebackType
from typing import Any, Final, Self
from uuid import UUID

from sharegroup.client.closing import result_of
from sharegroup.client.conditions import Conditions
from sharegroup.client.core.access_errors import error_on
from sharegroup.client.core.known_answer import KnownAnswer
from sharegroup.client.core.retry import Pauses, RetryPolicy
from sharegroup.client.core.setting_checks import check_kind
from sharegroup.client.network.addresses import Address, parse_addresses
from sharegroup.client.network.bootstrapping import reach_any
from sharegroup.client.network.connection import Connection
from sharegroup.client.network.metadata import MetadataImage, TopicMetadata
from sharegroup.client.network.node_link import NodeLink
from sharegroup.client.network.slow_brokers import PATIENCE_S, Overdue, answer_of_any
from sharegroup.client.security.access import ConnectionAccess
from sharegroup.client.security.properties import SecuritySettings, as_security
from sharegroup.client.security.settings import PLAINTEXT
from sharegroup.model import errors
from sharegroup.wire.apis import FIND_COORDINATOR, METADATA, Api
from sharegroup.wire.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from sharegroup.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from sharegroup.wire.schema import Message

log = logging.getLogger("sharegroup.client")

GROUP: Final = 0
TRANSACTION: Final = 1
"""What a coordinator coordinates: a group, or the transactions of a transactional id."""
LOOK_UPS: Final = (METADATA, FIND_COORDINATOR)
"""Requests that may be asked of several brokers at a time."""
COORDINATORS_MAX: Final = 10_000
"""So many coordinators are remembered: who passes on requests of others meets many groups."""
_KINDS: Final = {GROUP: "group", TRANSACTION: "transactional id"}


class Cluster:
    """Connections and metadata of one Kafka cluster.

    Args:
        bootstrap_servers: ``host:port,…`` or a list of addresses.
        client_id: the name that brokers see and log.
        request_timeout_ms: how long one request may take.
        bootstrap_timeout_ms: how long :meth:`start` tries to reach any bootstrap server.
        retry_backoff_ms, retry_backoff_max_ms: the first and the longest pause between attempts.
        reconnect_backoff_ms, reconnect_backoff_max_ms: the same between attempts to connect.
        metadata_max_age_ms: topic metadata is refreshed after this time, to find new partitions.
        allow_auto_create_topics: asking about a topic may create it, if the broker allows that.
        security: settings of TLS and SASL, or properties of Java or librdkafka; None: PLAINTEXT.
        jitter: the source of all randomness here; a simulator gives a seeded one.

    Raises:
        ConfigError: an argument is wrong.
    """

    def __init__(
        self,
        bootstrap_servers: str | Iterable[str],
        *,
        client_id: str = "sharegroup",
        request_timeout_ms: int = 30_000,
        bootstrap_timeout_ms: int = 8_000,
        retry_backoff_ms: int = 100,
        retry_backoff_max_ms: int = 1_000,
        reconnect_backoff_ms: int = 50,
        reconnect_backoff_max_ms: int = 1_000,
        metadata_max_age_ms: int = 300_000,
        allow_auto_create_topics: bool = True,
        security: SecuritySettings = None,
        jitter: random.Random | None = None,
    ) -> None:
        check_kind("client_id", client_id, "str")
        check_kind("request_timeout_ms", request_timeout_ms, "int")
        self.security = as_security(security)
        plain = self.security.protocol == PLAINTEXT
        self._access = None if plain else ConnectionAccess(self.security)
        self.bootstrap = parse_addresses(bootstrap_servers)
        self.client_id = client_id
        self.request_timeout_ms = request_timeout_ms
        self.random = jitter or random.Random()
        self.metadata = MetadataImage()
        self._bootstrap_timeout_ms = bootstrap_timeout_ms
        self.retry = RetryPolicy(retry_backoff_ms, retry_backoff_max_ms)
        self._reconnect = RetryPolicy(reconnect_backoff_ms, reconnect_backoff_max_ms)
        self._allow_auto_create_topics = allow_auto_create_topics
        self._metadata_max_age_s = metadata_max_age_ms / 1000
        self._links: dict[tuple[Address, str], NodeLink] = {}
        self._coordinators: dict[tuple[int, str], int] = {}
        self.conditions = Conditions()
        self._topics_asked: set[str] = set()
        self._topics_watched: set[str] = set()
        self._topic_errors: dict[str, errors.KafkaError] = {}
        self._refreshing: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._refreshed_at = 0.0
        self.features: dict[str, tuple[int, int]] = {}
        """Supported features of the latest broker to answer: name → (lowest, highest level)."""

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    # --- life -------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Reach any bootstrap server and learn the cluster's nodes. A second call does nothing.

        Raises:
            BootstrapError: no server answered within ``bootstrap_timeout_ms``; the text names them
                all.
            AuthenticationFailed: no server let us in, because of the settings.
            IllegalState: the client was closed meanwhile.
        """
        self._loop = asyncio.get_running_loop()
        if not self.metadata.nodes:
            await reach_any(
                [self._link(address) for address in self.bootstrap],
                lambda link: self._ask_metadata(link, []),
                self._bootstrap_timeout_ms / 1000,
                self.pauses(),
                lambda: self._loop is None,
            )

    async def close(self) -> None:
        """Close all connections; requests under way fail with NetworkException."""
        await asyncio.gather(*self.cut(), return_exceptions=True)
        await asyncio.sleep(0)  # so that the transports are gone when this returns

    def cut(self) -> list[asyncio.Task[Any]]:
        """Close all connections at once. Returns the cancelled tasks, which are about to end."""
        self._loop = None
        ending: list[asyncio.Task[Any]] = [] if self._refreshing is None else [self._refreshing]
        for task in ending:
            task.cancel()
        for link in self._links.values():
            ending += link.close()
        return ending

    def close_lane(self, lane: str) -> None:
        """Close the connections of a lane; requests under way there fail with NetworkException."""
        for key in [key for key in self._links if key[1] == lane]:
            self._links.pop(key).close()

    def forsake(self) -> None:
        """Close all connections, from any thread, because nobody closed their client."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.cut)

    @property
    def connected(self) -> bool:
        """At least one connection is open."""
        return any(link.connected for link in self._links.values())

    # --- sending ----------------------------------------------------------------------------------

    async def connection(self, node_id: int, lane: str = "") -> Connection:
        """The connection to a node. A connection answers in order, so requests that must not wait
        for the answers of others have a lane of their own: one more connection.

        Raises:
            NetworkException: the node is unknown or cannot be reached.
        """
        node = self.metadata.nodes.get(node_id)
        if node is None:
            raise errors.NetworkException(f"node {node_id} is not known")
        connection = await self._link(node.address, lane).connection()
        self.features = connection.features
        return connection

    async def send(
        self,
        node_id: int,
        api: Api,
        request: Message,
        *,
        timeout_ms: int | None = None,
        lane: str = "",
        version_max: int | None = None,
    ) -> Any:
        """Send to one node and await its response; one attempt.

        Raises:
            RetriableError: NetworkException or RequestTimedOut.
            UnsupportedVersion: the node serves no version of this API that we speak.
        """
        connection = await self.connection(node_id, lane)
        timeout_ms = timeout_ms or self.request_timeout_ms
        # A longer time-out is that of a request that waits at the broker.
        patience_s = PATIENCE_S + max(0, timeout_ms - self.request_timeout_ms) / 1000
        with Overdue(patience_s, lambda: self._doubt(node_id, connection)):
            return await connection.send(
                api, request, timeout_ms=timeout_ms, version_max=version_max
            )

    async def send_to_any(
        self, api: Api, request: Message, known: KnownAnswer | None = None
    ) -> Any:
        """As :meth:`send`, to any broker that can be reached, connected ones first. None: the
        answer is ``known``."""

        async def attempt(link: NodeLink) -> tuple[Any, KnownAnswer | None]:
            own = None if known is None else known.attempt()
            return await self._send_through(link, api, request, own), own

        patience_s = PATIENCE_S if api in LOOK_UPS else None
        answer, own = await self._through_any(attempt, patience_s)
        if known is not None:
            known.answered(own)
        return answer

    async def send_to_coordinator(
        self,
        key: str,
        api: Api,
        request: Message,
        *,
        kind: int = GROUP,
        timeout_ms: int | None = None,
        lane: str = "",
        version_max: int | None = None,
    ) -> Any:
        """As :meth:`send`, to the coordinator of a group or of a transactional id. Call
        :meth:`forget_coordinator` if the node answers that it is not the coordinator.

        Raises:
            CoordinatorNotAvailable: and the other errors of FindCoordinator.
        """
        node_id = await self.coordinator(key, kind)
        try:
            return await self.send(
                node_id, api, request, timeout_ms=timeout_ms, lane=lane, version_max=version_max
            )
        except errors.RetriableError:
            self.forget_coordinator(key, kind)
            raise

    async def coordinator(self, key: str, kind: int = GROUP) -> int:
        """The node that coordinates a group, or a transactional id; looked up once and cached."""
        known = self._coordinators.get((kind, key))
        if known is not None and known in self.metadata.nodes:
            return known
        request = FindCoordinatorRequest(key=key, key_type=kind, coordinator_keys=[key])
        response: FindCoordinatorResponse = await self.send_to_any(FIND_COORDINATOR, request)
        found = response.coordinators[0] if response.coordinators else response
        if found.error_code:
            what = f"{_KINDS.get(kind, 'key')} {key!r}"
            raise error_on(found.error_code, found.error_message, "DESCRIBE", what)
        node = self.metadata.nodes.get(found.node_id)
        if node is None or node.address != Address(found.host, found.port):  # or it has moved
            await self.refresh()
            if found.node_id not in self.metadata.nodes:
                raise errors.CoordinatorNotAvailable
        while len(self._coordinators) >= COORDINATORS_MAX:
            del self._coordinators[next(iter(self._coordinators))]
        self._coordinators[kind, key] = found.node_id
        return found.node_id

    def disconnect(self, node_id: int) -> None:
        """Close the connection to a node. The next request to it opens another one."""
        if node_id in self.metadata.nodes:
            self._link(self.metadata.nodes[node_id].address).disconnect()

    def forget_coordinator(self, key: str, kind: int = GROUP) -> None:
        """Drop the cached coordinator."""
        self._coordinators.pop((kind, key), None)

    def pauses(self) -> Pauses:
        """Pauses between attempts at one request."""
        return Pauses(self.retry, self.random.random)

    # --- metadata ---------------------------------------------------------------------------------

    async def topic(self, name: str) -> TopicMetadata:
        """A topic, from the cache if possible.

        Raises:
            UnknownTopicOrPartition: there is no such topic.
            KafkaError: another error of the topic (authorisation, an invalid name).
        """
        known = self.metadata.topics.get(name)
        if known is not None:
            self._topics_asked.add(name)  # where somebody else has applied an answer with it
            self.refresh_when_old()
            return known
        self._topics_asked.add(name)
        if self._refreshing is not None:  # that request may not include this topic
            await asyncio.wait([self._refreshing])
        await self.refresh()
        known = self.metadata.topics.get(name)
        if known is None:
            self._topics_asked.discard(name)
            error = self._topic_errors.pop(name, None)
            raise error or errors.UnknownTopicOrPartition(f"there is no topic {name!r}")
        return known

    async def check_topics(self, names: Iterable[str]) -> None:
        """Ask whether these topics are usable, without creating any. A topic that does not exist
        yet is no error.

        Raises:
            InvalidTopic, TopicAuthorizationFailed: a topic is not usable.
        """
        asked = [MetadataRequestTopic(name=name) for name in names]
        request = MetadataRequest(topics=asked, allow_auto_topic_creation=False)
        try:
            response: MetadataResponse = await self.send_to_any(METADATA, request)
        except errors.RetriableError as error:
            log.info("topics could not be checked: %s", error)
            return
        for topic in response.topics:
            self._note_whether_it_exists(topic)
        for topic in response.topics:
            if topic.error_code in (errors.InvalidTopic.code, errors.TopicAuthorizationFailed.code):
                name = f"topic {topic.name!r}"
                raise error_on(topic.error_code, f"the {name} is refused", "DESCRIBE", name)

    def lacks(self, names: Iterable[str]) -> bool:
        """Whether the brokers have said that none of these topics, which are watched, exists."""
        return all(self.conditions.holds(("topic", name)) for name in names)

    async def partition_counts(self, names: Iterable[str]) -> dict[str, int]:
        """Topic → number of partitions, of the topics that exist.

        Raises:
            NetworkException: no broker can be reached.
        """
        wanted = set(names)
        missing = wanted - self._topics_asked
        self.watch(wanted)
        if missing or wanted - self.metadata.topics.keys():
            if self._refreshing is not None:  # that request may not include these topics
                await asyncio.wait([self._refreshing])
            await self.refresh()
        topics = self.metadata.topics
        return {name: len(topics[name].partitions) for name in wanted if name in topics}

    async def topics_by_id(self, ids: Iterable[UUID]) -> dict[UUID, str]:
        """Topic id → name, of the topics that exist. From now on they are refreshed."""
        response = await self._describe(
            [MetadataRequestTopic(topic_id=one, name=None) for one in ids]
        )
        found = {one.topic_id: one.name for one in response.topics if not one.error_code}
        names = {topic_id: name for topic_id, name in found.items() if name is not None}
        self._topics_asked |= set(names.values())
        self.metadata.apply(response)
        return names

    async def topic_names(self) -> list[str]:
        """All topics, without the internal ones."""
        response = await self._describe(None)
        topics = (one for one in response.topics if not one.is_internal and not one.error_code)
        return sorted(one.name for one in topics if one.name is not None)

    async def _describe(self, topics: list[MetadataRequestTopic] | None) -> MetadataResponse:
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
        response: MetadataResponse = await self.send_to_any(METADATA, request)
        if response.error_code:
            raise errors.error_from_code(response.error_code)
        return response

    def watch(self, topics: Iterable[str]) -> None:
        """Include these topics in every :meth:`refresh`, and warn if one does not exist."""
        watched = set(topics)
        self._topics_asked |= watched
        self._topics_watched |= watched

    def watch_no_more(self, topic: str) -> None:
        """Ask for a topic no more."""
        self._topics_asked.discard(topic)
        self._topics_watched.discard(topic)

    async def refresh(self) -> None:
        """Refresh the nodes and all topics in use. Concurrent calls share one request.

        Raises:
            NetworkException: no broker can be reached.
        """
        await result_of(self._begin_refresh())

    def refresh_when_old(self) -> None:
        """Begin a :meth:`refresh` if the last one was ``metadata_max_age_ms`` ago."""
        now = asyncio.get_running_loop().time()
        if now - self._refreshed_at > self._metadata_max_age_s:
            self._begin_refresh()

    def _begin_refresh(self) -> asyncio.Task[None]:
        if self._refreshing is None:
            self._refreshing = asyncio.create_task(self._refresh())
            self._refreshing.add_done_callback(self._refreshed)
        return self._refreshing

    def _refreshed(self, task: asyncio.Task[None]) -> None:
        self._refreshing = None
        if not task.cancelled() and (error := task.exception()) is not None:
            log.debug("metadata could not be refreshed: %s", error)

    async def _refresh(self) -> None:
        names = sorted(self._topics_asked)
        await self._through_any(lambda link: self._ask_metadata(link, names), PATIENCE_S)

    async def _ask_metadata(self, link: NodeLink, names: list[str]) -> None:
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name=name) for name in names],
            allow_auto_topic_creation=self._allow_auto_create_topics,
        )
        response: MetadataResponse = await self._send_through(link, METADATA, request)
        if response.error_code:
            raise errors.error_from_code(response.error_code)
        if not response.brokers:
            raise errors.LeaderNotAvailable(f"{link.address} knows no broker yet")
        self._topic_errors = self.metadata.apply(response)
        for topic in response.topics:
            self._note_whether_it_exists(topic)
        self._refreshed_at = asyncio.get_running_loop().time()

    def _note_whether_it_exists(self, topic: MetadataResponseTopic) -> None:
        if topic.name not in self._topics_watched:
            return
        key = ("topic", topic.name)
        if topic.error_code == errors.UnknownTopicOrPartition.code:
            self.conditions.begins(
                key,
                "there is no topic %r: waiting until there is; create it (`sharegroup topics "
                "create %s`) or subscribe to another name",
                topic.name,
                topic.name,
            )
        elif not topic.error_code:
            self.conditions.ends(key, "there is a topic %r now", topic.name)

    # --- links ------------------------------------------------------------------------------------

    def _link(self, address: Address, lane: str = "") -> NodeLink:
        link = self._links.get((address, lane))
        if link is None:
            link = self._links[address, lane] = NodeLink(
                address,
                client_id=self.client_id,
                connect_timeout_ms=min(10_000, self.request_timeout_ms),
                pauses=Pauses(self._reconnect, self.random.random),
                conditions=self.conditions,
                access=self._access,
            )
        return link

    async def _send_through(
        self, link: NodeLink, api: Api, request: Message, known: KnownAnswer | None = None
    ) -> Any:
        connection = await link.connection()
        self.features = connection.features
        return await connection.send(api, request, timeout_ms=self.request_timeout_ms, known=known)

    async def _through_any(
        self, attempt: Callable[[NodeLink], Awaitable[Any]], patience_s: float | None = None
    ) -> Any:
        """See ``answer_of_any``: connected links first, and of these the ones that wait for
        nothing; bootstrap addresses last."""
        nodes = dict.fromkeys(node.address for node in self.metadata.nodes.values())
        links = [self._link(address) for address in dict.fromkeys([*nodes, *self.bootstrap])]
        links.sort(key=lambda link: (not link.connected, link.waits))
        return await answer_of_any(links, attempt, nodes, patience_s)

    def _doubt(self, node_id: int, connection: Connection) -> None:
        """A node does not answer: look whether the cluster has given it up."""

        def looked(_: object) -> None:
            if node_id not in self.metadata.nodes:
                connection.close("the cluster has given it up: it did not answer for a while")

        self._begin_refresh().add_done_callback(looked)
