"""`sharegroup transactions` against a running broker."""

from __future__ import annotations

import pytest

from sharegroup import sync
from sharegroup.cli.outcome import UsageError
from sharegroup.cli.transactions import parse_states
from sharegroup.client.errors import ProducerFenced
from sharegroup.model.errors import KafkaError
from tests.cli.command import Commands

pytestmark = pytest.mark.process


def test_a_transaction_is_found_and_aborted(commands: Commands, topic: str) -> None:
    def look_and_abort() -> None:
        with producer.transaction():
            producer.send_and_wait(topic, b"x", partition=1)
            [found] = commands.ok("transactions", "describe", topic, "--json").json
            assert found["state"] == "Ongoing"
            assert found["partitions"] == [{"topic": topic, "partition": 1}]
            assert found["open_ms"] >= 0
            assert f"{topic}-1" in commands.ok("transactions", "describe", topic).stdout

            listed = commands.ok("transactions", "list", "--state", "ongoing,Empty", "--json").json
            [mine] = [one for one in listed if one["transactional_id"] == topic]
            assert (mine["state"], mine["producer_id"]) == ("Ongoing", found["producer_id"])
            longer = commands.ok("transactions", "list", "--longer-than", "3600", "--json").json
            assert topic not in [one["transactional_id"] for one in longer]
            assert topic in commands.ok("transactions", "list").stdout

            asked = commands.inside("transactions", "abort", topic)
            assert asked.status == 2
            assert "confirm with --yes" in asked.stderr
            done = commands.run("transactions", "abort", topic, "--yes", "--json").json
            assert done == {"aborted": [topic], "refused": {}}

    with sync.Producer(commands.bootstrap, transactional_id=topic) as producer:
        with pytest.raises((ProducerFenced, KafkaError)):
            look_and_abort()
        [after] = commands.ok("transactions", "describe", topic, "--json").json
        assert (after["state"], after["open_ms"], after["partitions"]) == ("Empty", None, [])
        assert after["producer_epoch"] >= 2  # one more by the abort, one by who has fenced


def test_an_unknown_id_is_not_made(commands: Commands, name: str) -> None:
    for words in (("describe", name), ("abort", name, "--yes")):
        refused = commands.inside("transactions", *words)
        assert refused.status == 1
        assert "TRANSACTIONAL_ID_NOT_FOUND" in refused.stderr
    listed = commands.ok("transactions", "list", "--json").json
    assert name not in [one["transactional_id"] for one in listed]


def test_states_in_any_case() -> None:
    assert parse_states(["ongoing, EMPTY", "preparecommit"]) == [
        "Ongoing",
        "Empty",
        "PrepareCommit",
    ]
    with pytest.raises(UsageError, match="the states of a transaction are Empty, Ongoing"):
        parse_states(["stuck"])
