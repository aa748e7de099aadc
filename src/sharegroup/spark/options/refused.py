"""Options of Spark's own Kafka source that a queue cannot support, each with the reason and the
replacement.
"""

from __future__ import annotations

from typing import Final

_BY_GROUP = "the share group's own position decides; startingOffsets says where a new group begins"
_END = "a share group has no end; to stop after what is there now, use .trigger(availableNow=True)"
_TRIGGER = "waiting with records in hand uses up their locks; use .trigger(processingTime=…)"
_BINARY = "keys and values are binary; decode them with DataFrame functions"
_RETRIES = (
    "a task tries again until kafkaConsumer.pollTimeoutMs has passed, the driver until "
    "brokerOutageTimeout has"
)
_SIZES = "requests are sized by the records asked for; bound a batch with maxAcquiredBytes"
_SESSION = "the broker decides: see the group's configs in the broker's documentation"

REFUSED_KAFKA: Final = {
    "kafka.enable.auto.commit": "a finished batch is acknowledged by the source",
    "kafka.interceptor.classes": "there are no interceptors",
    "kafka.key.deserializer": _BINARY,
    "kafka.value.deserializer": _BINARY,
    "kafka.fetch.max.bytes": _SIZES,
    "kafka.fetch.min.bytes": _SIZES,
    "kafka.fetch.max.wait.ms": "use pollTimeoutMs",
    "kafka.max.partition.fetch.bytes": _SIZES,
    "kafka.max.poll.interval.ms": "locks are renewed for as long as a batch runs (lockRenew)",
    "kafka.partition.assignment.strategy": "the broker assigns the partitions of a share group",
    "kafka.session.timeout.ms": _SESSION,
    "kafka.heartbeat.interval.ms": _SESSION,
    "kafka.group.instance.id": "members of a share group are not static; leave it out",
    "kafka.share.acknowledgement.mode": "use ackMode",
}
"""Settings of Kafka's clients, refused by streams and batch reads."""

REFUSED_BY_STREAMS: Final = {
    "assign": "the group assigns partitions; name the topics in subscribe",
    "groupIdPrefix": "the group is the queue; name it in kafka.group.id",
    "startingOffsetsByTimestamp": f"{_BY_GROUP}, or startingTimestamp",
    "startingOffsetsByTimestampStrategy": f"{_BY_GROUP}, or startingTimestamp",
    "endingOffsets": _END,
    "endingTimestamp": _END,
    "endingOffsetsByTimestamp": _END,
    "minOffsetsPerTrigger": _TRIGGER,
    "maxTriggerDelay": _TRIGGER,
    "fetchOffset.numRetries": _RETRIES,
    "fetchOffset.retryIntervalMs": _RETRIES,
    "kafka.auto.offset.reset": "use startingOffsets",
    "kafka.isolation.level": "use isolationLevel; it is a config of the group, set when it is new",
    "kafka.max.poll.records": "use maxOffsetsPerTrigger",
    "states": "it is for a look at the queue with spark.read; leave it out of spark.readStream",
    "topic": "did you mean subscribe? It names what is read; topic is an option of the sink",
    "topics": "did you mean subscribe? It names what is read, with commas between topics",
    "path": 'name the topics in .option("subscribe", …) and call .load() without a path',
    "checkpointLocation": "it is an option of the query: df.writeStream.option(…)",
    **REFUSED_KAFKA,
}
