"""Requests, errors, bytes, connections."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from sharegroup.broker.hot_path_counters import RequestMeter, TopicMeter
from sharegroup.broker.metrics.table import Labels, Scrape, Table

_TOPIC_METRICS: Final = "kafka.server:type=BrokerTopicMetrics,name="
_REQUEST_METRICS: Final = "kafka.network:type=RequestMetrics,name="

_PARTITION_ERRORS: Final = {
    "produce_errors": "Produce",
    "fetch_errors": "Fetch",
    "list_offsets_errors": "ListOffsets",
    "share_fetch_errors": "ShareFetch",
    "acknowledgements_refused": "ShareAcknowledge",
}
"""Events whose label is an error, with the API of that error."""


def _apis(scrape: Scrape) -> Iterator[tuple[RequestMeter, Labels]]:
    for api, meter in scrape.parts.meters.requests.items():
        yield meter, (api,)


def _topics(scrape: Scrape) -> Iterator[tuple[TopicMeter, Labels]]:
    for topic_id, meter in scrape.parts.meters.topics.items():
        topic = scrape.parts.topics.name_of(topic_id)
        if topic is not None:
            yield meter, (topic,)


def _errors(scrape: Scrape) -> Mapping[Labels, int]:
    errors: Counter[Labels] = Counter()
    for (event, label), count in scrape.events.items():
        if event == "request_errors":
            api, error = label.split(" ", 1)
        elif event == "handler_failures":
            api, error = label, "UNKNOWN_SERVER_ERROR"
        elif event in _PARTITION_ERRORS:
            api, error = _PARTITION_ERRORS[event], label
        else:
            continue
        errors[api, error] += count
    return errors


def _denials(scrape: Scrape) -> Mapping[Labels, int]:
    denials = scrape.by_label("authorization_denials")
    return {tuple(label.split(" ", 1)): count for label, count in denials.items()}


def _dropped(scrape: Scrape) -> Mapping[str, int]:
    return {
        memory: scrape.count("connections_dropped", f"{memory} memory")
        for memory in ("request", "response")
    }


TRAFFIC: Final = Table()
BY_API: Final = TRAFFIC.source(("api",), _apis)
EVENTS: Final = TRAFFIC.whole()
"""Shown from the start."""
EVENTS_BY_LABEL: Final = TRAFFIC.whole()
"""Shown once they have happened: their labels are not known before."""
CONNECTIONS: Final = TRAFFIC.whole()
BY_TOPIC: Final = TRAFFIC.source(("topic",), _topics)
FETCHES: Final = TRAFFIC.whole()

BY_API.histogram(
    "sharegroup_request_seconds",
    "From a request that is read to its answer that is ready, by API; a fetch that waits for "
    "records waits in it. Its count is the number of requests.",
    lambda meter: meter.seconds,
    kafka=_REQUEST_METRICS + "TotalTimeMs,request=… and RequestsPerSec",
)
BY_API.counter(
    "sharegroup_request_bytes",
    "Bytes of requests.",
    lambda meter: meter.request_bytes,
    unit="bytes",
    kafka=_REQUEST_METRICS + "RequestBytes",
)
BY_API.counter(
    "sharegroup_response_bytes",
    "Bytes of answers.",
    lambda meter: meter.response_bytes,
    unit="bytes",
    kafka="kafka.network:type=SocketServer outgoing-byte-total",
)
EVENTS_BY_LABEL.counter(
    "sharegroup_errors",
    "Errors answered, by API and Kafka's name of the error: of a request as a whole, and of "
    "partitions in produce, fetch, list-offsets, share fetch and share acknowledgement.",
    _errors,
    labels=("api", "error"),
    kafka=_REQUEST_METRICS + "ErrorsPerSec",
)
EVENTS.counter(
    "sharegroup_malformed_requests",
    "Requests that are no message of the protocol; each closed its connection.",
    lambda scrape: scrape.count("malformed_requests"),
    kafka="kafka.server:type=BrokerTopicMetrics,name=InvalidMagicNumberRecordsPerSec and others",
)
DENIALS: Final = EVENTS_BY_LABEL.counter(
    "sharegroup_authorization_denials",
    "Requests, or parts of them, that were refused because their client may not do this, by the "
    "operation and the type of resource. Who it was stands in the log (logger "
    "sharegroup.authorizer).",
    _denials,
    labels=("operation", "resource_type"),
)
CONNECTIONS.gauge(
    "sharegroup_acls",
    "ACLs in force: those of authorizer.acl.file and those made by CreateAcls.",
    lambda scrape: scrape.parts.access_rules.acl_count,
    kafka="kafka.server:type=authorizer-metrics acls-total-count",
)
CONNECTIONS.gauge(
    "sharegroup_connections",
    "Open connections.",
    lambda scrape: len(scrape.parts.connections),
    kafka="kafka.server:type=socket-server-metrics connection-count",
)
EVENTS.counter(
    "sharegroup_connections_accepted",
    "Connections accepted.",
    lambda scrape: scrape.count("connections"),
    kafka="kafka.server:type=socket-server-metrics connection-creation-total",
)
EVENTS_BY_LABEL.counter(
    "sharegroup_connections_refused",
    "Connections closed as soon as they were made, by the limit that they were over; for the "
    "limits of unauthenticated ones, the oldest of the address with the most.",
    lambda scrape: scrape.by_label("connections_refused"),
    labels=("limit",),
    kafka="kafka.network:type=Acceptor,name=AcceptorBlockedPercent",
)
EVENTS.counter(
    "sharegroup_connections_idle_closed",
    "Connections closed after connections.max.idle.ms.",
    lambda scrape: scrape.count("connections_idle_closed"),
    kafka="kafka.server:type=socket-server-metrics expired-connections-killed-count",
)
EVENTS.counter(
    "sharegroup_connections_dropped",
    "Connections closed because memory was short and they did not move, by what was short: room "
    "for requests (queued.max.request.bytes) or for answers (queued.max.response.bytes).",
    _dropped,
    labels=("memory",),
)
CONNECTIONS.gauge(
    "sharegroup_request_memory_bytes",
    "Bytes of requests that have come and are not answered, and room kept for unfinished ones.",
    lambda scrape: scrape.parts.connections.request_bytes,
    unit="bytes",
    kafka="kafka.network:type=SocketServer,name=MemoryPoolUsed",
)
CONNECTIONS.gauge(
    "sharegroup_response_memory_bytes",
    "Bytes of answers that their clients have not read.",
    lambda scrape: scrape.parts.connections.unread_bytes,
    unit="bytes",
)
BY_TOPIC.counter(
    "sharegroup_produce_bytes",
    "Bytes of record batches appended.",
    lambda meter: meter.produce_bytes,
    unit="bytes",
    kafka=_TOPIC_METRICS + "BytesInPerSec,topic=…",
)
BY_TOPIC.counter(
    "sharegroup_produce_requests",
    "Produce requests, counted for each topic they name.",
    lambda meter: meter.produce_requests,
    kafka=_TOPIC_METRICS + "TotalProduceRequestsPerSec,topic=…",
)
BY_TOPIC.counter(
    "sharegroup_repeated_records",
    "Records that were not appended, because their message id had been there within "
    "deduplication.window.ms.",
    lambda meter: meter.repeated_records,
)
BY_TOPIC.counter(
    "sharegroup_message_ids_forgotten",
    "Message ids that were forgotten within deduplication.window.ms, because a partition remembers "
    "1,048,576.",
    lambda meter: meter.message_ids_forgotten,
)
BY_TOPIC.counter(
    "sharegroup_fetch_bytes",
    "Bytes of record batches sent to plain consumers.",
    lambda meter: meter.fetch_bytes,
    unit="bytes",
    kafka=_TOPIC_METRICS + "BytesOutPerSec,topic=…",
)
BY_TOPIC.counter(
    "sharegroup_fetch_requests",
    "Fetch requests, counted for each topic they name.",
    lambda meter: meter.fetch_requests,
    kafka=_TOPIC_METRICS + "TotalFetchRequestsPerSec,topic=…",
)
BY_TOPIC.counter(
    "sharegroup_share_fetch_bytes",
    "Bytes of record batches sent to share consumers.",
    lambda meter: meter.share_fetch_bytes,
    unit="bytes",
)
BY_TOPIC.counter(
    "sharegroup_share_fetch_requests",
    "Share fetches, counted for each topic in their session.",
    lambda meter: meter.share_fetch_requests,
    kafka=_TOPIC_METRICS + "TotalShareFetchRequestsPerSec,topic=…",
)
BY_TOPIC.counter(
    "sharegroup_share_fetch_failures",
    "Partitions of share fetches that were answered with an error.",
    lambda meter: meter.share_fetch_failures,
    kafka=_TOPIC_METRICS + "FailedShareFetchRequestsPerSec,topic=…",
)
BY_TOPIC.counter(
    "sharegroup_share_acknowledge_requests",
    "Requests with acknowledgements, alone or on a share fetch, counted for each topic.",
    lambda meter: meter.share_acknowledge_requests,
    kafka=_TOPIC_METRICS + "TotalShareAcknowledgementRequestsPerSec,topic=…",
)
BY_TOPIC.counter(
    "sharegroup_share_acknowledge_failures",
    "Partitions whose acknowledgements were refused.",
    lambda meter: meter.share_acknowledge_failures,
    kafka=_TOPIC_METRICS + "FailedShareAcknowledgementRequestsPerSec,topic=…",
)
FETCHES.gauge(
    "sharegroup_fetch_sessions",
    "Incremental fetch sessions (KIP-227).",
    lambda scrape: len(scrape.parts.fetch_sessions),
    kafka="kafka.server:type=FetchSessionCache,name=NumIncrementalFetchSessions",
)
FETCHES.gauge(
    "sharegroup_fetch_session_partitions",
    "Partitions in all incremental fetch sessions.",
    lambda scrape: scrape.parts.fetch_sessions.partition_count(),
    kafka="kafka.server:type=FetchSessionCache,name=NumIncrementalFetchPartitionsCached",
)
FETCHES.counter(
    "sharegroup_fetch_sessions_evicted",
    "Incremental fetch sessions given up for others.",
    lambda scrape: scrape.parts.fetch_sessions.evicted,
    kafka="kafka.server:type=FetchSessionCache,name=IncrementalFetchSessionEvictionsPerSec",
)
FETCHES.gauge(
    "sharegroup_key_range_cache_bytes",
    "Memory for the key hashes and unpacked records of batches that were fetched by key ranges.",
    lambda scrape: scrape.parts.range_reading.index.nbytes,
)
