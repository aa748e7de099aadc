"""A broker with a secured listener, in this process, and what clients need for it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from sharegroup.broker.server import Broker
from sharegroup.tls.self_signed import Identity, authority, signed
from tests.broker.running import running

HOST = "127.0.0.1"
PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"


@dataclass(frozen=True)
class Certificates:
    """Files of an authority, and of what it has signed."""

    folder: Path
    authority: Identity

    @property
    def authority_path(self) -> Path:
        return self.folder / "ca.pem"

    def write(self, name: str, identity: Identity) -> Path:
        """The path of a PEM file with key and certificate."""
        path = self.folder / f"{name}.pem"
        path.write_text(identity.key_pem + identity.certificate_pem)
        return path

    def broker(self, name: str = "broker") -> Path:
        """Of a broker on this machine."""
        hosts = ["localhost", HOST]
        return self.write(name, signed(self.authority, name, hosts=hosts))

    def client(self, name: str) -> Path:
        """Of a client."""
        return self.write(name, signed(self.authority, name))


def certificates(folder: Path) -> Certificates:
    """A new authority in ``folder``."""
    made = Certificates(folder, authority())
    made.authority_path.write_text(made.authority.certificate_pem)
    return made


def plain_users(listener: str, users: Mapping[str, str]) -> str:
    """The option with PLAIN's users of a listener, as people have it for Kafka."""
    options = " ".join(f'user_{name}="{password}"' for name, password in users.items())
    name = f"listener.name.{listener.lower()}.plain.sasl.jaas.config"
    return f"{name}={PLAIN_MODULE} required {options};"


@asynccontextmanager
async def secured(
    folder: Path, protocol: str, *options: str
) -> AsyncIterator[tuple[Broker, int, int]]:
    """(broker, port of a plaintext listener, port of the listener that speaks ``protocol``)"""
    listeners = f"listeners=PLAINTEXT://{HOST}:9092,{protocol}://{HOST}:9093"
    async with running(folder, listeners, *options) as (broker, plaintext):
        _, port = await broker.listen(HOST, 0, protocol)
        yield broker, plaintext, port
