"""Our broker with a listener for each protocol, and users for each mechanism."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from confluent_kafka.admin import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tests.secured.cells import AUDIENCE, ISSUER, LISTENERS, MECHANISMS, PASSWORD, USER, Credentials
from tests.servers.admin import ADMIN_SECONDS, Admin
from tests.servers.process import HOST, free_port
from tests.servers.sharegroup_server import SharegroupServer

PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SASL = ("sasl_plaintext", "sasl_ssl")


class SecuredServer(SharegroupServer):
    """``listener`` → address by :meth:`at`."""

    def __init__(
        self,
        folder: Path,
        credentials: Credentials,
        *options: str,
        more: Mapping[str, str] | None = None,
    ) -> None:
        self.credentials = credentials
        named = LISTENERS | dict(more or {})
        self._ports = {name: free_port() for name in named}
        protocols = ",".join(f"{name}:{protocol}" for name, protocol in named.items())
        listeners = ",".join(f"{name}://{HOST}:{port}" for name, port in self._ports.items())
        plain = f'{PLAIN_MODULE} required user_{USER}="{PASSWORD}";'
        super().__init__(
            folder,
            f"listeners={listeners}",
            f"listener.security.protocol.map={protocols}",
            "ssl.keystore.type=PEM",
            f"ssl.keystore.location={credentials.broker_file}",
            "ssl.truststore.type=PEM",
            f"ssl.truststore.location={credentials.authority_file}",
            "listener.name.mtls.ssl.client.auth=required",
            f"sasl.enabled.mechanisms={','.join(MECHANISMS)}",
            *(f"listener.name.{name}.plain.sasl.jaas.config={plain}" for name in SASL),
            f"sasl.users.file={credentials.users_file}",
            f"sasl.oauthbearer.jwks.endpoint.url={credentials.jwks_file.as_uri()}",
            f"sasl.oauthbearer.expected.audience={AUDIENCE}",
            f"sasl.oauthbearer.expected.issuer={ISSUER}",
            *options,
            port=self._ports["PLAINTEXT"],
        )
        self.process.command = [
            part for part in self.process.command if part not in ("--listen", self.bootstrap)
        ]

    def at(self, listener: str) -> str:
        """The address of a listener."""
        return f"{HOST}:{self._ports[listener]}"

    def create_user(self) -> None:
        """USER, with each mechanism of SCRAM."""
        admin = Admin(self.at("PLAINTEXT")).client
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            info = ScramCredentialInfo(mechanism, 4096)
            change = UserScramCredentialUpsertion(USER, info, PASSWORD.encode())
            for done in admin.alter_user_scram_credentials([change]).values():
                done.result(ADMIN_SECONDS)

    def prepare(self, name: str) -> None:
        """A topic of this name, and a group that begins at its start."""
        admin = Admin(self.at("PLAINTEXT"))
        admin.create_topic(name)
        admin.start_group_at_earliest(name)
