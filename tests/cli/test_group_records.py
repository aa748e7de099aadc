"""`sharegroup groups records` against a running broker."""

from __future__ import annotations

import os

import pytest

from sharegroup import sync
from sharegroup.client import AckType
from tests.cli.command import Commands

pytestmark = pytest.mark.process

TELLS_LOCKS = os.environ.get("SHAREGROUP_TEST_BROKER") != "kafka"
SECONDS = 240


def test_records_held_by_a_member_are_shown(commands: Commands, name: str) -> None:
    commands.given("topics", "create", name, "--partitions", "1")
    commands.given("produce", name, stdin="one\ntwo\nthree\n")
    with sync.Admin(commands.bootstrap) as admin:
        admin.begin_group_at(name, "earliest")
    with sync.ShareConsumer(
        name,
        group_id=name,
        bootstrap_servers=commands.bootstrap,
        acknowledgement_mode="explicit",
    ) as consumer:
        held = []
        while len(held) < 3:
            held += consumer.poll(timeout_ms=1_000)
        consumer.acknowledge(held[1], AckType.REJECT)
        assert set(consumer.commit().values()) == {None}
        commands.given("produce", name, stdin="four\n")

        rows = commands.inside("groups", "records", name, "--topic", name, "--json").json
        seen = {
            offset: row["state"] for row in rows for offset in range(row["first"], row["last"] + 1)
        }
        assert seen[1] == "archived"
        assert seen[3] == "available"
        assert all(row["records"] == row["last"] - row["first"] + 1 for row in rows)
        if TELLS_LOCKS:
            assert (seen[0], seen[2]) == ("acquired", "acquired")
            shown = commands.inside("groups", "records", name, "--state", "Acquired").stdout
            lines = [line.split() for line in shown.splitlines()[2:]]
            assert [line[:8] for line in lines] == [
                [name, "0", at, at, "1", "acquired", "1", consumer.member_id] for at in "02"
            ]
            few = commands.inside("groups", "records", name, "--limit", "1", "--json")
            assert few.json == [{**rows[0], "lock_ms": few.json[0]["lock_ms"]}]
            assert few.stderr.startswith(f"sharegroup: {len(rows) - 1} more lines not shown")


def test_archived_records_are_shown_with_the_reason(commands: Commands, name: str) -> None:
    commands.given("topics", "create", name, "--partitions", "1")
    commands.given("produce", name, stdin="one\ntwo\nthree\n")
    with sync.Admin(commands.bootstrap) as admin:
        admin.begin_group_at(name, "earliest")
        admin.alter_configs("group", name, {"share.delivery.count.limit": "2"})
    with sync.ShareConsumer(
        name,
        group_id=name,
        bootstrap_servers=commands.bootstrap,
        acknowledgement_mode="explicit",
    ) as consumer:
        answers = {0: [AckType.REJECT], 1: [AckType.RELEASE] * 2, 2: [AckType.ACCEPT]}
        while any(answers.values()):
            for record in consumer.poll(timeout_ms=1_000):
                consumer.acknowledge(record, answers[record.offset].pop(0))
            assert set(consumer.commit().values()) <= {None}
    shown = commands.inside("groups", "records", name, "--state", "archived", "--json").json
    seen = [(row["first"], row["last"], row["delivery_count"], row["reason"]) for row in shown]
    if TELLS_LOCKS:
        assert seen == [(0, 0, 1, "rejected"), (1, 1, 2, "delivery-limit")]


def test_a_topic_unknown_to_the_group(commands: Commands, topic: str) -> None:
    commands.given("produce", topic, stdin="one\n")
    commands.ok("consume", topic, "-g", topic, "--from-beginning", "--max", "1")
    refused = commands.inside("groups", "records", topic, "--topic", "nothing")
    assert refused.status == 1
    assert refused.stderr == (
        f"sharegroup: UNKNOWN_TOPIC_OR_PARTITION: {topic} has no state of nothing\n"
    )


def test_an_invalid_state_is_refused(commands: Commands) -> None:
    refused = commands.inside("groups", "records", "g", "--state", "lost")
    assert refused.status == 2
    assert refused.stderr == (
        "sharegroup: --state lost: the states of a record are available, acquired, "
        "acknowledged, archived, delayed, damaged, blocked, archiving\n"
    )
