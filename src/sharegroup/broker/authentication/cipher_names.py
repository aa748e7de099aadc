"""Translates names of TLS 1.2 ciphers from Java's (IANA's) to OpenSSL's."""

from __future__ import annotations

import re
from collections.abc import Iterable

_IANA = re.compile(r"TLS_(?:(\w+?)_WITH_)?(\w+)")


def openssl_ciphers(names: Iterable[str]) -> str | None:
    """The list of ciphers for OpenSSL; None if ``names`` has none of TLS 1.2. All ciphers of TLS
    1.3 are always on."""
    found = [converted for name in names if name and (converted := _openssl(name))]
    return ":".join(found) or None


def _openssl(name: str) -> str:
    match = _IANA.fullmatch(name)
    if match is None:
        return name  # it is OpenSSL's own name
    exchange, cipher = match.groups()
    if exchange is None:
        return ""
    cipher = re.sub(r"AES_(\d+)", r"AES\1", cipher)
    cipher = cipher.replace("CHACHA20_POLY1305_SHA256", "CHACHA20_POLY1305").replace("_CBC", "")
    prefix = "" if exchange == "RSA" else f"{exchange}-"
    return f"{prefix}{cipher}".replace("_", "-")
