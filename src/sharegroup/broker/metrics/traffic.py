"""Requests, errors, bytes, connections."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from sharegroup.broker.metrics.metric import Sample, counter, gauge, histogram
from sharegroup.broker.parts import BrokerParts

_TOPIC_METRICS: Final = "kafka.server:type=BrokerTopicMetrics,name="
_REQUEST_METRICS: Final = "kafka.network:type=RequestMetrics,name="

REQUEST_SECONDS: Final = histogram(
    "sharegroup_request_seconds",
    "From a request that is read to its answer that is ready, by API; a fetch that waits for "
    "records waits in it. Its count is the number of requests.",
    labels=("api",),
    kafka=_REQUEST_METRICS + "TotalTimeMs,request=… and RequestsPerSec",
)
REQUEST_BYTES: Final = counter(
    "sharegroup_request_bytes",
    "Bytes of requests.",
    labels=("api",),
    unit="bytes",
    kafka=_REQUEST_METRICS + "RequestBytes",
)
RESPONSE_BYTES: Final = counter(
    "sharegroup_response_bytes",
    "Bytes of answers.",
    labels=("api",),
    unit="bytes",
    kafka="kafka.network:type=SocketServer outgoing-byte-total",
)
ERRORS: Final = counter(
    "sharegroup_errors",
    "Errors answered, by API and Kafka's name of the error: of a request as a whole, and of "
    "partitions in produce, fetch, list-offsets, share fetch and share acknowledgement.",
    labels=("api", "error"),
    kafka=_REQUEST_METRICS + "ErrorsPerSec",
)
MALFORMED: Final = counter(
    "sharegroup_malformed_requests",
    "Requests that are no message of the protocol; each closed its connection.",
    kafka="kafka.server:type=BrokerTopicMetrics,name=InvalidMagicNumberRecordsPerSec and others",
)
DENIALS: Final = counter(
    "sharegroup_authorization_denials",
    "Requests, or parts of them, that were refused because their client may not do this, by the "
    "operation and the type of resource. Who it was stands in the log (logger "
    "sharegroup.authorizer).",
    labels=("operation", "resource_type"),
)
ACLS: Final = gauge(
    "sharegroup_acls",
    "ACLs in force: those of authorizer.acl.file and those made by CreateAcls.",
    kafka="kafka.server:type=authorizer-metrics acls-total-count",
)
CONNECTIONS: Final = gauge(
    "sharegroup_connections",
    "Open connections.",
    kafka="kafka.server:type=socket-server-metrics connection-count",
)
ACCEPTED: Final = counter(
    "sharegroup_connections_accepted",
    "Connections accepted.",
    kafka="kafka.server:type=socket-server-metrics connection-creation-total",
)
REFUSED: Final = counter(
    "sharegroup_connections_refused",
    "Connections closed as soon as they were made, by the limit that they were over; for the "
    "limits of unauthenticated ones, the oldest of the address with the most.",
    labels=("limit",),
    kafka="kafka.network:type=Acceptor,name=AcceptorBlockedPercent",
)
IDLE_CLOSED: Final = counter(
    "sharegroup_connections_idle_closed",
    "Connections closed after connections.max.idle.ms.",
    kafka="kafka.server:type=socket-server-metrics expired-connections-killed-count",
)
DROPPED: Final = counter(
    "sharegroup_connections_dropped",
    "Connections closed because memory was short and they did not move, by what was short: room "
    "for requests (queued.max.request.bytes) or for answers (queued.max.response.bytes).",
    labels=("memory",),
)
REQUEST_MEMORY: Final = gauge(
    "sharegroup_request_memory_bytes",
    "Bytes of requests that have come and are not answered, and room kept for unfinished ones.",
    unit="bytes",
    kafka="kafka.network:type=SocketServer,name=MemoryPoolUsed",
)
RESPONSE_MEMORY: Final = gauge(
    "sharegroup_response_memory_bytes",
    "Bytes of answers that their clients have not read.",
    unit="bytes",
)
PRODUCE_BYTES: Final = counter(
    "sharegroup_produce_bytes",
    "Bytes of record batches appended.",
    labels=("topic",),
    unit="bytes",
    kafka=_TOPIC_METRICS + "BytesInPerSec,topic=…",
)
PRODUCE_REQUESTS: Final = counter(
    "sharegroup_produce_requests",
    "Produce requests, counted for each topic they name.",
    labels=("topic",),
    kafka=_TOPIC_METRICS + "TotalProduceRequestsPerSec,topic=…",
)
FETCH_BYTES: Final = counter(
    "sharegroup_fetch_bytes",
    "Bytes of record batches sent to plain consumers.",
    labels=("topic",),
    unit="bytes",
    kafka=_TOPIC_METRICS + "BytesOutPerSec,topic=…",
)
FETCH_REQUESTS: Final = counter(
    "sharegroup_fetch_requests",
    "Fetch requests, counted for each topic they name.",
    labels=("topic",),
    kafka=_TOPIC_METRICS + "TotalFetchRequestsPerSec,topic=…",
)
SHARE_FETCH_BYTES: Final = counter(
    "sharegroup_share_fetch_bytes",
    "Bytes of record batches sent to share consumers.",
    labels=("topic",),
    unit="bytes",
)
SHARE_FETCHES: Final = counter(
    "sharegroup_share_fetch_requests",
    "Share fetches, counted for each topic in their session.",
    labels=("topic",),
    kafka=_TOPIC_METRICS + "TotalShareFetchRequestsPerSec,topic=…",
)
SHARE_FETCH_FAILURES: Final = counter(
    "sharegroup_share_fetch_failures",
    "Partitions of share fetches that were answered with an error.",
    labels=("topic",),
    kafka=_TOPIC_METRICS + "FailedShareFetchRequestsPerSec,topic=…",
)
SHARE_ACKS: Final = counter(
    "sharegroup_share_acknowledge_requests",
    "Requests with acknowledgements, alone or on a share fetch, counted for each topic.",
    labels=("topic",),
    kafka=_TOPIC_METRICS + "TotalShareAcknowledgementRequestsPerSec,topic=…",
)
SHARE_ACK_FAILURES: Final = counter(
    "sharegroup_share_acknowledge_failures",
    "Partitions whose acknowledgements were refused.",
    labels=("topic",),
    kafka=_TOPIC_METRICS + "FailedShareAcknowledgementRequestsPerSec,topic=…",
)
FETCH_SESSIONS: Final = gauge(
    "sharegroup_fetch_sessions",
    "Incremental fetch sessions (KIP-227).",
    kafka="kafka.server:type=FetchSessionCache,name=NumIncrementalFetchSessions",
)
FETCH_SESSION_PARTITIONS: Final = gauge(
    "sharegroup_fetch_session_partitions",
    "Partitions in all incremental fetch sessions.",
    kafka="kafka.server:type=FetchSessionCache,name=NumIncrementalFetchPartitionsCached",
)
FETCH_SESSIONS_EVICTED: Final = counter(
    "sharegroup_fetch_sessions_evicted",
    "Incremental fetch sessions given up for others.",
    kafka="kafka.server:type=FetchSessionCache,name=IncrementalFetchSessionEvictionsPerSec",
)
KEY_RANGE_CACHE: Final = gauge(
    "sharegroup_key_range_cache_bytes",
    "Memory for the key hashes and unpacked records of batches that were fetched by key ranges.",
)

METRICS: Final = (
    REQUEST_SECONDS,
    REQUEST_BYTES,
    RESPONSE_BYTES,
    ERRORS,
    MALFORMED,
    DENIALS,
    ACLS,
    CONNECTIONS,
    ACCEPTED,
    REFUSED,
    IDLE_CLOSED,
    DROPPED,
    REQUEST_MEMORY,
    RESPONSE_MEMORY,
    PRODUCE_BYTES,
    PRODUCE_REQUESTS,
    FETCH_BYTES,
    FETCH_REQUESTS,
    SHARE_FETCH_BYTES,
    SHARE_FETCHES,
    SHARE_FETCH_FAILURES,
    SHARE_ACKS,
    SHARE_ACK_FAILURES,
    FETCH_SESSIONS,
    FETCH_SESSION_PARTITIONS,
    FETCH_SESSIONS_EVICTED,
    KEY_RANGE_CACHE,
)

_PARTITION_ERRORS: Final = {
    "produce_errors": "Produce",
    "fetch_errors": "Fetch",
    "list_offsets_errors": "ListOffsets",
    "share_fetch_errors": "ShareFetch",
    "acknowledgements_refused": "ShareAcknowledge",
}
"""Counters whose label is an error, with the API of that error."""


def read(parts: BrokerParts) -> Iterator[Sample]:
    """The samples of this table."""
    for api, requests in parts.meters.requests.items():
        yield REQUEST_SECONDS.of(requests.seconds, api)
        yield REQUEST_BYTES.of(requests.request_bytes, api)
        yield RESPONSE_BYTES.of(requests.response_bytes, api)
    yield from _counted(parts)
    yield ACLS.of(parts.access_rules.acl_count)
    yield CONNECTIONS.of(len(parts.connections))
    yield REQUEST_MEMORY.of(parts.connections.request_bytes)
    yield RESPONSE_MEMORY.of(parts.connections.unread_bytes)
    yield from _topics(parts)
    yield FETCH_SESSIONS.of(len(parts.fetch_sessions))
    yield FETCH_SESSION_PARTITIONS.of(parts.fetch_sessions.partition_count())
    yield FETCH_SESSIONS_EVICTED.of(parts.fetch_sessions.evicted)
    yield KEY_RANGE_CACHE.of(parts.range_reading.index.nbytes)


def _counted(parts: BrokerParts) -> Iterator[Sample]:
    counts = parts.counters.statistics()
    yield MALFORMED.of(counts.get(("malformed_requests", ""), 0))
    yield ACCEPTED.of(counts.get(("connections", ""), 0))
    yield IDLE_CLOSED.of(counts.get(("connections_idle_closed", ""), 0))
    for memory in ("request", "response"):
        yield DROPPED.of(counts.get(("connections_dropped", f"{memory} memory"), 0), memory)
    for (name, label), count in counts.items():
        if name == "request_errors":
            yield ERRORS.of(count, *label.split(" ", 1))
        elif name == "handler_failures":
            yield ERRORS.of(count, label, "UNKNOWN_SERVER_ERROR")
        elif name == "authorization_denials":
            yield DENIALS.of(count, *label.split(" ", 1))
        elif name == "connections_refused":
            yield REFUSED.of(count, label)
        elif name in _PARTITION_ERRORS:
            yield ERRORS.of(count, _PARTITION_ERRORS[name], label)


def _topics(parts: BrokerParts) -> Iterator[Sample]:
    for topic_id, meter in parts.meters.topics.items():
        topic = parts.topics.name_of(topic_id)
        if topic is None:
            continue
        yield PRODUCE_BYTES.of(meter.produce_bytes, topic)
        yield PRODUCE_REQUESTS.of(meter.produce_requests, topic)
        yield FETCH_BYTES.of(meter.fetch_bytes, topic)
        yield FETCH_REQUESTS.of(meter.fetch_requests, topic)
        yield SHARE_FETCH_BYTES.of(meter.share_fetch_bytes, topic)
        yield SHARE_FETCHES.of(meter.share_fetch_requests, topic)
        yield SHARE_FETCH_FAILURES.of(meter.share_fetch_failures, topic)
        yield SHARE_ACKS.of(meter.share_acknowledge_requests, topic)
        yield SHARE_ACK_FAILURES.of(meter.share_acknowledge_failures, topic)
