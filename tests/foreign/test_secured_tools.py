"""Java's console and share tools by each listener and mechanism: what the console producer is typed
comes out of both console consumers, and kafka-share-groups shows how far the group is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.foreign.tool_shell import Ran, ToolShell
from tests.secured.cells import CELLS, PASSWORD, Cell, Credentials
from tests.secured.clients import allowed_token, java_file
from tests.secured.server import SecuredServer

pytestmark = pytest.mark.kafka

LINES = ["one", "two", "three"]
WRONG = [Cell("SASL_SSL", "PLAIN"), Cell("SASL_PLAINTEXT", "SCRAM-SHA-512")]


@dataclass(frozen=True, slots=True)
class Tools:
    """All with the same file of properties."""

    shell: ToolShell
    bootstrap: str
    config: Path
    timeout_ms: int = 20_000

    @property
    def patience(self) -> tuple[str, ...]:
        """Of a consumer: until LINES have come."""
        return ("--max-messages", str(len(LINES)), "--timeout-ms", str(self.timeout_ms))

    def run(self, tool: str, *arguments: str, stdin: str = "") -> Ran:
        """One of them, as a user starts it."""
        told = ("--command-config", str(self.config), *arguments)
        return self.shell.run(tool, self.bootstrap, *told, stdin=stdin)

    def produce(self, topic: str) -> Ran:
        """LINES are typed."""
        typed = "".join(f"{line}\n" for line in LINES)
        return self.run("kafka-console-producer", "--topic", topic, stdin=typed)

    def share_consume(self, topic: str, group: str) -> Ran:
        """Until LINES have come."""
        where = ("--topic", topic, "--group", group)
        return self.run("kafka-console-share-consumer", *where, *self.patience)

    def consume(self, topic: str, group: str) -> Ran:
        """Until LINES have come. (A classic group would wait 3 s for more members.)"""
        where = ("--topic", topic, "--group", group, "--from-beginning")
        protocol = ("--command-property", "group.protocol=consumer")
        return self.run("kafka-console-consumer", *where, *protocol, *self.patience)

    def describe(self, group: str) -> Ran:
        """A share group."""
        return self.run("kafka-share-groups", "--describe", "--group", group)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredServer]:
    credentials = Credentials(tmp_path_factory.mktemp("credentials"))
    at_once = "connection.failed.authentication.delay.ms=0"
    with SecuredServer(tmp_path_factory.mktemp("server"), credentials, at_once) as server:
        server.create_user()
        yield server


@pytest.fixture(scope="module")
def shell(server: SecuredServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ToolShell]:
    allowed = allowed_token(server.credentials)
    with ToolShell(tmp_path_factory.mktemp("classes"), allowed) as shell:
        yield shell


def tools_of(cell: Cell, shell: ToolShell, server: SecuredServer, folder: Path) -> Tools:
    config = java_file(folder / "client.properties", cell, server.credentials)
    return Tools(shell, server.at(cell.listener), config)


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.name)
def test_java_tools(server: SecuredServer, shell: ToolShell, tmp_path: Path, cell: Cell) -> None:
    tools, topic, group = tools_of(cell, shell, server, tmp_path), cell.name, cell.name
    server.prepare(cell.name)

    ran = tools.produce(topic)
    assert (ran.status, ran.stderr) == (0, ""), ran
    for ran in (tools.share_consume(topic, group), tools.consume(topic, f"{group}-in-order")):
        assert (ran.status, ran.stdout.splitlines()) == (0, LINES), ran
    ran = tools.describe(group)
    assert ran.status == 0, ran
    header, row = (line.split() for line in ran.stdout.splitlines() if line)
    shown = dict(zip(header, row, strict=True))
    assert (shown["GROUP"], shown["TOPIC"], shown["START-OFFSET"]) == (group, topic, "3"), ran


@pytest.mark.parametrize("cell", WRONG, ids=lambda cell: cell.name)
def test_java_tools_with_a_wrong_password(
    server: SecuredServer, shell: ToolShell, tmp_path: Path, cell: Cell
) -> None:
    """Each ends and says why. (The tools that read and write lines end with status 0 all the same,
    and the share consumer tries until its time is over: they do so whatever broker they ask.)"""
    tools, name = tools_of(cell, shell, server, tmp_path), f"wrong-{cell.name}"
    tools = replace(tools, timeout_ms=3_000)
    server.prepare(name)
    right = tools.config.read_text()
    tools.config.write_text(right.replace(PASSWORD, "guessed"))
    refused = "SaslAuthenticationException"

    for ran in (
        tools.produce(name),
        tools.share_consume(name, name),
        tools.consume(name, name),
        tools.describe(name),
    ):
        assert refused in ran.stdout + ran.stderr, ran
