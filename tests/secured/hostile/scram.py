"""Exchanges of SCRAM that must not succeed."""

from __future__ import annotations

import base64
import hmac
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256

from sharegroup.sasl.scram_keys import ScramMechanism, client_key, salt_password, stored_key
from sharegroup.sasl.scram_messages import ServerFirst, parse_server_first
from tests.secured.cells import PASSWORD, USER

HASH = ScramMechanism.SHA_256
NONCE = "abcdefgh12345678"

BAD_FIRST = {
    "no nonce": f"n,,n={USER},r=",
    "no user": f"n,,n=,r={NONCE}",
    "a comma in the nonce": f"n,,n={USER},r=,{NONCE}",
    "channel binding": f"p=tls-unique,,n={USER},r={NONCE}",
    "a mandatory extension": f"n,,m=x,n={USER},r={NONCE}",
    "a mandatory extension at the end": f"n,,n={USER},r={NONCE},m=x",
    "a delegation token": f"n,,n={USER},r={NONCE},tokenauth=true",
    "somebody else": f"n,a=root,n={USER},r={NONCE}",
    "a name that is not escaped": f"n,,n=a=b,r={NONCE}",
    "iterations": f"n,,i=1,n={USER},r={NONCE}",
    "no header": f"n={USER},r={NONCE}",
    "nothing": "",
    "only commas": "," * 400_000,
    "a NUL": f"n,,n={USER}\0,r={NONCE}",
    "what the last message is": "c=biws,r=x,p=AAAA",
}


@dataclass(frozen=True)
class Seen:
    """What a client knows when it makes its last message."""

    bare: str
    server: str
    first: ServerFirst

    def final(
        self,
        *,
        nonce: str | None = None,
        binding: str = "n,,",
        password: str = PASSWORD,
        iterations: int | None = None,
        more: str = "",
        bare: str | None = None,
        cut: int | None = None,
    ) -> bytes:
        """The last message, right unless told otherwise: all that is told is proved, too."""
        encoded = base64.b64encode(binding.encode()).decode()
        unproven = f"c={encoded},r={self.first.nonce if nonce is None else nonce}{more}"
        seen = f"{bare or self.bare},{self.server},{unproven}".encode()
        salted = salt_password(HASH, password, self.first.salt, iterations or self.first.iterations)
        key = client_key(HASH, salted)
        signature = hmac.digest(stored_key(HASH, key), seen, sha256)
        proof = bytes(a ^ b for a, b in zip(key, signature, strict=True))[:cut]
        return f"{unproven},p={base64.b64encode(proof).decode()}".encode()


def seen(bare: str, answer: bytes) -> Seen:
    return Seen(bare, answer.decode(), parse_server_first(answer))


BAD_FINAL: dict[str, Callable[[Seen], bytes]] = {
    "the nonce of the client alone": lambda seen: seen.final(nonce=NONCE),
    "a truncated nonce": lambda seen: seen.final(nonce=seen.first.nonce[:-1]),
    "a longer nonce": lambda seen: seen.final(nonce=seen.first.nonce + "x"),
    "no nonce": lambda seen: seen.final(nonce=""),
    "another binding": lambda seen: seen.final(binding="y,,"),
    "a binding to a channel": lambda seen: seen.final(binding="p=tls-unique,,"),
    "no binding": lambda seen: seen.final(binding=""),
    "a wrong password": lambda seen: seen.final(password="guessed"),
    "fewer iterations": lambda seen: seen.final(iterations=1),
    "a proof for another user": lambda seen: seen.final(bare=f"n=root,r={NONCE}"),
    "a short proof": lambda seen: seen.final(cut=31),
    "no proof": lambda seen: seen.final(cut=0),
    "no proof at all": lambda seen: f"c=biws,r={seen.first.nonce}".encode(),
    "the server's message": lambda seen: seen.server.encode(),
    "a long proof": lambda seen: seen.final()[:-1] + b"A" * 300_000,
}
