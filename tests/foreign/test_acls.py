"""kafka-acls says the same of our broker and of Apache Kafka, and what it sets holds; librdkafka's
admin client makes, finds and deletes ACLs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from tests.apache_kafka.broker import KafkaBroker
from tests.broker.authorization.clients import ADMIN, write_acls
from tests.foreign.tool_shell import ToolShell
from tests.servers.admin import ADMIN_SECONDS, SILENT, Admin
from tests.servers.process import HOST, free_port
from tests.servers.sharegroup_server import SharegroupServer

STANDARD = "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer"
SECONDS = 120
ALICE, EVE = ("--allow-principal", "User:alice"), ("--deny-principal", "User:eve")
COMMANDS = (
    ("--add", *ALICE, "--operation", "Read", "--topic", "jobs"),
    ("--add", *ALICE, "--operation", "Read", "--topic", "jobs"),
    ("--add", *ALICE, "--producer", "--topic", "orders", "--transactional-id", "billing"),
    ("--add", *ALICE, "--producer", "--idempotent", "--topic", "orders"),
    ("--add", *ALICE, "--consumer", "--topic", "orders", "--group", "readers"),
    (
        *("--add", *ALICE, "--operation", "All", "--topic", "my-", "--group", "my-"),
        *("--resource-pattern-type", "prefixed", "--allow-host", "10.0.0.7"),
    ),
    ("--add", *EVE, "--operation", "All", "--topic", "*"),
    ("--add", *ALICE, "--operation", "Alter", "--cluster"),
    ("--add", *ALICE, "--operation", "Describe", "--delegation-token", "token"),
    ("--add", *ALICE, "--operation", "CreateTokens", "--user-principal", "User:bob"),
    ("--list",),
    ("--list", "--topic", "orders"),
    ("--list", "--topic", "my-own", "--resource-pattern-type", "match"),
    ("--list", "--group", "my-", "--resource-pattern-type", "any"),
    ("--list", "--principal", "User:eve"),
    ("--remove", "--force", *ALICE, "--operation", "Read", "--topic", "jobs"),
    ("--remove", "--force", *ALICE, "--consumer", "--topic", "orders", "--group", "readers"),
    ("--remove", "--force", "--topic", "my-", "--resource-pattern-type", "prefixed"),
    ("--remove", "--force", "--topic", "never-made"),
    ("--list",),
)


def said(shell: ToolShell, bootstrap: str) -> dict[str, tuple[int, list[str]]]:
    """Status and lines of each command; their order is that of a hash table in Kafka's tool."""
    answers = {}
    for number, words in enumerate(COMMANDS):
        ran = shell.run("kafka-acls", bootstrap, *words)
        lines = sorted((ran.stdout + ran.stderr).splitlines())
        answers[f"{number} {' '.join(words)}"] = (ran.status, lines)
    return answers


@pytest.mark.kafka
def test_kafka_acls_says_the_same_as_of_apache_kafka(shell: ToolShell, tmp_path: Path) -> None:
    options = (STANDARD, "super.users=User:ANONYMOUS")
    with (
        SharegroupServer(tmp_path / "ours", *options) as ours,
        KafkaBroker(tmp_path / "kafka", *options) as kafka,
    ):
        got, wanted = said(shell, ours.bootstrap), said(shell, kafka.bootstrap)
    assert got == wanted
    listed = got["10 --list"][1]
    assert sum("principal=User:alice" in line for line in listed) >= 10


@dataclass
class Guarded:
    """A server that keeps ACLs: everybody's address, and the administrator's."""

    bootstrap: str
    admin: Admin


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Guarded]:
    admin_port = free_port()
    in_file = ["ALLOW,User:ANONYMOUS,*,DESCRIBE,TOPIC,seen,LITERAL"]
    settings = (
        f"listeners=PLAINTEXT://{HOST}:0,ADMIN://{HOST}:{admin_port}",
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,ADMIN:PLAINTEXT",
        f"listener.principal.map=ADMIN:{ADMIN}",
        f"super.users={ADMIN}",
        STANDARD,
        f"authorizer.acl.file={write_acls(tmp_path / 'acls.csv', in_file)}",
    )
    with SharegroupServer(tmp_path, *settings) as server:
        yield Guarded(server.bootstrap, Admin(f"{HOST}:{admin_port}"))


def produced(bootstrap: str) -> int:
    """The code of the error; 0: none."""
    told: list[int] = []
    producer = Producer({"bootstrap.servers": bootstrap, "message.timeout.ms": 20_000, **SILENT})
    producer.produce(
        "jobs", b"x", on_delivery=lambda error, _: told.append(error.code() if error else 0)
    )
    producer.flush(SECONDS)
    return told[0]


@pytest.mark.kafka
def test_what_kafka_acls_sets_holds(shell: ToolShell, guarded: Guarded) -> None:
    guarded.admin.create_topic("jobs")
    assert produced(guarded.bootstrap) == KafkaError.TOPIC_AUTHORIZATION_FAILED
    words = ("--allow-principal", "User:ANONYMOUS", "--producer", "--topic", "jobs")
    assert shell.run("kafka-acls", guarded.admin.bootstrap, "--add", *words).status == 0
    assert produced(guarded.bootstrap) == 0
    refused = shell.run("kafka-acls", guarded.bootstrap, "--list")
    assert "ClusterAuthorizationException" in refused.stdout + refused.stderr
    kept = shell.run(
        "kafka-acls", guarded.admin.bootstrap, "--remove", "--force", "--topic", "seen"
    )
    assert "stays in force" in kept.stdout + kept.stderr
    removed = shell.run("kafka-acls", guarded.admin.bootstrap, "--remove", "--force", *words)
    assert removed.status == 0
    assert produced(guarded.bootstrap) == KafkaError.TOPIC_AUTHORIZATION_FAILED


@pytest.mark.process
def test_librdkafka_makes_finds_and_deletes_acls(guarded: Guarded) -> None:
    client = guarded.admin.client
    binding = AclBinding(
        ResourceType.TRANSACTIONAL_ID,
        "pay-",
        ResourcePatternType.PREFIXED,
        "User:alice",
        "*",
        AclOperation.WRITE,
        AclPermissionType.ALLOW,
    )
    (made,) = client.create_acls([binding]).values()
    made.result(ADMIN_SECONDS)
    of_alice = AclBindingFilter(
        ResourceType.ANY,
        None,
        ResourcePatternType.ANY,
        "User:alice",
        None,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    assert client.describe_acls(of_alice).result(ADMIN_SECONDS) == [binding]
    (deleted,) = client.delete_acls([of_alice]).values()
    assert deleted.result(ADMIN_SECONDS) == [binding]
    assert client.describe_acls(of_alice).result(ADMIN_SECONDS) == []
    bad = AclBinding(
        ResourceType.BROKER,  # what librdkafka calls the cluster
        "mine",
        ResourcePatternType.LITERAL,
        "User:alice",
        "*",
        AclOperation.ALTER,
        AclPermissionType.ALLOW,
    )
    (refused,) = client.create_acls([bad]).values()
    with pytest.raises(KafkaException) as error:
        refused.result(ADMIN_SECONDS)
    assert error.value.args[0].code() == KafkaError.INVALID_REQUEST
