"""Records of TLS 1.3 made by hand (RFC 8446, 5 and 7): the module ``ssl`` cannot change keys."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA384
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

CIPHER: Final = "TLS_AES_256_GCM_SHA384"
DATA, HANDSHAKE = b"\x17", b"\x16"
_CHANGE: Final = b"\x18\0\0\x01\x01"
"""A KeyUpdate that wants the same from the other side."""


class HandMade:
    """What one client sends after its handshake, if it has sent nothing yet.

    Args:
        key_log: the file that the client's context writes its secrets to.
    """

    def __init__(self, key_log: Path) -> None:
        lines = [line.split() for line in key_log.read_text().splitlines()]
        secrets = [line[2] for line in lines if line[0] == "CLIENT_TRAFFIC_SECRET_0"]
        self._use(bytes.fromhex(secrets[-1]))

    def data(self, content: bytes) -> bytes:
        """A record with data."""
        return self._record(content, DATA)

    def change(self) -> bytes:
        """A record that changes the keys."""
        record = self._record(_CHANGE, HANDSHAKE)
        self._use(self._derived(b"traffic upd", SHA384.digest_size))
        return record

    def _record(self, content: bytes, kind: bytes) -> bytes:
        inner = content + kind
        head = b"\x17\x03\x03" + (len(inner) + 16).to_bytes(2, "big")
        number = self._number.to_bytes(len(self._iv), "big")
        nonce = bytes(a ^ b for a, b in zip(self._iv, number, strict=True))
        self._number += 1
        return head + self._cipher.encrypt(nonce, inner, head)

    def _use(self, secret: bytes) -> None:
        self._secret = secret
        self._cipher, self._iv = AESGCM(self._derived(b"key", 32)), self._derived(b"iv", 12)
        self._number = 0

    def _derived(self, name: bytes, size: int) -> bytes:
        label = b"tls13 " + name
        info = size.to_bytes(2, "big") + bytes([len(label)]) + label + b"\0"
        return HKDFExpand(SHA384(), size, info).derive(self._secret)
