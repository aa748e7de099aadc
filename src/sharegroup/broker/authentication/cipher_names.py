"""Names of TLS 1.2 ciphers: Java's (IANA's) as OpenSSL's."""

from __future__ import annotations

import re
from collections.abc import Iterable

_IANA = re.compile(r"TLS_(?:(\w+?)_WITH_)?(\w+)")


def openssl_ciphers(names: Iterable[str]) -> str | None:
    """The list for OpenSSL; None if there are none for TLS 1.2: those of 1.3 are always on."""
    found = [converted for name in names if name and (converted := _openssl(name))]
    return ":".join(found) or None


def _openssl(name: str) -> str:
    match = _IANA.fullmatch(name)
    if match is None:
        return name  # OpenSSL's own
    exchange, cipher = match.groups()
    if exchange is None:
        return ""
    cipher = re.sub(r"AES_(\d+)", r"AES\1", cipher)
    cipher = cipher.replace("CHACHA20_POLY1305_SHA256", "CHACHA20_POLY1305").replace("_CBC", "")
    prefix = "" if exchange == "RSA" else f"{exchange}-"
    return f"{prefix}{cipher}".replace("_", "-")
