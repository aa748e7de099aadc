"""Broker settings of the node itself: its identity, its listeners, its limits, and the topics that
it creates.
"""

from __future__ import annotations

from typing import Final

from sharegroup.broker.configs.define import choice, flag, integer, long, names, short, text

_ONE_NODE: Final = "one embedded node holds one copy (Kafka: {kafka})"

NODE_CONFIGS: Final = (
    integer(
        "node.id",
        1,
        0,
        "The id by which clients know this broker; broker.id where that is set, else 1.",
        departs="a single node needs no id of its user (Kafka: required)",
    ),
    integer("broker.id", -1, -1, "The old name of node.id; -1 means not set."),
    text(
        "broker.rack",
        None,
        "Where this broker stands: told to clients, which may prefer what is near. There are no "
        "copies to place by it.",
    ),
    flag(
        "node.drain",
        False,
        "Whether this broker, one of several in front of a cluster, hands all that it has to the "
        "others. The last one that is not drained keeps everything.",
        dynamic=True,
    ),
    choice(
        "upstream.unsafe.topics",
        "warn",
        ("warn", "refuse"),
        "Topics of the cluster behind this broker that can lose records which it has confirmed: "
        "with partitions on one broker alone, or with unclean.leader.election.enable=true. warn: "
        "they are named at the start. refuse: share groups get no records of them, and members an "
        "error. Not a Kafka setting.",
    ),
    integer(
        "upstream.watched.port",
        0,
        0,
        "The port at which other brokers in front of the same cluster see that this one's process "
        "is there, at the address of the first listener. Nothing is said there. 0: any free one. "
        "Not a Kafka setting.",
        maximum=65_535,
    ),
    names(
        "listeners",
        ("PLAINTEXT://127.0.0.1:9092",),
        "Where to accept connections, as NAME://HOST:PORT; an empty host is every interface. The "
        "name is a protocol, or one that listener.security.protocol.map gives a protocol. "
        "Listeners named in controller.listener.names are passed over: there is no controller.",
        departs="nothing is authenticated, so the network is not served unasked (Kafka: "
        "PLAINTEXT://:9092)",
    ),
    names(
        "advertised.listeners",
        None,
        "What clients are told to connect to; the listeners when not set. For a listener on every "
        "interface (0.0.0.0, or no host) it is then the name of this machine; where that has no "
        "address, the broker does not start. (Kafka refuses 0.0.0.0 in listeners without it.)",
    ),
    text(
        "listener.security.protocol.map",
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "What each listener name speaks, as NAME:PROTOCOL: PLAINTEXT, SSL, SASL_PLAINTEXT or "
        "SASL_SSL.",
    ),
    names(
        "controller.listener.names",
        (),
        "Names of listeners that a Kafka controller would use; they are not opened.",
    ),
    names(
        "log.dirs",
        None,
        "The data folder; log.dir when not set. A single folder: --data wins over both.",
    ),
    names(
        "log.dir",
        ("sharegroup-data",),
        "The data folder, where log.dirs does not say.",
        departs="the folder is found where the command is run (Kafka: a folder for temporary "
        "files)",
    ),
    choice(
        "flush.policy",
        "durable",
        ("durable", "system"),
        "When a record counts as written. durable: after the fsync that covers it, one fsync "
        "for all that wait. "
        "system: at once, the operating system writes when it likes (as Kafka does). Not a "
        "Kafka setting.",
        dynamic=True,
    ),
    flag(
        "auto.create.topics.enable",
        True,
        "Create a topic when a producer or a consumer asks for it.",
    ),
    integer("num.partitions", 1, 1, "Partitions of a topic made without a count."),
    integer(
        "default.replication.factor",
        1,
        1,
        "Copies of a topic created without a number; there is always one copy.",
    ),
    integer(
        "min.insync.replicas",
        1,
        1,
        "Copies that must exist before acks=all is answered; there is always one copy.",
        dynamic=True,
    ),
    flag("delete.topic.enable", True, "Let clients delete topics."),
    integer(
        "message.max.bytes",
        1_048_588,
        0,
        "The largest record batch accepted, in bytes.",
        dynamic=True,
    ),
    integer(
        "fetch.max.bytes",
        57_671_680,
        1024,
        "The most bytes in an answer to a fetch, whatever the client asks for.",
    ),
    integer(
        "socket.request.max.bytes",
        104_857_600,
        1,
        "The largest request accepted, in bytes; a larger one closes the connection.",
    ),
    long(
        "queued.max.request.bytes",
        134_217_728,
        None,
        "Bytes of received requests without an answer, over all connections. At this bound only "
        "connections that hold little are read, and those without progress are closed. At least "
        "socket.request.max.bytes; 0 or less: no bound.",
        departs="what clients claim must not fill the memory: 128 MiB hold the longest request and "
        "many of the usual size (Kafka: -1, no bound)",
        dynamic=True,
    ),
    long(
        "queued.max.response.bytes",
        134_217_728,
        None,
        "Bytes of answers that clients have not read, over all connections. From a quarter of this "
        "bound on, fetches get smaller answers; at the bound the slowest readers are disconnected. "
        "0 or less: no bound. Not a Kafka setting.",
        dynamic=True,
    ),
    integer(
        "socket.listen.backlog.size",
        1024,
        1,
        "Connections that may wait to be accepted, and no more than the system's somaxconn. Kafka: "
        "50, beside a thread that does nothing but accept.",
    ),
    integer(
        "max.connections",
        2**31 - 1,
        0,
        "Connections open at once; one more is closed as soon as it is made. There are never "
        "more than the process has file descriptors for, beside those for its partitions.",
        dynamic=True,
    ),
    integer(
        "max.connections.per.ip",
        2**31 - 1,
        0,
        "Connections open at once from one address; one more is closed as soon as it is made.",
        dynamic=True,
    ),
    text(
        "max.connections.per.ip.overrides",
        "",
        "max.connections.per.ip of single addresses, as HOST:COUNT.",
        dynamic=True,
    ),
    long(
        "connections.max.idle.ms",
        600_000,
        None,
        "A connection without a request for this long is closed, and so is one whose peer reads "
        "nothing of its answers for this long; 0 or less never closes one.",
    ),
    integer(
        "share.version",
        2,
        0,
        "The finalised level of the feature share.version; 1: no dead letters are written. 0 "
        "switches share groups off: their requests are answered UNSUPPORTED_VERSION. (Kafka: "
        "kafka-features)",
        maximum=2,
    ),
    text(
        "metrics.address",
        None,
        "Where Prometheus may fetch metrics, as HOST:PORT; nowhere when not set. Not a Kafka "
        "setting.",
    ),
    integer(
        "producer.id.expiration.ms",
        86_400_000,
        1,
        "An idempotent producer that has written nothing for this long is forgotten.",
        dynamic=True,
    ),
    integer(
        "producer.id.expiration.check.interval.ms",
        600_000,
        1,
        "How often producers that have written nothing for producer.id.expiration.ms are "
        "looked for.",
    ),
    integer(
        "offsets.topic.num.partitions",
        1,
        1,
        "Partitions of __consumer_offsets; fixed once it exists.",
        departs="one embedded node gains nothing from more (Kafka: 50)",
    ),
    short(
        "offsets.topic.replication.factor",
        1,
        1,
        "Copies of __consumer_offsets; there is always one copy.",
        departs=_ONE_NODE.format(kafka=3),
    ),
    integer("offsets.topic.segment.bytes", 104_857_600, 1, "Segment size of __consumer_offsets."),
    integer(
        "individual.commit.log.segment.bytes",
        10_485_760,
        1,
        "Segment size of __individual_commit_offsets. Not a Kafka setting.",
    ),
    flag(
        "accept.individual.commit",
        True,
        "Whether members of consumer groups may commit ranges of offsets (KIP-X). Not a Kafka "
        "setting.",
        dynamic=True,
    ),
    integer(
        "max.individual.commits",
        100_000,
        1,
        "How many ranges of offsets a group may have committed behind its committed offsets. One "
        "more is refused with MAX_INDIVIDUAL_COMMIT_REACHED, and the group rebalances. Not a Kafka "
        "setting.",
        dynamic=True,
    ),
    integer(
        "offset.metadata.max.bytes",
        4_096,
        None,
        "Characters of the text that a client may commit with an offset.",
    ),
    integer(
        "offsets.retention.minutes",
        10_080,
        1,
        "A committed offset is deleted this long after its group lost its last member, or after "
        "its commit if the group has members but none for the topic, or never had any.",
    ),
    long(
        "offsets.retention.check.interval.ms",
        600_000,
        1,
        "How often to look for expired offsets.",
    ),
)
