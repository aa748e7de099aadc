"""One node of Apache Kafka with a listener for each way to secure it, and what clients need."""

from __future__ import annotations

import asyncio
import base64
import json
import os
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Final

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

from sharegroup.client.network.connection import Connection
from sharegroup.sasl.scram_keys import ScramMechanism, salt_password
from sharegroup.tls.self_signed import Identity, authority, signed
from sharegroup.wire.apis import ALTER_USER_SCRAM_CREDENTIALS, API_VERSIONS
from sharegroup.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialUpsertion,
)
from tests.apache_kafka.broker import KafkaBroker
from tests.servers.process import HOST, free_port

USER: Final = "alice"
CANARY: Final = "c4n4ry"
"""Nothing else has this text: where it is found, the password has leaked."""
PASSWORD: Final = f"{CANARY},pa=ss\"wo'rd"
AUDIENCE: Final = "kafka-tests"
ISSUER: Final = "https://issuer.example"
SESSION_MS: Final = 2_000
"""How long a login holds at the listener REAUTH."""

STRANGER: Final = "bob"
"""A user of PLAIN who may do nothing; the password is the same."""

PLAIN_JAAS: Final = (
    'org.apache.kafka.common.security.plain.PlainLoginModule required username="{0}" '
    'password="{1}" user_{0}="{1}" user_bob="{1}";'
)
SCRAM_JAAS: Final = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
OAUTH_JAAS: Final = (
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
    'unsecuredLoginStringClaim_sub="broker";'
)
VALIDATOR: Final = (
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
)
PROTOCOLS: Final = {
    "SSL": "SSL",
    "MTLS": "SSL",
    "EXPIRED": "SSL",
    "ELSEWHERE": "SSL",
    "SASL_PLAINTEXT": "SASL_PLAINTEXT",
    "SASL_SSL": "SASL_SSL",
    "REAUTH": "SASL_SSL",
    "SCRAM_ONLY": "SASL_PLAINTEXT",
}
"""Listener → its protocol."""

MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")


class SecuredKafka(KafkaBroker):
    """Apache Kafka with listeners of PROTOCOLS besides a plain one. `address` has theirs.

    The folder `files` has for clients: `ca.pem`, `client.pem` and `client.key` (encrypted with
    KEY_PASSWORD), `client.p12`, and `unknown-ca.pem`, which has signed nothing.
    """

    KEY_PASSWORD: Final = "of the key"

    def __init__(self, folder: Path, *options: str) -> None:
        self.files = folder / "tls"
        self.files.mkdir(parents=True)
        self.address = {name: f"{HOST}:{free_port()}" for name in PROTOCOLS}
        self._token_key = rsa.generate_private_key(public_exponent=65_537, key_size=2048)
        self._write_files()
        jwks = self.files / "jwks.json"
        jwks.write_text(json.dumps({"keys": [_jwk(self._token_key)]}))
        super().__init__(
            folder,
            *options,
            java_properties=[f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={jwks.as_uri()}"],
        )
        self._options = (*self._listeners(), *self._login_options(jwks), *self._options)

    def token(self, *, lifetime_s: int = 300, **claims: object) -> str:
        """A signed token of USER."""
        now = int(_now())
        payload = {
            "sub": USER,
            "aud": AUDIENCE,
            "iss": ISSUER,
            "iat": now,
            "exp": now + lifetime_s,
            "scope": "kafka",
            **claims,
        }
        return jwt.encode(payload, self._token_key, algorithm="RS256", headers={"kid": "test"})

    def start(self) -> None:
        super().start()
        asyncio.run(self._make_users())

    def properties(self, listener: str, mechanism: str | None = None) -> dict[str, str]:
        """What a client sets to use a listener, in Java's names."""
        found = {"security.protocol": PROTOCOLS[listener]}
        if PROTOCOLS[listener].endswith("SSL"):
            found["ssl.truststore.location"] = str(self.files / "ca.pem")
        if listener == "MTLS":
            found |= {
                "ssl.certificate.location": str(self.files / "client.pem"),
                "ssl.key.location": str(self.files / "client.key"),
                "ssl.key.password": self.KEY_PASSWORD,
            }
        if mechanism == "OAUTHBEARER":
            token = self.token()
            found |= {"sasl.mechanism": mechanism, "sasl.oauthbearer.token": token}
        elif mechanism is not None:
            found |= {
                "sasl.mechanism": mechanism,
                "sasl.username": USER,
                "sasl.password": PASSWORD,
            }
        return found

    def _write_files(self) -> None:
        known, unknown = authority("known"), authority("unknown")
        (self.files / "ca.pem").write_text(known.certificate_pem)
        (self.files / "unknown-ca.pem").write_text(unknown.certificate_pem)
        year = timedelta(days=365)
        hosts = [HOST, "localhost"]
        self._store("broker", signed(known, "broker", hosts=hosts))
        self._store("expired", signed(known, "broker", hosts=hosts, lifetime=year, age=2 * year))
        self._store("elsewhere", signed(known, "broker", hosts=["elsewhere.example"]))
        client = signed(known, "client")
        (self.files / "client.pem").write_text(client.certificate_pem)
        (self.files / "client.key").write_text(client.key_pem_encrypted(self.KEY_PASSWORD))
        (self.files / "client.p12").write_bytes(
            client.pkcs12(self.KEY_PASSWORD, [known.certificate])
        )

    def _store(self, name: str, identity: Identity) -> None:
        """A PEM file with both, as Kafka reads them."""
        (self.files / f"{name}.pem").write_text(identity.key_pem + identity.certificate_pem)

    def _listeners(self) -> list[str]:
        controller = f"{HOST}:{free_port()}"
        own = ",".join(f"{name}://{where}" for name, where in self.address.items())
        plain = f"PLAINTEXT://{self.bootstrap}"
        protocols = ",".join(f"{name}:{protocol}" for name, protocol in PROTOCOLS.items())
        return [
            f"controller.quorum.voters=1@{controller}",
            f"listeners={plain},{own},CONTROLLER://{controller}",
            f"advertised.listeners={plain},{own}",
            f"listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,{protocols}",
            "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            f"super.users=User:ANONYMOUS;User:{USER};User:CN=client",
            "ssl.keystore.type=PEM",
            "ssl.truststore.type=PEM",
            f"ssl.keystore.location={self.files / 'broker.pem'}",
            f"ssl.truststore.location={self.files / 'ca.pem'}",
            "listener.name.mtls.ssl.client.auth=required",
            *self._keystore("expired"),
            *self._keystore("elsewhere"),
            f"listener.name.reauth.connections.max.reauth.ms={SESSION_MS}",
        ]

    def _keystore(self, listener: str) -> list[str]:
        """A certificate of its own."""
        prefix = f"listener.name.{listener}.ssl.keystore"
        return [f"{prefix}.type=PEM", f"{prefix}.location={self.files / listener}.pem"]

    def _login_options(self, jwks: Path) -> list[str]:
        options = [f"sasl.enabled.mechanisms={','.join(MECHANISMS)}"]
        password = PASSWORD.replace('"', '\\\\"').replace("'", "\\\\'")
        for name in ("sasl_plaintext", "sasl_ssl", "reauth", "scram_only"):
            of = f"listener.name.{name}"
            scrams = [one for one in MECHANISMS if one.startswith("SCRAM")]
            if name == "scram_only":
                options.append(f"{of}.sasl.enabled.mechanisms={','.join(scrams)}")
            options += [f"{of}.{one.lower()}.sasl.jaas.config={SCRAM_JAAS}" for one in scrams]
            if name != "scram_only":
                options += [
                    f"{of}.plain.sasl.jaas.config={PLAIN_JAAS.format(USER, password)}",
                    f"{of}.oauthbearer.sasl.jaas.config={OAUTH_JAAS}",
                    f"{of}.oauthbearer.sasl.server.callback.handler.class={VALIDATOR}",
                    f"{of}.oauthbearer.sasl.oauthbearer.jwks.endpoint.url={jwks.as_uri()}",
                    f"{of}.oauthbearer.sasl.oauthbearer.expected.audience={AUDIENCE}",
                    f"{of}.oauthbearer.sasl.oauthbearer.expected.issuer={ISSUER}",
                ]
        return options

    async def _make_users(self) -> None:
        """Store USER's password for both hashes of SCRAM: one request each, as Kafka wants it."""
        connection = await Connection.open(
            HOST,
            self.port,
            client_id="test",
            timeout_ms=10_000,
            versions={API_VERSIONS: (0, 4), ALTER_USER_SCRAM_CREDENTIALS: (0, 0)},
        )
        try:
            for mechanism in ScramMechanism:
                request = AlterUserScramCredentialsRequest(upsertions=[_credential(mechanism)])
                response: AlterUserScramCredentialsResponse = await connection.send(
                    ALTER_USER_SCRAM_CREDENTIALS, request, timeout_ms=10_000
                )
                errors = [one.error_message for one in response.results if one.error_code]
                assert not errors, errors
        finally:
            connection.close()


def _credential(mechanism: ScramMechanism) -> ScramCredentialUpsertion:
    salt = os.urandom(16)
    return ScramCredentialUpsertion(
        name=USER,
        mechanism=mechanism,
        iterations=4096,
        salt=salt,
        salted_password=salt_password(mechanism, PASSWORD, salt, 4096),
    )


def _jwk(key: rsa.RSAPrivateKey) -> Mapping[str, str]:
    numbers = key.public_key().public_numbers()
    return {
        "kty": "RSA",
        "kid": "test",
        "alg": "RS256",
        "use": "sig",
        "n": _number(numbers.n),
        "e": _number(numbers.e),
    }


def _number(value: int) -> str:
    data = value.to_bytes((value.bit_length() + 7) // 8, "big")
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _now() -> float:
    from sharegroup.client.clock import wall_ms

    return wall_ms() / 1000
