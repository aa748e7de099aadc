"""Contexts made from every form of store, and used for a handshake in memory."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from sharegroup.model.errors import ConfigError
from sharegroup.tls.contexts import REQUIRED, client_context, server_context
from sharegroup.tls.pem import in_lines
from sharegroup.tls.self_signed import Identity, authority, signed
from sharegroup.tls.stores import PKCS12, KeyStore, TrustStore, check_type

CA = authority()
BROKER = signed(CA, "broker", hosts=["localhost", "127.0.0.1"])
CLIENT = signed(CA, "alice")
TRUST = TrustStore(text=CA.certificate_pem)


def shake_hands(server: ssl.SSLContext, client: ssl.SSLContext, host: str) -> ssl.SSLObject:
    """The server's side of a finished handshake."""
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = client.wrap_bio(down, up, server_hostname=host)
    theirs = server.wrap_bio(up, down, server_side=True)
    for _ in range(4):
        for side in (ours, theirs):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    theirs.do_handshake()
    return theirs


def separate_files(folder: Path, identity: Identity) -> KeyStore:
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    certificate.write_text(identity.certificate_pem)
    key.write_text(identity.key_pem)
    return KeyStore(certificate_location=str(certificate), key_location=str(key))


def one_file(folder: Path, identity: Identity) -> KeyStore:
    both = folder / "both.pem"
    both.write_text(identity.key_pem_encrypted("secret") + identity.certificate_pem)
    return KeyStore(location=str(both), key_password="secret")


def text(folder: Path, identity: Identity) -> KeyStore:
    return KeyStore(certificate_text=identity.certificate_pem, key_text=identity.key_pem)


def pkcs12(folder: Path, identity: Identity) -> KeyStore:
    store = folder / "store.p12"
    store.write_bytes(identity.pkcs12("secret", [CA.certificate]))
    return KeyStore(type=PKCS12, location=str(store), password="secret")


@pytest.mark.parametrize("form", [separate_files, one_file, text, pkcs12])
def test_each_form_of_key_store(form: Callable[[Path, Identity], KeyStore], tmp_path: Path) -> None:
    server = server_context(form(tmp_path, BROKER), TRUST, client_auth=REQUIRED)
    client = client_context(TRUST, form(tmp_path, CLIENT))
    peer = shake_hands(server, client, "localhost").getpeercert()
    assert peer is not None
    assert peer["subject"] == ((("commonName", "alice"),),)


def test_our_own_certificates_pass_the_strict_check_of_newer_pythons(tmp_path: Path) -> None:
    """``ssl.create_default_context`` of Python 3.13 checks so."""
    server = server_context(text(tmp_path, BROKER), TRUST, client_auth=REQUIRED)
    client = client_context(TRUST, text(tmp_path, CLIENT))
    for side in (server, client):
        side.verify_flags |= ssl.VERIFY_X509_STRICT
    assert shake_hands(server, client, "localhost").version()


def test_trust_from_files(tmp_path: Path) -> None:
    pem, store = tmp_path / "ca.pem", tmp_path / "ca.p12"
    pem.write_text(CA.certificate_pem)
    store.write_bytes(BROKER.pkcs12("secret", [CA.certificate]))
    server = server_context(text(tmp_path, BROKER), TrustStore())
    for trust in (
        TrustStore(location=str(pem)),
        TrustStore(type=PKCS12, location=str(store), password="secret"),
    ):
        assert shake_hands(server, client_context(trust, KeyStore()), "127.0.0.1").version()


@pytest.mark.parametrize(
    ("broker", "host", "trust"),
    [
        (BROKER, "elsewhere", TRUST),
        (signed(CA, "b", hosts=["localhost"], age=timedelta(days=400)), "localhost", TRUST),
        (BROKER, "localhost", TrustStore(text=authority().certificate_pem)),
    ],
    ids=["host name", "expired", "unknown authority"],
)
def test_what_a_client_refuses(
    broker: Identity, host: str, trust: TrustStore, tmp_path: Path
) -> None:
    server = server_context(text(tmp_path, broker), TrustStore())
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(server, client_context(trust, KeyStore()), host)


def test_a_client_without_a_certificate_is_refused(tmp_path: Path) -> None:
    server = server_context(text(tmp_path, BROKER), TRUST, client_auth=REQUIRED)
    with pytest.raises(ssl.SSLError, match="PEER_DID_NOT_RETURN"):
        shake_hands(server, client_context(TRUST, KeyStore()), "localhost")


def test_errors_say_what_to_do(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing.pem")
    garbage = tmp_path / "garbage"
    garbage.write_text("no certificate")
    encrypted = one_file(tmp_path, BROKER)
    jks = tmp_path / "store"
    jks.write_bytes(b"\xfe\xed\xfe\xed\0")
    for make, said in (
        (lambda: check_type("ssl.truststore.type", "jks"), "keytool -importkeystore"),
        (lambda: check_type("ssl.truststore.type", "BKS"), "none of PEM, PKCS12"),
        (lambda: client_context(TrustStore(location=missing), KeyStore()), "No such file"),
        (lambda: client_context(TrustStore(location=str(garbage)), KeyStore()), "garbage"),
        (lambda: server_context(KeyStore(location=missing), TRUST), "No such file"),
        (lambda: server_context(KeyStore(), TRUST), "ssl.keystore.location"),
        (
            lambda: server_context(KeyStore(location=encrypted.location), TRUST),
            "ssl.key.password is not set",
        ),
        (lambda: server_context(text(tmp_path, BROKER), TRUST, client_auth="maybe"), "requested"),
        (lambda: client_context(TRUST, KeyStore(), protocols=["SSLv3"]), "SSLv3"),
        (lambda: client_context(TRUST, KeyStore(), ciphers="none such"), "such as ECDHE-"),
        (lambda: client_context(TRUST, KeyStore(), ciphers="TLS_AES_256_GCM_SHA384"), "TLS 1.3"),
        (lambda: client_context(TrustStore(text="ca.pem"), KeyStore()), "begins with -----BEGIN"),
        (lambda: client_context(TrustStore(location=str(tmp_path)), KeyStore()), "openssl rehash"),
        (lambda: client_context(TrustStore(location=str(jks)), KeyStore()), "is a JKS store"),
    ):
        with pytest.raises(ConfigError, match=said):
            make()


def test_what_is_wrong_with_a_key_is_told_with_its_file(tmp_path: Path) -> None:
    files = separate_files(tmp_path, CLIENT)
    certificate, key = files.certificate_location, files.key_location
    both, other = tmp_path / "both.pem", tmp_path / "other.key"
    both.write_text(CLIENT.key_pem_encrypted("secret") + CLIENT.certificate_pem)
    other.write_text(BROKER.key_pem)
    missing = str(tmp_path / "missing")
    pem = CLIENT.certificate_pem
    for store, said in (
        (KeyStore(certificate_location=certificate, key_location=missing), f"{missing}: No such"),
        (KeyStore(certificate_location=missing, key_location=key), f"{missing}: No such"),
        (KeyStore(certificate_location=key, key_location=key), f"no certificate .* in {key}$"),
        (KeyStore(location=certificate), f"no private key in PEM format in {certificate}$"),
        (KeyStore(certificate_location=certificate, key_location=str(other)), "another certif"),
        (KeyStore(location=str(both), key_password="x"), f"not the password of the key in {both}"),
        (KeyStore(certificate_text=pem, key_text=pem), "no private key .* in the PEM text$"),
        (KeyStore(certificate_text=pem, key_text=CLIENT.key_pem[:90]), "no private key|damaged"),
    ):
        with pytest.raises(ConfigError, match=said) as caught:
            client_context(TRUST, store)
        assert "ssl.c" not in str(caught.value)


ONE_LINE = [
    lambda pem: pem.replace("\n", "\\n"),
    lambda pem: pem.replace("\n", " "),
    lambda pem: pem.replace("\n", "\r\n"),
    lambda pem: pem.replace("\n", "\\r\\n"),
    lambda pem: f"  of alice\n{pem}".rstrip(),
]


@pytest.mark.parametrize("written", ONE_LINE)
@pytest.mark.parametrize("password", [None, "secret"])
def test_text_may_be_written_in_one_line(
    written: Callable[[str], str], password: str | None
) -> None:
    server = server_context(text(Path(), BROKER), TRUST, client_auth=REQUIRED)
    key = KeyStore(
        certificate_text=written(CLIENT.certificate_pem + CA.certificate_pem),
        key_text=written(CLIENT.key_pem_encrypted(password)),
        key_password=password,
    )
    trust = TrustStore(text=written(authority("other").certificate_pem + CA.certificate_pem))
    assert shake_hands(server, client_context(trust, key), "localhost").getpeercert()


def test_an_old_encrypted_key_stays_as_it_is() -> None:
    old = (
        "-----BEGIN EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,AB\n\n"
        "AAAA\n-----END EC PRIVATE KEY-----\n"
    )
    assert in_lines(old) == old


def test_any_certificate_that_is_named_is_trusted() -> None:
    """As in Java: the broker's own, without that of its authority."""
    server = server_context(text(Path(), BROKER), TrustStore())
    own = TrustStore(text=BROKER.certificate_pem)
    assert shake_hands(server, client_context(own, KeyStore()), "localhost").version()


def test_a_key_is_in_no_repr() -> None:
    key = text(Path(), BROKER)
    assert key.key_text is not None
    assert key.key_text not in repr(key)
    assert "PRIVATE" not in repr(BROKER)
    assert "PRIVATE" not in repr(KeyStore(certificate_text=key.key_text))


def test_text_on_one_line(tmp_path: Path) -> None:
    """A properties file whose lines are continued by backslashes has no line ends."""

    def one_line(pem: str) -> str:
        return " ".join(pem.split("\n"))

    chain = one_line(BROKER.certificate_pem + CA.certificate_pem)
    for key in (BROKER.key_pem, BROKER.key_pem_encrypted("secret")):
        store = KeyStore(certificate_text=chain, key_text=one_line(key), key_password="secret")
        server = server_context(store, TrustStore())
        trust = TrustStore(text=one_line(CA.certificate_pem))
        assert shake_hands(server, client_context(trust, KeyStore()), "localhost").version()


JKS_FILE = b"\xfe\xed\xfe\xed\0\0\0\2"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (JKS_FILE, "keytool -importkeystore"),
        (BROKER.pkcs12("secret"), "set ssl.keystore.type=PKCS12"),
        (BROKER.certificate_pem.encode(), "there is no private key in PEM format in"),
        (BROKER.key_pem.encode(), "there is no certificate in PEM format in"),
        (b"", "there is no certificate in PEM format in"),
        (
            (BROKER.key_pem_encrypted("other") + BROKER.certificate_pem).encode(),
            "ssl.key.password is not the password of the key in",
        ),
    ],
    ids=["JKS", "PKCS#12", "no key", "no certificate", "empty", "another password"],
)
def test_what_is_no_pem(content: bytes, said: str, tmp_path: Path) -> None:
    file = tmp_path / "store"
    file.write_bytes(content)
    with pytest.raises(ConfigError) as refused:
        server_context(KeyStore(location=str(file), key_password="secret"), TrustStore())
    assert said in str(refused.value)
    assert "ssl.c" not in str(refused.value)


@pytest.mark.parametrize(
    ("content", "said"),
    [(JKS_FILE, "keytool"), (b"\x30\x82", "ssl.truststore.type=PKCS12"), (b"x", "no certificate")],
    ids=["JKS", "PKCS#12", "no PEM"],
)
def test_what_is_no_pem_of_authorities(content: bytes, said: str, tmp_path: Path) -> None:
    file = tmp_path / "store"
    file.write_bytes(content)
    with pytest.raises(ConfigError, match=said):
        client_context(TrustStore(location=str(file)), KeyStore())
