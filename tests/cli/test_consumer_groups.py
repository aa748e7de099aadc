"""`sharegroup groups` and consumer groups of both protocols, against a running broker."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import pytest

from sharegroup.client import ConsumerRecord
from sharegroup.sync import Consumer
from tests.cli.command import Commands
from tests.cli.test_groups import rows_of

pytestmark = pytest.mark.process

Protocol = Literal["consumer", "classic"]


@contextmanager
def reader(
    commands: Commands, topic: str, group: str, protocol: Protocol = "consumer"
) -> Iterator[Consumer]:
    """A member that has read three records, and committed them."""
    with Consumer(
        topic,
        group_id=group,
        bootstrap_servers=commands.bootstrap,
        group_protocol=protocol,
        auto_offset_reset="earliest",
        client_id="reader",
    ) as consumer:
        count = 0
        for records in consumer.batches():
            count += len(records)
            if count == 3:
                break
        consumer.commit()
        yield consumer


@pytest.fixture
def full(commands: Commands, topic: str) -> str:
    """A topic with three records in its partition 0, and none in its partition 1."""
    commands.given("produce", topic, "--partition", "0", stdin="1\n2\n3\n")
    return topic


@pytest.mark.parametrize("protocol", ["consumer", "classic"])
def test_a_group_with_members(commands: Commands, full: str, protocol: Protocol) -> None:
    group = f"{full}-{protocol}"
    with reader(commands, full, group, protocol) as consumer:
        commands.given("produce", full, "--partition", "0", stdin="4\n")
        found = commands.inside("groups", "describe", group, "--json").json
        assert (found["group"], found["type"], found["state"]) == (group, protocol, "Stable")
        (member,) = found["members"]
        assert (member["client"], member["topics"]) == ("reader", [full])
        assert member["assignment"] == [{"topic": full, "partition": n} for n in (0, 1)]
        first, second = found["partitions"]
        assert (first["committed"], first["end"], first["lag"]) == (3, 4, 1)
        assert (second["committed"], second["end"], second["lag"]) == (0, 0, 0)
        assert first["member"] == member["member"]

        shown = commands.inside("groups", "describe", group).stdout
        assert shown.startswith(f"{protocol} group {group}, stable")
        (row, _) = rows_of(commands.inside("groups", "describe", group, "--offsets").stdout)
        assert row == [group, full, "0", "3", "4", "1", member["member"]]
        (row,) = rows_of(commands.inside("groups", "describe", group, "--members", "-v").stdout)
        assert row[:3] == [group, member["member"], "reader"]

        listed = {"group": group, "type": protocol, "state": "Stable"}
        assert listed in commands.inside("groups", "list", "--json").json
        assert listed in commands.inside("groups", "list", "--type", "consumer", "--json").json
        share = commands.inside("groups", "list", "--type", "share", "--json").json
        assert group not in [one["group"] for one in share]

        for words in (
            ("delete", "--yes", group),
            ("reset-offsets", group, "--all-topics", "--to-earliest", "--execute"),
        ):
            busy = commands.inside("groups", *words)
            assert busy.status == 1
            assert f"group {group} has 1 member: reader at" in busy.stderr
        forgetting = commands.inside("groups", "delete-offsets", group, "--topic", full)
        assert forgetting.status == 1
        assert "GROUP_SUBSCRIBED_TO_TOPIC" in forgetting.stderr
        assert consumer.position(full, 0) >= 3


TARGETS = [
    (["--to-earliest"], 0),
    (["--to-latest"], 3),
    (["--to-offset", "2"], 2),
    (["--shift-by", "-1"], 1),
    (["--shift-by", "5"], 3),  # the end
    (["--to-current"], 3),
    (["--by-duration", "PT1H"], 0),
    (["--to-datetime", "2026-01-01T00:00:00"], 0),
]


def test_offsets_are_reset_and_deleted(commands: Commands, full: str) -> None:
    group = f"{full}-reset"
    with reader(commands, full, group):
        pass
    reset = ("groups", "reset-offsets", group, "--topic", f"{full}:0", "--json")
    planned = commands.inside(*reset, "--to-earliest", "--dry-run").json
    (move,) = planned["moves"]
    assert (planned["executed"], move["start_offset"], move["new_offset"]) == (False, 3, 0)
    for target, offset in TARGETS:
        done = commands.inside(*reset, *target, "--execute")
        assert done.status == 0, done
        assert [one["new_offset"] for one in done.json["moves"]] == [offset], target
        found = commands.inside("groups", "describe", group, "--offsets", "--json").json
        assert found["partitions"][0]["committed"] == offset, target

    gone = commands.inside("groups", "delete-offsets", group, "-t", full, "-t", "no", "--json")
    assert gone.status == 1
    assert gone.json == {"forgotten": [full], "refused": {"no": "UNKNOWN_TOPIC_OR_PARTITION"}}
    assert commands.inside("groups", "delete", "--yes", group).status in (0, 1)
    nobody = commands.inside("groups", "describe", group)
    assert nobody.stderr.startswith("sharegroup: GROUP_ID_NOT_FOUND: ")


def test_a_new_consumer_group(commands: Commands, full: str) -> None:
    group = f"{full}-new"
    where = ("-t", f"{full}:0", "--to-offset", "2")
    words = ("groups", "reset-offsets", group, "--type", "consumer", *where)
    said = commands.inside(*words, "--dry-run")
    assert said.stderr.startswith(f"sharegroup: there is no group {group}: --execute creates it")
    assert commands.inside(*words, "--execute").status == 0
    listed = {"group": group, "type": "classic", "state": "Empty"}
    assert listed in commands.inside("groups", "list", "--state", "empty", "--json").json
    share = commands.inside(
        "groups", "reset-offsets", group, "--type", "share", *where, "--execute"
    )
    assert share.status == 2
    wrong = commands.inside("groups", "delete", "--yes", "--type", "share", group)
    assert wrong.status == 2
    assert wrong.stderr == f"sharegroup: group {group} is a consumer group, not a share group\n"
    assert commands.inside("groups", "delete", "--yes", group).stdout == f"{group} deleted\n"


def test_all_groups_of_a_kind(own_commands: Commands) -> None:
    own_commands.given("topics", "create", "t")
    reset = ("groups", "reset-offsets", "-t", "t", "--to-latest", "--execute")
    own_commands.inside(*reset, "sharing")
    own_commands.inside(*reset, "reading", "--type", "consumer")
    every = ("groups", "describe", "--all-groups", "--json")
    assert [one["group"] for one in own_commands.inside(*every).json] == ["sharing"]
    [found] = own_commands.inside(*every, "--type", "consumer").json
    assert found["group"] == "reading"
    both = own_commands.inside("groups", "describe", "sharing", "reading", "--offsets").stdout
    assert "start offset" in both
    assert "committed" in both
    deleted = own_commands.inside("groups", "delete", "--yes", "--all-groups", "--type", "consumer")
    assert deleted.stdout == "reading deleted\n"
    left = own_commands.inside("groups", "list", "--json").json
    assert [one["group"] for one in left] == ["sharing"]


def test_a_group_whose_members_share_a_partition(commands: Commands, topic: str) -> None:
    """KIP-X: who has which part of the hash space, and what is committed behind the offset."""
    commands.given("topics", "alter", topic, "--config", "accept.range.fetch=true")
    commands.given("produce", topic, "--partition", "0", stdin="1\n2\n3\n4\n")
    group = f"{topic}-shared"

    def member() -> Consumer:
        return Consumer(
            topic,
            group_id=group,
            bootstrap_servers=commands.bootstrap,
            key_ranges=True,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
        )

    with member() as one:
        records: list[ConsumerRecord] = []
        while len(records) < 4:
            records += one.poll(1_000)
        one.commit([records[1], records[3]])
    with member() as one, member() as two, member() as three:
        members = [one, two, three]
        while sum(bool(each.key_ranges) for each in members) < 2:
            for each in members:
                each.poll(50)
        found = commands.inside("groups", "describe", group, "--json").json
        first = found["partitions"][0]
        assert (first["committed"], first["ranges"]) == (0, [[1, 1], [3, 3]])
        parts = [where for each in found["members"] for where in each["assignment"]]
        assert sum("key_ranges" in where for where in parts) == 2
        text = commands.inside("groups", "describe", group).stdout
        assert "2: 1, 3" in text
        assert text.count("50%") == 2
