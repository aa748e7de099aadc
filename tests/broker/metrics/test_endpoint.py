"""Every metric, as a scraper sees it, over real sockets and after real traffic."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from uuid import UUID

import pytest
from prometheus_client.parser import text_string_to_metric_families

from sharegroup.broker.metrics.endpoint import MetricsEndpoint
from sharegroup.broker.metrics.metric import MetricKind
from sharegroup.broker.metrics.reader import METRICS, MetricsReader
from sharegroup.broker.server import Broker
from sharegroup.model.errors import KafkaStorageError
from sharegroup.wire import apis
from sharegroup.wire.batch import (
    DELETE_HORIZON,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    encode_batch,
    parse_header,
    with_records,
)
from sharegroup.wire.messages.delete_groups import DeleteGroupsRequest
from sharegroup.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from sharegroup.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.broker.by_hand import (
    GROUP,
    TIMEOUT_MS,
    Member,
    connect,
    produce,
    topic_with_records,
)
from tests.broker.running import Scenario, run

ACCEPT, RELEASE = 1, 2
PARTITION = {"group": GROUP, "topic": "jobs", "partition": "0"}
LEAVE = -1

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


async def get(port: int, request: str = "GET /metrics HTTP/1.1") -> tuple[str, dict[str, str], str]:
    """Status line, headers and body."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(f"{request}\r\nHost: here\r\n\r\n".encode())
        answer = (await reader.read()).decode()
    finally:
        writer.close()
        await writer.wait_closed()
    head, _, body = answer.partition("\r\n\r\n")
    status, *fields = head.split("\r\n")
    return status, dict(field.split(": ", 1) for field in fields), body


async def opened(broker: Broker) -> tuple[MetricsEndpoint, int]:
    endpoint, port = await MetricsEndpoint.open("127.0.0.1", 0)
    endpoint.show(broker.parts)
    return endpoint, port


async def scraped(endpoint: MetricsReader) -> Samples:
    body, _ = await endpoint.text()
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(body.decode())
        for sample in family.samples
    }


def value(samples: Samples, name: str, labels: Mapping[str, str] | None = None) -> float | None:
    return samples.get((name, frozenset((labels or {}).items())))


async def ages(endpoint: MetricsReader) -> tuple[float | None, float | None]:
    """Of the oldest record that is not finished, and of the next that was never delivered."""
    samples = await scraped(endpoint)
    return (
        value(samples, "sharegroup_share_partition_oldest_unacknowledged_seconds", PARTITION),
        value(samples, "sharegroup_share_partition_lag_seconds", PARTITION),
    )


def measured(tmp_path: Path, scenario: Scenario) -> None:
    run(tmp_path, scenario, "group.share.min.record.lock.duration.ms=1000")


async def worked(broker: Broker, port: int) -> Member:
    """Five records: two accepted, one released, two held."""
    topic_id = await topic_with_records(broker, port, 5)
    member = await Member.join(port, "m1")
    assert await member.fetch(topic_id) == [(0, 4, 1)]
    assert await member.acknowledge(topic_id, 0, 1, ACCEPT) == 0
    assert await member.acknowledge(topic_id, 3, 3, RELEASE) == 0
    return member


def test_every_metric_of_the_table_is_there_after_some_work(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        endpoint, http_port = await opened(broker)
        member = await worked(broker, port)
        assert await member.acknowledge(topic_id_of(broker), 77, 77, ACCEPT) != 0
        await broker.parts.state.shards[0].snapshot_cold()
        status, headers, body = await get(http_port)
        endpoint.close()
        assert status == "HTTP/1.1 200 OK"
        assert headers["Content-Type"].startswith("text/plain; version=")
        assert int(headers["Content-Length"]) == len(body.encode())
        types = {
            family.name: family.type
            for family in text_string_to_metric_families(body)
            if family.samples
        }
        for metric in METRICS:
            if metric.name in RARE:
                continue
            name = metric.name.removesuffix("_total")
            assert types.get(name) == metric.kind.value, metric.name
        assert "process_cpu_seconds" in types

    measured(tmp_path, scenario)


RARE = {
    "sharegroup_fleet_nodes",  # this one and the next two: tests/upstream/test_sharing.py
    "sharegroup_fleet_parts",
    "sharegroup_fleet_lease",
    "sharegroup_authentications_total",  # this one and the next two: tests/broker/authentication
    "sharegroup_authentication_failures_total",
    "sharegroup_tls_handshake_failures_total",
    "sharegroup_authorization_denials_total",  # tests/broker/authorization/test_acl_requests.py
    "sharegroup_connections_refused_total",
    "sharegroup_share_ordering_disorder_total",  # tests/broker/test_order_per_key.py
    "sharegroup_share_ordering_waiting_records",
    "sharegroup_share_ordering_blocked_keys",
    "sharegroup_records_decided_by_hand_total",  # tests/broker/test_decisions_by_hand.py
    "sharegroup_expiry_headers_unreadable_total",  # tests/broker/test_expiry.py
    "sharegroup_schedule_headers_unreadable_total",  # tests/broker/test_schedule.py
    "sharegroup_priority_headers_unreadable_total",  # tests/broker/test_priority.py
    "sharegroup_schedule_full_total",  # tests/broker/test_schedule.py
    "sharegroup_share_state_last_pruned_offset",
    "sharegroup_dead_letters_total",  # this one and the next three: tests/broker/test_dead_letters
    "sharegroup_dead_letter_writes_total",
    "sharegroup_dead_letter_failures_total",
    "sharegroup_dead_letters_waiting",
}
"""Without a label to show before it happens."""


def topic_id_of(broker: Broker) -> UUID:
    found = broker.parts.topics.find("jobs")
    assert found is not None
    return found.topic_id


def test_the_numbers_are_those_of_the_work_done(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        endpoint = MetricsReader(broker.parts)
        await worked(broker, port)
        samples = await scraped(endpoint)
        expected = {
            "sharegroup_share_partition_start_offset": 2,
            "sharegroup_share_partition_lag_records": 3,
            "sharegroup_share_partition_in_flight_records": 3,
            "sharegroup_share_partition_acquired_records": 2,
            "sharegroup_share_partition_acquired_batch_records_sum": 5,
            "sharegroup_share_partition_lock_timeouts_total": 0,
        }
        for name, number in expected.items():
            assert value(samples, name, PARTITION) == number, name
        for kind, number in (("accept", 2), ("release", 1), ("reject", 0)):
            labels = {"group": GROUP, "topic": "jobs", "type": kind}
            found = value(samples, "sharegroup_acknowledged_records_total", labels)
            assert found == number
        assert value(samples, "sharegroup_share_sessions") == 1
        assert value(samples, "sharegroup_groups", {"state": "Stable"}) == 1
        assert value(samples, "sharegroup_group_members", {"group": GROUP}) == 1
        asked = value(samples, "sharegroup_request_seconds_count", {"api": "ShareAcknowledge"})
        assert asked == 2
        bytes_in = value(samples, "sharegroup_produce_bytes_total", {"topic": "jobs"})
        assert bytes_in == value(samples, "sharegroup_share_fetch_bytes_total", {"topic": "jobs"})
        assert bytes_in
        assert value(samples, "sharegroup_connections")

    measured(tmp_path, scenario)


def test_the_age_of_the_oldest_record_follows_the_start_offset(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        endpoint = MetricsReader(broker.parts)
        topic_id = await topic_with_records(broker, port, 1)
        member = await Member.join(port, "m1")
        await member.fetch(topic_id)
        assert await ages(endpoint) == (
            pytest.approx(broker.parts.clock.wall_ms() / 1000, abs=30),
            0,
        )
        assert await member.acknowledge(topic_id, 0, 0, ACCEPT) == 0
        assert await ages(endpoint) == (0, 0)
        connection = await connect(port)
        for minutes in (10, 1):
            written_ms = broker.parts.clock.wall_ms() - minutes * 60_000
            batch = encode_batch([(b"k", b"v")], timestamp_ms=written_ms)
            assert await produce(connection, topic_id, batch) == 0
        ten, one = pytest.approx(600, abs=30), pytest.approx(60, abs=30)
        assert await ages(endpoint) == (ten, ten)
        assert await member.fetch(topic_id) == [(1, 2, 1)]
        assert await ages(endpoint) == (ten, 0)
        assert await member.acknowledge(topic_id, 1, 1, ACCEPT) == 0
        assert await ages(endpoint) == (one, 0)
        assert await member.acknowledge(topic_id, 2, 2, ACCEPT) == 0
        assert await ages(endpoint) == (0, 0)

    measured(tmp_path, scenario)


@pytest.mark.parametrize("attribute", [LOG_APPEND_TIME, DELETE_HORIZON])
def test_an_age_is_that_of_the_record(attribute: int, tmp_path: Path) -> None:
    """With log append time the first timestamp of a batch is the producer's, in a cleaned batch it
    says when its deletions may go (issue 27)."""

    async def scenario(broker: Broker, port: int) -> None:
        topic_id = await topic_with_records(broker, port, 1)
        member = await Member.join(port, "m1")
        assert await member.fetch(topic_id) == [(0, 0, 1)]
        assert await member.acknowledge(topic_id, 0, 0, ACCEPT) == 0
        now_ms = broker.parts.clock.wall_ms()
        data = encode_batch([(b"k", b"v")], timestamp_ms=0)
        month_ms = 30 * 86_400_000
        header = parse_header(data)
        header = header._replace(
            attributes=header.attributes | attribute,
            base_timestamp=now_ms + (month_ms if attribute == DELETE_HORIZON else -month_ms),
            max_timestamp=now_ms - 600_000,
        )
        log = broker.parts.store.internal_log("jobs", 0)
        log.append_trusted(with_records(header, data[HEADER_BYTES:]))
        await log.wait_durable(2)
        ten = pytest.approx(600, abs=30)
        assert await ages(MetricsReader(broker.parts)) == (ten, ten)

    measured(tmp_path, scenario)


def test_a_group_without_members_is_measured_too(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        endpoint = MetricsReader(broker.parts)
        await worked(broker, port)
        for led in broker.parts.share_partitions.all():
            broker.parts.share_partitions.fence(led, "to be loaded again")
        samples = await scraped(endpoint)
        assert value(samples, "sharegroup_share_partition_lag_records", PARTITION) == 3
        assert value(samples, "sharegroup_share_partition_oldest_unacknowledged_seconds", PARTITION)
        assert value(samples, "sharegroup_share_partition_in_flight_records", PARTITION) is None

    measured(tmp_path, scenario)


def test_metrics_of_deleted_topics_and_groups_are_removed(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        endpoint = MetricsReader(broker.parts)
        member = await worked(broker, port)
        await member.send(
            apis.SHARE_GROUP_HEARTBEAT, ShareGroupHeartbeatRequest(GROUP, "m1", LEAVE, None, None)
        )
        connection = await connect(port)
        for api, request in (
            (apis.DELETE_GROUPS, DeleteGroupsRequest([GROUP])),
            (apis.DELETE_TOPICS, DeleteTopicsRequest(topics=[DeleteTopicState("jobs")])),
        ):
            await connection.send(api, request, timeout_ms=TIMEOUT_MS)
        samples = await scraped(endpoint)
        left = [name for name, labels in samples if {("group", GROUP), ("topic", "jobs")} & labels]
        assert left == []

    measured(tmp_path, scenario)


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        ("GET / HTTP/1.1", "404 Not Found"),
        ("POST /metrics HTTP/1.1", "405 Method Not Allowed"),
        ("HEAD /metrics HTTP/1.1", "200 OK"),
        ("GET /metrics?x=1 HTTP/1.0", "200 OK"),
    ],
)
def test_other_requests(tmp_path: Path, request_line: str, status: str) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        endpoint, http_port = await opened(broker)
        answered, _, body = await get(http_port, request_line)
        endpoint.close()
        assert answered == f"HTTP/1.1 {status}"
        assert bool(body) is not request_line.startswith("HEAD")

    measured(tmp_path, scenario)


class Unreadable:
    async def text(self, accept: str) -> tuple[bytes, str]:
        raise KafkaStorageError("share state partition 3 cannot be read")


def test_metrics_that_cannot_be_read_are_answered(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        endpoint, http_port = await opened(broker)
        endpoint._reader = Unreadable()
        answered, _, body = await get(http_port)
        endpoint.close()
        assert answered == "HTTP/1.1 503 Service Unavailable"
        assert body == "the metrics cannot be read: share state partition 3 cannot be read\n"

    measured(tmp_path, scenario)
    assert "Traceback" not in caplog.text


def test_openmetrics_for_those_who_prefer_it(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        endpoint, http_port = await opened(broker)
        wish = "GET /metrics HTTP/1.1\r\nAccept: application/openmetrics-text; version=1.0.0"
        _, headers, body = await get(http_port, wish)
        endpoint.close()
        assert headers["Content-Type"].startswith("application/openmetrics-text")
        assert body.endswith("# EOF\n")

    measured(tmp_path, scenario)


def test_names_follow_prometheus() -> None:
    names = [metric.name for metric in METRICS]
    assert len(names) == len(set(names))
    for metric in METRICS:
        assert metric.name.startswith("sharegroup_")
        assert metric.name.endswith("_total") is (metric.kind is MetricKind.COUNTER)
        assert metric.doc.endswith("."), metric.name
