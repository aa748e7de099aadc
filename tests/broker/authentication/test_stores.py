"""Which stores a TLS listener takes, and from which settings."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from sharegroup.broker.authentication.listener_security import tls_context
from sharegroup.broker.configs.broker import load
from sharegroup.model.errors import ConfigError
from sharegroup.tls.self_signed import signed
from tests.broker.authentication.secured import certificates


def context(*settings: str, listener: str = "SSL") -> ssl.SSLContext:
    config = load("", [f"listeners={listener}://127.0.0.1:9093", *settings])
    return tls_context(config.listener(listener), listener)


def test_a_pkcs12_file_is_known_by_its_name(tmp_path: Path) -> None:
    made = certificates(tmp_path)
    own = signed(made.authority, "broker")
    for name in ("broker.p12", "store"):
        (tmp_path / name).write_bytes(own.pkcs12("secret", [made.authority.certificate]))
    settings = ("ssl.keystore.password=secret",)
    context(f"ssl.keystore.location={tmp_path / 'broker.p12'}", *settings)
    location = f"ssl.keystore.location={tmp_path / 'store'}"
    context(location, *settings, "ssl.keystore.type=PKCS12")
    with pytest.raises(ConfigError, match="cannot be read"):
        context(location, *settings)


@pytest.mark.parametrize("settings", [("ssl.keystore.location=x.jks",), ("ssl.keystore.type=JKS",)])
def test_a_store_of_java_is_refused_with_the_way_out(settings: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError, match="keytool -importkeystore"):
        context(*settings)


def test_text_instead_of_files(tmp_path: Path) -> None:
    own = signed(certificates(tmp_path).authority, "broker")
    chain = own.certificate_pem.strip()
    config = load(
        "listeners=SSL://127.0.0.1:9093\n"
        "ssl.keystore.certificate.chain="
        + chain.replace("\n", "\\n")
        + "\nssl.keystore.key="
        + own.key_pem.strip().replace("\n", "\\n")
    )
    assert tls_context(config.listener("SSL"), "SSL")


def test_settings_of_one_listener_win(tmp_path: Path) -> None:
    made = certificates(tmp_path)
    location = f"ssl.keystore.location={made.broker()}"
    required = "ssl.client.auth=required"
    assert context(location, required).verify_mode is ssl.CERT_REQUIRED
    own = f"listener.name.ssl.{location}"
    other = "ssl.keystore.location=nowhere"
    assert context(own, other, "listener.name.ssl.ssl.client.auth=requested", required)
    with pytest.raises(ConfigError):
        context(own.replace(".ssl.ssl", ".other.ssl"), other)


def test_sasl_ssl_asks_for_certificates_by_its_own_setting_only(tmp_path: Path) -> None:
    location = f"ssl.keystore.location={certificates(tmp_path).broker()}"
    required = "ssl.client.auth=required"
    assert context(location, required, listener="SASL_SSL").verify_mode is ssl.CERT_NONE
    own = f"listener.name.sasl_ssl.{required}"
    assert context(location, own, listener="SASL_SSL").verify_mode is ssl.CERT_REQUIRED


def test_protocols_and_ciphers(tmp_path: Path) -> None:
    location = f"ssl.keystore.location={certificates(tmp_path).broker()}"
    made = context(
        location,
        "ssl.enabled.protocols=TLSv1.2",
        "ssl.cipher.suites=TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    )
    assert made.maximum_version == ssl.TLSVersion.TLSv1_2
    names = [each["name"] for each in made.get_ciphers() if each["protocol"] == "TLSv1.2"]
    assert names == ["ECDHE-ECDSA-AES256-GCM-SHA384"]
    with pytest.raises(ConfigError, match="no usable cipher"):
        context(location, "ssl.cipher.suites=NONSENSE")
