"""The broker: opens its parts, listens, and closes them in order.

``Broker.open`` recovers the data folder and replays the internal topics. The broker listens only
after that, so a client that connects finds all earlier state.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final

from sharegroup.broker.assembly import assemble
from sharegroup.broker.authentication.listeners import ListenersSecurity
from sharegroup.broker.authorization.access_rules import AccessRules
from sharegroup.broker.authorization.authorizer import Authorizer
from sharegroup.broker.authorization.resources import ANONYMOUS
from sharegroup.broker.cleaning import Cleaning
from sharegroup.broker.configs.access import DAMAGE_ACCEPTED
from sharegroup.broker.configs.broker import BrokerConfig
from sharegroup.broker.configs.listeners import is_every_interface
from sharegroup.broker.configs.stored_passwords import warn_of_passwords, with_stored
from sharegroup.broker.configured_rules import configured_rules
from sharegroup.broker.delivery.lost_state import give_up_seen_offsets, say_lost_state
from sharegroup.broker.event_counters import Counters
from sharegroup.broker.local_store import open_local_store
from sharegroup.broker.network.connection import BrokerConnection
from sharegroup.broker.network.connections import Connections
from sharegroup.broker.network.descriptors import DescriptorBudget
from sharegroup.broker.network.dispatch import Dispatcher
from sharegroup.broker.network.endpoint import PLAINTEXT, Endpoint
from sharegroup.broker.network.sasl_session import SaslSession
from sharegroup.broker.network.tls.accepting import InThread, TlsAccepting
from sharegroup.model.environment import Environment
from sharegroup.model.errors import KafkaError
from sharegroup.model.store import Store

if TYPE_CHECKING:
    from sharegroup.broker.fleet import Fleet
    from sharegroup.broker.passing.passing import Passing
    from sharegroup.client.network.cluster import Cluster

logger = logging.getLogger("sharegroup.broker")

DRAIN_S: Final = 5.0
"""How long a stopping broker waits for open requests."""

ANSWER_S: Final = 1.0
"""How long a stopping broker then waits for the answers of requests whose records have become
durable."""

ACL_FILE_LOOK_S: Final = 2.0
"""How often the ACL file is looked at. A change is taken at the second look that finds it."""

NOTE_AFTER_S: Final = 0.2
"""How long after a change of users, ACLs or quotas the end of their log is noted on disk."""


class Broker:
    """One node, made by :meth:`open`."""

    def __init__(
        self,
        config: BrokerConfig,
        environment: Environment,
        store: Store,
        descriptors: DescriptorBudget,
        rules: AccessRules,
        passing: Passing | None = None,
        fleet: Fleet | None = None,
    ) -> None:
        self._fleet = fleet
        self._tasks: set[asyncio.Task[None]] = set()
        self._servers: list[asyncio.AbstractServer] = []
        self._endpoints: list[Endpoint] = []
        self._host = ""
        """The address of the first listener."""
        self._noting: asyncio.TimerHandle | None = None
        self._in_thread: InThread = environment.low_priority or asyncio.to_thread
        counters = Counters(environment.clock.monotonic_ms)
        self.connections: Connections[BrokerConnection] = Connections(
            lambda: self.parts.configs.broker,
            counters,
            self._disconnected,
            descriptors.connections,
        )
        self.parts, self._group_runtimes = assemble(
            config,
            environment,
            store,
            descriptors,
            counters,
            self.connections,
            self.spawn,
            rules,
            passing,
            fleet,
        )
        self.dispatcher = Dispatcher(self.parts, rules.authorizer)
        rules.changed = self._authorize_by
        self.parts.security.changed.append(self._take_stored_acls)
        self.security = ListenersSecurity(
            lambda: self.parts.configs.broker,
            lambda: self.parts.security.state.credentials,
            environment,
            counters,
        )
        self.parts.configs.prepare = self.security.prepare
        self.security.installed = self._close_deleted_soon
        self._users_seen: tuple[object, int] = (None, 0)
        self._acls_from: object = None

    @classmethod
    async def open(
        cls,
        config: BrokerConfig,
        environment: Environment,
        data: str,
        cluster: Cluster | None = None,
    ) -> Broker:
        """Recover the data folder ``data`` and replay the internal topics; do not listen yet.

        Args:
            cluster: has the topics of users; None: the data folder has them.

        Raises:
            ConfigError: another process holds the folder, its catalog cannot be read, there are too
                few file descriptors for its partitions, ``cluster`` cannot be used, or ``config``
                contradicts settings that were altered before.
            OSError: the folder cannot be used.
            KafkaStorageError: the internal topics cannot be read, or the disk failed.
        """
        opened = False
        rules = configured_rules(config, environment.disk)
        descriptors = DescriptorBudget(environment.descriptors)
        store = await open_local_store(
            environment,
            data,
            started_with=config,
            live=lambda: broker.parts.configs.broker if opened else None,
            check_partitions=descriptors.check_start,
        )
        descriptors.partitions = lambda: store.partition_count
        passing = fleet = None
        if cluster is not None:
            # These load the client.
            from sharegroup.broker.cluster_store import defaults_of, in_front_of
            from sharegroup.broker.fleet import Fleet as Nodes

            config = config.with_defaults(defaults_of(store.facts.cluster_id))
            parts = config.integer("share.coordinator.state.topic.num.partitions")
            incarnation = environment.entropy(16)
            store, passing, epochs = await in_front_of(
                cluster,
                store,
                config.node_id,
                environment,
                lambda: broker.parts.configs.changed_elsewhere() if opened else None,
                refuse_unsafe=config.text("upstream.unsafe.topics") == "refuse",
            )
            fleet = Nodes(cluster, config.node_id, incarnation, parts, environment.clock, epochs)
            passing.may_deliver = lambda: fleet.may_deliver
            passing.lists_all = lambda: fleet.is_first
            passing.leads = lambda where: (
                (facts := store.topics.get(where.topic)) is not None
                and fleet.leads(facts.topic_id, where.partition)
            )
        facts = store.facts
        warn_of_passwords(facts.broker_configs)
        altered = with_stored(config, facts.broker_configs, facts.cluster_configs)
        broker = cls(altered, environment, store, descriptors, rules, passing, fleet)
        if fleet is not None and passing is not None:
            broker.parts.share_partitions.may_deliver = passing.may_deliver
            fleet.begin(broker.parts, broker._group_runtimes, broker.dispatcher.answer_node)
        opened = True
        try:
            await broker._load()
        except KafkaError:
            await broker.close()  # the folder is unlocked
            raise
        return broker

    async def _load(self) -> None:
        """Replay the internal topics."""
        parts = self.parts
        await parts.state.load()
        lost_before = parts.configs.broker.integer(DAMAGE_ACCEPTED)
        await parts.security.load(lost_before=lost_before)
        parts.security.changed.append(self._note_soon)
        parts.security.changed.append(self._look_at_users)
        await self.security.load(parts.security)
        parts.security.start(self.spawn)
        await self._load_groups()
        await parts.transactions.load(parts.store.logs)
        parts.transactions.start(self.spawn)
        await give_up_seen_offsets(parts.store, parts.topics, parts.state)
        await say_lost_state(parts.groups.groups, parts.state)

    async def join(self) -> None:
        """Take part in the work of several brokers, when all listeners are open; a broker that is
        alone does nothing.

        Raises:
            ConfigError: the cluster refuses, or the watched port cannot be used.
        """
        if self._fleet is not None:
            told = {one.name: one.advertised for one in self._endpoints}
            rack = self.parts.configs.broker.static.get("broker.rack")
            await self._fleet.join(told, self._host, rack)

    @property
    def stopping(self) -> bool:
        """Whether :meth:`close` has begun."""
        return self.parts.waiters.closed

    async def listen(
        self, host: str, port: int, name: str = PLAINTEXT, *, told_host: str = ""
    ) -> tuple[str, int]:
        """Accept connections on the address, as the listener ``name``; may be called repeatedly.

        Returns the host and port that clients are told, with the real port for port 0. Clients are
        told ``told_host`` if neither advertised.listeners nor ``host`` names a host.

        Raises:
            OSError: the address cannot be used.
            ConfigError: a file that TLS or SASL needs cannot be read.
        """
        config = self.parts.configs.broker
        endpoint = Endpoint(
            name=name,
            principal=config.principals.get(name, ANONYMOUS),
            security=self.security.open(name),
        )
        server = await asyncio.get_running_loop().create_server(
            self._accepting(endpoint),
            host or None,
            port,
            backlog=config.integer("socket.listen.backlog.size"),
        )
        bound = server.sockets[0].getsockname()[1] if server.sockets else port
        told = config.advertised(name)
        named = host if not is_every_interface(host) else told_host or "127.0.0.1"
        endpoint.advertised = (told.host or named, told.port or bound) if told else (named, bound)
        if not self._servers:
            self._host = host
            self.parts.state.start(self.spawn)
            self.spawn(self.parts.dead_letters.resume())
            self._housekeep()
            self._forget_producers()
            if self.parts.access_rules.file:
                self._look_at_acl_file()
            Cleaning(self.parts, self.spawn).start()
        self._servers.append(server)
        self._endpoints.append(endpoint)
        return endpoint.advertised

    async def close(self) -> None:
        """Stop accepting, answer the requests that have begun, flush, and unlock the folder.

        Whatever was appended is answered, if its client is still there: no request begins any more,
        and a request that lasts longer than ``DRAIN_S`` cannot append.
        """
        parts = self.parts
        if self._fleet is not None:
            await self._fleet.hand_over()
        for server in self._servers:
            server.close()
        if self._noting is not None:
            self._noting.cancel()
        parts.waiters.close()
        parts.classic_groups.close()
        self.connections.stop()
        await self.connections.idle(DRAIN_S)
        await self._end_sessions()
        self._group_runtimes.close()
        parts.transactions.close()
        parts.security.close()
        parts.rates.close()
        parts.share_partitions.close()
        await parts.dead_letters.close()
        if self._fleet is not None:
            await self._fleet.leave()
        parts.state.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await parts.store.stop_appending()
        await self.connections.idle(ANSWER_S)
        self.connections.end()
        await parts.store.close()
        self.connections.close()

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run ``work`` in the background; its failure is logged."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._finished)

    def read_acls(self) -> int | None:
        """Read ``authorizer.acl.file`` again. The new ACLs apply to open connections as well, but
        not to requests that have begun.

        Returns the number of ACLs in force, or None if the setting names no file.

        Raises:
            ConfigError: the file cannot be read or parsed; the old ACLs stay.
        """
        rules = self.parts.access_rules
        rules.read_file()
        return rules.acl_count if rules.file else None

    def _authorize_by(self, authorizer: Authorizer) -> None:
        """The rules have changed: open connections drop the answers that they have cached."""
        self.dispatcher.authorizer = authorizer
        for connection in self.connections.all():
            connection.access = self.dispatcher.access(connection.principal, connection.host)

    def _take_stored_acls(self) -> None:
        state = self.parts.security.state
        changed = state.take_changed_acls()
        before, self._acls_from = self._acls_from, state
        # After a load there is a new machine, which does not know what the old one held.
        self.parts.access_rules.take_stored(state.acl_ids, changed if state is before else None)

    def _look_at_users(self) -> None:
        state = self.parts.security.state
        seen, self._users_seen = self._users_seen, (state, state.users_lost)
        if seen != self._users_seen:
            self._close_deleted_soon()

    def _close_deleted_soon(self) -> None:
        """Close the connections of deleted users in the next step, when the answer to the client
        that deleted the user is ready: this client may be the user itself."""
        asyncio.get_running_loop().call_soon(self._close_deleted)

    def _close_deleted(self) -> None:
        """Close the connections of deleted users."""
        open_now = self.connections.all()
        closed = [each for each in open_now if each.sasl is not None and each.sasl.is_deleted]
        for connection in closed:
            connection.close()
        if closed:
            users = ", ".join(sorted({connection.principal for connection in closed}))
            logger.info("closed %d connections of deleted users: %s", len(closed), users)

    def _note_soon(self) -> None:
        """Soon after users, ACLs or quotas have changed, write how far the logs go. By this a start
        after a kill knows whether the end of their log is missing.
        """
        if self._noting is None:
            loop = asyncio.get_running_loop()
            self._noting = loop.call_later(NOTE_AFTER_S, self._note)

    def _note(self) -> None:
        self._noting = None
        if not self.stopping:
            self.parts.store.checkpoint()

    def _look_at_acl_file(self) -> None:
        """Look whether ``authorizer.acl.file`` has changed, and repeat."""
        if self.stopping:
            return
        asyncio.get_running_loop().call_later(ACL_FILE_LOOK_S, self._look_at_acl_file)
        self.spawn(self.parts.access_rules.look_at_file())

    def _accepting(self, endpoint: Endpoint) -> Callable[[], asyncio.Protocol]:
        """Returns a function that makes the protocol of each connection that a listener accepts."""
        parts, security, counters = self.parts, endpoint.security, self.parts.counters
        config = parts.configs.broker
        frame_bytes_max = config.integer("socket.request.max.bytes")

        def connection() -> BrokerConnection:
            sasl = None
            if security is not None and security.uses_sasl:
                sasl = SaslSession(security, self.security.guessing, parts.clock, counters)
            return BrokerConnection(
                self.dispatcher, self.connections, endpoint, frame_bytes_max, sasl
            )

        if security is None or not security.uses_tls:
            return connection
        room = self.connections.waiting_room
        return lambda: TlsAccepting(
            security,
            connection,
            self.connections.admit_handshake,
            self.connections.end_handshake,
            self.connections.handshake_turns,
            lambda: room.timeout_s,
            counters,
            self._in_thread,
        )

    async def _load_groups(self) -> None:
        """Replay every group, forget topics deleted since the last run, and start the timers that
        end the sessions of silent members.
        """
        await self._group_runtimes.load()
        await self.parts.groups.forget_missing()
        await self.parts.offsets.forget_missing(self.parts.topics.id_of)
        self._group_runtimes.start(self.spawn, self.connections.turns.after_those_in_line)

    def _disconnected(self, connection: object) -> None:
        parts = self.parts
        for session in parts.sessions.close_connection(connection):
            parts.counters.add("share_sessions_disconnected")
            self.spawn(parts.share_partitions.end_session(session))
        parts.waiters.wake_connection(connection)
        if parts.passing is not None:
            parts.passing.disconnected(connection)

    async def _end_sessions(self) -> None:
        """Release the records that share group members hold; their raised delivery counts are
        durable on return, unless the cluster does not answer."""
        parts = self.parts
        try:
            async with asyncio.timeout(None if self._fleet is None else DRAIN_S):
                for connection in self.connections.all():
                    for session in parts.sessions.close_connection(connection):
                        await parts.share_partitions.end_session(session)
        except TimeoutError:
            logger.warning("this broker stops before records that it has given out are released")

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            logger.error("a background task failed", exc_info=task.exception())

    def _housekeep(self) -> None:
        """Enforce retention, write checkpoints, and repeat after the interval."""
        if self.stopping:
            return
        interval_ms = self.parts.configs.broker.integer("log.retention.check.interval.ms")
        asyncio.get_running_loop().call_later(interval_ms / 1000, self._housekeep)
        self.spawn(self._enforce_retention())

    def _forget_producers(self) -> None:
        """Forget producers that have been silent for long, at once and after each interval."""
        if self.stopping:
            return
        parts = self.parts
        interval_ms = parts.configs.broker.integer("producer.id.expiration.check.interval.ms")
        asyncio.get_running_loop().call_later(interval_ms / 1000, self._forget_producers)
        parts.store.expire_producers(parts.clock.wall_ms())

    async def _enforce_retention(self) -> None:
        parts = self.parts
        found = await parts.queue_retention.look()
        before = {log: log.log_start_offset for log in parts.store.logs}
        parts.store.enforce_retention(parts.clock.wall_ms(), found.needed)
        moved = [log for log, start in before.items() if log.log_start_offset > start]
        capped = parts.queue_retention.capped(found, moved)
        await parts.share_partitions.log_starts_moved(moved, "retention", capped)
        await parts.store.remove_leftovers()
        parts.forget_meters()
        parts.quotas.forget_idle()
