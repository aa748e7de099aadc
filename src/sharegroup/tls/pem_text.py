"""PEM as people have it: on one line of a properties file, or not PEM at all."""

from __future__ import annotations

import re
from typing import Final

_ON_ONE_LINE: Final = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----[ \t]*(\S[^-]*?)\s*-----END \1-----")
_LINE: Final = 64
_JKS: Final = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
"""How Java's own stores, JKS and JCEKS, begin."""
_SEQUENCE: Final = b"\x30"
"""How PKCS#12 begins: it is DER."""


def with_lines(text: str) -> str:
    """PEM text with its line ends: a properties file in which lines are continued by backslashes
    has lost them, and OpenSSL wants them (Kafka class DefaultSslEngineFactory does not)."""
    return _ON_ONE_LINE.sub(_broken, text)


def _broken(found: re.Match[str]) -> str:
    kind, body = found[1], "".join(found[2].split())
    lines = [body[at : at + _LINE] for at in range(0, len(body), _LINE)]
    return "\n".join(("", f"-----BEGIN {kind}-----", *lines, f"-----END {kind}-----", ""))


def not_pem(data: bytes, setting: str, *, key: bool) -> str | None:
    """What a file is that OpenSSL cannot read as PEM; None: nothing is known.

    Args:
        setting: the one with the type of such a store.
        key: a private key should be in it, too.
    """
    if data.startswith(_JKS):
        return (
            "it is a JKS store, which cannot be read here. Convert it once: keytool "
            "-importkeystore -srckeystore STORE.jks -destkeystore STORE.p12 -deststoretype PKCS12, "
            f"and set {setting}=PKCS12"
        )
    if data.startswith(_SEQUENCE):
        return f"it is no PEM; if it is a PKCS#12 store, set {setting}=PKCS12"
    if b"-----BEGIN CERTIFICATE-----" not in data:
        return "there is no certificate in it"
    if key and b"PRIVATE KEY-----" not in data:
        return "there is no private key in it"
    if key and b"ENCRYPTED" in data:
        return "ssl.key.password does not decrypt its private key"
    return None
