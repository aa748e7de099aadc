"""kafka-configs for users of SCRAM, and tools that authenticate."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sharegroup import sync
from sharegroup.cli.connecting import broker_of
from tests.apache_kafka.tools import KafkaTools, dump_log
from tests.foreign.tool_shell import ToolShell
from tests.secured.cells import FILE_USER, PASSWORD, Credentials
from tests.secured.server import SecuredServer
from tests.servers.admin import Admin

pytestmark = pytest.mark.kafka
MODULES = "org.apache.kafka.common.security"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredServer]:
    folder = tmp_path_factory.mktemp("secured")
    server = SecuredServer(folder, Credentials(folder))
    with server:
        yield server


def properties(secured: SecuredServer, folder: Path, **more: str) -> str:
    """A file for --command-config."""
    lines = {
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(secured.credentials.authority_file),
        **{name.replace("_", "."): value for name, value in more.items()},
    }
    path = folder / "client.properties"
    path.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
    return str(path)


def login(mechanism: str, user: str, password: str) -> dict[str, str]:
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    return {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": mechanism,
        "sasl_jaas_config": f'{MODULES}.{module} required username="{user}" password="{password}";',
    }


def topics(bootstrap: str, config: str) -> None:
    """Our client's, by the same file."""
    broker = broker_of(bootstrap, config)
    with sync.Admin(broker.servers, **broker.arguments) as admin:
        admin.list_topics()


def test_the_life_of_a_user(secured: SecuredServer, shell: ToolShell, tmp_path: Path) -> None:
    admin = secured.at("PLAINTEXT")
    bob = ("--entity-type", "users", "--entity-name", "bob")
    added = "SCRAM-SHA-256=[iterations=8192,password=one],SCRAM-SHA-512=[password=two]"
    ran = shell.run("kafka-configs", admin, "--alter", *bob, "--add-config", added)
    assert "Completed updating config for user bob" in ran.stdout, ran
    ran = shell.run("kafka-configs", admin, "--describe", *bob)
    assert "SCRAM-SHA-256=iterations=8192, SCRAM-SHA-512=iterations=4096" in ran.stdout, ran

    for mechanism, password in (("SCRAM-SHA-256", "one"), ("SCRAM-SHA-512", "two")):
        config = properties(secured, tmp_path, **login(mechanism, "bob", password))
        ran = shell.run(
            "kafka-topics", secured.at("SASL_SSL"), "--list", "--command-config", config
        )
        assert ran.status == 0, ran
        assert "__sharegroup_security" not in ran.stdout

    deleted = ("--delete-config", "SCRAM-SHA-256")
    ran = shell.run("kafka-configs", admin, "--alter", *bob, *deleted)
    assert ran.status == 0, ran
    config = properties(secured, tmp_path, **login("SCRAM-SHA-256", "bob", "one"))
    ran = shell.run("kafka-topics", secured.at("SASL_SSL"), "--list", "--command-config", config)
    assert ran.status
    assert "invalid credentials with SASL mechanism SCRAM-SHA-256" in ran.stdout + ran.stderr


def test_odd_names_and_passwords(secured: SecuredServer, shell: ToolShell, tmp_path: Path) -> None:
    """Made by Kafka's tool, they log in to ours by our client; and Kafka's client by its JAAS line.
    (The tool itself takes no comma and no bracket in a password.)"""
    admin, password = secured.at("PLAINTEXT"), "; \" ' \\ ="
    quoted = password.replace("\\", "\\\\").replace('"', '\\"')
    for name in ("a,b", "c=d", "=2C"):
        user = ("--entity-type", "users", "--entity-name", name)
        added = f"SCRAM-SHA-512=[iterations=4096,password={password}]"
        ran = shell.run("kafka-configs", admin, "--alter", *user, "--add-config", added)
        assert ran.status == 0, ran
        config = properties(
            secured,
            tmp_path,
            **{
                key: value.replace("\\", "\\\\")
                for key, value in login("SCRAM-SHA-512", name, quoted).items()
            },
        )
        ran = shell.run(
            "kafka-topics", secured.at("SASL_SSL"), "--list", "--command-config", config
        )
        assert ran.status == 0, ran
        topics(secured.at("SASL_SSL"), config)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_users_of_the_file(
    secured: SecuredServer, shell: ToolShell, tmp_path: Path, mechanism: str
) -> None:
    config = properties(secured, tmp_path, **login(mechanism, FILE_USER, PASSWORD))
    ran = shell.run("kafka-topics", secured.at("SASL_SSL"), "--list", "--command-config", config)
    assert ran.status == 0, ran


def test_a_client_certificate(secured: SecuredServer, shell: ToolShell, tmp_path: Path) -> None:
    own = {
        "ssl_keystore_type": "PEM",
        "ssl_keystore_location": str(secured.credentials.client_file),
    }
    config = properties(secured, tmp_path, security_protocol="SSL", **own)
    ran = shell.run("kafka-topics", secured.at("MTLS"), "--list", "--command-config", config)
    assert ran.status == 0, ran


def test_credentials_are_kept_in_records_that_kafka_reads(
    secured: SecuredServer, shell: ToolShell
) -> None:
    admin = secured.at("PLAINTEXT")
    dave = ("--entity-type", "users", "--entity-name", "dave")
    for change in (
        ("--add-config", "SCRAM-SHA-512=[iterations=4097,password=secret]"),
        ("--add-config", "producer_byte_rate=1000000"),
        ("--delete-config", "producer_byte_rate"),
    ):
        ran = shell.run("kafka-configs", admin, "--alter", *dave, *change)
        assert ran.status == 0, ran
    (segment,) = secured.data.rglob("__sharegroup_security-0/*.log")
    dumped = dump_log(segment, "--cluster-metadata-decoder")
    assert '"type":"USER_SCRAM_CREDENTIAL_RECORD"' in dumped
    assert '"name":"dave","mechanism":2' in dumped
    assert '"type":"CLIENT_QUOTA_RECORD"' in dumped


def test_console_tools(secured: SecuredServer, tmp_path: Path) -> None:
    config = properties(secured, tmp_path, **login("SCRAM-SHA-512", FILE_USER, PASSWORD))
    admin = Admin(secured.at("PLAINTEXT"))
    admin.create_topic("console")
    admin.start_group_at_earliest("console")
    address = secured.at("SASL_SSL")
    options = ("--command-config", config)
    tools = KafkaTools(address, Path(config))
    assert tools.produce("console", 3, record_bytes=10).records == 3
    read = tools.share_console("console", "console", 3, *options)
    assert [len(value) for value in read] == [10, 10, 10]
