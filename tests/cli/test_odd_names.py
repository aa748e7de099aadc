"""Groups, members and clients with odd names, through every way in and out: one broker for all."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import parser as plain_text
from prometheus_client.openmetrics import parser as open_metrics

from sharegroup.client import Admin, Producer
from sharegroup.model.printable import printable
from sharegroup.wire import apis
from sharegroup.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.cli.command import Commands, Finished
from tests.differential.wire_member import WireMember
from tests.servers import share_session
from tests.servers.odd_names import ODD
from tests.servers.process import HOST, free_port
from tests.servers.sharegroup_server import SharegroupServer

pytestmark = pytest.mark.process

TOPIC = "jobs"
RECORDS = 3
ACCEPT = 1
PLAIN = ("a", "a,b", "..", "../x", "/etc/a")
"""Of the odd names those that a shell takes as they are."""
EARLIEST = {"share.auto.offset.reset": "earliest"}
LOG_LINE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} [A-Z]+ |sharegroup \S+ ready on ")
each_name = pytest.mark.parametrize("odd", ODD.values(), ids=ODD.keys())


class World:
    """A broker with a group for each odd name. Its one member, its client and its rack are called
    the same; the member has accepted the first record, and holds the second.
    """

    def __init__(self, folder: Path) -> None:
        self.metrics = f"{HOST}:{free_port()}"
        self.server = SharegroupServer(
            folder,
            "group.share.max.session.timeout.ms=3600000",
            "group.share.session.timeout.ms=3600000",
            "group.share.max.record.lock.duration.ms=3600000",
            "group.share.record.lock.duration.ms=3600000",
        )
        self.server.process.command += ["--metrics", self.metrics]
        self.commands = Commands(self.server.bootstrap)
        self.commands.environment["COLUMNS"] = "400"
        self._runner = asyncio.Runner()
        self._members: list[WireMember] = []

    async def _fill(self) -> None:
        async with Admin(self.server.bootstrap) as admin:
            await admin.create_topics(TOPIC)
            topic_id = (await admin.describe_topics(TOPIC))[TOPIC].topic_id
            for name in ODD.values():
                await admin.alter_configs("group", name, EARLIEST)
        async with Producer(self.server.bootstrap) as producer:
            for number in range(RECORDS):
                await producer.send(TOPIC, str(number).encode())
        for name in ODD.values():
            member = WireMember(self.server.port, name, name, topic_id, 1)
            self._members.append(member)
            joining = ShareGroupHeartbeatRequest(name, name, 0, name, [TOPIC])
            joined = await member.send(apis.SHARE_GROUP_HEARTBEAT, joining)
            assert (joined.error_code, joined.member_id) == (0, name)
            await member.fetch(2, 1, 1, 0)
            assert list(member.held[0]) == [0, 1]
            answered = await member.acknowledge({0: [(0, 0, [ACCEPT])]})
            assert share_session.codes(answered) == {0: 0}

    def __enter__(self) -> World:
        try:
            self.server.start()
            self._runner.run(self._fill())
        except BaseException:
            self.close()
            raise
        return self

    def close(self) -> None:
        self._runner.run(self._leave())
        self._runner.close()
        self.server.kill()

    def __exit__(self, *_: object) -> None:
        self.close()

    def stopped(self, *words: str) -> Finished:
        """Stop the broker, and run a command that works on its files."""
        self.server.stop()
        return self.commands.run(*words)

    async def _leave(self) -> None:
        for member in self._members:
            member.disconnect()
        await asyncio.sleep(0)  # the sockets are closed now


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with World(tmp_path_factory.mktemp("odd")) as made:
        yield made


# --- tables and JSON ------------------------------------------------------------------------------


@pytest.mark.parametrize("terminal", [False, True], ids=["pipe", "terminal"])
@pytest.mark.parametrize(
    "words",
    [
        ("list",),
        ("describe", "--all-groups", "--state"),
        ("describe", "--all-groups", "--members", "--verbose"),
        ("describe", "--all-groups", "--offsets"),
    ],
    ids=" ".join,
)
def test_a_table_has_one_line_for_each_group_and_shows_names_as_they_are(
    world: World, words: tuple[str, ...], terminal: bool
) -> None:
    if terminal:
        shown = re.sub(r"\x1b\[\d*m", "", world.commands.on_terminal("groups", *words))
    else:
        shown = world.commands.inside("groups", *words).stdout
    assert shown.replace("\n", "").isprintable()
    rows = shown.split("\n")[2:-1]
    assert len(rows) == len(ODD)
    for name in ODD.values():
        assert [row for row in rows if row.startswith(f"{printable(name)}  ")], name


@each_name
def test_one_group_is_described_in_words_and_as_json(world: World, odd: str) -> None:
    (here, *_, there) = world.commands.inside("groups", "describe", "--", odd).stdout.split("\n", 1)
    assert here.startswith(f"group {printable(odd)}, stable, epoch ")
    assert there.replace("\n", "").isprintable()
    found = world.commands.inside("groups", "describe", "--json", "--", odd)
    assert found.stdout.count("\n") == 1
    assert found.stdout.rstrip("\n").isprintable()
    (member,) = found.json["members"]
    assert found.json["group"] == odd
    assert (member["member"], member["client"], member["rack"]) == (odd, odd, odd)


@each_name
def test_records_name_the_member_that_holds_them(world: World, odd: str) -> None:
    command = ("groups", "records", "--state", "acquired")
    (row,) = world.commands.inside(*command, "--json", "--", odd).json
    assert (row["first"], row["last"], row["member"]) == (1, 1, odd)
    shown = world.commands.inside(*command, "--", odd).stdout
    assert shown.count("\n") == 3
    assert shown.replace("\n", "").isprintable()
    assert f" {printable(odd)} " in shown


@each_name
def test_a_refusal_is_one_line(world: World, odd: str) -> None:
    refused = world.commands.inside("groups", "delete", "--yes", "--", odd)
    assert refused.status == 1
    assert refused.stderr.startswith(
        f"sharegroup: NON_EMPTY_GROUP: group {printable(odd)} has 1 member: {printable(odd)} at "
    )
    assert refused.stderr.count("\n") == 1
    assert refused.stderr.rstrip("\n").isprintable()
    asked = world.commands.inside("groups", "delete", "--", odd)
    assert asked.stderr.startswith(f"sharegroup: delete {printable(odd)}? There is no terminal")
    unknown = world.commands.inside("groups", "describe", "--", f"no {odd}")
    assert unknown.stderr.startswith("sharegroup: GROUP_ID_NOT_FOUND: ")
    assert unknown.stderr.count("\n") == 1
    assert unknown.stderr.rstrip("\n").isprintable()


def test_a_plan_of_offsets_names_the_same_groups_when_it_is_read(
    world: World, tmp_path: Path
) -> None:
    plan = tmp_path / "plan.csv"
    reset = ("groups", "reset-offsets", "--dry-run", "--json")
    made = world.commands.inside(
        *reset, "--all-groups", "--topic", TOPIC, "--to-latest", "--export", str(plan)
    )
    read = world.commands.inside(*reset, "--from-file", str(plan))
    assert read.status == made.status == 0, read
    named = [move["group"] for move in made.json["moves"]]
    assert sorted(named) == sorted(ODD.values())
    assert [move["group"] for move in read.json["moves"]] == named


# --- the Tab key ----------------------------------------------------------------------------------


def test_the_tab_key_offers_no_name_that_a_shell_or_a_terminal_would_interpret(
    world: World,
) -> None:
    typed = "sharegroup groups describe "
    asked = {"_SHAREGROUP_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": "3"}
    command = Path(sys.executable).with_name("sharegroup")
    offered = subprocess.run(
        [command],
        env={**world.commands.environment, **asked},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout
    assert offered.splitlines() == sorted(PLAIN)


# --- metrics --------------------------------------------------------------------------------------


@pytest.mark.parametrize("accept", ["text/plain", "application/openmetrics-text; version=1.0.0"])
def test_labels_of_metrics_are_the_names(world: World, accept: str) -> None:
    request = urllib.request.Request(f"http://{world.metrics}/metrics", headers={"Accept": accept})
    with urllib.request.urlopen(request, timeout=30) as answer:
        text = answer.read().decode()
    parser: Any = open_metrics if "openmetrics" in accept else plain_text
    found = [
        sample.labels["group"]
        for family in parser.text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == "sharegroup_group_members"
    ]
    assert sorted(found) == sorted(ODD.values())


# --- logs, files and restarts ---------------------------------------------------------------------


def test_groups_outlive_kill_9_and_no_file_is_named_after_one(tmp_path: Path) -> None:
    folder = tmp_path / "server"
    folder.mkdir()
    with World(folder) as world:
        world.server.kill()
        assert {path.name for path in tmp_path.iterdir()} == {"server"}
        assert {path.name for path in folder.iterdir()} == {"data", "server.log"}
        assert all(re.fullmatch(r"[\w.-]+", path.name) for path in folder.rglob("*"))
        world.server.start()
        every = ("groups", "describe", "--all-groups", "--json")
        found = world.commands.inside(*every).json
        members = {group["group"]: [each["member"] for each in group["members"]] for group in found}
        assert members == {name: [name] for name in ODD.values()}
        begun = [(group["partitions"][0]["start_offset"], group["configs"]) for group in found]
        assert begun == [(1, EARLIEST)] * len(ODD)
        checked = world.stopped("fsck", "--data", str(world.server.data), "--json")
        assert checked.json["share_partitions"] == len(ODD)


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_each_message_of_the_log_is_one_line(tmp_path: Path, log_format: str) -> None:
    with World(tmp_path) as world:
        world.server.kill()
        for file in world.server.data.glob("__share_group_state-0/*.log"):
            file.unlink()  # so that there is something to say about every group
        world.server.process.command += ["--log-format", log_format]
        world.server.start()
        lines = world.server.output().split("\n")[:-1]
        findings = world.stopped("fsck", "--data", str(world.server.data)).stdout
    lost = "the delivery state of share group %s is lost in jobs-0: "
    if log_format == "json":
        said = [json.loads(line)["message"] for line in lines if " ready on " not in line]
    else:
        assert all(LOG_LINE.match(line) and line.isprintable() for line in lines)
        said = [line.partition(" ERROR ")[2] for line in lines]
    for name in ODD.values():
        assert [one for one in said if one.startswith(lost % printable(name))], name
    assert findings.replace("\n", "").isprintable()
    assert findings.count("lost its delivery state in jobs-0") == len(ODD)
