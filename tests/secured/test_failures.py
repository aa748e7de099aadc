"""What goes wrong between a client and our broker: both sides say it, and the broker goes on."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

import pytest

from sharegroup import sync
from sharegroup.model.errors import SharegroupError
from sharegroup.tls.self_signed import authority, signed
from tests.secured.cells import OTHERS, PASSWORD, Cell, Credentials
from tests.secured.clients import java_properties
from tests.secured.server import SecuredServer

pytestmark = pytest.mark.process
PLAIN = Cell("SASL_SSL", "PLAIN")


class Failure(NamedTuple):
    """A cell, what is changed of the client's properties (None: left out), and what is said."""

    cell: Cell
    changes: Mapping[str, str | None]
    client_says: str
    broker_says: str
    address_of: str = ""
    """The listener to go to, if it is not the cell's."""


FAILURES = {
    "wrong password": Failure(
        PLAIN,
        {"sasl.jaas.config": None, "sasl.username": "alice", "sasl.password": "wrong"},
        "SaslAuthenticationFailed: .* refused the credentials for PLAIN",
        "did not authenticate to the listener SASL_SSL .*'alice'",
    ),
    "unknown user": Failure(
        Cell("SASL_PLAINTEXT", "PLAIN"),
        {"sasl.jaas.config": None, "sasl.username": "nobody", "sasl.password": "wrong"},
        "SaslAuthenticationFailed: .* refused the credentials for PLAIN",
        "did not authenticate to the listener SASL_PLAINTEXT .*'nobody'",
    ),
    "expired token": Failure(
        Cell("SASL_SSL", "OAUTHBEARER"),
        {"sasl.oauthbearer.token.endpoint.url": "old-token"},
        "SaslAuthenticationFailed: .* refused the credentials for OAUTHBEARER",
        "did not authenticate to the listener SASL_SSL .*expired",
    ),
    "mechanism that is not offered": Failure(
        Cell("SCRAM_ONLY", "PLAIN"),
        {},
        "UnsupportedSaslMechanism: .* PLAIN: it offers SCRAM-SHA-512",
        "SCRAM_ONLY.*not offered",
    ),
    "expired certificate": Failure(
        Cell("EXPIRED"), {}, "TlsFailed: TLS with .* has expired", "no TLS with .* EXPIRED: "
    ),
    "certificate for another host": Failure(
        Cell("ELSEWHERE"), {}, "TlsFailed: .* for another host", "no TLS with .* ELSEWHERE: "
    ),
    "unknown authority": Failure(
        Cell("SSL"),
        {"ssl.truststore.location": "other-ca.pem"},
        "TlsFailed: .*unknown auth",
        "no TLS with .* SSL: ",
    ),
    "no client certificate": Failure(
        Cell("MTLS"),
        {"ssl.keystore.location": None, "ssl.keystore.type": None},
        "(TlsFailed|BootstrapError): .*certificate",
        "no TLS with .* MTLS: ",
    ),
    "plaintext to a TLS port": Failure(
        Cell("PLAINTEXT"),
        {},
        ".*set security.protocol to SSL or SASL_SSL",
        "no TLS with .* SSL: .*plaintext",
        address_of="SSL",
    ),
    "TLS to a plaintext port": Failure(
        Cell("SSL"),
        {},
        ".*set security.protocol to PLAINTEXT or SASL_PLAINTEXT",
        "speaks TLS",
        address_of="PLAINTEXT",
    ),
    "no login where one is wanted": Failure(
        Cell("PLAINTEXT"), {}, ".*security.protocol", "", address_of="SASL_PLAINTEXT"
    ),
}


@pytest.fixture(scope="module")
def credentials(tmp_path_factory: pytest.TempPathFactory) -> Credentials:
    made = Credentials(tmp_path_factory.mktemp("credentials"))
    hosts = ["localhost", "127.0.0.1"]
    made.pem_file("EXPIRED", signed(made.ca, "b", hosts=hosts, age=timedelta(days=400)))
    made.pem_file("ELSEWHERE", signed(made.ca, "b", hosts=["elsewhere.example"]))
    (made.folder / "other-ca.pem").write_text(authority().certificate_pem)
    (made.folder / "token").write_text(made.token())
    (made.folder / "old-token").write_text(made.token(lifetime=timedelta(minutes=-5)))
    return made


@pytest.fixture
def server(tmp_path: Path, credentials: Credentials) -> Iterator[SecuredServer]:
    """One for each: the broker's log says a thing once in a while, not each time."""
    options = [
        f"listener.name.{name.lower()}.ssl.keystore.location={credentials.folder / name}.pem"
        for name in ("EXPIRED", "ELSEWHERE")
    ]
    options.append("listener.name.scram_only.sasl.enabled.mechanisms=SCRAM-SHA-512")
    server = SecuredServer(tmp_path, credentials, *options, more=OTHERS)
    with server:
        yield server


def properties(failure: Failure, credentials: Credentials) -> dict[str, str]:
    found = java_properties(failure.cell, credentials)
    if failure.cell.mechanism == "OAUTHBEARER":
        found["sasl.oauthbearer.token.endpoint.url"] = "token"
    for name, value in failure.changes.items():
        if value is None:
            del found[name]
        else:
            found[name] = value
    for name, value in found.items():
        path = credentials.folder / value
        if name.endswith("url"):
            found[name] = path.as_uri()
        elif path.is_file() and name.endswith("location"):
            found[name] = str(path)
    return found


@pytest.mark.parametrize("name", FAILURES)
def test_both_sides_say_what_is_wrong(
    server: SecuredServer, credentials: Credentials, name: str
) -> None:
    failure = FAILURES[name]
    address = server.at(failure.address_of or failure.cell.listener)
    before = len(server.output())
    with (
        pytest.raises(SharegroupError) as caught,
        sync.Admin(address, security=properties(failure, credentials)),
    ):
        pass
    said = f"{type(caught.value).__name__}: {caught.value}"
    assert re.match(failure.client_says, said), said
    server.process.wait_until(
        lambda: re.search(failure.broker_says, server.output()[before:]) is not None, timeout_s=100
    )
    assert PASSWORD not in server.output()
    assert "Traceback" not in server.output()
    good = java_properties(PLAIN, credentials)
    with sync.Admin(server.at("SASL_SSL"), security=good) as admin:
        assert admin.describe_cluster().nodes
