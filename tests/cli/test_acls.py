"""`sharegroup acls` against a broker that keeps ACLs."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import pytest

from sharegroup.broker.authorization.acl_file import parse_acls
from tests.broker.authorization.clients import ADMIN, write_acls
from tests.cli.command import Commands
from tests.servers.process import HOST, free_port
from tests.servers.sharegroup_server import SharegroupServer

pytestmark = pytest.mark.process

ODD_NAMES = ('a,b"c', "c=d", "=2C", "#x", "é€", "tab\tin it", "\x1b[31mred")
IN_FILE = "ALLOW,User:ANONYMOUS,*,DESCRIBE,TOPIC,seen,LITERAL"


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[tuple[Commands, Commands]]:
    """The administrator's commands, and everybody's."""
    admin = f"{HOST}:{free_port()}"
    settings = (
        f"listeners=PLAINTEXT://{HOST}:0,ADMIN://{admin}",
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,ADMIN:PLAINTEXT",
        f"listener.principal.map=ADMIN:{ADMIN}",
        f"super.users={ADMIN}",
        "authorizer.class.name=StandardAuthorizer",
        f"authorizer.acl.file={write_acls(tmp_path / 'acls.csv', [IN_FILE])}",
    )
    with SharegroupServer(tmp_path, *settings) as server:
        yield Commands(admin), Commands(server.bootstrap)


def test_rights_are_given_shown_and_taken(guarded: tuple[Commands, Commands]) -> None:
    admin, anybody = guarded
    admin.given("topics", "create", "jobs")
    refused = anybody.run("topics", "describe", "jobs")
    assert refused.status == 1
    assert "TOPIC_AUTHORIZATION_FAILED" in refused.stderr

    consumer = ("acls", "add", "User:ANONYMOUS", "--consumer", "-t", "jobs", "-g", "workers")
    assert admin.ok(*consumer).stdout == "2 ACLs in force\n"
    assert admin.given(*consumer).stdout == "2 ACLs in force\n"
    assert anybody.given("topics", "describe", "jobs", "--json").json["topic"] == "jobs"

    admin.given(
        *("acls", "add", "User:eve", "-o", "all", "-t", "jo", "--prefixed", "--deny"),
        *("--host", "10.0.0.7"),
    )
    rows = admin.ok("acls", "list", "--json").json
    assert [(row["principal"], row["operation"], row["name"]) for row in rows] == [
        ("User:ANONYMOUS", "READ", "jobs"),
        ("User:ANONYMOUS", "READ", "workers"),
        ("User:ANONYMOUS", "DESCRIBE", "seen"),
        ("User:eve", "ALL", "jo"),
    ]
    matching = admin.given("acls", "list", "-t", "jobs", "--matching", "--json").json
    assert {row["pattern"] for row in matching} == {"LITERAL", "PREFIXED"}
    assert "User:eve" in admin.given("acls", "list", "--principal", "User:eve").stdout

    shown = admin.ok("acls", "list", "--csv").stdout
    assert len(parse_acls(shown, "the list")) == 4
    assert list(csv.DictReader(shown.splitlines())) == rows
    for name in ("eve ", "e\u2028ve"):
        admin.given("acls", "add", f"User:{name}", "-o", "read", "-t", "jobs")
    partly = admin.run("acls", "list", "--csv")
    assert (partly.status, partly.stdout) == (1, shown), "eve's rights are not another's"
    assert partly.stderr.count("left out 'User:e") == 2
    unusual = (
        ("--host", "worker.example.org", "-o", "read", "-t", "jobs"),
        ("--host", "::0:1", "-o", "read", "-t", "jobs"),
        ("-o", "write", "-g", "workers"),
    )
    made = [way for way in unusual if not admin.inside("acls", "add", "User:mallory", *way).status]
    assert len(made) >= 2, "Kafka takes hosts that never match"
    partly = admin.inside("acls", "list", "--csv")
    assert (partly.status, partly.stdout) == (1, shown), "a file takes all that is printed"
    assert partly.stderr.count("left out 'User:mallory'") == len(made)
    admin.given("acls", "remove", "--principal", "User:mallory", "--yes")
    for text in ODD_NAMES:
        admin.given("acls", "add", f"User:{text}", "-o", "read", "-g", text)
    read = parse_acls(admin.inside("acls", "list", "--csv").stdout, "the list")
    assert {one.resource.name for one in read} >= {*ODD_NAMES}
    admin.given("acls", "remove", "--principal", "User:eve ", "--yes")
    admin.given("acls", "remove", "--principal", "User:e\u2028ve", "--yes")
    on_terminal = admin.on_terminal("acls", "list", "--csv")
    assert on_terminal.replace("\n", "").isprintable()
    assert "\\x1b[31mred" in on_terminal
    for text in ODD_NAMES:
        admin.given("acls", "remove", "--principal", f"User:{text}", "--yes")

    removing = ("acls", "remove", "--principal", "User:ANONYMOUS", "-t", "jobs")
    assert admin.run(*removing).status == 2  # there is no terminal to ask on
    dry = admin.given(*removing, "--dry-run", "--json").json
    assert [row["name"] for row in dry] == ["jobs"]
    assert admin.ok(*removing, "--yes").stdout == "1 ACL removed\n"
    assert anybody.inside("topics", "describe", "jobs").status == 1

    everything = admin.run("acls", "remove", "--all", "--yes", "--json")
    assert everything.status == 1
    assert (len(everything.json["removed"]), everything.json["kept"]) == (2, 1)
    assert "stays in force" in everything.stderr
    assert [row["name"] for row in admin.given("acls", "list", "--json").json] == ["seen"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("add", "User:a", "-o", "read"), "say on what"),
        (("add", "User:a", "-t", "jobs"), "say what is allowed on the topic"),
        (
            ("add", "User:a", "--producer", "-t", "jobs", "-g", "workers"),
            "say what is allowed on the group",
        ),
        (
            ("add", "User:a", "--consumer", "-t", "jobs", "--transactional-id", "one"),
            "say what is allowed on the transactional id",
        ),
        (("add", "User:a", "--consumer", "-t", "jobs", "--cluster"), "allowed on the cluster"),
        (("add", "alice", "-t", "jobs", "-o", "read"), "write User:NAME"),
        (("add", "User:a", "-t", "jobs", "-o", "eat"), "the operations are all, read"),
        (("list", "-t", "jobs", "--prefixed", "--matching"), "exclude each other"),
        (("remove", "--yes"), "say which ACLs, or --all"),
        (("remove", "--all", "-t", "jobs", "--yes"), "say which ACLs, or --all"),
    ],
)
def test_wrong_usage(commands: Commands, words: tuple[str, ...], said: str) -> None:
    refused = commands.inside("acls", *words)
    assert refused.status == 2
    assert said in refused.stderr


def test_a_broker_without_acls_says_so(commands: Commands) -> None:
    for words in (("list",), ("add", "User:a", "-o", "read", "-t", "jobs")):
        refused = commands.run("acls", *words)
        assert refused.status == 1
        assert "SECURITY_DISABLED: No Authorizer is configured" in refused.stderr
