"""The broker that is attacked."""

from __future__ import annotations

import re
import urllib.request
from pathlib import Path

from sharegroup import sync
from sharegroup.sasl.password_hash import PasswordHash
from tests.secured.cells import PASSWORD, USER, Cell, Credentials
from tests.secured.clients import java_properties
from tests.secured.server import SecuredServer
from tests.servers.admin import Admin
from tests.servers.process import HOST, free_port

TOPIC = "hostile"
GROUPS = {
    cell.name: cell for cell in (Cell("SASL_PLAINTEXT", "SCRAM-SHA-256"), Cell("SASL_SSL", "PLAIN"))
}
TIMEOUT_MS = 6_000
"""How long a stranger may take."""


class Target(SecuredServer):
    """Passwords of PLAIN are in a file, where a try costs most."""

    def __init__(self, folder: Path, credentials: Credentials, *options: str) -> None:
        self.users_file = users = folder / "users"
        users.write_text(f"{USER}:{PasswordHash.of(PASSWORD, bytes(16)).text}\n")
        super().__init__(
            folder,
            credentials,
            f"sasl.users.file={users}",
            f"connections.authentication.timeout.ms={TIMEOUT_MS}",
            *options,
        )
        self._credentials = credentials
        self._metrics = f"{HOST}:{free_port()}"
        self.process.command += ["--metrics", self._metrics]

    def prepare_users(self) -> None:
        """A user of SCRAM, and a topic."""
        self.create_user()
        admin = Admin(self.at("PLAINTEXT"))
        admin.create_topic(TOPIC)
        for group in GROUPS:
            admin.start_group_at_earliest(group)

    def metric(self, name: str, labels: str = "") -> float:
        """The sum of a metric's samples whose labels have this text."""
        with urllib.request.urlopen(f"http://{self._metrics}/metrics", timeout=60) as answer:
            text = answer.read().decode()
        lines = re.findall(rf"^{name}(?:_total)?(\{{.*\}})? (\S+)$", text, re.MULTILINE)
        return sum(float(value) for found, value in lines if labels in found)

    @property
    def memory_mib(self) -> float:
        """Resident now."""
        return self.usage().memory_bytes / (1 << 20)

    def serves_as_before(self) -> None:
        """A record is written and taken by each of two protected listeners."""
        for cell in GROUPS.values():
            self._work(cell)
        said = self.output()
        assert "Traceback" not in said, said
        assert self.metric("sharegroup_request_errors", "UNKNOWN_SERVER_ERROR") == 0, said
        assert PASSWORD not in said

    def _work(self, cell: Cell) -> None:
        settings = java_properties(cell, self._credentials)
        at = self.at(cell.listener)
        with sync.ShareConsumer(
            TOPIC, group_id=cell.name, bootstrap_servers=at, security=settings
        ) as consumer:
            with sync.Producer(at, security=settings) as producer:
                producer.send(TOPIC, b"as before")
            received = [record.value for record in consumer.poll(timeout_ms=60_000)]
            assert b"as before" in received
            consumer.commit()
