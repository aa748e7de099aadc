"""The servers that are compared, each with a SASL_SSL listener beside its plain one.

SCRAM-SHA-512 over TLS; TLS 1.3 and its first cipher (AES-256-GCM) are the choice of both sides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka.admin import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from benchmarks.systems import AT_ONCE, MANY_LOCKS, OURS, OURS_SYSTEM_FLUSH, PEER, SHORT_LOCKS
from sharegroup.tls.self_signed import authority, signed
from tests.apache_kafka.broker import KAFKAS_OWN, KafkaBroker
from tests.servers.admin import ADMIN_SECONDS, Admin
from tests.servers.process import HOST, free_port
from tests.servers.running import RunningServer
from tests.servers.sharegroup_server import SharegroupServer

LISTENER = "SASL_SSL"
MECHANISM = "SCRAM-SHA-512"
MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
USER, PASSWORD = "bench", "bench-password"
ITERATIONS = 4096


@dataclass(frozen=True, slots=True)
class Secured:
    """The listener of one server: where it is, and what its clients must know."""

    bootstrap: str
    settings: Mapping[str, str]
    """In Java's names."""
    file: Path
    """A file of the settings."""


class SecuredOurs(SharegroupServer):
    """Our broker; ``secured`` is its second listener."""

    def __init__(self, folder: Path, *options: str) -> None:
        authority_file, store = _stores(folder)
        plain, address = f"{HOST}:{free_port()}", f"{HOST}:{free_port()}"
        super().__init__(
            folder,
            f"listeners=PLAINTEXT://{plain},{LISTENER}://{address}",
            *_listener_options(store),
            *options,
            port=int(plain.rpartition(":")[2]),
        )
        named = ("--listen", self.bootstrap)
        self.process.command = [part for part in self.process.command if part not in named]
        self.secured = _secured(address, authority_file)

    def start(self) -> None:
        """Start, and make the user."""
        super().start()
        _make_user(self.bootstrap)


class SecuredApacheKafka(KafkaBroker):
    """Apache Kafka; ``secured`` is its second listener."""

    def __init__(self, folder: Path, *options: str) -> None:
        authority_file, store = _stores(folder)
        super().__init__(folder, *options, jvm=KAFKAS_OWN)
        address, controller = f"{HOST}:{free_port()}", f"{HOST}:{free_port()}"
        listeners = f"PLAINTEXT://{self.bootstrap},{LISTENER}://{address}"
        jaas = f"listener.name.sasl_ssl.{MECHANISM.lower()}.sasl.jaas.config"
        self._options = (
            f"controller.quorum.voters=1@{controller}",
            f"listeners={listeners},CONTROLLER://{controller}",
            f"advertised.listeners={listeners}",
            *_listener_options(store),
            f"{jaas}={MODULE} required;",
            *self._options,
        )
        self.secured = _secured(address, authority_file)

    def start(self) -> None:
        """Start, and make the user."""
        super().start()
        _make_user(self.bootstrap)


def ours_durable(folder: Path) -> RunningServer:
    """As in ``systems``."""
    return SecuredOurs(folder, SHORT_LOCKS, AT_ONCE)


def ours_system_flush(folder: Path) -> RunningServer:
    """As in ``systems``."""
    return SecuredOurs(folder, SHORT_LOCKS, AT_ONCE, "flush.policy=system")


def apache_kafka(folder: Path) -> RunningServer:
    """As in ``systems``."""
    return SecuredApacheKafka(folder, SHORT_LOCKS, MANY_LOCKS)


SECURED_SYSTEMS: dict[str, Callable[[Path], RunningServer]] = {
    OURS: ours_durable,
    OURS_SYSTEM_FLUSH: ours_system_flush,
    PEER: apache_kafka,
}


def secured_listener(server: RunningServer) -> Secured:
    """The secured listener of one of SECURED_SYSTEMS."""
    assert isinstance(server, SecuredOurs | SecuredApacheKafka)
    return server.secured


def _stores(folder: Path) -> tuple[Path, Path]:
    """PEM files: the authority's certificate, and the broker's key and certificate."""
    known = authority()
    broker = signed(known, "broker", hosts=[HOST])
    authority_file, store = folder / "ca.pem", folder / "broker.pem"
    authority_file.write_text(known.certificate_pem)
    store.write_text(broker.key_pem + broker.certificate_pem)
    store.chmod(0o600)
    return authority_file, store


def _listener_options(store: Path) -> list[str]:
    protocols = f"PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,{LISTENER}:{LISTENER}"
    return [
        f"listener.security.protocol.map={protocols}",
        "ssl.keystore.type=PEM",
        f"ssl.keystore.location={store}",
        f"sasl.enabled.mechanisms={MECHANISM}",
    ]


def _secured(address: str, authority_file: Path) -> Secured:
    settings = {
        "security.protocol": LISTENER,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority_file),
        "sasl.mechanism": MECHANISM,
        "sasl.jaas.config": f'{MODULE} required username="{USER}" password="{PASSWORD}";',
    }
    file = authority_file.with_name("client.properties")
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    return Secured(address, settings, file)


def _make_user(bootstrap: str) -> None:
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, ITERATIONS)
    wanted = UserScramCredentialUpsertion(USER, info, PASSWORD.encode())
    admin = Admin(bootstrap)  # a variable: it must live until the answer
    for done in admin.client.alter_user_scram_credentials([wanted]).values():
        done.result(ADMIN_SECONDS)
