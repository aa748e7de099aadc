"""`sharegroup serve` with a listener for each way to prove who one is."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec

from sharegroup.sasl.users_file import user_lines
from tests.broker.authentication.secured import Certificates, certificates
from tests.servers.process import HOST, free_port
from tests.servers.sharegroup_server import SharegroupServer

USER, PASSWORD = "alice", "a secret"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
LISTENERS = ("ADMIN", "SSL", "MTLS", "SASL_PLAINTEXT", "SASL_SSL")
CELLS = [
    ("SSL", ""),
    ("MTLS", ""),
    *((listener, each) for listener in ("SASL_PLAINTEXT", "SASL_SSL") for each in MECHANISMS),
]


@dataclass(frozen=True)
class SecuredServer:
    """Ports by listener, and what clients need."""

    server: SharegroupServer
    ports: Mapping[str, int]
    certificates: Certificates
    client: Path
    """Key and certificate of the client `alice`."""
    key: ec.EllipticCurvePrivateKey

    def bootstrap(self, listener: str) -> str:
        return f"{HOST}:{self.ports[listener]}"

    def token(self, seconds: int = 600, **claims: Any) -> str:
        """Of `alice`."""
        said = {"sub": USER, "exp": int(time.time()) + seconds, "aud": "kafka", **claims}
        return jwt.encode(said, self.key, "ES256", {"kid": "k"})


@contextmanager
def secured_server(folder: Path, *options: str) -> Iterator[SecuredServer]:
    ports = {name: free_port() for name in LISTENERS}
    made = certificates(folder)
    key = ec.generate_private_key(ec.SECP256R1())
    public = jwt.algorithms.ECAlgorithm.to_jwk(key.public_key(), as_dict=True)
    jwks = folder / "jwks.json"
    jwks.write_text(json.dumps({"keys": [{**public, "kid": "k"}]}))
    users = folder / "users"
    users.write_text("\n".join(user_lines(USER, PASSWORD, bytes(48), 4096)))
    own = ",".join(f"{name}://{HOST}:{port}" for name, port in ports.items())
    server = SharegroupServer(
        folder,
        f"listeners={own}",
        "listener.security.protocol.map=ADMIN:PLAINTEXT,SSL:SSL,MTLS:SSL,"
        "SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL",
        "listener.name.mtls.ssl.client.auth=required",
        f"ssl.keystore.location={made.broker()}",
        f"ssl.truststore.location={made.authority_path}",
        f"sasl.enabled.mechanisms={','.join(MECHANISMS)}",
        f"sasl.users.file={users}",
        f"sasl.oauthbearer.jwks.endpoint.url={jwks.as_uri()}",
        "sasl.oauthbearer.expected.audience=kafka",
        *options,
        port=ports["ADMIN"],
    )
    with server:
        yield SecuredServer(server, ports, made, made.client(USER), key)
