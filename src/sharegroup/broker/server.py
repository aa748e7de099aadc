"""The broker: assembles its parts, opens them, and closes them in order.

``Broker.open`` recovers the data folder and replays the internal topics. The broker listens only
after that, so a client that connects finds all earlier state.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, Final

from sharegroup.broker.authorization.acls import AclAuthorizer
from sharegroup.broker.authorization.authorizer import AllowAll, Authorizer
from sharegroup.broker.authorization.configured import configured_authorizer
from sharegroup.broker.authorization.resources import ANONYMOUS
from sharegroup.broker.configs.broker import BrokerConfig
from sharegroup.broker.configs.listeners import is_every_interface
from sharegroup.broker.configs.live_configs import LiveConfigs
from sharegroup.broker.coordination.internal_topic import (
    CONSUMER_OFFSETS,
    SHARE_GROUP_STATE,
    InternalTopic,
)
from sharegroup.broker.coordination.share_group_coordinator import ShareGroupCoordinator
from sharegroup.broker.coordination.share_state_log import ShareStateLog
from sharegroup.broker.coordination.share_state_shard import StateSettings
from sharegroup.broker.delivery.lost_state import give_up_seen_offsets, say_lost_state
from sharegroup.broker.delivery.share_fetching import ShareFetching
from sharegroup.broker.delivery.share_partitions import SharePartitions
from sharegroup.broker.delivery.unpacking import Unpacking
from sharegroup.broker.delivery.waiters import Waiters
from sharegroup.broker.local_store import open_local_store
from sharegroup.broker.metrics.counters import Counters
from sharegroup.broker.metrics.meters import Meters
from sharegroup.broker.network.connection import BrokerConnection
from sharegroup.broker.network.connections import Connections
from sharegroup.broker.network.descriptors import DescriptorBudget
from sharegroup.broker.network.dispatch import Dispatcher
from sharegroup.broker.network.endpoint import PLAINTEXT, Endpoint
from sharegroup.broker.topics import Topics
from sharegroup.groups.share import ShareGroups
from sharegroup.model.environment import Clock, Environment
from sharegroup.model.store import Store
from sharegroup.share.session import ShareSession, ShareSessions

logger = logging.getLogger("sharegroup.broker")

DRAIN_S: Final = 5.0
"""How long a stopping broker waits for open requests."""


class Broker:
    """One node, made by :meth:`open`. Handlers reach all its parts through it."""

    def __init__(
        self,
        config: BrokerConfig,
        environment: Environment,
        store: Store,
        descriptors: DescriptorBudget,
    ) -> None:
        self.clock: Clock = environment.clock
        self._disk = environment.disk
        self.counters = Counters(environment.clock.monotonic_ms)
        self.meters = Meters()
        self.store = store
        self.configs = LiveConfigs(config, store)
        self.waiters = Waiters()
        self.stopping = False
        self.share_version = config.integer("share.version")
        """0: share groups are switched off."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._servers: list[asyncio.AbstractServer] = []
        self.topics = Topics(
            store,
            self.waiters,
            environment.new_id,
            lambda: self.configs.broker.integer("num.partitions"),
            descriptors.check_more,
        )
        self.state = ShareStateLog(
            self._internal_topic(SHARE_GROUP_STATE, "share.coordinator.state.topic.num.partitions"),
            StateSettings(
                config.integer("share.coordinator.snapshot.update.records.per.snapshot"),
                config.integer("share.coordinator.state.topic.prune.interval.ms"),
                config.integer("share.coordinator.cold.partition.snapshot.interval.ms"),
            ),
            self.clock,
            lambda topic_id: self.topics.find_id(topic_id) is not None,
        )
        self.share_partitions = SharePartitions(
            clock=self.clock,
            state=self.state,
            waiters=self.waiters,
            settings_of=self.configs.group,
            meters=self.meters,
            spawn=self.spawn,
        )
        self.groups = ShareGroupCoordinator(
            new_groups=lambda: ShareGroups(
                self.configs.group, group_size_max=config.integer("group.share.max.size")
            ),
            topic=self._internal_topic(CONSUMER_OFFSETS, "offsets.topic.num.partitions"),
            state=self.state,
            clock=self.clock,
            image=lambda: self.topics.image,
            records_per_rewrite=lambda: self.configs.broker.integer(
                "group.share.records.per.rewrite"
            ),
            spawn=self.spawn,
        )
        self.sessions = ShareSessions(config.integer("group.share.max.share.sessions"))
        self.share_fetching = ShareFetching(self)
        self.unpacking = Unpacking()
        self.authorizer: Authorizer = AllowAll()
        self.connections = Connections(
            lambda: self.configs.broker,
            self.counters,
            self._disconnected,
            descriptors.connections,
        )
        self.dispatcher = Dispatcher(self, self.counters)

    @classmethod
    async def open(cls, config: BrokerConfig, environment: Environment, data: str) -> Broker:
        """Recover the data folder ``data`` and replay the internal topics; do not listen yet.

        Raises:
            ConfigError: another process holds the folder, its catalog cannot be read, or there are
                too few file descriptors for its partitions.
            OSError: the folder cannot be used.
        """
        opened = False
        authorizer = configured_authorizer(config, environment.disk)
        descriptors = DescriptorBudget(environment.descriptors)
        store = await open_local_store(
            environment,
            data,
            started_with=config,
            live=lambda: broker.configs.broker if opened else config,
            check_partitions=descriptors.check_start,
        )
        descriptors.partitions = lambda: store.partition_count
        broker = cls(config.altered(store.facts.broker_configs), environment, store, descriptors)
        broker.authorizer = authorizer
        opened = True
        await broker.state.load()
        await broker.groups.load()
        await give_up_seen_offsets(store, broker.topics, broker.state)
        await say_lost_state(broker.groups.groups, broker.state)
        return broker

    @property
    def node_id(self) -> int:
        """This node's id."""
        return self.configs.broker.node_id

    @property
    def auto_create_topics(self) -> bool:
        """``auto.create.topics.enable``."""
        return self.configs.broker.flag("auto.create.topics.enable")

    async def listen(
        self, host: str, port: int, name: str = PLAINTEXT, *, told_host: str = ""
    ) -> tuple[str, int]:
        """Accept connections on the address, as the listener ``name``; may be called repeatedly.

        Returns the host and port that clients are told, with the real port for port 0. Clients are
        told ``told_host`` if neither advertised.listeners nor ``host`` names a host.

        Raises:
            OSError: the address cannot be used.
        """
        config = self.configs.broker
        endpoint = Endpoint(name=name, principal=config.principals.get(name, ANONYMOUS))
        frame_bytes_max = config.integer("socket.request.max.bytes")
        server = await asyncio.get_running_loop().create_server(
            lambda: BrokerConnection(self.dispatcher, self.connections, endpoint, frame_bytes_max),
            host or None,
            port,
            backlog=config.integer("socket.listen.backlog.size"),
        )
        bound = server.sockets[0].getsockname()[1] if server.sockets else port
        told = config.advertised(name)
        named = host if not is_every_interface(host) else told_host or "127.0.0.1"
        endpoint.advertised = (told.host or named, told.port or bound) if told else (named, bound)
        if not self._servers:
            self.state.start(self.spawn)
            self._housekeep()
        self._servers.append(server)
        return endpoint.advertised

    async def close(self) -> None:
        """Stop accepting, wait for open requests, flush, and unlock the folder."""
        self.stopping = True
        for server in self._servers:
            server.close()
        self.waiters.wake_all()
        await self._drain()
        self.connections.close()
        self.groups.close()
        self.share_partitions.close()
        self.state.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.store.close()

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run ``work`` in the background; its failure is logged."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._finished)

    def read_acls(self) -> int | None:
        """Read ``authorizer.acl.file`` again. The new ACLs apply to open connections as well, but
        not to requests that have begun.

        Returns the number of ACLs, or None if the setting names no file.

        Raises:
            ConfigError: the file cannot be read or parsed; the old ACLs stay.
        """
        authorizer = configured_authorizer(self.configs.broker, self._disk)
        if not isinstance(authorizer, AclAuthorizer):
            return None
        self.authorizer = authorizer
        for connection in self.connections.all():
            connection.access = self.dispatcher.access(connection.endpoint, connection.host)
        return authorizer.acl_count

    def next_producer_id(self) -> int:
        """A new, unique producer id."""
        return self.store.next_producer_id()

    def forget_meters(self) -> None:
        """Drop the meters of deleted topics and groups."""
        self.meters.forget(
            topics_but=self.topics.ids(), groups_but=set(self.groups.groups.group_ids())
        )

    def is_connected(self, connection: object) -> bool:
        """Whether a request's connection is still open."""
        return connection in self.connections

    async def end_session(self, session: ShareSession) -> None:
        """End a closed share session: release its member's records, durably, and end its waiting
        fetch."""
        self.waiters.wake_connection(session.connection)
        await self.share_partitions.release_member(session.group_id, session.member_id)

    def _internal_topic(self, name: str, partitions_setting: str) -> InternalTopic:
        partitions = self.configs.broker.integer(partitions_setting)
        return InternalTopic(name, partitions, self.topics, self.clock)

    def _disconnected(self, connection: object) -> None:
        for session in self.sessions.close_connection(connection):
            self.counters.add("share_sessions_disconnected")
            self.spawn(self.end_session(session))
        self.waiters.wake_connection(connection)

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            logger.error("a background task failed", exc_info=task.exception())

    async def _drain(self) -> None:
        """Wait until no connection has an open request, at most ``DRAIN_S``."""
        loop = asyncio.get_running_loop()
        until = loop.time() + DRAIN_S
        for connection in self.connections.all():
            await connection.idle(until - loop.time())

    def _housekeep(self) -> None:
        """Enforce retention, write checkpoints, and repeat after the interval."""
        if self.stopping:
            return
        interval_ms = self.configs.broker.integer("log.retention.check.interval.ms")
        asyncio.get_running_loop().call_later(interval_ms / 1000, self._housekeep)
        self.spawn(self._enforce_retention())

    async def _enforce_retention(self) -> None:
        before = {log: log.log_start_offset for log in self.store.logs}
        self.store.enforce_retention(self.clock.wall_ms())
        await self.store.remove_leftovers()
        self.forget_meters()
        for log, start in before.items():
            if log.log_start_offset > start:
                self.share_partitions.log_start_moved(
                    log.topic_id, log.topic_partition.partition, log.log_start_offset
                )
