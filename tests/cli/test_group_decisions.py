"""`sharegroup groups release` and `archive` against a running broker."""

from __future__ import annotations

import os

import pytest

from sharegroup import sync
from sharegroup.client import AckType
from tests.cli.command import Commands

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(
        os.environ.get("SHAREGROUP_TEST_BROKER") == "kafka", reason="Apache Kafka blocks no records"
    ),
]
BLOCKING = {
    "share.delivery.count.limit": "2",
    "share.ordering": "key",
    "share.ordering.on.failure": "block",
}


def test_a_blocked_record_is_released_and_archived(commands: Commands, name: str) -> None:
    commands.given("topics", "create", name, "--partitions", "1")
    commands.given("produce", name, "--key-separator", ":", stdin="k:one\nk:two\n")
    with sync.Admin(commands.bootstrap) as admin:
        admin.begin_group_at(name, "earliest")
        admin.alter_configs("group", name, BLOCKING)
    place = (name, name, "0")
    with sync.ShareConsumer(
        name,
        group_id=name,
        bootstrap_servers=commands.bootstrap,
        acknowledgement_mode="explicit",
    ) as consumer:

        def polled(answer: AckType) -> list[tuple[int, int]]:
            records = consumer.poll(timeout_ms=120_000)
            for record in records:
                consumer.acknowledge(record, answer)
            assert set(consumer.commit().values()) == {None}
            return [(record.offset, record.delivery_count) for record in records]

        assert polled(AckType.RELEASE) == [(0, 1), (1, 1)]
        assert polled(AckType.RELEASE) == [(0, 2)]
        rows = commands.inside("groups", "records", name, "--state", "blocked", "--json").json
        assert [(row["first"], row["last"], row["state"]) for row in rows] == [(0, 0, "blocked")]

        done = commands.ok("groups", "release", *place, "0")
        assert done.stdout == f"{name}:0 offset 0 is delivered again\n"
        assert polled(AckType.RELEASE) == [(0, 2)], "one is taken back"

        unsure = commands.inside("groups", "archive", *place, "0")
        assert unsure.status == 2
        assert "confirm with --yes" in unsure.stderr
        done = commands.ok("groups", "archive", *place, "0", "--yes")
        assert done.stdout == f"{name}:0 offset 0 is archived\n"
        assert polled(AckType.ACCEPT) == [(1, 1)]
    refused = commands.inside("groups", "archive", *place, "0", "--yes")
    assert refused.status == 1
    assert "Offset 0 does not wait for an operator" in refused.stderr
