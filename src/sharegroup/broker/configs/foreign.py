"""Names of Kafka's broker settings that have no meaning here: accepted with one warning each.

So a ``server.properties`` made for Kafka starts this broker, while a misspelt name is still found.
The names are those of Kafka 4.4 (its class AbstractKafkaConfig), and names that only Kafka 3 had.
"""

from __future__ import annotations

from typing import Final

_KAFKA: Final = """
    add.partitions.to.txn.retry.backoff.max.ms add.partitions.to.txn.retry.backoff.ms
    alter.config.policy.class.name alter.log.dirs.replication.quota.window.num
    alter.log.dirs.replication.quota.window.size.seconds
    auto.leader.rebalance.enable background.threads broker.heartbeat.interval.ms
    broker.session.timeout.ms client.quota.callback.class config.providers
    controlled.shutdown.enable controller.performance.always.log.threshold.ms
    controller.performance.sample.period.ms controller.quorum.append.linger.ms
    controller.quorum.auto.join.enable controller.quorum.bootstrap.servers
    controller.quorum.election.backoff.max.ms controller.quorum.election.timeout.ms
    controller.quorum.fetch.max.bytes controller.quorum.fetch.snapshot.max.bytes
    controller.quorum.fetch.timeout.ms controller.quorum.request.timeout.ms
    controller.quorum.retry.backoff.ms controller.quorum.voters
    controller.socket.timeout.ms cordoned.log.dirs
    create.topic.policy.class.name delegation.token.expiry.check.interval.ms
    delegation.token.expiry.time.ms delegation.token.max.lifetime.ms delegation.token.secret.key
    delete.records.purgatory.purge.interval.requests early.start.listeners
    fetch.purgatory.purge.interval.requests follower.fetch.last.tiered.offset.enable
    follower.replication.throttled.rate group.consumer.assignor.offload.enable
    group.coordinator.append.linger.ms group.coordinator.background.threads
    group.coordinator.cached.buffer.max.bytes group.coordinator.threads
    group.share.assignor.offload.enable group.share.dlq.manager.class.name
    group.share.initialize.retry.interval.ms group.share.persister.class.name
    group.streams.acceptable.recovery.lag group.streams.assignment.interval.ms
    group.streams.assignor.offload.enable group.streams.assignors
    group.streams.heartbeat.interval.ms group.streams.initial.rebalance.delay.ms
    group.streams.max.assignment.interval.ms group.streams.max.heartbeat.interval.ms
    group.streams.max.session.timeout.ms group.streams.max.size
    group.streams.max.standby.replicas group.streams.max.warmup.replicas
    group.streams.min.assignment.interval.ms group.streams.min.heartbeat.interval.ms
    group.streams.min.session.timeout.ms group.streams.min.task.offset.interval.ms
    group.streams.num.standby.replicas group.streams.num.warmup.replicas
    group.streams.rack.aware.assignment.tags group.streams.session.timeout.ms
    group.streams.task.offset.interval.ms group.streams.topology.description.plugin.class
    initial.broker.registration.timeout.ms inter.broker.listener.name
    internal.metadata.delete.delay.millis internal.metadata.log.segment.bytes
    internal.metadata.max.batch.size.in.bytes kafka.metrics.polling.interval.secs
    kafka.metrics.reporters leader.imbalance.check.interval.seconds
    leader.replication.throttled.rate log.cleaner.io.buffer.load.factor
    log.cleaner.io.buffer.size log.cleaner.io.max.bytes.per.second log.cleaner.threads
    log.dir.failure.timeout.ms log.flush.interval.messages log.flush.interval.ms
    log.flush.offset.checkpoint.interval.ms log.flush.scheduler.interval.ms
    log.flush.start.offset.checkpoint.interval.ms log.index.size.max.bytes
    log.initial.task.delay.ms log.local.retention.bytes log.local.retention.ms log.preallocate
    log.remote.copy.lag.bytes log.remote.copy.lag.ms log.roll.jitter.hours log.roll.jitter.ms
    log.segment.delete.delay.ms max.request.partition.size.limit metadata.log.dir
    metadata.log.max.record.bytes.between.snapshots metadata.log.max.snapshot.interval.ms
    metadata.log.segment.bytes metadata.log.segment.ms metadata.max.idle.interval.ms
    metadata.max.retention.bytes metadata.max.retention.ms metric.reporters metrics.num.samples
    metrics.recording.level metrics.sample.window.ms num.io.threads num.network.threads
    num.recovery.threads.per.data.dir num.replica.alter.log.dirs.threads num.replica.fetchers
    offsets.commit.timeout.ms offsets.load.buffer.size offsets.topic.compression.codec
    principal.builder.class process.roles
    producer.purgatory.purge.interval.requests queued.max.requests remote.fetch.max.wait.ms
    remote.list.offsets.request.timeout.ms remote.log.index.file.cache.total.size.bytes
    remote.log.index.file.cache.ttl.ms remote.log.manager.copier.thread.pool.size
    remote.log.manager.copy.max.bytes.per.second remote.log.manager.copy.quota.window.num
    remote.log.manager.copy.quota.window.size.seconds
    remote.log.manager.expiration.thread.pool.size remote.log.manager.fetch.max.bytes.per.second
    remote.log.manager.fetch.quota.window.num remote.log.manager.fetch.quota.window.size.seconds
    remote.log.manager.follower.thread.pool.size remote.log.manager.task.interval.ms
    remote.log.manager.task.retry.backoff.max.ms remote.log.manager.task.retry.backoff.ms
    remote.log.manager.task.retry.jitter remote.log.manager.thread.pool.size
    remote.log.metadata.custom.metadata.max.bytes remote.log.metadata.manager.class.name
    remote.log.metadata.manager.class.path remote.log.metadata.manager.impl.prefix
    remote.log.metadata.manager.listener.name remote.log.reader.max.pending.tasks
    remote.log.reader.threads remote.log.storage.manager.class.name
    remote.log.storage.manager.class.path remote.log.storage.manager.impl.prefix
    remote.log.storage.system.enable replica.alter.log.dirs.io.max.bytes.per.second
    replica.fetch.backoff.ms replica.fetch.max.bytes replica.fetch.min.bytes
    replica.fetch.response.max.bytes replica.fetch.wait.max.ms
    replica.high.watermark.checkpoint.interval.ms replica.lag.time.max.ms replica.selector.class
    replica.socket.receive.buffer.bytes replica.socket.timeout.ms replication.quota.window.num
    replication.quota.window.size.seconds request.timeout.ms sasl.client.callback.handler.class
    sasl.kerberos.kinit.cmd sasl.kerberos.min.time.before.relogin
    sasl.kerberos.principal.to.local.rules sasl.kerberos.service.name
    sasl.kerberos.ticket.renew.jitter sasl.kerberos.ticket.renew.window.factor
    sasl.login.callback.handler.class sasl.login.class sasl.login.connect.timeout.ms
    sasl.login.read.timeout.ms sasl.login.refresh.buffer.seconds
    sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor
    sasl.login.refresh.window.jitter sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms
    sasl.mechanism.controller.protocol sasl.mechanism.inter.broker.protocol
    sasl.oauthbearer.allow.unverified.audience sasl.oauthbearer.allow.unverified.issuer
    sasl.oauthbearer.assertion.algorithm sasl.oauthbearer.assertion.claim.aud
    sasl.oauthbearer.assertion.claim.exp.seconds sasl.oauthbearer.assertion.claim.iss
    sasl.oauthbearer.assertion.claim.jti.include sasl.oauthbearer.assertion.claim.nbf.seconds
    sasl.oauthbearer.assertion.claim.sub sasl.oauthbearer.assertion.file
    sasl.oauthbearer.assertion.private.key.file sasl.oauthbearer.assertion.private.key.passphrase
    sasl.oauthbearer.assertion.template.file sasl.oauthbearer.client.credentials.client.id
    sasl.oauthbearer.client.credentials.client.secret
    sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms
    sasl.oauthbearer.jwks.endpoint.retry.backoff.ms sasl.oauthbearer.jwt.retriever.class
    sasl.oauthbearer.jwt.validator.class sasl.oauthbearer.scope
    sasl.oauthbearer.token.endpoint.url sasl.server.callback.handler.class
    security.inter.broker.protocol security.providers server.max.startup.time.ms
    share.coordinator.append.linger.ms share.coordinator.cached.buffer.max.bytes
    share.coordinator.load.buffer.size share.coordinator.state.topic.compression.codec
    share.coordinator.threads share.coordinator.write.timeout.ms
    share.fetch.purgatory.purge.interval.requests socket.connection.setup.timeout.max.ms
    socket.connection.setup.timeout.ms socket.receive.buffer.bytes socket.send.buffer.bytes
    ssl.allow.dn.changes ssl.allow.san.changes ssl.endpoint.identification.algorithm
    ssl.engine.factory.class ssl.keymanager.algorithm ssl.protocol ssl.provider
    ssl.secure.random.implementation ssl.trustmanager.algorithm telemetry.max.bytes
    transaction.abort.timed.out.transaction.cleanup.interval.ms
    transaction.remove.expired.transaction.cleanup.interval.ms
    transaction.state.log.load.buffer.size transaction.two.phase.commit.enable
    unclean.leader.election.enable unclean.leader.election.interval.ms
    unstable.api.versions.enable unstable.feature.versions.enable
    """

KAFKA_NAMES: Final = tuple(_KAFKA.split())

_DROPPED: Final = """
    advertised.host.name advertised.port auto.include.jmx.reporter broker.id.generation.enable
    control.plane.listener.name controlled.shutdown.max.retries
    controlled.shutdown.retry.backoff.ms delegation.token.master.key
    eligible.leader.replicas.enable group.coordinator.new.enable group.share.enable
    group.share.max.groups host.name inter.broker.protocol.version
    leader.imbalance.per.broker.percentage log.message.downconversion.enable
    log.message.format.version log.message.timestamp.difference.max.ms
    offsets.commit.required.acks password.encoder.cipher.algorithm password.encoder.iterations
    password.encoder.key.length password.encoder.keyfactory.algorithm password.encoder.old.secret
    password.encoder.secret port quota.consumer.default quota.producer.default
    reserved.broker.max.id zookeeper.clientCnxnSocket zookeeper.connect
    zookeeper.connection.timeout.ms zookeeper.max.in.flight.requests zookeeper.session.timeout.ms
    zookeeper.set.acl zookeeper.ssl.cipher.suites zookeeper.ssl.client.enable
    zookeeper.ssl.crl.enable zookeeper.ssl.enabled.protocols
    zookeeper.ssl.endpoint.identification.algorithm zookeeper.ssl.keystore.location
    zookeeper.ssl.keystore.password zookeeper.ssl.keystore.type zookeeper.ssl.ocsp.enable
    zookeeper.ssl.protocol zookeeper.ssl.truststore.location zookeeper.ssl.truststore.password
    zookeeper.ssl.truststore.type
    """

REMOVED_NAMES: Final = tuple(_DROPPED.split())

_FREE_PREFIXES: Final = ("listener.name.", "config.providers.")
"""In Kafka any name may begin with these prefixes."""

_NO_CONTROLLER: Final = "there is no controller: one embedded node"
_NO_REPLICAS: Final = "there are no replicas: one embedded node holds one copy"
_NO_PROVIDERS: Final = "TLS is OpenSSL's, SASL is built in"
_NO_LOGIN: Final = "this broker logs in nowhere"
_NO_TOKENS: Final = "there are no delegation tokens"
_ONE_THREAD: Final = "coordinators work on the one event loop, and write at once"
_AT_THE_DEADLINE: Final = "transactions and transactional ids end at their deadline"
_NO_TWO_PHASES: Final = "there is no two-phase commit"
_OWN_COORDINATOR: Final = "the broker asks its own coordinator, at once"
_OWN_DEAD_LETTERS: Final = "the broker writes dead letters by itself"
_OTHER_QUOTAS: Final = "there are quotas for clients only"
_NO_TIERS: Final = "there is no tiered storage"

_REASONS: Final = (
    ("controller.", _NO_CONTROLLER),
    ("metadata.", _NO_CONTROLLER),
    ("internal.metadata.", _NO_CONTROLLER),
    ("broker.heartbeat.", _NO_CONTROLLER),
    ("broker.session.", _NO_CONTROLLER),
    ("initial.broker.", _NO_CONTROLLER),
    ("process.roles", _NO_CONTROLLER),
    ("replica.", _NO_REPLICAS),
    ("num.replica.", _NO_REPLICAS),
    ("leader.imbalance.", _NO_REPLICAS),
    ("auto.leader.", _NO_REPLICAS),
    ("unclean.leader.", _NO_REPLICAS),
    ("inter.broker.listener.", _NO_REPLICAS),
    ("remote.", _NO_TIERS),
    ("log.remote.", _NO_TIERS),
    ("log.local.", _NO_TIERS),
    ("follower.fetch.", _NO_TIERS),
    ("ssl.", _NO_PROVIDERS),
    ("sasl.kerberos.", "there is no Kerberos"),
    ("sasl.jaas.", "write listener.name.NAME.plain.sasl.jaas.config"),
    ("sasl.server.", _NO_PROVIDERS),
    ("sasl.", _NO_LOGIN),
    ("security.", _NO_PROVIDERS),
    ("delegation.", _NO_TOKENS),
    ("principal.", "write listener.principal.map"),
    ("listener.name.", "it tunes a part of Kafka that does not exist here"),
    ("log.cleaner.", "the log cleaner has one thread, which works in slices"),
    ("log.flush.", "write flush.policy=durable or flush.policy=system"),
    ("group.consumer.assignor.", "an assignment is computed in the heartbeat that needs it"),
    ("group.coordinator.", _ONE_THREAD),
    ("group.streams.", "there are no streams groups"),
    ("transaction.abort.", _AT_THE_DEADLINE),
    ("transaction.remove.", _AT_THE_DEADLINE),
    ("transaction.two.", _NO_TWO_PHASES),
    ("add.partitions.to.txn.", _OWN_COORDINATOR),
    ("group.share.dlq.", _OWN_DEAD_LETTERS),
    ("client.quota.", _OTHER_QUOTAS),
    ("replication.quota.", _OTHER_QUOTAS),
    ("leader.replication.", _OTHER_QUOTAS),
    ("follower.replication.", _OTHER_QUOTAS),
    ("alter.log.dirs.", _OTHER_QUOTAS),
)

_KNOWN: Final = frozenset(KAFKA_NAMES)
_REMOVED: Final = frozenset(REMOVED_NAMES)


def why_meaningless(name: str) -> str | None:
    """Why a Kafka setting has no effect here; None if Kafka has no such setting."""
    if name in _REMOVED:
        return "Kafka has removed it"
    if name not in _KNOWN and not name.startswith(_FREE_PREFIXES):
        return None
    for prefix, reason in _REASONS:
        if name.startswith(prefix):
            return reason
    return "it tunes a part of Kafka that does not exist here"
