"""PEM text as people pass it on, and what is wrong with PEM files that OpenSSL does not take.

Source: RFC 7468; Kafka's parser (class DefaultSslEngineFactory.PemParser) takes any blanks between
the characters of an entry, as a variable or a one-line property has them.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

_ENTRY: Final = re.compile(r"(-----BEGIN ([A-Z0-9 ]+)-----)(.*?)(-----END \2-----)", re.DOTALL)
_BEGIN: Final = re.compile(r"(?<=[^\n])[ \t]*(?=-----BEGIN )")
_LINE: Final = re.compile(r".{1,64}")
_CERTIFICATES: Final = ("-----BEGIN CERTIFICATE-----", "-----BEGIN TRUSTED CERTIFICATE-----")
_JKS: Final = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
"""How Java's own stores, JKS and JCEKS, begin."""
_SEQUENCE: Final = b"\x30"
"""How PKCS#12 begins: it is DER."""


def in_lines(text: str) -> str:
    r"""The same text in lines, where it has ``\n`` written out or blanks instead of line ends."""
    entries = _ENTRY.sub(_entry, text.replace("\\r", "").replace("\\n", "\n"))
    return _BEGIN.sub("\n", entries)


def _entry(found: re.Match[str]) -> str:
    begin, _, body, end = found.groups()
    if ":" not in body:  # an old encrypted key begins with lines that mean something
        body = "\n".join(["", *_LINE.findall("".join(body.split())), ""])
    return f"{begin}{body}{end}"


def trust_fault(location: str | None) -> str:
    """Why no trusted certificates could be read."""
    if location is None:
        return "there is no certificate in it: it begins with -----BEGIN CERTIFICATE-----"
    data = Path(location).read_bytes()
    other = _other_store(data, "ssl.truststore.type")
    if other:
        return other
    if _CERTIFICATES[0].encode() not in data:
        return "there is no certificate in PEM format in it"
    return "a certificate in it is damaged"


def key_fault(certificates: str, key: str | None, password: str | None, text: str | None) -> str:
    """Why a certificate and its key could not be read.

    Args:
        certificates, key: files; without ``key`` both are in one file.
        password: of the key.
        text: what to call the files; None: their names.
    """
    data = Path(certificates).read_bytes()
    other = _other_store(data, "ssl.keystore.type")
    if other:
        return other
    found = data.decode(errors="replace")
    if not any(begin in found for begin in _CERTIFICATES):
        return f"there is no certificate in PEM format in {text or certificates}"
    private = found if key is None else Path(key).read_text(encoding="utf-8", errors="replace")
    where = text or key or certificates
    if "PRIVATE KEY-----" not in private:
        return f"there is no private key in PEM format in {where}"
    if "ENCRYPTED" in private and password:
        return f"ssl.key.password is not the password of the key in {where}"
    return f"the certificate, or the key in {where}, is damaged"


def _other_store(data: bytes, setting: str) -> str:
    """What is in a file that is no PEM; empty if nothing is known."""
    if data.startswith(_JKS):
        return (
            "it is a JKS store, which cannot be read here. Convert it once: keytool "
            "-importkeystore -srckeystore STORE.jks -destkeystore STORE.p12 -deststoretype PKCS12, "
            f"and set {setting}=PKCS12"
        )
    if data.startswith(_SEQUENCE):
        return f"it is no PEM; if it is a PKCS#12 store, set {setting}=PKCS12"
    return ""
