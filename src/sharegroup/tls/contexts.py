"""Contexts of Python's ``ssl``, made from stores. Files are read when a context is made."""

from __future__ import annotations

import re
import ssl
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from sharegroup.model.errors import ConfigError
from sharegroup.tls.pem import in_lines, key_fault, trust_fault
from sharegroup.tls.stores import PKCS12, KeyStore, TrustStore

NONE: Final = "none"
REQUESTED: Final = "requested"
REQUIRED: Final = "required"
_CLIENT_AUTH: Final = {
    NONE: ssl.CERT_NONE,
    REQUESTED: ssl.CERT_OPTIONAL,
    REQUIRED: ssl.CERT_REQUIRED,
}
_HASHED: Final = re.compile(r"[0-9a-f]{8}\.\d+")
"""Names of certificates in a folder, as OpenSSL looks for them."""
_PROTOCOLS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}


def client_context(
    trust: TrustStore,
    key: KeyStore,
    *,
    check_host: bool = True,
    protocols: Iterable[str] = (),
    ciphers: str | None = None,
) -> ssl.SSLContext:
    """The context of a client.

    Args:
        check_host: the broker's certificate must be for the name that the client connects to.
        protocols: ``TLSv1.2``, ``TLSv1.3``; empty: both.
        ciphers: as OpenSSL writes them, for TLS 1.2; None: Python's choice.

    Raises:
        ConfigError: a file cannot be read, or is not what it should be; one sentence.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = check_host
    # Java's clients trust any certificate in the store, also one that another certificate signed.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    _protocols(context, protocols, ciphers)
    if trust:
        _trust(context, trust)
    else:
        context.load_default_certs()
    if key:
        _load_key(context, key)
    return context


def server_context(
    key: KeyStore,
    trust: TrustStore,
    *,
    client_auth: str = NONE,
    protocols: Iterable[str] = (),
    ciphers: str | None = None,
) -> ssl.SSLContext:
    """The context of a broker.

    Args:
        client_auth: ``none``, ``requested`` or ``required``: whether clients show a certificate.

    Raises:
        ConfigError: as :func:`client_context`; or there is no key.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_NO_RENEGOTIATION
    _protocols(context, protocols, ciphers)
    if not key:
        raise ConfigError(
            "a TLS listener needs a key: set ssl.keystore.location, or ssl.keystore.key"
        )
    _load_key(context, key)
    verify = _CLIENT_AUTH.get(client_auth.lower())
    if verify is None:
        raise ConfigError(f"ssl.client.auth={client_auth} is none of {', '.join(_CLIENT_AUTH)}")
    context.verify_mode = verify
    if trust:
        _trust(context, trust)
    elif verify is not ssl.CERT_NONE:
        context.load_default_certs(ssl.Purpose.CLIENT_AUTH)
    return context


def _protocols(context: ssl.SSLContext, protocols: Iterable[str], ciphers: str | None) -> None:
    wanted = [protocol.strip() for protocol in protocols]
    for protocol in wanted:
        if protocol not in _PROTOCOLS:
            raise ConfigError(f"TLS protocol {protocol!r} is none of {', '.join(_PROTOCOLS)}")
    versions = sorted(_PROTOCOLS[protocol] for protocol in wanted or _PROTOCOLS)
    context.minimum_version, context.maximum_version = versions[0], versions[-1]
    if ciphers:
        try:
            context.set_ciphers(ciphers)
        except ssl.SSLError:
            raise ConfigError(
                f"no usable cipher in {ciphers!r}: write names of OpenSSL for TLS 1.2, such as "
                "ECDHE-ECDSA-AES256-GCM-SHA384; those of TLS 1.3 are always offered"
            ) from None


def _trust(context: ssl.SSLContext, trust: TrustStore) -> None:
    what = trust.location or "the PEM text"
    try:
        if trust.text:
            context.load_verify_locations(cadata=in_lines(trust.text))
            return
        assert trust.location is not None
        if trust.type == PKCS12:
            context.load_verify_locations(cadata=_pkcs12_authorities(trust))
        elif Path(trust.location).is_dir():
            context.load_verify_locations(capath=_hashed(trust.location))
        else:
            context.load_verify_locations(cafile=trust.location)
    except (OSError, ValueError) as error:
        why = trust_fault(trust.location) if isinstance(error, ssl.SSLError) else _reason(error)
        raise ConfigError(f"trusted certificates cannot be read from {what}: {why}") from None


def _hashed(folder: str) -> str:
    if not any(_HASHED.fullmatch(file.name) for file in Path(folder).iterdir()):
        raise ValueError(
            "it is a folder without hashed certificates: name a file, or run openssl rehash"
        )
    return folder


def _load_key(context: ssl.SSLContext, key: KeyStore) -> None:
    what = key.location or key.certificate_location or "the PEM text"
    try:
        with _chain(key) as (certificates, private, password):
            for file in filter(None, (certificates, private)):
                what = file if file in _files_of(key) else what
                Path(file).read_bytes()
            try:
                context.load_cert_chain(certificates, private, password or _no_password)
            except ssl.SSLError as error:
                raise ValueError(_key_reason(error, key, certificates, private)) from None
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"the certificate and its key cannot be read from {what}: {_reason(error)}"
        ) from None


def _files_of(key: KeyStore) -> tuple[str | None, ...]:
    return key.location, key.certificate_location, key.key_location


def _key_reason(error: ssl.SSLError, key: KeyStore, certificates: str, private: str | None) -> str:
    if error.reason == "KEY_VALUES_MISMATCH":
        return "the key is another certificate's"
    text = None if certificates in _files_of(key) else "the PEM text"
    return key_fault(certificates, private, key.key_password, text)


def _no_password() -> str:
    """Called in place of OpenSSL's prompt on the terminal."""
    raise ValueError("the key is encrypted, and ssl.key.password is not set")


@contextmanager
def _chain(key: KeyStore) -> Iterator[tuple[str, str | None, str | None]]:
    """Files with certificates and key, and the key's password: ``ssl`` takes nothing else. A key
    and certificates that are in no PEM file are written to a file that only this user can read. It
    is removed afterwards.
    """
    if key.location and key.type != PKCS12:
        yield key.location, None, key.key_password
        return
    if key.certificate_location:
        yield key.certificate_location, key.key_location, key.key_password
        return
    password = key.key_password
    if key.location:
        text, password = _pkcs12_chain(key), None
    else:
        text = in_lines(f"{key.certificate_text}\n{key.key_text or ''}")
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:  # made with mode 0600
        file.write(text)
        file.flush()
        yield file.name, None, password


def _pkcs12_chain(key: KeyStore) -> str:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.serialization import pkcs12

    store = pkcs12.load_pkcs12(
        Path(key.location or "").read_bytes(), (key.password or "").encode() or None
    )
    if store.key is None or store.cert is None:
        raise ValueError("it has no private key with its certificate")
    private = store.key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    certificates = [store.cert, *store.additional_certs]
    chain = (
        one.certificate.public_bytes(serialization.Encoding.PEM).decode() for one in certificates
    )
    return private.decode() + "".join(chain)


def _pkcs12_authorities(trust: TrustStore) -> str:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.serialization import pkcs12

    store = pkcs12.load_pkcs12(
        Path(trust.location or "").read_bytes(), (trust.password or "").encode() or None
    )
    certificates = [*([store.cert] if store.cert else []), *store.additional_certs]
    if not certificates:
        raise ValueError("it has no certificates")
    return "".join(
        one.certificate.public_bytes(serialization.Encoding.PEM).decode() for one in certificates
    )


def _reason(error: Exception) -> str:
    """Why, in words."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error)
