from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from cryptography.x509 import DNSName, SubjectAlternativeName

from sharegroup.app.addresses import listeners
from sharegroup.app.try_out_tls import with_try_out_tls
from sharegroup.broker.configs.broker import BrokerConfig, load
from sharegroup.model.errors import ConfigError
from sharegroup.tls.self_signed import Identity, authority, signed


def secured(folder: Path, *settings: str) -> tuple[BrokerConfig, list[str]]:
    config = load("", settings)
    config, opened, lines = with_try_out_tls(config, listeners(None, config), str(folder))
    assert config.listeners == opened
    return config, lines


def test_listeners_speak_tls(tmp_path: Path) -> None:
    config, lines = secured(
        tmp_path / "new" / "tls",
        "listeners=PLAINTEXT://127.0.0.1:1,SASL_PLAINTEXT://127.0.0.1:2,ADMIN://127.0.0.1:3",
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_SSL:SASL_SSL,"
        "SASL_PLAINTEXT:SASL_PLAINTEXT,ADMIN:PLAINTEXT",
        "advertised.listeners=PLAINTEXT://a:1,SASL_PLAINTEXT://b.example:2,ADMIN://127.0.0.1:3",
    )
    assert [str(each) for each in config.listeners] == [
        "SSL://127.0.0.1:1",
        "SASL_SSL://127.0.0.1:2",
        "ADMIN://127.0.0.1:3",
    ]
    assert [str(each) for each in config.advertised_listeners][:2] == [
        "SSL://a:1",
        "SASL_SSL://b.example:2",
    ]
    assert lines[0] == "security.protocol=SSL"
    text = Path(config.text("ssl.keystore.location")).read_text()
    broker = Identity.load(text[text.index("-----BEGIN CERT") :], text)
    names = broker.certificate.extensions.get_extension_for_class(SubjectAlternativeName).value
    assert {"localhost", "a", "b.example"} <= {*names.get_values_for_type(DNSName)}


def test_an_authority_that_has_expired_is_made_anew(tmp_path: Path) -> None:
    secured(tmp_path, "listeners=SSL://127.0.0.1:1", "ssl.client.auth=required")
    first = (tmp_path / "ca.pem").read_text()
    secured(tmp_path, "listeners=SSL://127.0.0.1:1", "ssl.client.auth=required")
    assert (tmp_path / "ca.pem").read_text() == first
    old = signed(authority(), "old", lifetime=timedelta(days=1), age=timedelta(days=2))
    (tmp_path / "ca.pem").write_text(old.certificate_pem)
    (tmp_path / "ca.key").write_text(old.key_pem)
    client = (tmp_path / "client.pem").read_text()
    secured(tmp_path, "listeners=SSL://127.0.0.1:1", "ssl.client.auth=required")
    assert (tmp_path / "ca.pem").read_text() not in (first, old.certificate_pem)
    assert (tmp_path / "client.pem").read_text() != client


def test_what_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("x")
    (tmp_path / "ca.key").write_text("x")
    with pytest.raises(ConfigError, match=r"--tls-self-signed .* cannot be used"):
        secured(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"--tls-self-signed .* cannot be used"):
        secured(tmp_path / "file")
    with pytest.raises(ConfigError, match="every listener has a name of its own"):
        secured(
            tmp_path / "tls",
            "listeners=OWN://127.0.0.1:1",
            "listener.security.protocol.map=OWN:PLAINTEXT",
        )


@pytest.mark.parametrize("name", ["ca.pem", "ca.key", "broker.pem", "client.pem"])
def test_no_file_of_somebody_is_overwritten(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("mine")
    with pytest.raises(ConfigError, match=rf"{name} is there .* name another folder"):
        secured(tmp_path)
    assert [file.read_text() for file in tmp_path.iterdir()] == ["mine"]


def test_no_certificate_of_another_authority_is_replaced(tmp_path: Path) -> None:
    other = authority("ours")
    (tmp_path / "ca.pem").write_text(other.certificate_pem)
    (tmp_path / "ca.key").write_text(other.key_pem)
    (tmp_path / "broker.pem").write_text("mine")
    with pytest.raises(ConfigError, match=r"ca\.pem is of another authority"):
        secured(tmp_path)
    assert (tmp_path / "broker.pem").read_text() == "mine"
