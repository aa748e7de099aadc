"""`sharegroup quotas` against a running broker."""

from __future__ import annotations

import pytest

from sharegroup import sync
from sharegroup.cli.outcome import UsageError
from sharegroup.cli.quotas import parse_entity, parse_quotas
from sharegroup.client.admin.descriptions import ClientQuota
from sharegroup.model.errors import InvalidRequest
from tests.cli.command import Commands

pytestmark = pytest.mark.process


def test_quotas_are_set_listed_and_removed(commands: Commands, name: str) -> None:
    both = ("--user-default", "--client-id", name)
    words = ("producer_byte_rate=2000000", "request_percentage=12.5")
    said = commands.ok("quotas", "set", *words, *both).stdout
    assert said == f"every user, client-id {name}: {', '.join(words)}\n"
    rows = [
        line.split()
        for line in commands.ok("quotas", "list").stdout.splitlines()
        if name in line.split()
    ]
    assert rows == [
        ["(default)", name, "-", "producer_byte_rate", "2000000"],
        ["(default)", name, "-", "request_percentage", "12.5"],
    ]
    listed = commands.ok("quotas", "list", "--json").json
    assert {
        "entity": {"user": None, "client-id": name},
        "quotas": {"producer_byte_rate": 2_000_000, "request_percentage": 12.5},
    } in listed
    commands.given("quotas", "remove", "request_percentage", *both)
    said = commands.ok("quotas", "remove", *both).stdout
    assert said == f"every user, client-id {name}: producer_byte_rate removed\n"
    assert name not in commands.given("quotas", "list").stdout


def test_what_is_wrong_is_one_sentence(commands: Commands, name: str) -> None:
    refused = commands.run("quotas", "set", "producer_byte_rate=0", "--user", name)
    assert (refused.status, refused.stderr) == (
        1,
        "sharegroup: INVALID_REQUEST: Quota producer_byte_rate must be greater than 0\n",
    )
    unknown = commands.inside("quotas", "remove", "--user", name)
    assert (unknown.status, unknown.stderr) == (2, f"sharegroup: user {name} has no quota\n")


def test_an_address(commands: Commands) -> None:
    commands.given("quotas", "set", "connection_creation_rate=7", "--ip", "10.1.2.3")
    assert "10.1.2.3" in commands.given("quotas", "list").stdout
    commands.given("quotas", "remove", "--ip", "10.1.2.3")


def test_the_admin_client(commands: Commands, name: str) -> None:
    with sync.Admin(commands.bootstrap) as admin:
        admin.alter_client_quotas({"user": name}, {"consumer_byte_rate": 5})
        assert admin.describe_client_quotas({"user": name}) == [
            ClientQuota(entity={"user": name}, quotas={"consumer_byte_rate": 5.0})
        ]
        with pytest.raises(InvalidRequest, match="Invalid configuration key nothing"):
            admin.alter_client_quotas({"user": name}, {"nothing": 5})
        admin.alter_client_quotas({"user": name}, {"consumer_byte_rate": None})
        assert admin.describe_client_quotas({"user": name}) == []
        assert admin.describe_client_quotas({"user": None}) == []


def test_entities_and_quotas_are_parsed() -> None:
    none = (None, False)
    assert parse_entity(("u", False), (None, True), none) == {"user": "u", "client-id": None}
    for wrong, sentence in (
        ((none, none, none), "say whose quota"),
        ((("u", True), none, none), "--user or --user-default"),
        ((("u", False), none, (None, True)), "not for both"),
    ):
        with pytest.raises(UsageError, match=sentence):
            parse_entity(*wrong)
    assert parse_quotas(["a=1", "b=0.5"]) == {"a": 1, "b": 0.5}
    for text in ("a", "a=", "a=x"):
        with pytest.raises(UsageError, match="write QUOTA=NUMBER"):
            parse_quotas([text])
    with pytest.raises(UsageError, match="twice"):
        parse_quotas(["a=1", "a=2"])
