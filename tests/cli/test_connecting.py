"""--command-config and SHAREGROUP_*: which broker, and how it is reached."""

from __future__ import annotations

from pathlib import Path

import pytest

from sharegroup.cli import main
from sharegroup.cli.connecting import broker_of, properties_of
from sharegroup.client.security.settings import NO_SECURITY, Security
from sharegroup.model.errors import ConfigError
from tests.cli.command import Commands
from tests.servers.process import HOST, free_port

SECRET = "s3cr3t-c4n4ry"
PLAIN = """\
# as a service prints it
bootstrap.servers=broker.example:9093
security.protocol=SASL_SSL
sasl.mechanism=PLAIN
sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \\
  username="key" password="s3cr3t-c4n4ry";
client.dns.lookup=use_all_dns_ips
session.timeout.ms=45000
acks=all
client.id=me
request.timeout.ms=5000
"""
EXPECTED = Security(protocol="SASL_SSL", mechanism="PLAIN", username="key", password=SECRET)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "client.properties"
    file.write_text(PLAIN)
    return file


def test_a_file_says_how_a_broker_is_reached(config: Path) -> None:
    broker = broker_of("elsewhere:9092", str(config))
    assert broker.servers == "elsewhere:9092"
    assert broker.arguments == {
        "security": EXPECTED,
        "client_id": "me",
        "request_timeout_ms": 5_000,
    }
    assert SECRET not in repr(broker)


def test_a_byte_order_mark_belongs_to_no_property(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    text = PLAIN.partition("\n")[2]  # without the comment: a property comes first
    file.write_text(text, encoding="utf-8-sig")
    assert broker_of("elsewhere:9092", str(file)).security == EXPECTED


def test_variables_fill_in_what_the_file_does_not_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "client.properties"
    file.write_text("security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.username=key\n")
    monkeypatch.setenv("SHAREGROUP_SASL_PASSWORD", SECRET)
    monkeypatch.setenv("SHAREGROUP_SASL_USERNAME", "another")
    assert broker_of("b:1", str(file)).security == EXPECTED


def test_variables_are_properties_with_other_signs() -> None:
    found = properties_of(
        {
            "SHAREGROUP_SECURITY_PROTOCOL": "SSL",
            "SHAREGROUP_SSL_CA_LOCATION": "/ca.pem",
            "SHAREGROUP_BOOTSTRAP_SERVER": "b:1",
            "SHAREGROUP_PURE": "1",
            "SASL_MECHANISM": "PLAIN",
        }
    )
    assert found == {"security.protocol": "SSL", "ssl.ca.location": "/ca.pem"}
    assert broker_of("b:1").security == NO_SECURITY


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("session.timeout.ms=10000", "session.timeout.ms in .* means nothing to this command"),
        ("acks=1", "acks in .* means nothing"),
        ("request.timeout.ms=soon", "request.timeout.ms is 'soon'"),
        (f"sasl.password={SECRET}", "PLAINTEXT does not go with sasl.password"),
        ("security.protokol=SSL", "did you mean security.protocol"),
    ],
)
def test_a_wrong_file_is_a_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    file = tmp_path / "client.properties"
    file.write_text(text)
    with pytest.raises(ConfigError, match=sentence) as caught:
        broker_of("b:1", str(file))
    assert SECRET not in str(caught.value)


def test_a_command_goes_where_its_file_says(
    config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    nobody = f"{HOST}:{free_port()}"
    config.write_text(PLAIN.replace("broker.example:9093", nobody))
    monkeypatch.delenv("SHAREGROUP_BOOTSTRAP_SERVER", raising=False)
    for words in (
        ("topics", "list", "--command-config", str(config)),
        ("--command-config", str(config), "topics", "list"),
        ("topics", "--command-config", str(config), "list"),
    ):
        with pytest.raises(SystemExit) as end:
            main(list(words))
        assert end.value.code == 3
        said = capsys.readouterr().err
        assert f"no broker could be reached at {nobody}" in said
        assert SECRET not in said


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    done = Commands("127.0.0.1:1").inside(
        "topics", "list", "--command-config", str(tmp_path / "missing")
    )
    assert done.status == 2
    assert "missing cannot be read: No such file or directory" in done.stderr
