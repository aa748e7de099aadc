"""Every way to connect that the matrix of clients tries: a listener, and a SASL mechanism."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import jwt
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm

from sharegroup.sasl.users_file import user_lines
from sharegroup.tls.self_signed import Identity, authority, signed

MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
LISTENERS: Final = {
    "PLAINTEXT": "PLAINTEXT",
    "SSL": "SSL",
    "MTLS": "SSL",
    "SASL_PLAINTEXT": "SASL_PLAINTEXT",
    "SASL_SSL": "SASL_SSL",
}
"""Listener → its protocol."""
OTHERS: Final = {"EXPIRED": "SSL", "ELSEWHERE": "SSL", "SCRAM_ONLY": "SASL_PLAINTEXT"}
"""Listeners that most clients cannot use."""

USER: Final = "alice"
FILE_USER: Final = "carol"
"""In the broker's file of users."""
PASSWORD: Final = "alice's pass-word"
AUDIENCE: Final = "sharegroup"
ISSUER: Final = "https://issuer.example"
KEY_ID: Final = "test-key"


@dataclass(frozen=True, slots=True)
class Cell:
    """One way to connect."""

    listener: str
    mechanism: str = ""

    @property
    def name(self) -> str:
        """For the test's id, topic and group."""
        return "-".join(filter(None, (self.listener, self.mechanism))).lower().replace("_", "-")

    @property
    def protocol(self) -> str:
        """Kafka's ``security.protocol``."""
        return (LISTENERS | OTHERS)[self.listener]

    @property
    def tls(self) -> bool:
        """Whether it is encrypted."""
        return self.protocol.endswith("SSL")


CELLS: Final = (
    Cell("PLAINTEXT"),
    Cell("SSL"),
    Cell("MTLS"),
    *(Cell("SASL_PLAINTEXT", mechanism) for mechanism in MECHANISMS),
    *(Cell("SASL_SSL", mechanism) for mechanism in MECHANISMS),
)


class Credentials:
    """Certificates in a folder, and tokens."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ca = authority()
        self._token_key = ec.generate_private_key(ec.SECP256R1())
        self.authority_file = self._write("ca.pem", self.ca.certificate_pem)
        broker = signed(self.ca, "broker", hosts=["localhost", "127.0.0.1"])
        self.broker_file = self.pem_file("broker", broker)
        client = signed(self.ca, USER)
        self.client_file = self.pem_file("client", client)
        self.certificate_file = self._write("client-certificate.pem", client.certificate_pem)
        self.key_file = self._write("client-key.pem", client.key_pem)
        public = json.loads(ECAlgorithm.to_jwk(self._token_key.public_key()))
        jwks = {"keys": [public | {"kid": KEY_ID, "alg": "ES256", "use": "sig"}]}
        self.jwks_file = self._write("jwks.json", json.dumps(jwks))
        lines = user_lines(FILE_USER, PASSWORD, bytes(48), 4096)
        self.users_file = self._write("users", "".join(f"{line}\n" for line in lines))

    def pem_file(self, name: str, identity: Identity) -> Path:
        """Key and certificate in one file, as Kafka's PEM stores are."""
        return self._write(f"{name}.pem", identity.key_pem + identity.certificate_pem)

    def token(self, *, lifetime: timedelta = timedelta(hours=1), **claims: Any) -> str:
        """A token of :data:`USER`."""
        now = int(time.time())
        body = {
            "sub": USER,
            "iss": ISSUER,
            "aud": AUDIENCE,
            "iat": now,
            "exp": now + int(lifetime.total_seconds()),
        }
        return jwt.encode(body | claims, self._token_key, "ES256", headers={"kid": KEY_ID})

    def token_file(self) -> Path:
        """A file with a new token."""
        return self._write("token", self.token())

    def _write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(text)
        path.chmod(0o600)
        return path
