"""What users of librdkafka and of Kafka's tools are told when ACLs forbid something."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from tests.apache_kafka.tools import KafkaTools
from tests.broker.authorization.clients import ADMIN, write_acls
from tests.foreign.share_reader import receive_accepting, share_consumer
from tests.servers.admin import ADMIN_SECONDS, SILENT, Admin, produce
from tests.servers.process import HOST, free_port
from tests.servers.sharegroup_server import SharegroupServer

SECONDS = 120
ACLS = [
    "ALLOW,User:ANONYMOUS,*,READ,GROUP,workers,LITERAL",
    "ALLOW,User:ANONYMOUS,*,READ,TOPIC,jobs,LITERAL",
    "ALLOW,User:ANONYMOUS,*,DESCRIBE,TOPIC,seen,LITERAL",
]


@dataclass
class Guarded:
    """A server with ACLs: ``bootstrap`` for everybody, ``admin`` on a listener of its own."""

    bootstrap: str
    admin: Admin


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    folder = tmp_path_factory.mktemp("guarded")
    admin_port = free_port()
    server = SharegroupServer(
        folder,
        f"listeners=PLAINTEXT://{HOST}:0,ADMIN://{HOST}:{admin_port}",
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,ADMIN:PLAINTEXT",
        f"listener.principal.map=ADMIN:{ADMIN}",
        f"super.users={ADMIN}",
        f"authorizer.acl.file={write_acls(folder / 'acls.csv', ACLS)}",
    )
    with server:
        admin = Admin(f"{HOST}:{admin_port}")
        for topic in ("jobs", "seen", "secret"):
            admin.create_topic(topic)
        admin.start_group_at_earliest("workers")
        yield Guarded(server.bootstrap, admin)


def refusal(guarded: Guarded, group: str, topic: str) -> int:
    """The code of the error that a share consumer raises."""
    deadline = time.monotonic() + SECONDS
    with share_consumer(guarded.bootstrap, group, topic, explicit=False) as consumer:
        while time.monotonic() < deadline:
            try:
                messages = list(consumer.poll(0.5))
            except KafkaException as error:
                code: int = error.args[0].code()
                return code
            assert not messages
    raise AssertionError(f"no error in {SECONDS} s")


def received(guarded: Guarded, values: list[bytes]) -> list[bytes | None]:
    """What a member of the group that may read gets of these."""
    produce(guarded.admin.bootstrap, "jobs", values)
    with share_consumer(guarded.bootstrap, "workers", "jobs", explicit=False) as consumer:
        return receive_accepting(consumer, len(values))


@pytest.mark.process
def test_a_share_consumer_gets_allowed_records(guarded: Guarded) -> None:
    assert received(guarded, [b"one", b"two"]) == [b"one", b"two"]


@pytest.mark.process
@pytest.mark.parametrize(
    ("group", "topic", "code"),
    [
        ("others", "jobs", KafkaError.GROUP_AUTHORIZATION_FAILED),
        ("workers", "secret", KafkaError.TOPIC_AUTHORIZATION_FAILED),
        ("workers", "seen", KafkaError.TOPIC_AUTHORIZATION_FAILED),
    ],
)
def test_a_share_consumer_gets_an_authorization_error(
    guarded: Guarded, group: str, topic: str, code: int
) -> None:
    assert refusal(guarded, group, topic) == code


@pytest.mark.process
def test_a_producer_without_write_gets_an_error(guarded: Guarded) -> None:
    told: list[int] = []
    producer = Producer({"bootstrap.servers": guarded.bootstrap, **SILENT})
    producer.produce("jobs", b"x", on_delivery=lambda error, _: told.append(error.code()))
    producer.flush(SECONDS)
    assert told == [KafkaError.TOPIC_AUTHORIZATION_FAILED]


@pytest.mark.process
def test_an_administrator_sees_everything_and_others_what_is_allowed(guarded: Guarded) -> None:
    everybody = Admin(guarded.bootstrap)
    seen = set(everybody.client.list_topics(timeout=ADMIN_SECONDS).topics)
    assert seen == {"jobs", "seen"}
    all_topics = set(guarded.admin.client.list_topics(timeout=ADMIN_SECONDS).topics)
    assert {"jobs", "seen", "secret"} <= all_topics


@pytest.mark.kafka
def test_kafka_share_groups_reports_authorization_errors(guarded: Guarded) -> None:
    tools = KafkaTools(guarded.bootstrap)
    assert received(guarded, [b"three"]) == [b"three"], "there is such a group"
    said = tools.share_groups("--describe", "--group", "others")
    assert "GroupAuthorizationException" in said
    said = tools.share_groups("--delete", "--group", "workers")
    assert "GroupAuthorizationException" in said
