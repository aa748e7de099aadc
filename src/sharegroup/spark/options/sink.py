"""The options of a sink: ``df.writeStream.format("kafka-share")``, and ``df.write``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from sharegroup.client.security.settings import NO_SECURITY, Security
from sharegroup.spark.locations import folder
from sharegroup.spark.options import option_table
from sharegroup.spark.options.option_table import INT_MAX, Option, OptionTable, count, flag, word
from sharegroup.spark.options.security import split_security
from sharegroup.spark.options.stream import SERVERS, STREAM

_OF_STREAM: Final = frozenset(("client_id", "request_timeout_ms"))
_ASYNC: Final = (
    "it breaks the rule that a batch is on record before it runs, on which the answer for every "
    "record rests; leave it out"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """The options of a ``kafka-share`` sink; :data:`SINK` says what each means."""

    bootstrap_servers: str | None = None
    topic: str | None = None
    create_topics: bool = False
    include_headers: bool = True
    ack_location: str | None = None
    client_id: str = "sharegroup-spark-sink"
    acks: str = "all"
    idempotence: bool = True
    compression: str = "none"
    batch_size: int = 131_072
    linger_ms: int = 0
    request_max_bytes: int = 1_048_576
    buffer_memory: int = 33_554_432
    request_timeout_ms: int = 30_000
    delivery_timeout_ms: int = 120_000
    block_ms: int = 60_000
    checkpoint: str | None = None
    """The query's checkpoint."""
    query_name: str | None = None
    security: Security = NO_SECURITY


def parse_sink_options(options: Mapping[str, str]) -> SinkOptions:
    """The options as values.

    Raises:
        ConfigError: an option is unknown, not available here, or has an invalid value.
    """
    given = {name.lower(): text for name, text in options.items()}
    # Spark adds these two to the sink's options by itself.
    query_name = given.pop("queryname", None)
    checkpoint = given.pop("checkpointlocation", None)
    rest, security = split_security(given)
    return SinkOptions(
        **SINK.values(rest), checkpoint=checkpoint, query_name=query_name, security=security
    )


_BINARY: Final = "keys and values are binary or text; encode them with DataFrame functions"

SINK: Final = OptionTable(
    (
        Option(
            SERVERS,
            "bootstrap_servers",
            option_table.servers,
            "The brokers to produce to; not needed by a sink that only acknowledges.",
            spark=SERVERS,
        ),
        Option(
            "topic",
            "topic",
            option_table.text,
            "Where every row's result goes; without it the column `topic` says (beside decisions: "
            "`result_topic`).",
            spark="topic",
        ),
        Option(
            "createTopics",
            "create_topics",
            flag,
            "Whether a topic that does not exist is created, as the broker's settings for new "
            "topics say (`auto.create.topics.enable`). Without it a result for such a topic fails "
            "the query.",
        ),
        Option(
            "includeHeaders",
            "include_headers",
            flag,
            "Whether a column `headers` is written with the results.",
            spark="includeHeaders",
        ),
        Option(
            "ackLocation",
            "ack_location",
            folder,
            "The folder through which source and sink pass the decisions; the same in both.",
        ),
        *(option for option in STREAM.options if option.field in _OF_STREAM),
        Option(
            "kafka.acks",
            "acks",
            word("all", "1"),
            "What the broker has done before a record counts as written.",
            spark="kafka.acks",
        ),
        Option(
            "kafka.enable.idempotence",
            "idempotence",
            flag,
            "No duplicates and no reordering when requests are sent again. A task that runs again "
            "writes its results again all the same.",
            spark="kafka.enable.idempotence",
        ),
        Option(
            "kafka.compression.type",
            "compression",
            word("none", "gzip", "snappy", "lz4", "zstd"),
            "The codec of the batches.",
            spark="kafka.compression.type",
        ),
        Option(
            "kafka.batch.size",
            "batch_size",
            count(1, INT_MAX),
            "Bytes of one batch; share groups hand out whole batches.",
            spark="kafka.batch.size",
        ),
        Option(
            "kafka.linger.ms",
            "linger_ms",
            count(0, INT_MAX),
            "How long a batch waits for more.",
            spark="kafka.linger.ms",
        ),
        Option(
            "kafka.max.request.size",
            "request_max_bytes",
            count(1, INT_MAX),
            "Bytes of one request; also of one record.",
            spark="kafka.max.request.size",
        ),
        Option(
            "kafka.buffer.memory",
            "buffer_memory",
            count(1),
            "Bytes that may wait in one task.",
            spark="kafka.buffer.memory",
        ),
        Option(
            "kafka.delivery.timeout.ms",
            "delivery_timeout_ms",
            count(1, INT_MAX),
            "A record that is not through after this time fails its task.",
            spark="kafka.delivery.timeout.ms",
        ),
        Option(
            "kafka.max.block.ms",
            "block_ms",
            count(1, INT_MAX),
            "How long a task waits for a broker, for its topic, or for room in its buffer.",
            spark="kafka.max.block.ms",
        ),
    ),
    {
        "asyncProgressTrackingEnabled": _ASYNC,
        "ackMode": "it is an option of the source; the column ack makes a sink acknowledge",
        "defaultAck": "it is an option of the source",
        "subscribe": "it is an option of the source; results go to topic",
        "path": "name the topic in the option topic, and call start() or save() without a path",
        "kafka.group.id": "it is an option of the source; ackLocation is what leads to it",
        "kafka.transactional.id": "the sink writes without transactions; results are at least once",
        "kafka.key.serializer": _BINARY,
        "kafka.value.serializer": _BINARY,
        "kafka.interceptor.classes": "there are no interceptors",
    },
)
